"""The transport of an agent, kept open while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from ..base.errors import InputError
from .config import AgentConfig
from .logs import Limited, tell
from .neighbourhood import Neighbourhood
from .transports import Transport
from .transports.inbox import Message

LOG = logging.getLogger(__name__)
#: The transport is reopened after so many seconds without a message, at the earliest.
LEAST_PATIENCE = 10.0
#: Seconds between two checks.
LOOK = 0.5
#: Seconds between two attempts to reopen it.
PAUSE = 1.0


class Connection:
    """A transport, and the neighbours that should be received over it."""

    def __init__(self, transport: Transport, neighbourhood: Neighbourhood, config: AgentConfig) -> None:
        self.transport, self.neighbourhood = transport, neighbourhood
        self._patience = max(LEAST_PATIENCE, 2 * config.rounds.deadline)
        self._others = config.peers[len(config.neighbours) :]  # admitted, though no neighbours of ours
        self._admitted = set(config.peers)
        self._limited = Limited(LOG)

    async def receive(self, handle: Callable[[list[Message]], None]) -> None:
        """Hand received messages to `handle`; ends only if that fails."""
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def handler(messages: list[Message]) -> None:
            try:
                handle(messages)
            except Exception as error:
                if not failed.done():
                    failed.set_exception(error)

        self.transport.deliver(handler)
        await failed

    async def admit(self) -> None:
        """Let the transport accept new neighbours, where certificates tell learners apart."""
        senders = tuple(dict.fromkeys([*self.neighbourhood.peers, *self._others]))
        if set(senders) != self._admitted:
            self._admitted = set(senders)
            await self.transport.admit(senders)

    async def keep(self) -> None:
        """Reopen the transport when nothing arrives over it, or only a part."""
        well_at = time.monotonic()
        while True:
            await asyncio.sleep(LOOK)
            now = time.monotonic()
            if not self._is_deaf(now):
                well_at = now
            elif now - well_at > self._patience:
                tell(LOG, logging.WARNING, "no messages from neighbours, reopening the transport")
                await self._reopen()
                well_at = time.monotonic()

    def _is_deaf(self, now: float) -> bool:
        peers = self.neighbourhood.peers.values()
        silent = bool(peers) and not any(peer.is_up(now, 3.0) for peer in peers)
        return silent or any(peer.lacks_updates(now) for peer in peers)

    async def _reopen(self) -> None:
        await self.close()
        while True:
            try:
                await self.transport.open()
                return
            except InputError as error:
                self._limited.warn("transport", "transport cannot be opened", reason=str(error))
                await asyncio.sleep(PAUSE)

    async def close(self) -> None:
        """Close the transport, whatever state it is in."""
        with contextlib.suppress(InputError):
            await self.transport.close()

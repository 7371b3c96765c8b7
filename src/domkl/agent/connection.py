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
#: The least time that nobody is heard before the transport is opened again, in seconds.
LEAST_PATIENCE = 10.0
#: Seconds between two looks at who is heard.
LOOK = 0.5
#: Seconds between two attempts to open it.
PAUSE = 1.0


class Connection:
    """A transport, and the neighbours that should be heard over it."""

    def __init__(self, transport: Transport, around: Neighbourhood, config: AgentConfig) -> None:
        self.transport, self.around = transport, around
        self._patience = max(LEAST_PATIENCE, 2 * config.rounds.deadline)
        self._others = config.peers[len(config.neighbours) :]  # admitted, though no neighbours of ours
        self._admitted = set(config.peers)
        self._limited = Limited(LOG)

    async def listen(self, hear_all: Callable[[list[Message]], None]) -> None:
        """Hear messages; ends only if hearing one fails."""
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def hear(messages: list[Message]) -> None:
            try:
                hear_all(messages)
            except Exception as error:
                if not failed.done():
                    failed.set_exception(error)

        self.transport.deliver(hear)
        await failed

    async def admit(self) -> None:
        """Let the transport know of new neighbours, where it tells learners apart."""
        senders = tuple(dict.fromkeys([*self.around.peers, *self._others]))
        if set(senders) != self._admitted:
            self._admitted = set(senders)
            await self.transport.admit(senders)

    async def keep(self) -> None:
        """Open the transport again when a session is dead, or half dead, without knowing it."""
        well_at = time.monotonic()
        while True:
            await asyncio.sleep(LOOK)
            now = time.monotonic()
            if not self._is_deaf(now):
                well_at = now
            elif now - well_at > self._patience:
                tell(LOG, logging.WARNING, "neighbours are not heard; opening the transport again")
                await self._reopen()
                well_at = time.monotonic()

    def _is_deaf(self, now: float) -> bool:
        peers = self.around.peers.values()
        silent = bool(peers) and not any(peer.up(now, 3.0) for peer in peers)
        return silent or any(peer.is_unheard(now) for peer in peers)

    async def _reopen(self) -> None:
        await self.close()
        while True:
            try:
                await self.transport.open()
                return
            except InputError as error:
                self._limited.warn("transport", "the transport stays closed", reason=str(error))
                await asyncio.sleep(PAUSE)

    async def close(self) -> None:
        """Close the transport, whatever state it is in."""
        with contextlib.suppress(InputError):
            await self.transport.close()

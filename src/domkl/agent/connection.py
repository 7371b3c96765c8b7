"""The transport of an agent, kept open while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from ..base.errors import InputError
from .config import AgentConfig
from .crl import Revoked
from .logs import Limited, Refused, tell
from .neighbourhood import Neighbourhood
from .transports import Transport, sender_of
from .transports.inbox import Message

LOG = logging.getLogger(__name__)
#: The transport is reopened after so many seconds without a message, at the earliest.
LEAST_PATIENCE = 10.0
#: Seconds between two checks.
LOOK = 0.5
#: Seconds between two attempts to reopen it, and between two looks at the list of revoked certificates.
PAUSE = 1.0


class Connection:
    """A transport, and the neighbours that should be received over it."""

    def __init__(
        self, transport: Transport, neighbourhood: Neighbourhood, config: AgentConfig, refused: Refused
    ) -> None:
        self.transport, self.neighbourhood, self.refused = transport, neighbourhood, refused
        self.revoked = Revoked(config.transport.revoked, config.transport.ca)
        self._looked_at = time.monotonic()
        self._reopening = asyncio.Lock()
        self._patience = max(LEAST_PATIENCE, 2 * config.rounds.deadline)
        self._others = config.peers[len(config.neighbours) :]  # admitted, though no neighbours of ours
        self._connect = config.transport.connect
        self._admitted = set(config.peers), set(self._connect)
        self._limited = Limited(LOG)
        if config.transport.ca is None and config.transport.kind != "memory":
            what = "no certificates: anybody who reaches this network can forge messages and change its graph"
            tell(LOG, logging.WARNING, what)

    async def receive(self, handle: Callable[[list[Message]], None]) -> None:
        """Hand received messages to `handle`; ends only if that fails."""
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def handler(messages: list[Message]) -> None:
            try:
                handle(self._without_revoked(messages))
            except Exception as error:
                if not failed.done():
                    failed.set_exception(error)

        self.transport.deliver(handler)
        await failed

    def _without_revoked(self, messages: list[Message]) -> list[Message]:
        """Refuse the messages of those whose certificates were revoked."""
        if not self.revoked.names:
            return messages
        for topic, _ in messages:
            if sender_of(topic) in self.revoked.names:
                self.refused.note("revoked", sender=sender_of(topic))
        return [message for message in messages if sender_of(message[0]) not in self.revoked.names]

    async def admit(self) -> None:
        """Let the transport accept new neighbours and connect to them, and exclude who was revoked."""
        now = time.monotonic()
        if now - self._looked_at > PAUSE:
            self._looked_at = now
            self.revoked.reload()
        near, gone = self.neighbourhood, self.revoked.names
        senders = tuple(name for name in dict.fromkeys([*near.peers, *self._others]) if name not in gone)
        new = (address for name in near.peers for address in near.addresses.get(name, ()))
        connect = tuple(dict.fromkeys([*self._connect, *new]))
        if (set(senders), set(connect)) != self._admitted:
            self._admitted = set(senders), set(connect)
            await self._admit(senders, connect)

    async def _admit(self, senders: tuple[str, ...], connect: tuple[str, ...]) -> None:
        async with self._reopening:
            try:
                await self.transport.admit(senders, connect)
                return
            except InputError as error:
                self._limited.warn("transport", "transport cannot be opened", reason=str(error))
        await self._reopen()

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
        async with self._reopening:
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

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
from .transports.base import Message
from .transports.names import is_topic

LOG = logging.getLogger(__name__)
#: The transport is reopened after so many seconds without a message, at the earliest.
LEAST_PATIENCE = 10.0
#: Seconds between two checks.
LOOK = 0.1
#: Seconds between two attempts to reopen it, and between two looks at the list of revoked certificates.
PAUSE = 1.0

Names = tuple[str, ...]


class Connection:
    """A transport, and the neighbours that should be received over it."""

    def __init__(
        self, transport: Transport, neighbourhood: Neighbourhood, config: AgentConfig, refused: Refused
    ) -> None:
        self.transport, self.neighbourhood, self.refused = transport, neighbourhood, refused
        self.revoked = Revoked(config.transport.revoked, config.transport.ca)
        self._looked_at = time.monotonic()
        self._patience = max(LEAST_PATIENCE, 2 * config.rounds.deadline)
        self._others = config.peers[len(config.neighbours) :]  # admitted, though no neighbours of ours
        self._connect = transport.settings.connect
        self._usable = self._connect  # the last addresses with which the transport could be opened
        self._admitted = set(config.peers), set(self._connect)
        self._limited = Limited(LOG)
        if transport.settings.ca is None and transport.settings.kind != "memory":
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
        kept = []
        for message in messages:  # those of sensors may have other topics, which name no sender
            sender = sender_of(message[0]) if is_topic(message[0]) else ""
            if sender in self.revoked.names:
                self.refused.note("revoked", sender=sender)
            else:
                kept.append(message)
        return kept

    async def keep(self) -> None:
        """Follow new neighbours and addresses; reopen the transport when nothing arrives, or only a part."""
        well_at = time.monotonic()
        while True:
            await asyncio.sleep(LOOK)
            await self._admit()
            now = time.monotonic()
            if not self._is_deaf(now):
                well_at = now
            elif now - well_at > self._patience:
                tell(LOG, logging.WARNING, "no messages from neighbours, reopening the transport")
                await self._reopen()
                well_at = time.monotonic()

    async def _admit(self) -> None:
        """Let the transport accept new neighbours and connect to them, and exclude who was revoked."""
        senders, connect = self._wanted()
        if (set(senders), set(connect)) == self._admitted:
            return
        self._admitted = set(senders), set(connect)
        if not await self._opened(senders, connect):
            await self._reopen()

    def _wanted(self) -> tuple[Names, Names]:
        """Whose messages to accept, and the addresses to connect to, as graph and revocations are now."""
        now = time.monotonic()
        if now - self._looked_at > PAUSE:
            self._looked_at = now
            self.revoked.reload()
        near, gone = self.neighbourhood, self.revoked.names
        senders = tuple(name for name in dict.fromkeys([*near.peers, *self._others]) if name not in gone)
        new = (address for name in near.peers for address in near.addresses.get(name, ()))
        return senders, tuple(dict.fromkeys([*self._connect, *new]))

    def _is_deaf(self, now: float) -> bool:
        peers = self.neighbourhood.peers.values()
        silent = bool(peers) and not any(peer.is_up(now, 3.0) for peer in peers)
        return silent or any(peer.lacks_updates(now) for peer in peers)

    async def _reopen(self) -> None:
        """Open the transport again; where the wanted addresses cannot be used, with the last that could."""
        await self.close()
        while True:
            senders, connect = self._wanted()
            for addresses in dict.fromkeys((connect, self._usable)):
                if await self._opened(senders, addresses):
                    self._admitted = set(senders), set(connect)
                    return
            await asyncio.sleep(PAUSE)

    async def _opened(self, senders: Names, connect: Names) -> bool:
        """Whether the transport could be opened for these neighbours, with these addresses."""
        try:
            await self.transport.admit(senders, connect)
            await self.transport.open()
        except InputError as error:
            self._limited.warn("transport", "transport cannot be opened", reason=str(error))
            return False
        self._usable = connect
        return True

    async def close(self) -> None:
        """Close the transport, whatever state it is in."""
        with contextlib.suppress(InputError):
            await self.transport.close()

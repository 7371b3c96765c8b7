"""In-memory transport between learners of one process and one event loop, for tests."""

from __future__ import annotations

import asyncio
import weakref

from .adapter import Adapter
from .base import TransportSettings
from .topics import LOST, matches


class Hub:
    """Connects in-memory transports. Messages are delivered at once, in the order of joining."""

    def __init__(self) -> None:
        self.members: list[MemoryTransport] = []
        self.retained: dict[str, bytes] = {}

    def send(self, topic: str, payload: bytes, retain: bool) -> None:
        """Give a message to every member that subscribed to it."""
        if retain and payload:
            self.retained[topic] = payload
        elif retain:
            self.retained.pop(topic, None)
        for member in tuple(self.members):
            member.take(topic, payload)


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


class MemoryTransport(Adapter):
    """A transport through a `Hub`; without one, through that of the running event loop.

    >>> async def main():
    ...     a, b = (MemoryTransport(TransportSettings("memory", "field", name)) for name in "ab")
    ...     await a.open()
    ...     await b.open()
    ...     b.subscribe("domkl/field/a/#")
    ...     a.publish("domkl/field/a/theta", b"hello")
    ...     print(await b.receive())
    >>> asyncio.run(main())
    [('domkl/field/a/theta', b'hello')]
    """

    def __init__(self, settings: TransportSettings, hub: Hub | None = None):
        super().__init__(settings)
        self._given = hub
        self._hub = hub or Hub()

    def take(self, topic: str, payload: bytes) -> None:
        """Take a message from the hub."""
        if self._wants(topic):
            self._inbox.add(topic, payload)

    async def _connect(self) -> None:
        self._hub = self._given or _hubs.setdefault(asyncio.get_running_loop(), Hub())
        self._hub.members.append(self)
        for pattern in self._patterns:
            self._listen(pattern)
        for topic, payload in tuple(self._retained.items()):
            self._hub.send(topic, payload, True)

    async def _disconnect(self) -> None:
        self._hub.members.remove(self)
        self._hub.send(self.state_topic, LOST, True)

    def _send(self, topic: str, payload: bytes, retain: bool) -> bool:
        self._hub.send(topic, payload, retain)
        return True

    def _listen(self, pattern: str) -> None:
        for topic, payload in tuple(self._hub.retained.items()):
            if matches(pattern, topic):
                self._inbox.add(topic, payload)

    def _unlisten(self, pattern: str) -> None:
        """Nothing to do: `take` looks at the patterns."""

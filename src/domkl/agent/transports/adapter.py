"""Common part of all transports; each adds how to connect, send and subscribe."""

from __future__ import annotations

from ...base.errors import InputError
from .base import Counts, TransportSettings
from .inbox import Handler, Inbox, Message
from .topics import STATE, check_pattern, is_topic, matches, topic

#: Most own topics that are remembered as checked; a learner has a few.
MOST_TOPICS = 1024


class Adapter:
    """Base class of the transports."""

    def __init__(self, settings: TransportSettings):
        self.settings = settings
        self.counts = Counts()
        self.state_topic = topic(settings.network, settings.name, STATE)
        self._prefix = self.state_topic.removesuffix(STATE)
        self._inbox = Inbox(settings, self.counts)
        self._own: set[str] = set()  # topics that we may publish on
        self._patterns: tuple[str, ...] = ()  # replaced, never changed: other threads read it
        self._retained: dict[str, bytes] = {}
        self._is_open = False

    async def open(self) -> None:
        """Connect; raises `InputError` if that fails."""
        if self._is_open:
            return
        self._inbox.open()
        try:
            await self._connect()
        except BaseException:
            self._inbox.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Disconnect; may be called twice."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            await self._disconnect()
        finally:
            self._inbox.close()

    @property
    def is_connected(self) -> bool:
        """Whether messages can be sent now, as far as this end knows."""
        return self._is_open

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send on one of this learner's topics; does not wait, and raises no network errors."""
        if topic not in self._own:
            self._check_own(topic)
        if not self._inbox.fits(len(payload)):
            return
        if retain:
            self._retain(topic, payload)
        if self._is_open and self._send(topic, payload, retain):
            self.counts.sent += 1
            self.counts.sent_bytes += len(payload)
        else:
            self.counts.dropped += 1

    def subscribe(self, pattern: str) -> None:
        """Receive matching messages from now on, and those retained there."""
        if pattern not in self.settings.topics:
            check_pattern(pattern)
        if pattern not in self._patterns:
            self._patterns = (*self._patterns, pattern)
            if self._is_open:
                self._listen(pattern)

    def unsubscribe(self, pattern: str) -> None:
        """Undo `subscribe`; an unknown pattern is ignored."""
        if pattern in self._patterns:
            self._patterns = tuple(each for each in self._patterns if each != pattern)
            if self._is_open:
                self._unlisten(pattern)

    def expect(self, count: int) -> None:
        """Let `receive` wait for this many messages, until it is called again."""
        self._inbox.expect(count)

    def deliver(self, handler: Handler) -> None:
        """From now on pass messages to `handler`, in the event loop, instead of `receive`."""
        self._inbox.deliver(handler)

    async def receive(self) -> list[Message]:
        """Wait for a message, then return all that have arrived."""
        return await self._inbox.receive()

    async def admit(self, peers: tuple[str, ...], connect: tuple[str, ...] | None = None) -> None:
        """Does nothing where the broker, not this end, checks senders and connects them."""

    def _check_own(self, topic: str) -> None:
        is_ours = topic.startswith(self._prefix) and is_topic(topic)
        if not is_ours and topic not in self.settings.topics:
            raise InputError(
                f"topic is {topic!r}; {self.settings.name} publishes on {self._prefix}<channel> only; "
                "make it with topic()"
            )
        if len(self._own) < MOST_TOPICS:
            self._own.add(topic)

    def _retain(self, topic: str, payload: bytes) -> None:
        if payload:
            self._retained[topic] = payload
        else:
            self._retained.pop(topic, None)

    def _wants(self, topic: str) -> bool:
        """Whether a subscription covers a topic."""
        return any(matches(pattern, topic) for pattern in self._patterns)

    async def _connect(self) -> None:
        """Connect, and subscribe to all of `_patterns`."""
        raise NotImplementedError

    async def _disconnect(self) -> None:
        raise NotImplementedError

    def _send(self, topic: str, payload: bytes, retain: bool) -> bool:
        """Send a message; returns whether that was possible."""
        raise NotImplementedError

    def _listen(self, pattern: str) -> None:
        raise NotImplementedError

    def _unlisten(self, pattern: str) -> None:
        raise NotImplementedError

"""What a transport is: its settings, its interface, and what all of them share; the one in memory."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import math
import threading
import weakref
from collections.abc import Callable

from ...base.errors import InputError
from ...base.secret import Secret
from . import names
from .names import LONGEST_TOPIC, LOST, STATE, check_filter, check_name, check_pattern, is_topic, matches

#: Module of this package and class of each kind, loaded when first made; a new transport is one more line.
KINDS = {
    "memory": "base.MemoryTransport",
    "zenoh": "zenoh.ZenohTransport",
    "mqtt": "mqtt.MqttTransport",
}


@dataclasses.dataclass(frozen=True)
class TransportSettings:
    """Settings of a transport: addresses, certificates and limits."""

    kind: str  # memory (one process), zenoh (learner to learner) or mqtt (through a broker)
    network: str
    name: str  # this learner's; with certificates, the certificate's common name
    #: Zenoh: host:port to listen on, of neighbours to connect to, and where others reach this learner if not
    #: where it listens. Of two neighbours at least one must know the other's; others are not connected.
    listen: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    announce: tuple[str, ...] = ()
    broker: str = "127.0.0.1:1883"  # MQTT
    #: PEM files for mutual TLS, as `domkl certs` makes them; without them only loopback is allowed. With a
    #: user of a broker `ca` alone is enough; "system" are the certificates that this machine trusts.
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    revoked: str | None = None  # a list, read by whoever receives messages
    #: Zenoh with certificates: whose messages are accepted, each under its own name only, besides the
    #: operator's; see `Transport.admit`. The operator alone may have none: it accepts the CA's certificates.
    peers: tuple[str, ...] = ()
    user: str | None = None  # at the broker; it leaves this machine over TLS only, unless `insecure`
    password: Secret | None = None
    topics: tuple[str, ...] = ()  # not of learners, that may be read and written, too
    is_guest: bool = False  # MQTT: a client of a broker of others, which says nothing about itself there
    will: str = ""  # of a guest: the topic on which the broker says "offline" when it is gone
    discover: str = ""  # Zenoh: "lan" also connects to all that multicast finds
    insecure: bool = False  # allow other machines without certificates: anyone there can read and forge
    max_bytes: int = 16 * 2**20  # longer messages are refused, going out and coming in
    inbox: int = 4096  # messages that may wait, together at most four times `max_bytes`

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"transport is {self.kind!r}; expected one of {', '.join(KINDS)}; choose one")
        check_name(self.network, "network")
        for name in (self.name, *self.peers):
            check_name(name, "learner")
        for topic in self.topics:
            check_filter(topic)
        for field in ("max_bytes", "inbox"):
            if getattr(self, field) < 1:
                raise InputError(f"{field} is {getattr(self, field)}; expected at least 1; raise it")


@dataclasses.dataclass
class Counts:
    """Counters of a transport. `refused`: too long, or the inbox was full. `dropped`: not sent, because
    there was no connection or it was congested."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    refused: int = 0
    dropped: int = 0


#: The most messages, and bytes of them, that are handled in one turn of the event loop.
MOST_AT_ONCE, MOST_BYTES_AT_ONCE = 32, 2**20
#: How many messages of the greatest length may wait; shorter ones as far as they have fewer bytes together.
MOST_LONGEST = 4


class Retained(bytes):
    """A payload that a broker has kept: it may be old, and may have been received before."""


Message = tuple[str, bytes]
Handler = Callable[[list[Message]], None]


class Inbox:
    """A bounded queue of messages; wakes the event loop only when somebody waits."""

    def __init__(self, settings: TransportSettings, counts: Counts):
        self._max_bytes, self._limit = settings.max_bytes, settings.inbox
        self._counts = counts
        self._lock = threading.Lock()
        self._messages: list[Message] = []
        self._bytes = 0  # of these messages
        self._expected = 1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._handler: Handler | None = None
        self._called = False  # the handler's call is scheduled

    def open(self) -> None:
        """Deliver to the running event loop."""
        self._loop, self._called = asyncio.get_running_loop(), False

    def close(self) -> None:
        """Take no further messages, and end a pending `receive` with an error."""
        with self._lock:
            waiter, self._loop, self._waiter = self._waiter, None, None
        if waiter is not None:
            _wake(waiter)

    def fits(self, size: float) -> bool:
        """Whether a message of that size is allowed; counted as refused if not."""
        if size <= self._max_bytes:
            return True
        with self._lock:
            self._counts.refused += 1
        return False

    def add(self, topic: str, payload: bytes) -> None:
        """Take a message, from any thread."""
        if not self.fits(len(payload) if len(topic) <= LONGEST_TOPIC else math.inf):
            return
        with self._lock:
            loop = self._loop
            if loop is None:
                return  # closed
            total = self._bytes + len(payload)
            if len(self._messages) >= self._limit or total > MOST_LONGEST * self._max_bytes:
                self._counts.refused += 1
                return
            self._messages.append((topic, payload))
            self._bytes = total
            self._counts.received += 1
            self._counts.received_bytes += len(payload)
            wake = self._whom_to_wake()
        if wake is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed under us
                loop.call_soon_threadsafe(wake)

    def expect(self, count: int) -> None:
        """Deliver nothing before this many messages have arrived, until it is called again."""
        with self._lock:
            self._expected = count
            wake = self._whom_to_wake()
        if wake is not None:
            wake()

    def deliver(self, handler: Handler) -> None:
        """Pass all messages to `handler`, in the event loop, each time as many as expected have arrived."""
        self._handler = handler
        self.expect(self._expected)

    def _whom_to_wake(self) -> Callable[[], None] | None:
        """The callback that is due with the messages so far, or None; call with the lock held."""
        if len(self._messages) < self._expected:
            return None
        if self._handler is not None:
            called, self._called = self._called, True
            return None if called else self._hand_over
        waiter, self._waiter = self._waiter, None
        return None if waiter is None else functools.partial(_wake, waiter)

    def _hand_over(self) -> None:
        """Pass on some of the messages; the rest in the next turn, so that others get theirs in between."""
        with self._lock:
            messages = self._take(self._first())
            self._called = bool(self._messages) and self._loop is not None
            again = self._loop if self._called else None
        if again is not None:
            again.call_soon(self._hand_over)
        assert self._handler is not None
        if messages:
            self._handler(messages)

    def _first(self) -> int:
        """How many of the messages may be handled at once; at least one."""
        size = 0
        for count, (_, payload) in enumerate(self._messages[:MOST_AT_ONCE]):
            size += len(payload)
            if count and size > MOST_BYTES_AT_ONCE:
                return count
        return MOST_AT_ONCE

    def _take(self, count: int) -> list[Message]:
        """The first messages; call with the lock held."""
        messages, self._messages = self._messages[:count], self._messages[count:]
        self._bytes -= sum(len(payload) for _, payload in messages)
        return messages

    async def receive(self) -> list[Message]:
        """All messages, once as many as expected have arrived."""
        while True:
            with self._lock:
                if len(self._messages) >= self._expected:
                    # No await after this: a cancelled receive loses nothing.
                    return self._take(len(self._messages))
                waiter = self._wait()
            await waiter

    def _wait(self) -> asyncio.Future[None]:
        if self._loop is None:
            raise InputError("the transport is closed; expected an open one; call open() first")
        self._waiter = self._loop.create_future()
        return self._waiter


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():  # cancelled
        waiter.set_result(None)


#: Most own topics that are remembered as checked; a learner has a few.
MOST_TOPICS = 1024


class Transport:
    """Messages between learners. Delivery is not guaranteed: what cannot be sent now is dropped.

    A transport may be closed and opened again: subscriptions, retained messages and messages that were not
    received yet are preserved. Each kind adds how to connect, send and subscribe: the methods at the end. It
    calls `_wants` and `_inbox.add` for what arrives, from any thread, and reads `_patterns` and `_retained`.
    """

    def __init__(self, settings: TransportSettings):
        self.settings = settings
        self.counts = Counts()
        self.state_topic = names.topic(settings.network, settings.name, STATE)
        self._prefix = self.state_topic.removesuffix(STATE)
        self._inbox = Inbox(settings, self.counts)
        self._own: set[str] = set()  # topics that we may publish on
        self._patterns: tuple[str, ...] = ()  # replaced, never changed: other threads read it
        self._retained: dict[str, bytes] = {}
        self._is_open = False

    async def open(self) -> None:
        """Connect; raises `InputError` if that fails (no broker, bad certificate, ...)."""
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
        """Disconnect: subscribers of this learner's state receive `LOST`. May be called twice."""
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
        """Send on one of this learner's topics; does not wait, and raises no network errors.

        A retained message also reaches later subscribers; an empty payload removes it.
        """
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
        """Receive matching messages from now on, and those retained there.

        Retained messages, and those that several patterns match, may arrive more than once.
        """
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
        """Deliver only once `count` messages have arrived, until this is called again: saves wake-ups where
        nothing can be done with fewer. From the event loop's thread only."""
        self._inbox.expect(count)

    def deliver(self, handler: Handler) -> None:
        """From now on pass messages to `handler`, in the event loop's thread, instead of `receive`."""
        self._inbox.deliver(handler)

    async def receive(self) -> list[Message]:
        """Wait for messages, then return all so far: (topic, payload), in order for each sender."""
        return await self._inbox.receive()

    async def admit(self, peers: tuple[str, ...], connect: tuple[str, ...] | None = None) -> None:
        """Accept exactly these learners and the operator, where certificates identify them, and connect to
        exactly these addresses (None: as before); nothing to do where a broker does both."""

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


class MemoryTransport(Transport):
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

"""Queue of received messages: filled from any thread, emptied by one coroutine."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import threading
from collections.abc import Callable

from ...base.errors import InputError
from .base import Counts, TransportSettings
from .topics import LONGEST_TOPIC

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

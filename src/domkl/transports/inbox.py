"""What has arrived: filled from any thread, emptied by one coroutine."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from ..errors import InputError
from .base import Counts, TransportSettings

Message = tuple[str, bytes]


class Inbox:
    """A bounded list of messages. The event loop is woken only when somebody waits for it to be."""

    def __init__(self, settings: TransportSettings, counts: Counts):
        self._max_bytes, self._limit = settings.max_bytes, settings.inbox
        self._counts = counts
        self._lock = threading.Lock()
        self._messages: list[Message] = []
        self._expected = 1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None

    def open(self) -> None:
        """Let the running event loop receive."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Nothing comes in any more, and whoever waits is told so."""
        with self._lock:
            waiter, self._loop, self._waiter = self._waiter, None, None
        if waiter is not None:
            _wake(waiter)

    def fits(self, size: int) -> bool:
        """Whether a message of that size may be passed on; counted as refused if not."""
        if size <= self._max_bytes:
            return True
        with self._lock:
            self._counts.refused += 1
        return False

    def add(self, topic: str, payload: bytes) -> None:
        """Take a message, from any thread."""
        if not self.fits(len(payload)):
            return
        with self._lock:
            loop = self._loop
            if loop is None:
                return  # closed
            if len(self._messages) >= self._limit:
                self._counts.refused += 1
                return
            self._messages.append((topic, payload))
            self._counts.received += 1
            self._counts.received_bytes += len(payload)
            if len(self._messages) < self._expected:
                return
            waiter, self._waiter = self._waiter, None
        if waiter is None:
            return  # nobody waits, so nobody needs to be woken
        with contextlib.suppress(RuntimeError):  # the loop was closed under us
            loop.call_soon_threadsafe(_wake, waiter)

    def expect(self, count: int) -> None:
        """Wake nobody for fewer messages than this, until it is called again."""
        with self._lock:
            self._expected = count
            if len(self._messages) < count or self._waiter is None:
                return
            waiter, self._waiter = self._waiter, None
        _wake(waiter)

    async def receive(self) -> list[Message]:
        """All messages, once there are as many as are expected."""
        while True:
            with self._lock:
                if len(self._messages) >= self._expected:
                    messages, self._messages = self._messages, []
                    return messages  # no await since they were taken: a cancelled receive loses nothing
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

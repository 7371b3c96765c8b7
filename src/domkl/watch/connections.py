"""Connections, few at a time: whoever is slow, silent or many keeps nobody else from an answer."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

THREADS = 8  # connections at once; one more closes the oldest
STREAMS = 16  # connections that receive events; one more is refused
PATIENCE = 2.0  # seconds for a client to send or receive something
DEADLINE = 5.0  # seconds for a whole connection that is no stream, however it dribbles
BUFFER = 65_536  # bytes that the system holds for a client that does not read

#: Called with the kind of a fault, what happened, and its fields.
Note: TypeAlias = "Callable[..., object]"


def ignore(kind: str, event: str, **fields: object) -> None:
    """For whoever keeps no log."""


class Connections(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """At most THREADS connections, each for at most DEADLINE seconds; one more closes the oldest.

    So clients that send a byte now and then keep nobody from an answer. No error of one ends the server. A
    connection that turns into a stream of events no longer counts among them; of those there are at most
    STREAMS, and one whose client does not read is dropped.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64  # else clients that hang would keep others from even connecting

    def __init__(
        self,
        address: tuple[str, int],
        handler: Callable[..., Any],
        note: Note = ignore,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.note, self.tls = note, tls
        self.closing = threading.Event()
        self.counts: Counter[str] = Counter()  # of connections that were closed on purpose, by reason
        self._free = threading.Semaphore(THREADS)
        self._open: dict[Any, float] = {}  # since when
        self._streams: set[Any] = set()
        self._changing = threading.Lock()
        super().__init__(address, handler)

    @property
    def streams(self) -> int:
        """How many clients receive events."""
        return len(self._streams)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self._cut_off(oldest=True)
            if not self._free.acquire(timeout=1.0):  # a page that takes so long, on all threads
                self._count("busy", "request turned away", client=client_address[0])
                return self.shutdown_request(request)
        with self._changing:
            self._open[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread began that would set it free
            self._end(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            if self.tls is not None:
                request = self._wrapped(request, self.tls)
                request.do_handshake()
            self.finish_request(request, client_address)
        except Exception as error:  # of this connection alone
            self._count("broken", "request broken off", client=client_address[0], error=repr(error))
        finally:
            self.shutdown_request(request)
            self._end(request)

    def _wrapped(self, request: Any, tls: ssl.SSLContext) -> Any:
        request.settimeout(PATIENCE)
        wrapped = tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with self._changing:
            self._open[wrapped] = self._open.pop(request, time.monotonic())
        return wrapped

    def become_stream(self, request: Any) -> bool:
        """Take a connection out of those that have a deadline; False if there are too many."""
        with self._changing:
            if len(self._streams) >= STREAMS or self._open.pop(request, None) is None:
                return False
            self._streams.add(request)
        self._free.release()
        request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        return True

    def drop(self, client: str) -> None:
        """Count a stream whose client did not read."""
        self._count("slow", "slow reader dropped", client=client)

    def _count(self, kind: str, event: str, **fields: object) -> None:
        self.counts[kind] += 1
        self.note(kind, event, **fields)

    def _end(self, request: Any) -> None:
        with self._changing:
            if request in self._streams:  # its place was given back when it became one
                self._streams.discard(request)
                return
            self._open.pop(request, None)
        self._free.release()

    def service_actions(self) -> None:
        """Close connections whose time is over; the server calls it several times a second."""
        self._cut_off()

    def _cut_off(self, oldest: bool = False) -> None:
        """Close overdue connections or, with `oldest`, at least the oldest; its thread then ends."""
        now = time.monotonic()
        with self._changing:
            due = [each for each, since in self._open.items() if now - since > DEADLINE]
            if oldest and not due and self._open:
                due = [min(self._open, key=self._open.__getitem__)]
            for request in due:
                self._count("slow", "slow connection closed", seconds=round(now - self._open.pop(request), 3))
                _shut(request)

    def close(self) -> None:
        """Take no more requests and free the port; those under way have a moment to end."""
        self.closing.set()
        self.shutdown()
        self.server_close()
        with self._changing:
            for request in self._streams:
                _shut(request)
        end = time.monotonic() + 1.0
        taken = [self._free.acquire(timeout=max(0.0, end - time.monotonic())) for _ in range(THREADS)]
        for _ in filter(None, taken):
            self._free.release()

    def server_close(self) -> None:
        # Not that of ThreadingMixIn, which waits for threads.
        socketserver.TCPServer.server_close(self)


def _shut(request: Any) -> None:
    with contextlib.suppress(OSError):  # it has just ended
        socket.socket.shutdown(request, socket.SHUT_RDWR)

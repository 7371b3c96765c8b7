"""What a running agent tells others over HTTP: /healthz, /readyz and /metrics.

    with Service(("127.0.0.1", 9464), status, snapshot):
        ...

`status` is kept up to date by the agent's loop; `snapshot` is asked at each scrape for the numbers of
`METRICS`. Requests are answered in threads of their own, so the loop never waits for one.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from ..base.errors import InputError
from ..base.extras import need
from .logs import Limited

LOG = logging.getLogger(__name__)
THREADS = 8  # connections at once; one more closes the oldest
PATIENCE = 2.0  # seconds for a client to send or receive something
DEADLINE = 5.0  # seconds for a whole connection, however it dribbles
LONGEST = 16_384  # bytes of a request
BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # of the histogram, in s

#: Numbers by the names in METRICS; a metric with a label has a mapping from the label's values.
Snapshot: TypeAlias = "Mapping[str, float | Mapping[str, float]]"


class Metric(NamedTuple):
    """How a number of the snapshot is called and explained in /metrics."""

    kind: str  # counter or gauge
    help: str
    label: str = ""


#: What a snapshot may hold. /metrics calls it domkl_<name>, and counters domkl_<name>_total.
METRICS = {
    "rounds": Metric("counter", "Rounds closed."),
    "samples": Metric("counter", "Samples learnt."),
    "readings_used": Metric("counter", "Rows of the stream that were used."),
    "readings_refused": Metric("counter", "Rows of the stream that could not be used.", "reason"),
    "dead_letters_lost": Metric("counter", "Refused rows that could not be written to the dead-letter file."),
    "rmse_rolling": Metric(
        "gauge", "Root mean squared error of the last 200 predictions, in the target's unit."
    ),
    "rmse_alone_rolling": Metric("gauge", "The same of predictions from own samples only."),
    "neighbour_up": Metric("gauge", "1 if the neighbour's messages arrive in time.", "neighbour"),
    "neighbour_trust": Metric("gauge", "Part of the neighbour's recent messages that was used.", "neighbour"),
    "neighbour_age_seconds": Metric("gauge", "Time since the neighbour's last message.", "neighbour"),
    "bytes_sent": Metric("counter", "Bytes handed to the transport."),
    "bytes_received": Metric("counter", "Bytes received from the transport."),
    "messages_refused": Metric("counter", "Messages that could not be used.", "reason"),
    "kernel_weight": Metric("gauge", "Weight of each kernel, or of each expert of an auto model.", "kernel"),
    "name_conflict": Metric("gauge", "1 while another agent runs under the same name."),
    "checkpoint_round": Metric("gauge", "Round of the last checkpoint."),
    "checkpoint_age_seconds": Metric("gauge", "Time since the state was last saved, or the start."),
    "saves_failed": Metric("counter", "Attempts to save the state that failed."),
    "readings_unjournalled": Metric("counter", "Readings that could not be written to the journal."),
    "predictions_lost": Metric("counter", "Predictions that could not be written."),
}


@dataclass
class Status:
    """How the agent's loop is; the loop itself keeps it up to date."""

    alive_at: float = field(default_factory=time.monotonic)
    ready: bool = False  # has its neighbours, or has gone on without them
    faults: tuple[str, ...] = ()  # what keeps it from being ready although it learns

    def beat(self) -> None:
        """Say that the loop makes progress."""
        self.alive_at = time.monotonic()


class Service:
    """Serve until closed; needs prometheus-client.

    Parameters
    ----------
    address : host and port; port 0 takes a free one, see `address`.
    snapshot : called in another thread at each scrape; must not wait for the loop.
    patience : seconds without progress after which the agent counts as unhealthy.
    """

    def __init__(
        self,
        address: tuple[str, int],
        status: Status,
        snapshot: Callable[[], Snapshot],
        patience: float = 30.0,
    ) -> None:
        client = need("prometheus_client", "agent")
        registry = client.CollectorRegistry()
        client.ProcessCollector(registry=registry)
        registry.register(_Collector(snapshot))
        about = "Time from a sample to the end of its round."
        #: A histogram: call its `observe` with the seconds of each round.
        self.round_seconds = client.Histogram("domkl_round_seconds", about, buckets=BOUNDS, registry=registry)

        def metrics() -> Page:
            return Page(HTTPStatus.OK, client.generate_latest(registry), client.CONTENT_TYPE_LATEST)

        pages = {
            "/healthz": lambda: _health(status, patience),
            "/readyz": lambda: _readiness(status),
            "/metrics": metrics,
        }
        self._server = _bound(address, pages)
        self._thread = threading.Thread(target=self._server.serve_forever, name="domkl-http", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on."""
        host, port = self._server.socket.getsockname()[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Take no more requests and free the port; those under way have a moment to end. Twice is fine."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.wait(1.0)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


class Page(NamedTuple):
    """An answer."""

    status: HTTPStatus
    body: bytes
    kind: str = "text/plain; charset=utf-8"


Pages: TypeAlias = "Mapping[str, Callable[[], Page]]"


def _health(status: Status, patience: float) -> Page:
    age = time.monotonic() - status.alive_at
    if age <= patience:
        return Page(HTTPStatus.OK, b"ok\n")
    return Page(HTTPStatus.SERVICE_UNAVAILABLE, b"no progress for %d s\n" % age)


def _readiness(status: Status) -> Page:
    faults = status.faults if status.ready else ("waiting for neighbours", *status.faults)
    if not faults:
        return Page(HTTPStatus.OK, b"ready\n")
    return Page(HTTPStatus.SERVICE_UNAVAILABLE, "; ".join(faults).encode() + b"\n")


class _Collector:
    """What a snapshot has, for a registry of prometheus-client."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        self._core = need("prometheus_client.core", "agent")

    def describe(self) -> list[Any]:
        """Nothing: else the registry would take a snapshot before there is one."""
        return []

    def collect(self) -> Iterator[Any]:
        """One family for each metric that the snapshot has."""
        for name, value in self._snapshot().items():
            kind, about, label = METRICS[name]
            family = getattr(self._core, f"{kind.capitalize()}MetricFamily")
            made = family(f"domkl_{name}", about, labels=[label] if label else [])
            for key, number in value.items() if isinstance(value, Mapping) else [("", value)]:
                made.add_metric([key] if label else [], number)
            yield made


def _bound(address: tuple[str, int], pages: Pages) -> _Server:
    try:
        return _Server(address, pages)
    except OSError as error:
        host, port = address
        raise InputError(
            f"[http] listen {host}:{port} cannot be opened: {error.strerror or error}; expected a free port "
            "of this machine; choose another"
        ) from None


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """At most THREADS connections, each for at most DEADLINE seconds; one more closes the oldest.

    So clients that send a byte now and then keep nobody from an answer. No error of one ends the server.
    """

    daemon_threads = True
    request_queue_size = 64  # else clients that hang would keep others from even connecting

    def __init__(self, address: tuple[str, int], pages: Pages) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.limited = Limited(LOG)
        self._free = threading.Semaphore(THREADS)
        self._open: dict[socket.socket, float] = {}  # since when, the oldest first
        self._changing = threading.Lock()
        super().__init__(address, _Handler)
        self.set_app(_App(pages, self.limited))

    def server_bind(self) -> None:
        # HTTPServer would look its own name up, and wait for a name server that a device may not have.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self._cut_off(oldest=True)
            if not self._free.acquire(timeout=1.0):  # a page that takes so long, on all threads
                self.limited.warn("busy", "request turned away", client=client_address[0])
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
            super().process_request_thread(request, client_address)
        finally:
            self._end(request)

    def _end(self, request: socket.socket) -> None:
        with self._changing:
            self._open.pop(request, None)
        self._free.release()

    def service_actions(self) -> None:
        """Close connections whose time is over; the server calls it every half second."""
        self._cut_off()

    def _cut_off(self, oldest: bool = False) -> None:
        """Close overdue connections or, with `oldest`, at least the oldest; its thread then ends."""
        now = time.monotonic()
        with self._changing:
            for request, since in tuple(self._open.items()):
                if not oldest and now - since <= DEADLINE:
                    break
                oldest = False
                self.limited.warn("slow", "slow connection closed", seconds=round(now - since, 3))
                del self._open[request]
                with contextlib.suppress(OSError):  # it has just ended
                    request.shutdown(socket.SHUT_RDWR)

    def wait(self, seconds: float) -> None:
        """Until no request is under way, or the time is over."""
        end = time.monotonic() + seconds
        taken = [self._free.acquire(timeout=max(0.0, end - time.monotonic())) for _ in range(THREADS)]
        for _ in filter(None, taken):
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.limited.warn("broken", "request broken off", client=client_address[0])


class _Short:
    """A request's bytes, up to LONGEST of them."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, LONGEST

    def readline(self, limit: int = LONGEST) -> bytes:
        """The next line; an error where the request is too long."""
        line: bytes = self._file.readline(min(limit, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise ValueError(f"a request is longer than {LONGEST} bytes")
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE
    server_version, sys_version = "domkl", ""

    def setup(self) -> None:
        super().setup()
        self.rfile = _Short(self.rfile)  # type: ignore[assignment]

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug("http " + format, *args)


class _App:
    """The pages as a WSGI application, which no page that fails ends."""

    def __init__(self, pages: Pages, limited: Limited) -> None:
        self._pages, self._limited = pages, limited

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        page = self._page(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        headers = {"Content-Type": page.kind, "Content-Length": str(len(page.body)), "Allow": "GET, HEAD"}
        start_response(f"{page.status.value} {page.status.phrase}", list(headers.items()))
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [page.body]

    def _page(self, method: str, path: str) -> Page:
        make = self._pages.get(path)
        if method not in ("GET", "HEAD"):
            return Page(HTTPStatus.METHOD_NOT_ALLOWED, b"Method Not Allowed\n")
        if make is None:
            return Page(HTTPStatus.NOT_FOUND, b"there are /healthz, /readyz and /metrics\n")
        try:
            return make()
        except Exception as error:
            self._limited.warn("page", "page failed", path=path, error=repr(error))
            return Page(HTTPStatus.INTERNAL_SERVER_ERROR, b"see the agent's log\n")

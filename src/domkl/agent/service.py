"""What a running agent tells others over HTTP: /healthz, /readyz and /metrics.

    with Service(("127.0.0.1", 9464), status, snapshot):
        ...

`status` is kept up to date by the agent's loop; `snapshot` is asked at each scrape for the numbers of
`METRICS`. Requests are answered in threads of their own, so the loop never waits for one.
"""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from ..base.errors import InputError
from ..base.extras import need
from .logs import Limited

LOG = logging.getLogger(__name__)
THREADS = 8  # requests at once; more are turned away
PATIENCE = 2.0  # seconds for a client to say or take something
BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

#: Numbers by the names in METRICS; a metric with a label has a mapping from the label's values.
Snapshot: TypeAlias = "Mapping[str, float | Mapping[str, float] | Durations]"


class Metric(NamedTuple):
    """How a number of the snapshot is called and explained in /metrics."""

    kind: str  # counter, gauge or histogram
    help: str
    label: str = ""


#: What a snapshot may hold. /metrics calls it domkl_<name>, and counters domkl_<name>_total.
METRICS = {
    "rounds": Metric("counter", "Rounds closed."),
    "samples": Metric("counter", "Samples learnt."),
    "readings_refused": Metric("counter", "Rows of the stream that could not be used.", "reason"),
    "squared_error_rolling": Metric("gauge", "Mean squared error of recent predictions."),
    "neighbour_up": Metric("gauge", "1 if the neighbour is heard from in time.", "neighbour"),
    "neighbour_age_seconds": Metric("gauge", "Time since the neighbour was last heard.", "neighbour"),
    "bytes_sent": Metric("counter", "Bytes handed to the transport."),
    "bytes_received": Metric("counter", "Bytes received from the transport."),
    "messages_refused": Metric("counter", "Messages that could not be used.", "reason"),
    "kernel_weight": Metric("gauge", "Weight of each kernel, or of each expert of preset auto.", "kernel"),
    "round_seconds": Metric("histogram", "Time from a sample to the end of its round."),
    "checkpoint_round": Metric("gauge", "Round of the last checkpoint."),
}


@dataclass
class Status:
    """How the agent's loop is; the loop itself keeps it up to date."""

    alive_at: float = field(default_factory=time.monotonic)
    ready: bool = False  # has its neighbours, or has gone on without them

    def beat(self) -> None:
        """Say that the loop makes progress."""
        self.alive_at = time.monotonic()


@dataclass
class Durations:
    """A histogram of seconds: how many up to each bound, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """Each bound, and how many did not exceed it."""
        return list(zip([*map(str, BOUNDS), "+Inf"], accumulate(self.counts), strict=True))


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
        exposition = _Exposition(snapshot)
        pages = {
            "/healthz": lambda: _health(status, patience),
            "/readyz": lambda: _readiness(status),
            "/metrics": exposition.page,
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
    if status.ready:
        return Page(HTTPStatus.OK, b"ready\n")
    return Page(HTTPStatus.SERVICE_UNAVAILABLE, b"waiting for neighbours\n")


class _Exposition:
    """A snapshot in the text format of Prometheus; a collector of its own registry."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot
        self._client = need("prometheus_client", "agent")
        self._core = need("prometheus_client.core", "agent")
        self._registry = self._client.CollectorRegistry()
        self._registry.register(self)
        self._client.ProcessCollector(registry=self._registry)

    def page(self) -> Page:
        text: bytes = self._client.generate_latest(self._registry)
        return Page(HTTPStatus.OK, text, self._client.CONTENT_TYPE_LATEST)

    def describe(self) -> list[Any]:
        """Nothing: else the registry would take a snapshot before there is one."""
        return []

    def collect(self) -> Iterator[Any]:
        """One family for each number that the snapshot has."""
        for name, value in self._snapshot().items():
            metric = METRICS[name]
            family = getattr(self._core, f"{metric.kind.capitalize()}MetricFamily")
            labels = [metric.label] if metric.label else []
            made = family(f"domkl_{name}", metric.help, labels=labels)
            _fill(made, value)
            yield made


def _fill(family: Any, value: float | Mapping[str, float] | Durations) -> None:
    if isinstance(value, Durations):
        family.add_metric([], buckets=value.buckets(), sum_value=value.total)
    elif isinstance(value, Mapping):
        for label, number in value.items():
            family.add_metric([label], number)
    else:
        family.add_metric([], value)


def _bound(address: tuple[str, int], pages: Pages) -> _Server:
    try:
        return _Server(address, pages)
    except OSError as error:
        host, port = address
        raise InputError(
            f"[http] listen {host}:{port} cannot be opened: {error.strerror or error}; expected a free port "
            "of this machine; choose another"
        ) from None


class _Server(ThreadingHTTPServer):
    """No more than THREADS requests at once, and no error of one ends the server."""

    daemon_threads = True
    request_queue_size = 64  # else clients that hang would keep others from even connecting

    def __init__(self, address: tuple[str, int], pages: Pages) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.pages = pages
        self.limited = Limited(LOG)
        self._free = threading.Semaphore(THREADS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer would look its own name up, and wait for a name server that a device may not have.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.limited.warn("busy", "request turned away", client=client_address[0])
            return self.shutdown_request(request)
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread began that would set it free
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def wait(self, seconds: float) -> None:
        """Until no request is under way, or the time is over."""
        end = time.monotonic() + seconds
        taken = [self._free.acquire(timeout=max(0.0, end - time.monotonic())) for _ in range(THREADS)]
        for _ in filter(None, taken):
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.limited.warn("broken", "request broken off", client=client_address[0])


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE
    server_version, sys_version = "domkl", ""

    def do_GET(self) -> None:
        self._answer(self._page())

    do_HEAD = do_GET

    def _page(self) -> Page:
        make = self.server.pages.get(self.path.partition("?")[0])
        if make is None:
            return Page(HTTPStatus.NOT_FOUND, b"there are /healthz, /readyz and /metrics\n")
        try:
            return make()
        except Exception as error:
            self.server.limited.warn("page", "page failed", path=self.path, error=repr(error))
            return Page(HTTPStatus.INTERNAL_SERVER_ERROR, b"see the agent's log\n")

    def _answer(self, page: Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        if page.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server itself refuses, as plain text; a method it does not find here is not allowed."""
        refused = code == HTTPStatus.NOT_IMPLEMENTED
        status = HTTPStatus.METHOD_NOT_ALLOWED if refused else HTTPStatus(code)
        self._answer(Page(status, f"{status.phrase}\n".encode()))

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug("http " + format, *args)

"""The page's server: files, state, events and questions, with the routes that its owner adds."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import logging
import socket
import socketserver
import ssl
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib import resources
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from ..base.errors import Error, InputError
from ..base.places import is_loopback
from .access import JSON, Access, Answer, Rate, Request, Route, document, encoded, refusal
from .feed import FeedLike

FILE_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
#: Where each file is served; nothing else of the folder is.
FILES = {
    "/": "page.html",
    "/page.css": "page.css",
    "/page.js": "page.js",
    "/plots.js": "plots.js",
    "/network.js": "network.js",
    "/icon.svg": "icon.svg",
    "/uPlot.js": "uPlot.iife.min.js",
    "/uPlot.css": "uPlot.min.css",
}


class PageFile(NamedTuple):
    """A file as it is, and compressed."""

    kind: str
    plain: bytes
    zipped: bytes


@functools.cache
def page_files() -> Mapping[str, PageFile]:
    """All files, by the place where they are served."""
    folder = resources.files(__package__) / "static"
    found = {}
    for place, name in FILES.items():
        plain = (folder / name).read_bytes()
        found[place] = PageFile(FILE_KINDS[name.rpartition(".")[2]], plain, gzip.compress(plain, 9, mtime=0))
    return found


def page_file(request: Request) -> Answer:
    """The file at a request's path."""
    kind, plain, zipped = page_files()[request.path]
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Answer(HTTPStatus.OK, zipped, kind, {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
    return Answer(HTTPStatus.OK, plain, kind, {"Vary": "Accept-Encoding"})


THREADS = 8  # connections at once
STREAMS = 16  # connections that receive events
PATIENCE = 2.0  # seconds for a client to send or receive something
DEADLINE = 5.0  # seconds for a whole connection that is no stream, however it dribbles
BUFFER = 65_536  # bytes that the system holds for a client that does not read

#: Called with the kind of a fault, what happened, and its fields.
Note: TypeAlias = "Callable[..., object]"


def ignore(kind: str, event: str, **fields: object) -> None:
    """For whoever keeps no log."""


class Connections(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """At most THREADS connections, each for at most DEADLINE seconds, and STREAMS that receive events.

    One more closes the oldest of the client that has most, so nobody keeps others out: neither by sending a
    byte now and then, nor by opening many pages. No error of one ends the server. A connection that turns
    into a stream of events no longer counts among the others; one whose client does not read is dropped.
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
        self._open: dict[Any, tuple[float, str]] = {}  # since when, and whose
        self._streams: dict[Any, tuple[float, str]] = {}
        self._gone: set[Any] = set()  # streams that were closed for others, until their threads end
        self._changing = threading.Lock()
        super().__init__(address, handler)

    @property
    def streams(self) -> int:
        return len(self._streams)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self._cut_off(oldest=True)
            if not self._free.acquire(timeout=1.0):  # a page that takes so long, on all threads
                self._count("busy", "request turned away", client=client_address[0])
                return self.shutdown_request(request)
        with self._changing:
            self._open[request] = time.monotonic(), str(client_address[0])
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
            self._open[wrapped] = self._open.pop(request, (time.monotonic(), ""))
        return wrapped

    def become_stream(self, request: Any) -> bool:
        """Take a connection out of those that have a deadline; False if it was closed meanwhile."""
        with self._changing:
            about = self._open.pop(request, None)
            if about is None:
                return False
            if len(self._streams) >= STREAMS:
                oldest = _oldest_of_most(self._streams)
                self._count("many", "page closed for another", client=self._streams.pop(oldest)[1])
                self._gone.add(oldest)
                _shut(oldest)
            self._streams[request] = about
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
            if self._streams.pop(request, None) or request in self._gone:  # gave its place back before
                self._gone.discard(request)
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
            due = [each for each, (since, _) in self._open.items() if now - since > DEADLINE]
            if oldest and not due and self._open:
                due = [_oldest_of_most(self._open)]
            for request in due:
                since, _ = self._open.pop(request)
                self._count("slow", "slow connection closed", seconds=round(now - since, 3))
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


def _oldest_of_most(connections: Mapping[Any, tuple[float, str]]) -> Any:
    """The oldest connection of the client that has most."""
    counts = Counter(client for _, client in connections.values())
    return min(connections, key=lambda each: (-counts[connections[each][1]], connections[each][0]))


def _shut(request: Any) -> None:
    with contextlib.suppress(OSError):  # it has just ended
        socket.socket.shutdown(request, socket.SHUT_RDWR)


LOG = logging.getLogger(__name__)
LONGEST_HEAD = 16_384  # bytes of a request line and its headers
MOST_BODY, MOST_FIELDS = 65_536, 20  # bytes of what is posted, and fields of a query
#: Nothing from elsewhere, nothing inline, no frames; what is shown is kept by nobody.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Handler(BaseHTTPRequestHandler):
    """Reads a request, and asks the server for its answer: one, or a stream of events; then it is closed."""

    timeout = PATIENCE
    server_version, sys_version = "domkl", ""
    server: Connections
    desk: Server

    def setup(self) -> None:
        super().setup()
        self.rfile = _Short(self.rfile)  # type: ignore[assignment]

    def do_GET(self) -> None:
        try:
            request = self._request()
        except _Unreadable as error:
            self._send(refusal(error.status, str(error)))
            return
        if self.desk.follows(request):
            self._stream(request)
        else:
            self._send(self.desk.answer(request))

    do_HEAD = do_POST = do_GET

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # any other method is asked like these, and refused
            return self.do_GET
        raise AttributeError(name)

    def _request(self) -> Request:
        length = self._length()
        if len(self.headers.get_all("Host", [])) > 1:  # who checks one may believe the other
            wrong = "the request has two Hosts; expected one; fix the client"
            raise _Unreadable(HTTPStatus.BAD_REQUEST, wrong)
        try:
            parts = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(parts.query, max_num_fields=MOST_FIELDS))
        except ValueError:
            wrong = f"the address is none, or has more than {MOST_FIELDS} fields; expected fewer; fix it"
            raise _Unreadable(HTTPStatus.BAD_REQUEST, wrong) from None
        headers = {name.lower(): value for name, value in self.headers.items()}
        peer = getattr(self.request, "getpeercert", lambda: None)()
        body = self.rfile.read(length) if length else b""
        is_encrypted, client = self.server.tls is not None, str(self.client_address[0])
        return Request(self.command, parts.path, query, headers, body, bool(peer), is_encrypted, client)

    def _length(self) -> int:
        text = self.headers.get("Content-Length", "0")
        is_told = text.isascii() and text.isdigit() and "Transfer-Encoding" not in self.headers
        if not is_told or len(text) > 9 or int(text) > MOST_BODY:
            raise _Unreadable(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body's length is not told or too much; expected at most {MOST_BODY} bytes and a "
                "Content-Length; send less",
            )
        return int(text)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        about = {"Content-Type": answer.kind, "Content-Length": str(len(answer.body)), "Connection": "close"}
        self._send_headers({**about, **HEADERS, **answer.headers})
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _send_headers(self, headers: dict[str, str]) -> None:
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, request: Request) -> None:
        if not self.server.become_stream(self.request):
            return
        self.send_response(HTTPStatus.OK)
        self._send_headers({"Content-Type": "text/event-stream", "Connection": "close", **HEADERS})
        try:
            for event in self.desk.events(request):
                self.wfile.write(event)
        except TimeoutError:  # the system's buffer stayed full
            self.server.drop(str(self.client_address[0]))
        except OSError:
            pass  # it has gone

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the parser refuses is said like any other refusal, and without repeating the request."""
        status = HTTPStatus(code)
        self.command = getattr(self, "command", None) or "GET"
        self._send(refusal(status, f"{status.phrase}; expected HTTP/1.1; fix the client"))

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug("http %s", self.client_address[0])  # addresses of requests may hold a token


class _Unreadable(Exception):
    """A request that cannot be understood."""

    def __init__(self, status: HTTPStatus, fact: str) -> None:
        super().__init__(fact)
        self.status = status


class _Short:
    """A request's bytes: LONGEST_HEAD of them before the body."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, LONGEST_HEAD

    def readline(self, limit: int = LONGEST_HEAD) -> bytes:
        """The next line; an error where the request is too long."""
        line: bytes = self._file.readline(min(limit, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise ValueError(f"a request is longer than {LONGEST_HEAD} bytes")
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


#: Seconds between two events at least, and after which a silent stream is tried.
EVERY, KEEP_ALIVE = 1.0, 10.0
#: Part of a core that the events of one page may take, and the longest pause for that.
SHARE, LONGEST_PAUSE = 1 / 200, 5.0
#: What was made for one page is good for others for this part of the time between two events.
SHARED = 0.5
MOST_RECORDS = 1000
LOOK = 0.2  # seconds between two looks for overdue connections, and for the end

#: Takes what a client asks ({"x": ...}) and gives a prediction; raises an `Error` of domkl.
Predict = Callable[[dict[str, Any]], dict[str, Any]]
#: The learner and the range of time that a page shows; None is what the feed chooses.
Asked: TypeAlias = "tuple[str | None, str | None]"


class Server:
    """Serve a feed until closed.

    Parameters
    ----------
    address : host and port; port 0 takes a free one, see `address`.
    feed : what is shown; None serves only `routes`.
    token : of the owner, where given; see `Access`, which decides about every request.
    predict : answers POST /predict; without it there are no questions.
    routes : further pages, by path.
    access : who may ask; by default anybody if the address is loopback's.
    tls : for HTTPS.
    note : called with each fault of a connection or page, for a log.
    """

    def __init__(
        self,
        address: tuple[str, int],
        feed: FeedLike | None,
        token: str | None = None,
        predict: Predict | None = None,
        *,
        routes: Mapping[str, Route] | None = None,
        access: Access | None = None,
        tls: Any = None,
        note: Note = ignore,
    ) -> None:
        self.feed, self.predict, self.note = feed, predict, note
        self.access = access or Access(token, is_loopback(address[0]), cookie=f"domkl-{address[1]}")
        self.rate, self._tls = Rate(), tls
        self._events: dict[Asked, tuple[int, float, bytes]] = {}  # the last one of each learner and range
        self._making = threading.Lock()
        self._routes = {**({} if feed is None else self._pages()), **(routes or {})}
        handler = type("_Handler", (Handler,), {"desk": self})
        self._server = _bound(address, handler, note, tls)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(LOOK,), name="domkl-http", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on."""
        host, port = self._server.socket.getsockname()[:2]
        return str(host), int(port)

    @property
    def url(self) -> str:
        """Where the page is, for a browser on this machine."""
        host, port = self.address
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"{'http' if self._tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}/"

    @property
    def counts(self) -> dict[str, int]:
        """Clients that receive events now; connections closed because they were slow, busy or broken."""
        return {"streams": self._server.streams, **self._server.counts}

    def close(self) -> None:
        """Take no more requests and free the port; those under way have a moment to end. Twice is fine."""
        self._server.close()
        self._thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    # What handlers ask, each in a thread of its own

    def follows(self, request: Request) -> bool:
        """Whether the answer is a stream of events."""
        if request.path != "/events" or request.method != "GET" or self.feed is None:
            return False
        return self.access.refuse(request) is None and not self._refuse_range(request)

    def answer(self, request: Request) -> Answer:
        """The answer to a request; a page that fails is logged, and ends nothing."""
        refused = self.access.refuse(request) or self.access.exchange(request)
        if refused is not None:
            return refused
        route = self._routes.get(request.path)
        if route is None:
            known = ", ".join(sorted(path for path in self._routes if "." not in path))
            return refusal(
                HTTPStatus.NOT_FOUND, f"there is no such page; expected one of {known}; choose one"
            )
        allowed = "POST" if request.path == "/predict" else "GET, HEAD"
        if request.method not in allowed.split(", "):
            wrong = f"{request.method[:20]} is not possible here; expected {allowed}; use that"
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, wrong, Allow=allowed)
        try:
            return route(request)
        except Exception as error:
            self.note("page", "page failed", path=request.path, error=repr(error))
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the page failed; see the log")

    def events(self, request: Request) -> Iterator[bytes]:
        """The state whenever it has changed, at most once in EVERY seconds, until the server ends.

        Where a state takes long to make, as of many learners, it is made less often (`SHARE`).
        """
        assert self.feed is not None
        asked, seen, silent = _asked(request), -1, 0.0
        yield b"retry: 3000\n\n"
        while not self._server.closing.is_set():
            began = time.thread_time()
            if self.feed.version != seen:
                version, event = self._event(self.feed, asked)
                if version != seen:
                    yield event
                seen, silent = version, 0.0
            elif silent >= KEEP_ALIVE:
                yield b": still here\n\n"
                silent = 0.0
            pause = min(max(EVERY, (time.thread_time() - began) / SHARE), LONGEST_PAUSE)
            self._server.closing.wait(pause)
            silent += pause

    def _event(self, feed: FeedLike, asked: Asked) -> tuple[int, bytes]:
        """A version of the state, and its event: many pages of the same cost little more than one."""
        with self._making:
            now = time.monotonic()
            self._events = {key: made for key, made in self._events.items() if now - made[1] < SHARED * EVERY}
            if asked not in self._events:
                version = feed.version
                event = b"data: " + encoded(self.state(*asked)) + b"\n\n"
                self._events[asked] = version, now, event
            version, _, event = self._events[asked]
            return version, event

    def _pages(self) -> dict[str, Route]:
        return {
            **dict.fromkeys(FILES, page_file),
            "/state": self._state,
            "/events": self._refuse_events,
            "/predictions": self._predictions,
            "/predict": self._ask,
        }

    def _predictions(self, request: Request) -> Answer:
        assert self.feed is not None
        text = request.query.get("n", "100")
        if not (text.isascii() and text.isdigit() and len(text) < 6):
            wrong = f"n is {text[:20]!r}; expected a number up to {MOST_RECORDS}; fix it"
            return refusal(HTTPStatus.BAD_REQUEST, wrong)
        most = min(int(text), MOST_RECORDS)
        return document({"predictions": self.feed.records(request.query.get("learner"), most)})

    def _state(self, request: Request) -> Answer:
        return self._refuse_range(request) or document(self.state(*_asked(request)))

    def _refuse_events(self, request: Request) -> Answer:
        """Why there is no stream."""
        wrong = "expected GET; use that"
        return self._refuse_range(request) or refusal(HTTPStatus.METHOD_NOT_ALLOWED, wrong)

    def _refuse_range(self, request: Request) -> Answer | None:
        """The refusal of a range that there is not."""
        assert self.feed is not None
        name, known = request.query.get("range"), self.feed.ranges
        if name is None or name in known:
            return None
        wanted = f"one of {', '.join(known)}; choose one" if known else "none, of rounds; leave it out"
        return refusal(HTTPStatus.BAD_REQUEST, f"range is {name[:20]!r}; expected {wanted}")

    def state(self, learner: str | None, range: str | None = None) -> dict[str, Any]:
        """What the page shows, with details of one learner in a range of time."""
        assert self.feed is not None
        found = self.feed.document(learner, range)
        return {**found, "asks": self.predict is not None, "pages": self._server.streams}

    def _ask(self, request: Request) -> Answer:
        if self.predict is None:
            wrong = "nobody predicts here; expected the page of a running agent; ask that one"
            return refusal(HTTPStatus.NOT_FOUND, wrong)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            wrong = f"the body is not announced as JSON; expected Content-Type: {JSON}; add the header"
            return refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, wrong)
        if not self.rate.take(request.client):
            wrong = f"too many questions; expected at most {self.rate.rate:g} a second; wait a moment"
            return refusal(HTTPStatus.TOO_MANY_REQUESTS, wrong, **{"Retry-After": "1"})
        try:
            return document(self.predict(_question(request.body)))
        except Error as error:
            return refusal(HTTPStatus.BAD_REQUEST, str(error))
        except TimeoutError:
            wrong = "the learner is busy; expected an answer within seconds; try again"
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, wrong, **{"Retry-After": "1"})


def _asked(request: Request) -> Asked:
    return request.query.get("learner"), request.query.get("range")


def _question(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError('the body is no JSON object; expected inputs; send {"x": [1.5, 2]}')
    return found


def _bound(address: tuple[str, int], handler: type, note: Note, tls: Any) -> Connections:
    try:
        return Connections(address, handler, note, tls)
    except OSError as error:
        host, port = address
        raise InputError(
            f"[http] listen {host}:{port} cannot be opened: {error.strerror or error}; expected a free port "
            "of this machine; choose another"
        ) from None

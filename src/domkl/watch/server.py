"""The page's server: files, state, events and questions, with the routes that its owner adds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any

from ..base.errors import Error, InputError
from ..base.hosts import is_loopback
from . import connections, files
from .access import Access
from .connections import Connections, Note
from .feed import FeedLike
from .handler import Handler
from .limits import Rate
from .requests import JSON, Answer, Request, Route, document, encoded, refusal

#: Seconds between two events at least, and after which a silent stream is tried.
EVERY, KEEP_ALIVE = 1.0, 10.0
#: Part of a core that the events of one page may take, and the longest pause for that.
SHARE, LONGEST = 1 / 200, 5.0
#: What was made for one page is good for others for this part of the time between two events.
SHARED = 0.5
MOST_RECORDS = 1000
LOOK = 0.2  # seconds between two looks for overdue connections, and for the end

#: Takes what a client asks ({"x": ...}) and gives a prediction; raises an `Error` of domkl.
Predict = Callable[[dict[str, Any]], dict[str, Any]]


class Server:
    """Serve a feed until closed.

    Parameters
    ----------
    address : host and port; port 0 takes a free one, see `address`.
    feed : what is shown; None serves only `routes`.
    token : needed by every client, where given; see `Access`.
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
        note: Note = connections.ignore,
    ) -> None:
        self.feed, self.predict, self.note = feed, predict, note
        self.access = access or Access(token, is_loopback(address[0]), cookie=f"domkl-{address[1]}")
        self.rate, self._tls = Rate(), tls
        self._events: dict[str | None, tuple[int, float, bytes]] = {}  # the last one of each learner
        self._making = threading.Lock()
        self._routes = {**(_pages(self, feed) if feed is not None else {}), **(routes or {})}
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
        asked = request.path == "/events" and request.method == "GET" and self.feed is not None
        return asked and self.access.refuse(request) is None

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
        learner, seen, silent = request.query.get("learner"), -1, 0.0
        yield b"retry: 3000\n\n"
        while not self._server.closing.is_set():
            began = time.thread_time()
            if self.feed.version != seen:
                version, event = self._event(self.feed, learner)
                if version != seen:
                    yield event
                seen, silent = version, 0.0
            elif silent >= KEEP_ALIVE:
                yield b": still here\n\n"
                silent = 0.0
            pause = min(max(EVERY, (time.thread_time() - began) / SHARE), LONGEST)
            self._server.closing.wait(pause)
            silent += pause

    def _event(self, feed: FeedLike, learner: str | None) -> tuple[int, bytes]:
        """A version of the state, and its event: many pages of one learner cost little more than one."""
        with self._making:
            now = time.monotonic()
            self._events = {key: made for key, made in self._events.items() if now - made[1] < SHARED * EVERY}
            if learner not in self._events:
                version = feed.version
                event = b"data: " + encoded(self.state(learner)) + b"\n\n"
                self._events[learner] = version, now, event
            version, _, event = self._events[learner]
            return version, event

    def state(self, learner: str | None) -> dict[str, Any]:
        """What the page shows, with details of one learner."""
        assert self.feed is not None
        found = self.feed.document(learner)
        return {**found, "asks": self.predict is not None, "pages": self._server.streams}

    def ask(self, request: Request) -> Answer:
        """A prediction for given inputs."""
        if self.predict is None:
            wrong = "nobody predicts here; expected the page of a running agent; ask that one"
            return refusal(HTTPStatus.NOT_FOUND, wrong)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            wrong = f"the body is not announced as JSON; expected Content-Type: {JSON}; add the header"
            return refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, wrong)
        if not self.rate.take():
            wrong = f"too many questions; expected at most {self.rate.rate:g} a second; wait a moment"
            return refusal(HTTPStatus.TOO_MANY_REQUESTS, wrong, **{"Retry-After": "1"})
        try:
            return document(self.predict(_question(request.body)))
        except Error as error:
            return refusal(HTTPStatus.BAD_REQUEST, str(error))
        except TimeoutError:
            wrong = "the learner is busy; expected an answer within seconds; try again"
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, wrong, **{"Retry-After": "1"})


def _question(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError('the body is no JSON object; expected inputs; send {"x": [1.5, 2]}')
    return found


def _pages(server: Server, feed: FeedLike) -> dict[str, Route]:
    def predictions(request: Request) -> Answer:
        text = request.query.get("n", "100")
        if not (text.isascii() and text.isdigit() and len(text) < 6):
            wrong = f"n is {text[:20]!r}; expected a number up to {MOST_RECORDS}; fix it"
            return refusal(HTTPStatus.BAD_REQUEST, wrong)
        most = min(int(text), MOST_RECORDS)
        return document({"predictions": feed.records(request.query.get("learner"), most)})

    return {
        **dict.fromkeys(files.PLACES, files.answer),
        "/state": lambda request: document(server.state(request.query.get("learner"))),
        "/events": lambda request: refusal(HTTPStatus.METHOD_NOT_ALLOWED, "expected GET; use that"),
        "/predictions": predictions,
        "/predict": server.ask,
    }


def _bound(address: tuple[str, int], handler: type, note: Note, tls: Any) -> Connections:
    try:
        return Connections(address, handler, note, tls)
    except OSError as error:
        host, port = address
        raise InputError(
            f"[http] listen {host}:{port} cannot be opened: {error.strerror or error}; expected a free port "
            "of this machine; choose another"
        ) from None

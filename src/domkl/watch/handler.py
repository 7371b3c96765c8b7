"""HTTP on one connection: one request, one answer or one stream of events, then it is closed."""

from __future__ import annotations

import logging
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from .connections import PATIENCE, Connections
from .requests import Answer, Request, refusal

LOG = logging.getLogger(__name__)
LONGEST = 16_384  # bytes of a request line and its headers
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


class Desk(Protocol):
    """What a handler asks for answers."""

    def answer(self, request: Request) -> Answer:
        """The answer to a request."""

    def follows(self, request: Request) -> bool:
        """Whether the answer is a stream of events."""

    def events(self, request: Request) -> Any:
        """Events as bytes, one after the other, until the server ends; empty ones ask only for a look."""


class Handler(BaseHTTPRequestHandler):
    """Reads a request, and asks `desk` for its answer."""

    timeout = PATIENCE
    server_version, sys_version = "domkl", ""
    server: Connections
    desk: Desk

    def setup(self) -> None:
        super().setup()
        self.rfile = _Short(self.rfile)  # type: ignore[assignment]

    def do_GET(self) -> None:
        """Answer."""
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
        length, parts = self._length(), urllib.parse.urlsplit(self.path)
        try:
            query = dict(urllib.parse.parse_qsl(parts.query, max_num_fields=MOST_FIELDS))
        except ValueError:
            wrong = f"the query has too many fields; expected {MOST_FIELDS}; leave some out"
            raise _Unreadable(HTTPStatus.BAD_REQUEST, wrong) from None
        headers = {name.lower(): value for name, value in self.headers.items()}
        peer = getattr(self.request, "getpeercert", lambda: None)()
        body = self.rfile.read(length) if length else b""
        return Request(self.command, parts.path, query, headers, body, bool(peer))

    def _length(self) -> int:
        """Of the body."""
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
            wrong = "too many pages are open; expected fewer; close one and try again"
            self._send(refusal(HTTPStatus.SERVICE_UNAVAILABLE, wrong, **{"Retry-After": "10"}))
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
    """A request's bytes: LONGEST of them before the body."""

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

"""Who may ask, how often, and what a request and its answer are."""

from __future__ import annotations

import hmac
import ipaddress
import json
import math
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias

from ..base.errors import InputError
from ..base.secret import Secret, plain

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Request:
    """What a client asks for; its size was checked before."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    is_certified: bool = False  # the client has shown a certificate that we trust
    is_encrypted: bool = False
    client: str = ""  # its address


class Answer(NamedTuple):
    """What it gets."""

    status: HTTPStatus
    body: bytes
    kind: str = TEXT
    headers: Mapping[str, str] = {}


Route: TypeAlias = "Callable[[Request], Answer]"


def document(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """JSON; what is not finite becomes null."""
    return Answer(status, encoded(value), JSON)


def encoded(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:  # rarely, so only then each value is looked at
        return json.dumps(finite(value), separators=(",", ":"), allow_nan=False).encode()


def refusal(status: HTTPStatus, fact: str, **headers: str) -> Answer:
    """An error: fact; expectation; remedy."""
    return Answer(status, encoded({"error": fact}), JSON, headers)


def finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


#: Paths that tell only whether an agent is well; anybody may ask.
OPEN = ("/healthz", "/readyz")
#: What may be read from other machines without a token, where that is allowed at all.
COUNTS = ("/metrics",)
SHORTEST = 16  # characters of a token
#: Clients whose questions are counted one by one; of more, the one that has asked least lately is forgotten.
MOST_CLIENTS = 256


@dataclass(frozen=True)
class Access:
    """Decides about each request, whatever it asks for: by its Host, by the page it comes from, by who asks.

    A request whose Host is no name of this machine was led here (DNS rebinding), and one that a page from
    elsewhere makes is none of the owner's: neither gets an answer, also not about health. Health is told to
    anybody else, in fixed words; counts to whoever reaches the port where that is allowed; all else to the
    owner of the token, and on this machine where there is none.

    Parameters
    ----------
    token : `Authorization: Bearer TOKEN`, or once `/?token=TOKEN`, which gives the browser a cookie.
    is_local : only this machine can connect; then no token is needed.
    hosts : names of this machine by which it may be called. Addresses and its own name always may.
    """

    token: str | Secret | None = None
    is_local: bool = True
    hosts: Iterable[str] = ()
    cookie: str = "domkl"
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def __post_init__(self) -> None:
        if self.token is None:
            return
        object.__setattr__(self, "token", Secret(self.token))
        if len(plain(self.token)) < SHORTEST:
            raise InputError(
                f"the token has {len(plain(self.token))} characters; expected {SHORTEST} or more; "
                "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
            )

    def refuse(self, request: Request) -> Answer | None:
        """Why a request is not answered; None if it is."""
        host = request.headers.get("host", "")
        if not self._knows(host):
            return refusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"the Host is {host[:100]!r}; expected an address or a name of this machine; "
                "use its address, or add the name to [http] hosts",
            )
        if _is_foreign(request, host):
            return refusal(
                HTTPStatus.FORBIDDEN,
                "the request comes from another page; expected this one; open it directly",
            )
        return None if request.path in OPEN else self._refuse_stranger(request)

    def _refuse_stranger(self, request: Request) -> Answer | None:
        if request.is_certified or (self.token is None and (self.is_local or request.path in COUNTS)):
            return None
        if self.token is None:
            return refusal(
                HTTPStatus.FORBIDDEN,
                "the page is not shown to other machines without a token; expected one; "
                "set [http] token_file or tls = true",
            )
        if self._has_token(request):
            return None
        return refusal(
            HTTPStatus.UNAUTHORIZED,
            "the token is missing or wrong; expected that of [http]; open /?token=TOKEN, or send the header "
            "Authorization: Bearer TOKEN",
            **{"WWW-Authenticate": "Bearer"},
        )

    def _has_token(self, request: Request) -> bool:
        kind, _, sent = request.headers.get("authorization", "").partition(" ")
        cookies = dict(
            part.strip().partition("=")[::2] for part in request.headers.get("cookie", "").split(";")
        )
        token = plain(self.token or "")
        given = [
            (sent if kind.lower() == "bearer" else "", token),
            (request.query.get("token", ""), token),
            (cookies.get(self.cookie, ""), self._session),
        ]
        return sum(_same(found, wanted) for found, wanted in given) > 0  # all are compared, in constant time

    def exchange(self, request: Request) -> Answer | None:
        """For `/?token=...`, once found right: a cookie, and the page without the token in its address."""
        if self.token is None or request.path != "/" or "token" not in request.query:
            return None
        secure = "; Secure" if request.is_encrypted else ""
        cookie = f"{self.cookie}={self._session}; HttpOnly; SameSite=Lax; Path=/{secure}"
        return Answer(HTTPStatus.SEE_OTHER, b"", headers={"Location": "/", "Set-Cookie": cookie})

    def _knows(self, host: str) -> bool:
        name = _without_port(host).lower().rstrip(".")
        own = socket.gethostname().lower()
        return _is_address(name) or name in {"localhost", own, f"{own}.local", *map(str.lower, self.hosts)}


def _same(found: str, wanted: str) -> bool:
    return hmac.compare_digest(found.encode("utf-8", "replace"), wanted.encode()) and bool(wanted)


def _is_foreign(request: Request, host: str) -> bool:
    """Whether a page from elsewhere makes the request; a link to ours may be followed."""
    headers = request.headers
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin is not None and origin.partition("://")[2] != host:
        return True
    is_link = request.method == "GET" and headers.get("sec-fetch-dest") == "document" and request.path == "/"
    return site not in ("none", "same-origin") and not is_link


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Rate:
    """Each client gets at most `burst` at once and `rate` a second in the long run.

    >>> rate = Rate(rate=1.0, burst=2)
    >>> [rate.take(now=now) for now in (0.0, 0.0, 0.0, 1.0)], rate.take("another", now=0.0)
    ([True, True, False, True], True)
    """

    def __init__(self, rate: float = 10.0, burst: int = 20) -> None:
        self.rate, self.burst = rate, burst
        self._left: dict[str, tuple[float, float]] = {}  # of each client, and when it asked last
        self._changing = threading.Lock()

    def take(self, client: str = "", now: float | None = None) -> bool:
        """Whether one more is allowed; `now` in seconds, by default the clock's."""
        now = time.monotonic() if now is None else now
        with self._changing:
            left, seen = self._left.pop(client, (float(self.burst), now))
            left = min(float(self.burst), left + max(0.0, now - seen) * self.rate)
            may = left >= 1.0
            self._left[client] = left - may, now
            if len(self._left) > MOST_CLIENTS:
                del self._left[next(iter(self._left))]
            return may

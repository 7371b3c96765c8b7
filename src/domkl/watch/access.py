"""Who may see the page: anybody on this machine; from others only with a token or a certificate."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

from ..base.errors import InputError
from .requests import Answer, Request, refusal

#: Paths that tell only whether an agent is well; anybody may ask.
OPEN = ("/healthz", "/readyz")
#: What may be read from other machines without a token, where that is allowed at all.
COUNTS = ("/metrics",)
SHORTEST = 16  # characters of a token


@dataclass(frozen=True)
class Access:
    """Decides about each request.

    Parameters
    ----------
    token : `Authorization: Bearer TOKEN`, or once `/?token=TOKEN`, which gives the browser a cookie.
    is_local : only this machine can connect; then no token is needed.
    hosts : names of this machine by which browsers may call it. Addresses and its own name always may; any
        other name may be one that a foreign page has pointed here (DNS rebinding).
    """

    token: str | None = field(default=None, repr=False)
    is_local: bool = True
    hosts: Iterable[str] = ()
    cookie: str = "domkl"
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST:
            raise InputError(
                f"the token has {len(self.token)} characters; expected {SHORTEST} or more; "
                "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
            )

    def refuse(self, request: Request) -> Answer | None:
        """Why a request is not answered; None if it is."""
        if request.path in OPEN:
            return None
        if request.path not in COUNTS or self.is_local:
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
        return self._refuse_stranger(request)

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
        given = [(sent if kind.lower() == "bearer" else "", self.token or "")]
        given += [
            (request.query.get("token", ""), self.token or ""),
            (cookies.get(self.cookie, ""), self._session),
        ]
        return sum(_same(found, wanted) for found, wanted in given) > 0  # all are compared, in constant time

    def exchange(self, request: Request) -> Answer | None:
        """For `/?token=...`, once found right: a cookie, and the page without the token in its address."""
        if self.token is None or request.path != "/" or "token" not in request.query:
            return None
        cookie = f"{self.cookie}={self._session}; HttpOnly; SameSite=Lax; Path=/"
        return Answer(HTTPStatus.SEE_OTHER, b"", headers={"Location": "/", "Set-Cookie": cookie})

    def _knows(self, host: str) -> bool:
        name = _without_port(host).lower().rstrip(".")
        own = socket.gethostname().lower()
        return _is_address(name) or name in {"localhost", own, f"{own}.local", *map(str.lower, self.hosts)}


def _same(found: str, wanted: str) -> bool:
    return hmac.compare_digest(found.encode("utf-8", "replace"), wanted.encode()) and bool(wanted)


def _is_foreign(request: Request, host: str) -> bool:
    origin = request.headers.get("origin")
    return request.method not in ("GET", "HEAD") and origin is not None and origin.partition("://")[2] != host


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

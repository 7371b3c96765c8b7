"""The [http] section: what an agent serves, to whom, and how much it tells."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..base import checks
from ..base.errors import InputError
from ..watch import Access
from ..watch.feed import LEVELS
from .transports import security

if TYPE_CHECKING:
    from .sections import TransportSection


@dataclass(frozen=True)
class HttpSection:
    """[http]: where the live page, health and metrics are served; "" is nowhere.

    `publish` is what they tell: "full", "errors" (no readings and predictions) or "counts" (no errors and
    weights either). Other machines see the page only with the token, or with `tls` and a certificate of the
    [transport]'s CA.
    """

    listen: str = ""
    allow_remote: bool = False
    publish: str = "full"
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    hosts: tuple[str, ...] = ()  # further names of this machine that browsers may use
    tls: bool = False  # HTTPS with the certificate in [transport]

    def __post_init__(self) -> None:
        checks.one_of("publish", self.publish, LEVELS)
        if self.address is not None and not self.allow_remote and not security.is_local(self.listen):
            raise InputError(
                f"listen is {self.listen!r}, which other machines reach; expected a loopback address; "
                "choose 127.0.0.1, or set allow_remote = true"
            )
        if self.token is not None and self.token_file is not None:
            raise InputError("token and token_file are given; expected one of them; leave token out")
        Access(self.token)  # refuses a short one

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port, None where nothing is served."""
        return security.parse(self.listen, "listen") if self.listen else None

    def check_tls(self, transport: TransportSection) -> None:
        """Refuse tls without certificates."""
        if self.tls and transport.cert is None:
            raise InputError(
                "[http] tls is true and [transport] has no ca, cert and key; expected them; make them with: "
                "domkl certs DIRECTORY NAME"
            )

    def access(self) -> Access:
        """Who may ask."""
        token = self.token if self.token_file is None else _read(self.token_file)
        _, port = self.address or ("", 0)
        return Access(token, security.is_local(self.listen), self.hosts, f"domkl-{port}")

    def context(self, transport: TransportSection) -> ssl.SSLContext | None:
        """For HTTPS: our certificate, and those of the same CA are asked for but not needed."""
        if not self.tls:
            return None
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.load_cert_chain(str(transport.cert), transport.key)
        made.load_verify_locations(transport.ca)
        made.verify_mode = ssl.CERT_OPTIONAL
        return made


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise InputError(
            f"[http] token_file {path} cannot be read: {reason}; expected a file with the token; "
            "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        ) from None

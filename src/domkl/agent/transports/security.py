"""Mutual TLS for anything but loopback, unless it is switched off explicitly."""

from __future__ import annotations

import datetime
import ipaddress
import logging
import pathlib
import re
import ssl
import urllib.parse
from typing import Any

from ...base.checks import short
from ...base.errors import InputError
from ...base.extras import need
from ...base.places import is_loopback
from ...base.secret import HIDDEN, Secret, plain
from .base import TransportSettings

#: In place of a file: whom this machine trusts.
SYSTEM = "system"
log = logging.getLogger("domkl.transports")
_HOST = re.compile(r"[A-Za-z0-9._%:-]{1,255}")


def parse(address: str, what: str = "address") -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`.

    >>> parse("[::1]:9464")
    ('::1', 9464)
    """
    host, _, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    ambiguous = ":" in bare and bare == host
    is_port = len(port) <= 5 and port.isascii() and port.isdigit() and int(port) <= 65535
    if not _HOST.fullmatch(bare) or ambiguous or not is_port:
        _, has_login, host = address.rpartition("@")
        shown = short(f"{HIDDEN}@{host}" if has_login else address)
        raise InputError(
            f"{what} is {shown}; expected host:port, or [address]:port for IPv6; fix the address"
        )
    return bare, int(port)


def is_local(address: str) -> bool:
    return is_loopback(parse(address)[0])


def check_url(url: str) -> None:
    """Refuse an address to send predictions to that is none, or where others could read them on their way."""
    url = plain(url)
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname or "", parts.port  # which raises ValueError for what is no port
    except ValueError:
        parts, host = urllib.parse.urlsplit(""), ""
    is_usable = parts.scheme in ("http", "https") and bool(_HOST.fullmatch(host)) and "@" not in parts.netloc
    is_usable = is_usable and url.isascii() and url.isprintable() and " " not in url
    near = is_usable and is_loopback(host)
    if not is_usable or (parts.scheme == "http" and not near):
        raise InputError(
            f"url is {Secret.address(url)}; expected https://..., or http:// on this machine, without a name "
            "and password; fix url"
        )


def check_reachable(address: str, settings: TransportSettings) -> None:
    """Refuse an address that is none, or that a learner with these settings may not connect to."""
    is_near = is_local(address)
    if settings.ca is None and not settings.insecure and not is_near:
        raise InputError(
            f"{address} is not a loopback address and no certificates are given; expected mutual TLS (ca, "
            f"cert, key) or insecure = true; make them with: domkl certs DIRECTORY {settings.name}"
        )


def announced(settings: TransportSettings) -> tuple[str, ...]:
    """Addresses at which others reach this learner; those for all of a machine's networks say nothing."""
    return settings.announce or tuple(each for each in settings.listen if not _is_any(each))


def _is_any(address: str) -> bool:
    try:
        return ipaddress.ip_address(parse(address)[0]).is_unspecified
    except ValueError:
        return False


def uses_tls(settings: TransportSettings, addresses: tuple[str, ...]) -> bool:
    """Whether to use TLS; raises InputError where it is required and not possible."""
    outside = [each for each in addresses if not is_local(each)]
    files = {"ca": settings.ca, "cert": settings.cert, "key": settings.key}
    missing = [what for what, path in files.items() if path is None]
    if not missing:
        _check_files(settings)
        return True
    if missing == ["cert", "key"] and settings.kind == "mqtt" and (settings.user or settings.is_guest):
        _check_loads(settings)  # the broker shows its certificate, and we a password
        return True
    remedy = f"make them with: domkl certs DIRECTORY {settings.name}"
    if len(missing) < len(files):
        raise InputError(f"{' and '.join(missing)} not given; TLS needs ca, cert and key together; {remedy}")
    if outside and not settings.insecure:
        raise InputError(_plain(outside[0], settings, remedy))
    if outside:
        log.warning("insecure: %s without TLS; anyone there can read and forge messages", ", ".join(outside))
    return False


def _plain(address: str, settings: TransportSettings, remedy: str) -> str:
    """Why an address of another machine is refused without TLS."""
    fact = f"{address} is not a loopback address and no certificates are given"
    if settings.user or settings.is_guest:
        what = "a password that nobody can read" if settings.user else "messages that nobody can forge"
        return f'{fact}; expected TLS for {what}; add ca, a file or "system" (or set insecure = true)'
    return f"{fact}; other machines need mutual TLS (ca, cert, key); {remedy} (or set insecure = true)"


def context(settings: TransportSettings) -> ssl.SSLContext:
    """TLS context of a client that checks the server's certificate and sends its own, if it has one."""
    made = ssl.create_default_context(cafile=None if settings.ca == SYSTEM else settings.ca)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.cert is not None:
        made.load_cert_chain(settings.cert, settings.key)
    return made


def _check_loads(settings: TransportSettings) -> None:
    try:
        context(settings)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        given = [path for path in (settings.ca, settings.cert, settings.key) if path is not None]
        raise InputError(
            f"{', '.join(given)} cannot be used: {error}; expected a CA, a certificate and its key in PEM; "
            f"make them with: domkl certs DIRECTORY {settings.name}"
        ) from None


def _check_files(settings: TransportSettings) -> None:
    """Check the certificates before connecting: errors of TLS itself do not name the file."""
    _check_loads(settings)
    leaf, *chain = _read(settings.cert)
    name = _common_name(leaf)
    if name != settings.name:
        raise InputError(
            f"{settings.cert} is the certificate of {name!r}; expected that of {settings.name!r}; "
            f"give the learner its own: domkl certs DIRECTORY {settings.name}"
        )
    if _has_expired(leaf):
        raise InputError(
            f"{settings.cert} is valid from {leaf.not_valid_before_utc} to {leaf.not_valid_after_utc}; "
            "expected a valid one; check the clock, or remove the file and make it again with: domkl certs"
        )
    if not any(_issued(issuer, leaf) for issuer in (*chain, *_read(settings.ca))):
        raise InputError(
            f"{settings.cert} was not issued by {settings.ca}; expected both from one CA; "
            f"make them with: domkl certs DIRECTORY {settings.name}"
        )


def _read(path: str | None) -> list[Any]:
    x509 = need("cryptography.x509", "agent")
    found: list[Any] = x509.load_pem_x509_certificates(pathlib.Path(str(path)).read_bytes())
    return found


def _common_name(certificate: Any) -> str | None:
    oid = need("cryptography.x509.oid", "agent").NameOID.COMMON_NAME
    names = certificate.subject.get_attributes_for_oid(oid)
    return str(names[0].value) if len(names) == 1 else None


def _has_expired(certificate: Any) -> bool:
    now = datetime.datetime.now(datetime.timezone.utc)
    return not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def _issued(issuer: Any, certificate: Any) -> bool:
    invalid = need("cryptography.exceptions", "agent").InvalidSignature
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, invalid):
        return False
    return True

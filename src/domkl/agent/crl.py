"""Revoked certificates: a list (CRL, in PEM) that `domkl certs DIRECTORY revoke NAME` signs, and agents read.

A learner is known by its name, so each entry has the name beside the serial number, in an extension that
brokers ignore. A name that was revoked is not used again.
"""

from __future__ import annotations

import datetime
import logging
import os
import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..base.errors import DataError, InputError
from ..base.extras import need
from .logs import Limited, tell

LOG = logging.getLogger(__name__)
#: How long a list is valid, in days: brokers refuse everybody once it has expired.
DAYS = 3650
#: Bytes of a list that are read at most: some ten thousand entries.
LONGEST = 4 * 2**20
#: The extension that holds a name; a number made from a random UUID needs no registration.
NAME = "2.25.203450498327471265948417394855931264519"


class RevokedCertificate(NamedTuple):
    """A certificate that was revoked."""

    serial: int
    name: str


def sign(authority: tuple[Any, Any], entries: Iterable[RevokedCertificate]) -> bytes:
    """A list of these entries, signed by the CA."""
    x509 = need("cryptography.x509", "agent")
    certificate, key = authority
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.subject)
        .last_update(now - datetime.timedelta(days=1))  # clocks of devices are not exact
        .next_update(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.CRLNumber(int(now.timestamp() * 1000)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    for entry in dict.fromkeys(entries):
        builder = builder.add_revoked_certificate(_revoked(entry, now))
    made = builder.sign(key, need("cryptography.hazmat.primitives.hashes", "agent").SHA256())
    form = need("cryptography.hazmat.primitives.serialization", "agent").Encoding.PEM
    found: bytes = made.public_bytes(form)
    return found


def _revoked(entry: RevokedCertificate, now: datetime.datetime) -> Any:
    x509 = need("cryptography.x509", "agent")
    name = entry.name.encode()
    text = b"\x0c" + bytes([len(name)]) + name  # a UTF8String; names have at most 64 letters
    extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(NAME), text)
    builder = x509.RevokedCertificateBuilder().serial_number(entry.serial).revocation_date(now)
    return builder.add_extension(extension, critical=False).build()


def read(path: str | os.PathLike[str], ca: str | os.PathLike[str]) -> list[RevokedCertificate]:
    """The entries of a list; an error unless it is one of this CA."""
    x509 = need("cryptography.x509", "agent")
    remedy = "expected the crl.pem beside that CA; copy it again, or make it with: domkl certs"
    try:
        with open(path, "rb") as file:
            found = x509.load_pem_x509_crl(file.read(LONGEST))
        issuers = x509.load_pem_x509_certificates(pathlib.Path(ca).read_bytes())
        signed = any(found.is_signature_valid(issuer.public_key()) for issuer in issuers)
        entries = [RevokedCertificate(each.serial_number, _name(each)) for each in found]
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} is no list of revoked certificates: {error}; {remedy}") from None
    if not signed:
        raise DataError(f"{path} was not signed by {ca}; {remedy}")
    return entries


def _name(entry: Any) -> str:
    """The learner's name in an entry; "" where it has none, as in lists of other programs."""
    x509 = need("cryptography.x509", "agent")
    oid = x509.ObjectIdentifier(NAME)
    try:
        value: bytes = entry.extensions.get_extension_for_oid(oid).value.value
    except x509.ExtensionNotFound:
        return ""
    return value[2:].decode("ascii", "replace")


class Revoked:
    """Names whose messages are refused: of a file that is read again whenever it changes."""

    def __init__(self, path: str | None, ca: str | None) -> None:
        self._path, self._ca = path, ca
        self._limited = Limited(LOG)
        self._seen: object = None
        self.names: frozenset[str] = frozenset()
        if path is not None:
            self._seen = self._look()
            self._read()

    def reload(self) -> None:
        """Read the file if it has changed; one that cannot be used leaves the names as they were."""
        seen = self._look()
        if self._path is None or seen == self._seen:
            return
        self._seen = seen
        try:
            self._read()
        except InputError as error:
            self._limited.warn("revoked", "list of revoked certificates refused", reason=str(error))

    def _look(self) -> object:
        try:
            found = os.stat(self._path or "")
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> None:
        try:
            names = frozenset(entry.name for entry in read(str(self._path), str(self._ca))) - {""}
        except DataError as error:
            raise InputError(f"[transport] revoked: {error}") from None
        if names != self.names:
            tell(LOG, logging.INFO, "revoked certificates", names=sorted(names))
        self.names = names

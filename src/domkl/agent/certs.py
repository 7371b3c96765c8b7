"""Certificates for a network of learners: one CA, one certificate each, and a broker's configuration.

Keys are elliptic (P-256), in PKCS8 PEM files that only their owner can read. A key that exists is never
overwritten; a certificate is renewed by removing its .pem file and making it again. `issued.txt` lists the
serial number and the name of each that was made.

`crl.pem` lists revoked certificates: `domkl certs DIRECTORY revoke NAME` signs it, and agents read it. A
learner is known by its name, so each entry has the name beside the serial number, in an extension that
brokers ignore. A name that was revoked is not used again.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import itertools
import logging
import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..base.errors import DataError, InputError
from ..base.extras import need
from ..learner import files
from .logs import Limited, tell
from .transports.names import ROOT, check_name

LOG = logging.getLogger(__name__)
CA_DAYS = 3650
BROKER = "broker"
RESERVED = ("ca", "crl", "mosquitto", "revoke")
#: Lists in a CA's directory: of revoked certificates, and of all that were made.
REVOKED, ISSUED = "crl.pem", "issued.txt"
#: Hosts in every certificate, besides the name itself.
HERE = ("localhost", "127.0.0.1")
#: How long a list is valid, in days: brokers refuse everybody once it has expired.
LIST_DAYS = 3650
#: Bytes of a list that are read at most: some ten thousand entries.
LONGEST_LIST = 4 * 2**20
#: The extension that holds a name; a number made from a random UUID needs no registration.
NAME_EXTENSION = "2.25.203450498327471265948417394855931264519"
#: What a key may be for; each is said, whether it is or not.
USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


class Issued(NamedTuple):
    """A certificate that was made."""

    serial: int
    name: str


class Made(NamedTuple):
    """A file, and whether it is new or was there before."""

    path: pathlib.Path
    new: bool


def _use(part: str) -> Any:
    """A part of the package `cryptography`."""
    return need(f"cryptography.{part}", "agent")


class Authority:
    """The CA in a directory, which is made if there is none; it makes and revokes certificates."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder, self._x509 = folder, _use("x509")
        certificate, key = folder / "ca.pem", folder / "ca.key"
        if certificate.exists() != key.exists():
            there, gone = (certificate, key) if certificate.exists() else (key, certificate)
            raise DataError(
                f"{there} is there but {gone.name} is not; expected both; restore it or use a new directory"
            )
        made_key, self._key = _private_key(key)
        self.made = [_keep(certificate, lambda: _pem(self._own_certificate())), made_key]
        self._certificate = _load_certificate(certificate)
        self.made.append(_keep(folder / REVOKED, lambda: self.signed_list([])))

    def certify(self, name: str, hosts: Iterable[str], days: int) -> list[Made]:
        """A learner's certificate and key."""
        if name in {entry.name for entry in self.revoked}:
            raise InputError(f"{name!r} was revoked; expected a name that was not; give it another name")
        made_key, private = _private_key(self._folder / f"{name}.key")
        path = self._folder / f"{name}.pem"
        return [_keep(path, lambda: self._leaf(name, hosts, days, private.public_key())), made_key]

    @property
    def revoked(self) -> list[Issued]:
        """All certificates that were revoked."""
        return read_list(self._folder / REVOKED, self._folder / "ca.pem")

    @property
    def issued(self) -> list[Issued]:
        """All certificates that were made."""
        path = self._folder / ISSUED
        lines = path.read_text(encoding="ascii").split("\n") if path.exists() else []
        try:
            return [Issued(int(serial, 16), name) for serial, name in map(str.split, filter(None, lines))]
        except ValueError:
            raise DataError(f"{path} is damaged; expected lines of a number and a name; restore it") from None

    def signed_list(self, entries: Iterable[Issued]) -> bytes:
        """The list of revoked certificates, with these entries."""
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            self._x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .last_update(now - datetime.timedelta(days=1))  # clocks of devices are not exact
            .next_update(now + datetime.timedelta(days=LIST_DAYS))
            .add_extension(self._x509.CRLNumber(int(now.timestamp() * 1000)), critical=False)
            .add_extension(self._issuer(), critical=False)
        )
        for entry in dict.fromkeys(entries):
            name = entry.name.encode()
            text = b"\x0c" + bytes([len(name)]) + name  # a UTF8String; names have at most 64 letters
            extension = self._x509.UnrecognizedExtension(self._x509.ObjectIdentifier(NAME_EXTENSION), text)
            revoked = self._x509.RevokedCertificateBuilder().serial_number(entry.serial).revocation_date(now)
            builder = builder.add_revoked_certificate(
                revoked.add_extension(extension, critical=False).build()
            )
        return _pem(self._signed(builder))

    def _issuer(self) -> Any:
        return self._x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())

    def _signed(self, builder: Any) -> Any:
        return builder.sign(self._key, _use("hazmat.primitives.hashes").SHA256())

    def _own_certificate(self) -> Any:
        name, public = self._named(f"{ROOT} CA"), self._key.public_key()
        builder = self._builder(name, name, public, CA_DAYS, "key_cert_sign", "crl_sign")
        return self._signed(
            builder.add_extension(self._x509.BasicConstraints(ca=True, path_length=0), critical=True)
        )

    def _leaf(self, name: str, hosts: Iterable[str], days: int, public: Any) -> bytes:
        uses = _use("x509.oid").ExtendedKeyUsageOID
        others = self._x509.SubjectAlternativeName([_alternative(host) for host in dict.fromkeys(hosts)])
        both = self._x509.ExtendedKeyUsage([uses.SERVER_AUTH, uses.CLIENT_AUTH])
        builder = (
            self._builder(self._named(name), self._certificate.subject, public, days, "digital_signature")
            .add_extension(self._x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(both, critical=False)
            .add_extension(others, critical=False)
            .add_extension(self._issuer(), critical=False)
        )
        leaf = self._signed(builder)
        with open(self._folder / ISSUED, "a", encoding="ascii") as issued:  # else it cannot be revoked
            issued.write(f"{leaf.serial_number:x} {name}\n")
        return _pem(leaf)

    def _builder(self, subject: Any, issuer: Any, public: Any, days: int, *uses: str) -> Any:
        """What all certificates have, for a key of these uses."""
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            self._x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(self._x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))  # clocks of devices are not exact
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(self._x509.KeyUsage(**{use: use in uses for use in USES}), critical=True)
            .add_extension(self._x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )

    def _named(self, common: str) -> Any:
        oid = _use("x509.oid").NameOID.COMMON_NAME
        return self._x509.Name([self._x509.NameAttribute(oid, common)])


def make(
    directory: str | os.PathLike[str], names: Sequence[str], *, hosts: Sequence[str] = (), days: int = 825
) -> list[Made]:
    """A certificate and a key for each name, from the CA in `directory`, which is made if there is none."""
    for name in names:
        check_name(name, "learner")
        if name in RESERVED:
            raise InputError(f"learner is {name!r}; expected a name other than {RESERVED}; choose another")
    if not 1 <= days <= CA_DAYS:
        raise InputError(f"days is {days}; expected 1 to {CA_DAYS}; choose a number in that range")
    folder = pathlib.Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    ca = Authority(folder)
    leaves = [ca.certify(name, (name, *HERE, *hosts), days) for name in dict.fromkeys(names)]
    return [*ca.made, *itertools.chain(*leaves)]


def revoke(directory: str | os.PathLike[str], names: Sequence[str]) -> pathlib.Path:
    """Put every certificate of these names on the CA's list; returns the list's path."""
    folder = pathlib.Path(directory)
    if not (folder / "ca.key").exists():
        raise InputError(f"{folder} has no ca.key; expected a directory of domkl certs; name that one")
    ca = Authority(folder)
    found = {name: [entry for entry in ca.issued if entry.name == name] for name in names}
    for name, entries in found.items():
        if not entries:
            raise InputError(f"{name!r} has no certificate here; expected a name in {ISSUED}; correct it")
    listed = ca.signed_list([*ca.revoked, *itertools.chain(*found.values())])
    files.replace(folder / REVOKED, listed, sync=True)
    (folder / REVOKED).chmod(0o644)  # nothing in it is secret, and a broker reads it
    return folder / REVOKED


def make_broker(
    directory: str | os.PathLike[str],
    *,
    network: str = "domkl",
    hosts: Sequence[str] = (),
    days: int = 825,
    port: int = 8883,
    topics: Sequence[str] = (),
) -> list[Made]:
    """A broker's certificate, and `mosquitto.conf` with `mosquitto.acl` that use it.

    It listens on `hosts`, else on this machine alone; all clients may use `topics` besides the learners' own.
    """
    check_name(network, "network")
    made, folder = make(directory, [BROKER], hosts=hosts, days=days), pathlib.Path(directory)
    made.append(_keep(folder / "mosquitto.acl", mosquitto_acl(network, topics).encode))
    made.append(_keep(folder / "mosquitto.conf", mosquitto_conf(folder.resolve(), port, hosts).encode))
    return made


def mosquitto_acl(network: str, topics: Sequence[str] = ()) -> str:
    """Each learner writes under its own name and reads all of its network; everybody uses `topics`."""
    own = f"pattern write {ROOT}/{network}/%u/#\npattern read {ROOT}/{network}/#\n"
    return own + "".join(f"pattern readwrite {_topic(each)}\n" for each in topics)


def _topic(topic: str) -> str:
    """A topic, perhaps with wildcards, that a line of the list of rights can have."""
    if not topic.strip() or not topic.isprintable() or topic.startswith(("#", "+", " ", f"{ROOT}/")):
        raise InputError(
            f"topic is {topic!r}; expected one such as sensors/#, and none of the learners' own, which begin "
            f"with {ROOT}/; choose others"
        )
    return topic


def mosquitto_conf(directory: pathlib.Path, port: int, hosts: Sequence[str] = ()) -> str:
    """Configuration of a broker that identifies every client by its certificate only."""
    tls = f"""\
cafile {directory / "ca.pem"}
certfile {directory / "broker.pem"}
keyfile {directory / "broker.key"}
crlfile {directory / REVOKED}
require_certificate true
use_identity_as_username true
"""
    listeners = "".join(f"listener {port} {host}\n{tls}" for host in hosts or ["127.0.0.1"])
    return f"""\
# Start with: mosquitto -c {directory / "mosquitto.conf"}
# The user that mosquitto runs as must be able to read broker.key. Restart it after a certificate was revoked.
{listeners}allow_anonymous false
acl_file {directory / "mosquitto.acl"}
set_tcp_nodelay true
persistence false
"""


def read_list(path: str | os.PathLike[str], ca: str | os.PathLike[str]) -> list[Issued]:
    """The entries of a list; an error unless it is one of this CA."""
    x509 = _use("x509")
    remedy = "expected the crl.pem beside that CA; copy it again, or make it with: domkl certs"
    try:
        with open(path, "rb") as file:
            found = x509.load_pem_x509_crl(file.read(LONGEST_LIST))
        issuers = x509.load_pem_x509_certificates(pathlib.Path(ca).read_bytes())
        signed = any(found.is_signature_valid(issuer.public_key()) for issuer in issuers)
        entries = [Issued(each.serial_number, _name_in(each)) for each in found]
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} is no list of revoked certificates: {error}; {remedy}") from None
    if not signed:
        raise DataError(f"{path} was not signed by {ca}; {remedy}")
    return entries


def _name_in(entry: Any) -> str:
    """The learner's name in an entry; "" where it has none, as in lists of other programs."""
    x509 = _use("x509")
    oid = x509.ObjectIdentifier(NAME_EXTENSION)
    try:
        value: bytes = entry.extensions.get_extension_for_oid(oid).value.value
    except x509.ExtensionNotFound:
        return ""
    return value[2:].decode("ascii", "replace")


class Revoked:
    """Names whose messages are refused: of a file that is read_list again whenever it changes."""

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
            names = frozenset(entry.name for entry in read_list(str(self._path), str(self._ca))) - {""}
        except DataError as error:
            raise InputError(f"[transport] revoked: {error}") from None
        if names != self.names:
            tell(LOG, logging.INFO, "revoked certificates", names=sorted(names))
        self.names = names


def _alternative(host: str) -> Any:
    x509 = _use("x509")
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InputError(
            f"host is {host!r}; expected an IP address or an ASCII host name; fix the host"
        ) from None


def _private_key(path: pathlib.Path) -> tuple[Made, Any]:
    """The key in a file; generated if there is none, never changed if there is one."""
    ec, forms = _use("hazmat.primitives.asymmetric.ec"), _use("hazmat.primitives.serialization")

    def new() -> bytes:
        private = ec.generate_private_key(ec.SECP256R1())
        made: bytes = private.private_bytes(
            forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
        )
        return made

    made = _keep(path, new, 0o600)
    try:
        return made, forms.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path} is not a usable key: {error}; expected PEM without a password; restore or move it"
        ) from None


def _load_certificate(path: pathlib.Path) -> Any:
    try:
        return _use("x509").load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise DataError(
            f"{path} is not a certificate: {error}; expected PEM; restore it or use a new directory"
        ) from None


def _pem(made: Any) -> bytes:
    """A certificate, or a list of some, as text."""
    found: bytes = made.public_bytes(_use("hazmat.primitives.serialization").Encoding.PEM)
    return found


def _keep(path: pathlib.Path, content: Callable[[], bytes], mode: int = 0o644) -> Made:
    """A file as it is; made, with its final mode from the start, if it is not there."""
    if path.exists():
        return Made(path, False)
    made = content()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(made)
    return Made(path, True)

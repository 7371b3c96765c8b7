"""Certificates for a network of learners: one CA, one certificate each, and a broker's configuration.

Keys are elliptic (P-256), in PKCS8 PEM files that only their owner can read. A key that exists is never
overwritten; a certificate is renewed by removing its .pem file and making it again. `issued.txt` lists the
serial number and the name of each that was made.

`crl.pem` lists revoked certificates: `domkl certs DIRECTORY revoke NAME` signs it, and agents read it. A
learner is known by its name, so each entry has the name beside the serial number, in an extension that
brokers ignore. A name that was revoked is not used again.
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import logging
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..base.errors import DataError, InputError
from ..base.extras import need
from ..learner import files
from .logs import Limited, tell
from .transports.names import ROOT, check_name

LOG = logging.getLogger(__name__)
#: How long a list is valid, in days: brokers refuse everybody once it has expired.
LIST_DAYS = 3650
#: Bytes of a list that are read_list at most: some ten thousand entries.
LONGEST_LIST = 4 * 2**20
#: The extension that holds a name; a number made from a random UUID needs no registration.
NAME_EXTENSION = "2.25.203450498327471265948417394855931264519"


class RevokedCertificate(NamedTuple):
    """A certificate that was revoked."""

    serial: int
    name: str


def sign_list(authority: tuple[Any, Any], entries: Iterable[RevokedCertificate]) -> bytes:
    """A list of these entries, signed by the CA."""
    x509 = need("cryptography.x509", "agent")
    certificate, key = authority
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.subject)
        .last_update(now - datetime.timedelta(days=1))  # clocks of devices are not exact
        .next_update(now + datetime.timedelta(days=LIST_DAYS))
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
    extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(NAME_EXTENSION), text)
    builder = x509.RevokedCertificateBuilder().serial_number(entry.serial).revocation_date(now)
    return builder.add_extension(extension, critical=False).build()


def read_list(path: str | os.PathLike[str], ca: str | os.PathLike[str]) -> list[RevokedCertificate]:
    """The entries of a list; an error unless it is one of this CA."""
    x509 = need("cryptography.x509", "agent")
    remedy = "expected the crl.pem beside that CA; copy it again, or make it with: domkl certs"
    try:
        with open(path, "rb") as file:
            found = x509.load_pem_x509_crl(file.read(LONGEST_LIST))
        issuers = x509.load_pem_x509_certificates(pathlib.Path(ca).read_bytes())
        signed = any(found.is_signature_valid(issuer.public_key()) for issuer in issuers)
        entries = [RevokedCertificate(each.serial_number, _name_in(each)) for each in found]
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} is no list of revoked certificates: {error}; {remedy}") from None
    if not signed:
        raise DataError(f"{path} was not signed by {ca}; {remedy}")
    return entries


def _name_in(entry: Any) -> str:
    """The learner's name in an entry; "" where it has none, as in lists of other programs."""
    x509 = need("cryptography.x509", "agent")
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


CA_DAYS = 3650
BROKER = "broker"
RESERVED = ("ca", "crl", "mosquitto", "revoke")
#: Lists in a CA's directory: of revoked certificates, and of all that were made.
REVOKED, ISSUED = "crl.pem", "issued.txt"

#: Hosts in every certificate, besides the name itself.
HERE = ("localhost", "127.0.0.1")


@dataclasses.dataclass(frozen=True)
class Made:
    """A file, and whether it is new or was there before."""

    path: pathlib.Path
    new: bool


def make(
    directory: str | os.PathLike[str],
    names: Sequence[str],
    *,
    hosts: Sequence[str] = (),
    days: int = 825,
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
    made, authority = _authority(folder)
    gone = {entry.name for entry in read_list(folder / REVOKED, folder / "ca.pem")}
    for name in dict.fromkeys(names):
        if name in gone:
            raise InputError(f"{name!r} was revoked; expected a name that was not; give it another name")
        made += _leaf(folder, name, (name, *HERE, *hosts), days, authority)
    return made


def revoke(directory: str | os.PathLike[str], names: Sequence[str]) -> pathlib.Path:
    """Put every certificate of these names on the CA's list; returns the list's path."""
    folder = pathlib.Path(directory)
    if not (folder / "ca.key").exists():
        raise InputError(f"{folder} has no ca.key; expected a directory of domkl certs; name that one")
    _, authority = _authority(folder)
    issued = _issued(folder)
    entries = read_list(folder / REVOKED, folder / "ca.pem")
    for name in names:
        found = [entry for entry in issued if entry.name == name]
        if not found:
            raise InputError(f"{name!r} has no certificate here; expected a name in {ISSUED}; correct it")
        entries += found
    files.replace(folder / REVOKED, sign_list(authority, entries), sync=True)
    (folder / REVOKED).chmod(0o644)  # nothing in it is secret, and a broker reads it
    return folder / REVOKED


def _issued(folder: pathlib.Path) -> list[RevokedCertificate]:
    """All certificates that the CA has made."""
    path = folder / ISSUED
    lines = path.read_text(encoding="ascii").split("\n") if path.exists() else []
    pairs = [line.split() for line in lines if line]
    try:
        return [RevokedCertificate(int(serial, 16), name) for serial, name in pairs]
    except ValueError:
        raise DataError(f"{path} is damaged; expected lines of a number and a name; restore it") from None


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
    made = make(directory, [BROKER], hosts=hosts, days=days)
    folder = pathlib.Path(directory).resolve()
    made.append(_keep(pathlib.Path(directory) / "mosquitto.acl", mosquitto_acl(network, topics)))
    made.append(_keep(pathlib.Path(directory) / "mosquitto.conf", mosquitto_conf(folder, port, hosts)))
    return made


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


def mosquitto_acl(network: str, topics: Sequence[str] = ()) -> str:
    """Each learner writes under its own name and reads all of its network; everybody uses `topics`."""
    own = f"pattern write {ROOT}/{network}/%u/#\npattern read {ROOT}/{network}/#\n"
    return own + "".join(f"pattern readwrite {_pattern(topic)}\n" for topic in topics)


def _pattern(topic: str) -> str:
    """A topic, perhaps with wildcards, that a line of the list of rights can have."""
    if (
        topic != topic.strip()
        or not topic.isprintable()
        or not topic
        or topic.startswith(("#", f"{ROOT}/", "+"))
    ):
        raise InputError(
            f"topic is {topic!r}; expected one such as sensors/#, and none of the learners' own, which begin "
            f"with {ROOT}/; choose others"
        )
    return topic


def _authority(folder: pathlib.Path) -> tuple[list[Made], tuple[Any, Any]]:
    """The CA's files, and its certificate with its key."""
    certificate, key = folder / "ca.pem", folder / "ca.key"
    if certificate.exists() != key.exists():
        there, gone = (certificate, key) if certificate.exists() else (key, certificate)
        raise DataError(
            f"{there} is there but {gone.name} is not; expected both; restore it or use a new directory"
        )
    made_key, private = _private_key(key)
    new = not certificate.exists()
    if new:
        _write(certificate, _pem(_sign_authority(private)), 0o644)
    authority = _load_certificate(certificate), private
    made = [Made(certificate, new), made_key, Made(folder / REVOKED, not (folder / REVOKED).exists())]
    if made[-1].new:
        _write(folder / REVOKED, sign_list(authority, []), 0o644)
    return made, authority


def _leaf(
    folder: pathlib.Path, name: str, hosts: tuple[str, ...], days: int, authority: tuple[Any, Any]
) -> list[Made]:
    path = folder / f"{name}.pem"
    made_key, private = _private_key(folder / f"{name}.key")
    if path.exists():
        return [Made(path, False), made_key]
    leaf = _sign_leaf(name, hosts, days, private.public_key(), authority)
    with open(folder / ISSUED, "a", encoding="ascii") as issued:  # what is not in it cannot be revoked
        issued.write(f"{leaf.serial_number:x} {name}\n")
    _write(path, _pem(leaf), 0o644)
    return [Made(path, True), made_key]


def _sign_authority(private: Any) -> Any:
    x509 = need("cryptography.x509", "agent")
    public, name = private.public_key(), _name(f"{ROOT} CA")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(name, name, public, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    return _sign(builder, private)


def _sign_leaf(name: str, hosts: tuple[str, ...], days: int, public: Any, authority: tuple[Any, Any]) -> Any:
    x509, oid = need("cryptography.x509", "agent"), need("cryptography.x509.oid", "agent")
    ca, ca_key = authority
    both = [oid.ExtendedKeyUsageOID.SERVER_AUTH, oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    alternatives = [_alternative(host) for host in dict.fromkeys(hosts)]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        _builder(_name(name), ca.subject, public, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(issuer, critical=False)
    )
    return _sign(builder, ca_key)


def _builder(subject: Any, issuer: Any, public: Any, days: int) -> Any:
    x509 = need("cryptography.x509", "agent")
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of devices are not exact
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _sign(builder: Any, private: Any) -> Any:
    return builder.sign(private, need("cryptography.hazmat.primitives.hashes", "agent").SHA256())


def _name(common: str) -> Any:
    x509, oid = need("cryptography.x509", "agent"), need("cryptography.x509.oid", "agent")
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, common)])


def _usage(**wanted: bool) -> Any:
    all_of_them = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement "
        "key_cert_sign crl_sign encipher_only decipher_only"
    )
    return need("cryptography.x509", "agent").KeyUsage(
        **{each: wanted.get(each, False) for each in all_of_them.split()}
    )


def _alternative(host: str) -> Any:
    x509 = need("cryptography.x509", "agent")
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InputError(
            f"host is {host!r}; expected an IP address or an ASCII host name; fix the host"
        ) from None


def _private_key(path: pathlib.Path) -> tuple[Made, Any]:
    """The key in a file; generated if there is none, never changed if there is one."""
    if path.exists():
        return Made(path, False), _load_key(path)
    ec = need("cryptography.hazmat.primitives.asymmetric.ec", "agent")
    forms = need("cryptography.hazmat.primitives.serialization", "agent")
    private = ec.generate_private_key(ec.SECP256R1())
    plain = private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    _write(path, plain, 0o600)
    return Made(path, True), private


def _load_key(path: pathlib.Path) -> Any:
    forms = need("cryptography.hazmat.primitives.serialization", "agent")
    try:
        return forms.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path} is not a usable key: {error}; expected PEM without a password; restore or move it"
        ) from None


def _load_certificate(path: pathlib.Path) -> Any:
    try:
        return need("cryptography.x509", "agent").load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise DataError(
            f"{path} is not a certificate: {error}; expected PEM; restore it or use a new directory"
        ) from None


def _pem(certificate: Any) -> bytes:
    form = need("cryptography.hazmat.primitives.serialization", "agent").Encoding.PEM
    found: bytes = certificate.public_bytes(form)
    return found


def _keep(path: pathlib.Path, text: str) -> Made:
    if path.exists():
        return Made(path, False)
    _write(path, text.encode(), 0o644)
    return Made(path, True)


def _write(path: pathlib.Path, content: bytes, mode: int) -> None:
    """Create a file with its final mode from the start; never replace one."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)

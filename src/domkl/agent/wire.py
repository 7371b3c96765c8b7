"""Messages between learners, as bytes. No pickle, nothing is run, nothing is believed.

    bytes 0-1   b"dk"
    byte  2     major version: another one is refused
    byte  3     minor version: another one may have more fields, which are ignored
    bytes 4-7   CRC-32, little endian, of bytes 0-3 and of all that follows
    bytes 8-    a msgpack map; "type" is "update", "hello" or "again"

Parameters are little endian, in the precision that "dtype" names. Scalars are always float64: they are few,
and sums over all rounds lose too much in float16.

The checksum is there because a flipped bit in a float gives another float, which no other check can see. It
is meant for damage, of which CRC-32 lets through one in 2**32, in less than half the time of SHA-256 and a
quarter of BLAKE2. It is no help against forgery, nor would an unkeyed hash be; that is what TLS is for.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from ..base import checks
from ..base.errors import InputError, PeerError
from ..base.types import Array
from ..exchange.edges import NUMBER_END, ROUND_END, Held
from ..exchange.message import Shapes, Update
from ..learning.auto.scale import QUANTILES, Summary
from .incarnation import Incarnation, Number
from .transports.names import MOST_NAMES

DTYPES: dict[str, np.dtype[Any]] = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
}
#: Major and minor version of the format.
VERSION = (3, 0)
#: The most updates in one `Again`.
MOST_UPDATES = 64

_SCALARS = DTYPES["float64"]
_HEADER = struct.Struct("<2sBBI")
_MAGIC = b"dk"
_PREFIX = _MAGIC + bytes(VERSION)
_START = zlib.crc32(_PREFIX)
#: Bytes besides the arrays: at most of an update or a hello, and usually of the updates in an `Again`.
_ROOM, _ROOM_AGAIN = 4096 + 512 * MOST_NAMES, 4096 + 128 * MOST_NAMES

Round = Annotated[int, Meta(ge=0, lt=ROUND_END)]
Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.-]+\Z", max_length=64)]
Fingerprint = Annotated[str, Meta(max_length=64)]
Edges = Annotated[dict[Name, Held], Meta(max_length=MOST_NAMES)]
Wants = Annotated[dict[Name, Round], Meta(max_length=MOST_NAMES)]
Degree = Annotated[int, Meta(ge=0, le=MOST_NAMES)]
Names = Annotated[list[Name], Meta(max_length=MOST_NAMES)]
#: By learner: a count, and the bytes of lowest values, highest values and shape of a `Summary`.
News = Annotated[
    dict[Name, tuple[Annotated[int, Meta(ge=1, lt=2**31)], memoryview, memoryview, memoryview]],
    Meta(max_length=MOST_NAMES),
]
KnownIncarnations = Annotated[dict[Name, Incarnation], Meta(max_length=MOST_NAMES)]
Updates = Annotated[list[bytes], Meta(max_length=MOST_UPDATES)]


#: What messages call an incarnation.
_SHORT = {"incarnation": "life", "incarnations": "lives"}


class OtherVersion(PeerError):
    """A message is of another major version of the format."""


class Envelope(NamedTuple):
    """An update with the header that its sender added."""

    incarnation: Incarnation  # of the sender
    durable: int  # the sender's first round that is not yet safe on disk
    dtype: str  # the precision it was sent in
    update: Update


class Hello(msgspec.Struct, frozen=True, tag="hello", rename=_SHORT):
    """I am alive, at this round, and want from each of these neighbours its updates from that round on."""

    fingerprint: Fingerprint
    incarnation: Incarnation
    round: Round
    durable: Round
    wants: Wants
    edges: Edges
    done: bool
    graph: Number
    ended: Wants = {}  # the neighbours whose streams have ended, and at which rounds
    incarnations: KnownIncarnations = {}  # of the neighbours
    rivals: Names = []  # neighbours under whose names two agents send
    rests: Names = []  # neighbours to whom the sender hardly listens


class Again(msgspec.Struct, frozen=True, tag="again", rename=_SHORT):
    """Updates once more, each byte for byte as it was first sent; `Decoder.update` reads them."""

    fingerprint: Fingerprint
    incarnation: Incarnation
    updates: Updates


class _Update(msgspec.Struct, frozen=True, tag="update", rename=_SHORT, omit_defaults=True):
    fingerprint: Fingerprint
    incarnation: Incarnation
    durable: Round
    round: Round
    dtype: Literal["float64", "float32", "float16"]
    theta: memoryview
    scalars: memoryview | None
    edges: Edges
    degree: Degree = 0
    news: News = {}


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Update | Hello | Again)
_again_decoder = msgspec.msgpack.Decoder(Again)


def encode_update(update: Update, incarnation: Incarnation, durable: int, dtype: str = "float64") -> bytes:
    """The message with which an update goes to every neighbour.

    >>> theta, scalars = np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([1.0, 2.0])
    >>> update, sender = Update(7, theta, scalars, "f00d"), Incarnation(1, 2)
    >>> message = encode_update(update, sender, durable=5, dtype="float32")
    >>> decoder = Decoder(shape=(2, 2), fingerprint="f00d", has_scalars=True)
    >>> envelope = decoder.decode(message)
    >>> envelope.update.round, envelope.incarnation, envelope.durable, envelope.dtype
    (7, Incarnation(starts=1, key=2), 5, 'float32')
    >>> envelope.update.theta.tolist() == theta.astype("float32").tolist()
    True
    >>> decoder.decode(message.replace(b"f00d", b"food"))
    Traceback (most recent call last):
    ...
    domkl.base.errors.PeerError: the checksum of a message is wrong; expected no damage; send it again
    """
    theta = _narrowed("theta", update.theta, _dtype(dtype)).data
    scalars = None if update.scalars is None else _narrowed("scalars", update.scalars, _SCALARS).data
    news: Any = {name: _summary_bytes(one) for name, one in update.news.items()}
    edges: Any = dict(update.edges)
    sent = _Update(
        fingerprint=update.fingerprint,
        incarnation=incarnation,
        durable=durable,
        round=update.round,
        dtype=dtype,  # type: ignore[arg-type]
        theta=theta,
        scalars=scalars,
        edges=edges,
        degree=update.degree,
        news=news,
    )
    return encode(sent)


def encode(message: _Update | Hello | Again) -> bytes:
    """The bytes of a message, which any decoder reads.

    >>> where = {"wants": {"b": 6}, "edges": {}, "done": False, "graph": 1}
    >>> hello = Hello("f00d", Incarnation(1, 2), round=7, durable=5, **where)
    >>> Decoder(shape=(2, 2), fingerprint="f00d", has_scalars=True).decode(encode(hello)) == hello
    True
    """
    try:
        body = _encoder.encode(message)
        sealed = _HEADER.pack(_MAGIC, *VERSION, zlib.crc32(body, _START)) + body
        _opened(sealed)
    except (TypeError, OverflowError, UnicodeError, PeerError) as error:  # what no peer would take
        raise InputError(f"this message cannot be sent: {error}; expected its types; fix the call") from None
    return sealed


class Decoder:
    """Reads what neighbours send; a message that is wrong raises `PeerError` and changes nothing.

    Parameters
    ----------
    shape : of theta, (P, 2D).
    fingerprint : of the learner that receives.
    has_scalars : whether updates must carry scalars, or must not.
    scalars : how many; one for each kernel by default.
    columns : of a summary in the news of an update; 0 where there is no news.
    max_bytes : longer messages are not looked at; by default what the longest right one can have.
    """

    def __init__(
        self,
        *,
        shape: tuple[int, int],
        fingerprint: str,
        has_scalars: bool,
        scalars: int | None = None,
        columns: int = 0,
        max_bytes: int | None = None,
    ) -> None:
        P, width = (checks.count("shape", length) for length in shape)
        self._shape, self._size, self._scalars, self._columns = (P, width), P * width, scalars or P, columns
        self._fingerprint, self._has_scalars = fingerprint, has_scalars
        arrays = 8 * (P * width + self._scalars)
        summaries = MOST_NAMES * columns * (16 + 2 * QUANTILES)
        self._most_alone = arrays + summaries + _ROOM  # bytes of a message that is no `Again`
        longest = MOST_UPDATES * (arrays + _ROOM_AGAIN)
        self._max_bytes = longest if max_bytes is None else checks.count("max_bytes", max_bytes)

    @classmethod
    def of(cls, shapes: Shapes, fingerprint: str) -> Decoder:
        return cls(
            shape=shapes.theta,
            fingerprint=fingerprint,
            has_scalars=shapes.scalars > 0,
            scalars=shapes.scalars,
            columns=shapes.columns,
        )

    def decode(self, payload: bytes) -> Envelope | Hello | Again:
        if not isinstance(payload, bytes):
            raise InputError(f"payload is {type(payload).__name__}; expected bytes; convert it with bytes()")
        if len(payload) > self._max_bytes:
            raise PeerError(
                f"a message has {len(payload)} bytes; expected at most {self._max_bytes}; fix its sender"
            )
        message = _opened(payload, _decoder if len(payload) <= self._most_alone else _again_decoder)
        if message.fingerprint != self._fingerprint:
            raise PeerError(
                f"a message has fingerprint {message.fingerprint!r}; expected {self._fingerprint!r}; "
                "give all learners the same [model], inputs, dtype, payload and version of domkl"
            )
        return self._envelope(message) if isinstance(message, _Update) else message

    def update(self, payload: bytes) -> Envelope:
        """The update that these bytes are; another kind of message is refused."""
        message = self.decode(payload)
        if isinstance(message, Envelope):
            return message
        kind = type(message).__name__
        raise PeerError(f"a message is {kind}; expected an update; fix its sender")

    def _envelope(self, sent: _Update) -> Envelope:
        if (sent.scalars is not None) != self._has_scalars:
            found, expected = ("no ", "") if self._has_scalars else ("", "no ")
            raise PeerError(f"an update has {found}scalars; expected {expected}scalars; fix its sender")
        theta = self._array("theta", sent.theta, DTYPES[sent.dtype], self._shape, self._size)
        scalars = None
        if sent.scalars is not None:
            scalars = self._array("scalars", sent.scalars, _SCALARS, (self._scalars,), self._scalars)
        news: Any = {name: self._summary(*one) for name, one in sent.news.items()}
        edges: Any = sent.edges
        update = Update(
            sent.round, theta, scalars, sent.fingerprint, edges=edges, degree=sent.degree, news=news
        )
        return Envelope(sent.incarnation, sent.durable, sent.dtype, update)

    def _summary(self, count: int, low: memoryview, high: memoryview, shape: memoryview) -> Summary:
        c, Q = self._columns, QUANTILES
        found, expected = (low.nbytes, high.nbytes, shape.nbytes), (8 * c, 8 * c, 2 * Q * c)
        if not c or found != expected:
            raise PeerError(f"a summary has {found} bytes; expected {expected}; fix its sender")
        least, most = (np.frombuffer(part, "<f8").astype(np.float64) for part in (low, high))
        return Summary(count, least, most, np.frombuffer(shape, "<u2").astype(np.uint16).reshape(Q, c))

    def _array(
        self, name: str, data: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...], size: int
    ) -> Array:
        if data.nbytes != size * dtype.itemsize:
            raise PeerError(
                f"{name} has {data.nbytes} bytes; expected {size * dtype.itemsize}; fix its sender"
            )
        # Within the message the values begin anywhere; the copy is aligned, and the message can go.
        with np.errstate(all="ignore"):  # a signalling NaN would warn
            array: Array = np.ndarray(shape, dtype, data).astype(np.float64)
        if not _all_finite(array):
            raise PeerError(f"{name} is not finite; expected finite numbers; fix its sender")
        array.setflags(write=False)
        return array


def _summary_bytes(one: Summary) -> tuple[int, bytes, bytes, bytes]:
    low, high = (np.ascontiguousarray(part, "<f8").tobytes() for part in (one.low, one.high))
    return one.samples, low, high, np.ascontiguousarray(one.shape, "<u2").tobytes()


def _opened(payload: bytes, decoder: msgspec.msgpack.Decoder[Any] = _decoder) -> _Update | Hello | Again:
    """The message in its envelope, each of its fields right by itself."""
    checksum, body = _checksum(payload), memoryview(payload)[_HEADER.size :]
    start = _START if payload.startswith(_PREFIX) else zlib.crc32(payload[:4])
    if checksum != zlib.crc32(body, start):
        raise PeerError("the checksum of a message is wrong; expected no damage; send it again")
    try:
        message: _Update | Hello | Again = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"a message is malformed: {_shown(error)}; fix its sender") from None
    if isinstance(message, Again):
        return message
    if not all(held.is_possible for held in message.edges.values()):
        raise PeerError(
            f"a message has an edge with numbers out of range; expected at most {NUMBER_END - 1}, "
            f"and rounds of at most {ROUND_END - 1}; fix its sender"
        )
    if message.durable > message.round:
        raise PeerError(
            f"a message of round {message.round} is durable up to {message.durable}; expected no later "
            "round than its own; fix its sender"
        )
    return message


def _checksum(payload: bytes) -> int:
    """The checksum in a header, if magic and version are ours."""
    if len(payload) < _HEADER.size:
        raise PeerError(f"a message has {len(payload)} bytes; expected {_HEADER.size} or more; send it again")
    magic, major, _, checksum = _HEADER.unpack_from(payload)
    if magic != _MAGIC:
        raise PeerError(f"a message begins with {magic!r}; expected {_MAGIC!r}; let only learners send here")
    if major != VERSION[0]:
        raise OtherVersion(
            f"a message has version {major} of the format; expected {VERSION[0]}; "
            "let all learners run versions of domkl with the same"
        )
    return int(checksum)


def _shown(error: Exception) -> str:
    """One short line: the text may quote what the peer sent."""
    return ascii(str(error))[1:-1][:120]


def _dtype(dtype: str) -> np.dtype[Any]:
    if dtype not in DTYPES:
        checks.one_of("dtype", dtype, DTYPES)
    return DTYPES[dtype]


def _narrowed(name: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """`array` in the precision of the wire, C-contiguous; a learner's own numbers are known to be finite."""
    if dtype.itemsize >= array.dtype.itemsize:
        return np.ascontiguousarray(array, dtype)
    with np.errstate(over="ignore", under="ignore"):
        narrow = np.ascontiguousarray(array, dtype)
    if not np.isfinite(narrow).all():
        raise _too_large(name, array, narrow)
    return narrow


def _too_large(name: str, array: Array, narrow: Array) -> InputError:
    where = [int(i) for i in np.argwhere(~np.isfinite(narrow))[0]]
    most = np.finfo(narrow.dtype).max
    wider = "float32" if narrow.dtype == np.float16 else "float64"
    return InputError(
        f"{name}{where} is {array[tuple(where)]}; {narrow.dtype} holds at most {most:.8g}; choose {wider}"
    )


def _all_finite(array: Array) -> bool:
    # A finite sum of squares has finite terms, and takes half the time of looking at each number.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())

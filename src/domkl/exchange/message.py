"""What leaves a learner: one message a round, the same to every neighbour."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError, PeerError
from ..base.types import Array
from ..learning.model import Part
from .combine import RULES, Screen
from .edges import ROUND_END, Held

PAYLOADS = ("float64", "float32", "float16")
#: The largest parameter that is sent or accepted, by the precision of computation: squares and their sums
#: over many rounds stay finite. A model may have a smaller bound of its own (`Model.largest`).
LARGEST = {"float64": 1e100, "float32": 1e12}
#: The most neighbours that a learner may say it has.
MOST_DEGREE = 2**16


@dataclass(frozen=True)
class Exchange:
    """How messages are changed on their way out and in; the same at every learner.

    Parameters
    ----------
    payload : precision of the parameters that are sent: "float64", "float32" or "float16".
    screen : what a learner makes of its neighbours' parameters before they are combined: a function
        (own (P, K), neighbours' (n, P, K)) -> (n, P, K); None uses them as they are.
    """

    payload: str = "float64"
    screen: Screen | None = None

    def __post_init__(self) -> None:
        checks.one_of("payload", self.payload, PAYLOADS)
        if self.screen is not None and not callable(self.screen):
            raise InputError(f"screen is {self.screen!r}; expected a function or None; see docs/extend.md")

    @property
    def is_plain(self) -> bool:
        """Whether messages are used just as they are."""
        return self.payload == "float64" and self.screen is None

    def screened(self, rows: npt.NDArray[np.intp], own: Array, received: Array) -> Array:
        """What ends of edges (E,) of these rows make of the parameters that they received. (E, P, K)"""
        if self.screen is None:
            return received
        found: Array = received.copy()
        for j in np.unique(rows).tolist():
            found[rows == j] = self.screen(own[j], received[rows == j])
        return found

    def outgoing(self, theta: Array, most: float = np.inf) -> Array:
        """Parameters as the neighbours will have them, within `most` where that is given. (..., P, K)"""
        if most < np.inf:
            theta = within(theta, min(most, float(np.finfo(self.payload).max)))
        if self.payload == "float64" or np.dtype(self.payload).itemsize >= theta.itemsize:
            return theta
        with np.errstate(over="ignore"):
            sent: Array = theta.astype(self.payload).astype(theta.dtype)
        if not np.isfinite(sent).all():
            raise InputError(
                f"theta holds {np.abs(theta).max():.3g}, too large for payload {self.payload!r}; "
                "expected less than 65504; choose float32 or scale y"
            )
        return sent


def as_exchange(given: Exchange | None) -> Exchange:
    """`given` if it is an exchange; for None one that leaves messages as they are."""
    if given is not None and not isinstance(given, Exchange):
        raise InputError(f"exchange is {given!r}; expected domkl.Exchange(...); pass Exchange(payload=...)")
    return given or Exchange()


class Update(NamedTuple):
    """A message as a neighbour receives it."""

    round: int
    theta: Array  # (P, K) parameters, of all parts with the rule "pull"
    scalars: Array | None  # (n,) the other parts; None where a model has none
    fingerprint: str  # of the model's settings
    edges: Mapping[Hashable, Held] = MappingProxyType({})  # the state of the sender's edges
    degree: int = 0  # of the sender
    news: Mapping[Hashable, Any] = MappingProxyType({})  # by learner, now and then: see `learning.auto.scale`


class Shapes(NamedTuple):
    """Shapes of the arrays in an update."""

    theta: tuple[int, int]
    scalars: int  # 0 where there are none
    columns: int = 0  # of a summary in its news; 0 where there is none


@functools.lru_cache(64)
def layout_of(parts: tuple[Part, ...]) -> Layout:
    """The layout of a message with these parts; a model has the same ones in nearly every round."""
    return Layout(parts)


class Layout:
    """Where each part of a message stands: parameters in theta, the others in scalars."""

    def __init__(self, parts: Sequence[Part]) -> None:
        for part in parts:
            _check_part(part)
        self.wide = [part for part in parts if _is_wide(part)]
        self.small = [part for part in parts if not _is_wide(part)]
        self.parts = (*self.wide, *self.small)
        #: Values in theta and in scalars.
        self.sizes = sum(part.size for part in self.wide), sum(part.size for part in self.small)

    @property
    def theta(self) -> Part | None:
        """The part that edges have duals of: the first that is pulled, if any."""
        return self.wide[0] if self.wide else None

    @property
    def shape(self) -> tuple[int, int]:
        """Of theta in an update: that of the part where it is one, else (1, n)."""
        return self.wide[0].shape if len(self.wide) == 1 else (1, self.sizes[0])  # type: ignore[return-value]

    def pack(self, message: Mapping[str, Array]) -> tuple[Array, Array | None]:
        """One learner's message (1, ...) as theta and scalars (n,), copied."""
        wide, small = ([np.ravel(message[p.name]) for p in parts] for parts in (self.wide, self.small))
        theta = wide[0].copy() if len(wide) == 1 else np.concatenate([np.zeros(0), *wide])
        return theta.reshape(self.shape), np.concatenate([np.zeros(0), *small]) if small else None

    def unpack(self, theta: Array, scalars: Array | None, dtype: Any) -> dict[str, Array]:
        """Inverse of `pack`; the first part in the models' `dtype`, the others in float64."""
        found: dict[str, Array] = {}
        for parts, values in ((self.wide, theta.ravel()), (self.small, scalars)):
            at = 0
            for part in parts:
                assert values is not None
                found[part.name] = values[at : at + part.size].reshape(1, *part.shape)
                at += part.size
        if self.theta is not None:
            found[self.theta.name] = np.asarray(found[self.theta.name], dtype)
        return found


def most_parameter(dtype: Any, own: float = np.inf) -> float:
    """The largest parameter of a model that computes in `dtype` and has a bound of its `own`."""
    return min(own, LARGEST[np.dtype(dtype).name])


def within(values: Array, most: float) -> Array:
    """Values, clipped to [-most, most]; the array itself where nothing is outside."""
    return values if is_within(values, most) else np.clip(values, -most, most)


def check_within(values: Array, most: float) -> None:
    """Refuse larger values than any learner sends."""
    if not is_within(values, most):
        largest = np.abs(values).max()
        raise PeerError(f"a message holds {largest:.3g}; expected at most {most:.3g}; fix that learner")


def is_within(values: Array, most: float) -> bool:
    """Whether all values are finite and in [-most, most]."""
    # A sum of squares below most**2 has no larger terms, and takes a tenth of the time of looking at each.
    return float(np.vdot(values, values)) < most * most or bool((np.abs(values) <= most).all())


def _is_wide(part: Part) -> bool:
    return part.rule == "pull" or (part.rule == "each" and len(part.shape) == 2)


def _check_part(part: Part) -> None:
    if part.rule == "pull":
        if len(part.shape) != 2:
            raise InputError(f"part {part.name!r} is {part.shape}; expected (P, K) with 'pull'; reshape it")
    elif part.rule != "each":
        checks.one_of(f"rule of part {part.name!r}", part.rule, ("pull", "each", *RULES))


def check_update(neighbour: Hashable, update: Update, fingerprint: str, alike: str, shapes: Shapes) -> None:
    """Refuse an update that is not whole, finite and of a learner with the same settings.

    Of an update that came as bytes `agent/wire.py` has checked as much: a new field is checked at both doors.
    """
    if not isinstance(update, Update) or type(update.round) is not int or update.round < 0:
        raise PeerError(f"{neighbour!r} sent no update; expected an Update; fix that learner")
    if update.fingerprint != fingerprint:
        raise PeerError(
            f"{neighbour!r} sent fingerprint {update.fingerprint}; expected {fingerprint}; "
            f"give all learners the same {alike}"
        )
    _check_number("round", update.round, ROUND_END - 1)
    _check_number("degree", update.degree, MOST_DEGREE)
    _check_edges(neighbour, update)
    _check_array(neighbour, "theta", update.theta, shapes.theta)
    if shapes.scalars:
        _check_array(neighbour, "scalars", update.scalars, (shapes.scalars,))


def _check_number(what: str, value: int, most: int) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise PeerError(f"{what} is {checks.short(value)}; expected 0 to {most}; fix that learner")


def _check_edges(neighbour: Hashable, update: Update) -> None:
    good = isinstance(update.edges, Mapping) and isinstance(update.news, Mapping)
    if not good or not all(isinstance(one, Held) and one.is_possible for one in update.edges.values()):
        raise PeerError(
            f"{neighbour!r} sent edges or news that cannot be; expected those of an Update; fix that learner"
        )


def _check_array(neighbour: Hashable, what: str, value: Array | None, expected: tuple[int, ...]) -> None:
    good = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.shape == expected
    if not good or not np.isfinite(value).all():  # type: ignore[arg-type]
        raise PeerError(
            f"{what} of {neighbour!r} is not {expected} finite numbers; expected that; fix that learner"
        )


def digest(*values: Any) -> str:
    """Sixteen hexadecimal digits of settings and arrays."""
    made = hashlib.sha256()
    for value in values:
        made.update(value.tobytes() if isinstance(value, np.ndarray) else f"{value} ".encode())
    return made.hexdigest()[:16]

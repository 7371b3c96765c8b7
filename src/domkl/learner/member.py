"""A member of a network: rounds, edges, and messages that come early, late or twice; no socket, no clock.

`Learner` is the member that the paper describes, `auto.AutoLearner` the one with nothing to tune.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError, InputError, PeerError
from ..base.types import Array
from ..exchange.edges import Held, Neighbour
from ..learning.first_order import Step

#: How many rounds ahead of ours an update may wait; more would let a peer fill our memory.
EARLIEST = 64
PAYLOADS = ("float64", "float32", "float16")


class Update(NamedTuple):
    """All that ever leaves a learner: one message a round, the same to every neighbour."""

    round: int
    theta: Array  # (P, 2D)
    losses: Array | None  # (P,) what the Hedge rule shares; None where losses stay on the device
    fingerprint: str  # of the kernels and settings it was made with
    heard: Mapping[Hashable, Held] = MappingProxyType({})  # what the sender says of its edges
    more: Array | None = None  # (n,) statistics that an `AutoLearner` sends now and then


class Shapes(NamedTuple):
    """What a learner's updates hold."""

    theta: tuple[int, int]
    losses: int  # numbers; 0 where none are shared
    more: int = 0  # numbers at most
    dtype: np.dtype[Any] = np.dtype(np.float64)


class Member(ABC):
    """What all learners of a network have in common."""

    #: What must be the same at all of them.
    ALIKE = "kernels, rates, loss, step, hedge and payload"
    fingerprint: str
    _last: tuple[int, Hashable, float, float, Array] | None

    def __init__(
        self, neighbours: Sequence[Hashable], name: Hashable, payload: str, asynchronous: bool, number: int
    ) -> None:
        self.payload, self.asynchronous, self.name, self.round = payload, asynchronous, name, 0
        self._last = None
        self._pending: Any = None  # what the open round needs when it closes
        self._inbox: dict[int, dict[Hashable, Update]] = {}
        self._known = {neighbour: self._stranger(number) for neighbour in distinct(neighbours)}

    # What each kind of learner does its own way

    @property
    @abstractmethod
    def shapes(self) -> Shapes:
        """Of its updates."""

    @property
    @abstractmethod
    def weights(self) -> Array:
        """Of its kernels, or other experts."""

    @abstractmethod
    def predict(self, x: npt.ArrayLike) -> float:
        """The network's function, as this learner knows it, at x."""

    @abstractmethod
    def observe(self, x: npt.ArrayLike, y: float) -> Update:
        """Predict, learn from (x, y), and return the update for the neighbours."""

    @abstractmethod
    def close(self) -> None:
        """End the open round without the missing neighbours."""

    @abstractmethod
    def join(self, neighbour: Hashable, number: int = 0) -> None:
        """A new edge, with a dual of zero; `number` must be new if the edge was there before."""

    @abstractmethod
    def leave(self, neighbour: Hashable) -> None:
        """An edge less: it takes its dual along."""

    @abstractmethod
    def adopt(self, update: Update, share: float = 1.0) -> None:
        """Move the estimate a share of the way to a neighbour's."""

    @abstractmethod
    def save(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Its whole mind between two rounds, as arrays and a description fit for JSON."""

    @abstractmethod
    def load(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        """Go on from what `save` gave: with the same engine, to the last bit."""

    @abstractmethod
    def _stranger(self, number: int) -> Neighbour:
        """What is known of a new neighbour."""

    @abstractmethod
    def _take_back(self, moves: Sequence[Array]) -> None:
        """Take moves of edges' duals out of lam."""

    # Rounds

    @property
    def neighbours(self) -> tuple[Hashable, ...]:
        """Their names, in the order of sums."""
        return tuple(self._known)

    def knows(self, name: Hashable) -> bool:
        """Whether that is a neighbour."""
        return name in self._known

    @property
    def step(self) -> Step | None:
        """What happened when it last observed."""
        return None if self._last is None else Step(*self._last)

    @property
    def waiting(self) -> bool:
        """Whether the round is open: observed, but not yet heard from every neighbour."""
        return self._pending is not None

    @property
    def missing(self) -> tuple[Hashable, ...]:
        """The neighbours whose update of the open round is not in yet."""
        if not self.waiting:
            return ()
        heard = self._inbox.get(self.round, {})
        return tuple(name for name in self._known if name not in heard)

    @property
    def heard(self) -> dict[Hashable, Held]:
        """What this learner says of its edges, in every update."""
        return {} if self.name is None else {name: one.edge.held for name, one in self._known.items()}

    @property
    def gone(self) -> dict[Hashable, int]:
        """The neighbours that have gone on without us, and the rounds they are at."""
        gone: dict[Hashable, int] = {}
        for t in sorted(self._inbox):
            if t > self.round:
                gone |= {name: t for name, update in self._inbox[t].items() if self._without_us(update)}
        return gone

    @property
    def ahead(self) -> int:
        """The last round to which neighbours have gone on without us; our own where none has."""
        return max(self.gone.values(), default=self.round)

    def receive(self, neighbour: Hashable, update: Update, *, checked: bool = False) -> bool:
        """Take a neighbour's update; False if it came late, too early or twice, and was not used.

        `checked`: a decoder has already made sure that it is whole, finite and of our fingerprint.
        """
        self._refuse_stranger(neighbour)
        if not checked:
            self._check_update(neighbour, update)
        if self.asynchronous:
            return self._keep_newest(neighbour, update)
        if update.round < self.round or neighbour in self._inbox.get(update.round, {}):
            return False
        if update.round > self.round + EARLIEST:
            if not self._without_us(update):
                return False
            self._forget(neighbour)  # what it said before we shall never need
        self._inbox.setdefault(update.round, {})[neighbour] = update
        self._close_if_complete()
        return True

    def meet(self, neighbour: Hashable, held: Held, round: int) -> None:
        """Learn what a neighbour that is at `round` says of our edge without an update."""
        self._refuse_stranger(neighbour)
        self._refuse_open("close() the round")
        edge = self._known[neighbour].edge
        back = edge.settle(held, round - 1)
        self._take_back([] if back is None else [back])

    def skip_to(self, round: int) -> None:
        """Go on at a later round, with those who went on without us; no sample is skipped."""
        self._refuse_open("close() the round")
        if round < self.round:
            raise InputError(f"round {round} is over; expected {self.round} or later; skip forwards")
        self.round = round
        self._inbox = {t: box for t, box in self._inbox.items() if t >= round}

    def begin_anew(self, number: int) -> None:
        """Forget the duals of all edges, where memory and neighbours no longer agree; keep the estimate."""
        self._refuse_open("close() the round")
        edges = [one.edge for one in self._known.values()]
        backs = [edge.begin_anew(number, edge.theirs) for edge in edges]
        self._take_back([back for back in backs if back is not None])

    def _keep_newest(self, neighbour: Hashable, update: Update) -> bool:
        """An asynchronous learner needs each neighbour's last word only, and is pulled by it once."""
        box, edge = self._inbox.setdefault(0, {}), self._known[neighbour].edge
        held = update.heard.get(self.name)
        if held is not None and held.mine != edge.theirs:
            edge.begin_anew(edge.number, held.mine)  # a new life counts its rounds from the start
            box.pop(neighbour, None)
        if update.round <= (box[neighbour].round if neighbour in box else edge.seen):
            return False
        box[neighbour] = update
        return True

    def _close_if_complete(self) -> None:
        if self._pending is not None and len(self._inbox.get(self.round, ())) == len(self._known):
            self.close()

    def _agrees(self, one: Neighbour, held: Held | None) -> bool:
        """Whether an edge's dual moves with an update that says this of it; between asynchronous learners
        there are no duals, since two ends that step at different times would drive them apart."""
        if self.asynchronous or self.name is None:
            return not self.asynchronous
        return held is not None and one.edge.agrees(held)

    def _without_us(self, update: Update) -> bool:
        """Whether the neighbour ended the round before this update without ours."""
        held = update.heard.get(self.name)
        return self.name is not None and (held is None or held.seen < update.round - 1)

    def _forget(self, neighbour: Hashable) -> None:
        for box in self._inbox.values():
            box.pop(neighbour, None)

    def _as_sent(self, theta: Array) -> Array:
        """The estimate as neighbours will hold it."""
        theta.flags.writeable = False  # it leaves in an Update, and the edges' duals need it
        if np.dtype(self.payload).itemsize >= theta.itemsize:
            return theta
        with np.errstate(over="ignore"):
            sent: Array = theta.astype(self.payload).astype(theta.dtype)
        if not np.isfinite(sent).all():
            raise InputError(
                f"theta holds {np.abs(theta).max():.3g}, too large for payload {self.payload!r}; "
                "expected less than 65504; choose float32 or scale y"
            )
        sent.flags.writeable = False
        return sent

    # Memory

    def _save_edges(self) -> tuple[dict[str, npt.NDArray[Any]], list[Any]]:
        """All that is known of the neighbours: arrays, and their names and numbers in order."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        said = []
        for i, (name, one) in enumerate(self._known.items()):
            more, numbers = one.save()
            arrays |= {f"{i}.{key}": array for key, array in more.items()}
            said.append([name, numbers])
        return arrays, said

    def _load_edges(self, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        """The same again; refuses what a learner with other settings has saved."""
        if meta.get("fingerprint") != self.fingerprint:
            raise DataError(
                f"the saved learner has fingerprint {meta.get('fingerprint')}; expected {self.fingerprint}; "
                f"use the {self.ALIKE} it was saved with, or remove its directory to begin anew"
            )
        known = {}
        for i, (name, numbers) in enumerate(meta["neighbours"]):
            mine = {key.partition(".")[2]: value for key, value in arrays.items() if key.startswith(f"{i}.")}
            known[name] = Neighbour.load(mine, numbers)
        self._known, self._inbox, self._pending, self.round = known, {}, None, meta["round"]

    # Refusing

    def _refuse_open(self, remedy: str) -> None:
        if self._pending is not None:
            raise InputError(f"round {self.round} still waits for {self.missing}; {remedy}")

    def _refuse_stranger(self, neighbour: Hashable) -> None:
        if neighbour not in self._known:
            raise PeerError(
                f"{neighbour!r} is not a neighbour; expected one of {self.neighbours}; check the graph"
            )

    def _check_update(self, neighbour: Hashable, update: Update) -> None:
        if not isinstance(update, Update) or type(update.round) is not int or update.round < 0:
            raise PeerError(f"{neighbour!r} sent no update; expected an Update; mend that learner")
        if update.fingerprint != self.fingerprint:
            raise PeerError(
                f"{neighbour!r} sent fingerprint {update.fingerprint}; expected {self.fingerprint}; "
                f"give all learners the same {self.ALIKE}"
            )
        shapes = self.shapes
        _check_numbers(neighbour, "theta", update.theta, shapes.theta)
        if shapes.losses:
            _check_numbers(neighbour, "losses", update.losses, (shapes.losses,))
        if update.more is not None:
            _check_numbers(neighbour, "more", update.more, (min(np.size(update.more), shapes.more),))


def _check_numbers(neighbour: Hashable, what: str, value: Array | None, expected: tuple[int, ...]) -> None:
    good = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.shape == expected
    if not good or not np.isfinite(value).all():  # type: ignore[arg-type]
        raise PeerError(
            f"{what} of {neighbour!r} is not {expected} finite numbers; expected so; mend that learner"
        )


def distinct(neighbours: Sequence[Hashable]) -> tuple[Hashable, ...]:
    if (
        not isinstance(neighbours, Sequence)
        or isinstance(neighbours, str)
        or len(set(neighbours)) < len(neighbours)
    ):
        raise InputError(f"neighbours is {neighbours!r}; expected a list of different names; name each once")
    return tuple(neighbours)

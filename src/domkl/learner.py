"""One learner as a state machine: no socket, no clock, no chance.

    update = learner.observe(x, y)        # predict, learn, and get what the neighbours must hear
    learner.receive("b", update_from_b)   # in any order, early, late or twice
    learner.waiting, learner.missing      # whom the round still waits for
    learner.close()                       # go on without them

A round closes by itself once every neighbour's update is in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import _checks, core, kernels, losses
from . import hedge as hedging
from ._types import Array, Float
from .core import Rates, Step
from .errors import InputError, PeerError
from .losses import Loss

#: How many rounds ahead of ours an update may be; more would let a peer fill our memory.
EARLIEST = 64


class Update(NamedTuple):
    """All that ever leaves a learner: one message a round, the same to every neighbour."""

    round: int
    theta: Array  # (P, 2D)
    losses: Array | None  # (P,) what the Hedge rule shares; None where losses stay on the device
    fingerprint: str  # of the kernels and settings it was made with


class Learner:
    """One device of a network.

    Parameters
    ----------
    V : the network's frequencies (P, D, d), the same at every learner.
    neighbours : their names; sums run in this order.
    rates, loss, hedge : as in `domkl.simulate`, the same at every learner.
    name : what its `Step`s call it.

    Examples
    --------
    >>> import domkl
    >>> V = domkl.kernels.gaussian(d=1, D=10, seed=0)
    >>> rates = domkl.Rates(rho=0.1, eta=0.1, eta_g=1.0)
    >>> a, b = domkl.Learner(V, ["b"], rates), domkl.Learner(V, ["a"], rates)
    >>> for x in (0.1, 0.5, 0.9, 0.5):
    ...     from_a, from_b = a.observe([x], 2 * x), b.observe([x / 2], x)
    ...     assert a.missing == ("b",)
    ...     _ = a.receive("b", from_b), b.receive("a", from_a)
    >>> round(a.predict([0.5]), 1)
    1.0
    """

    def __init__(
        self,
        V: npt.ArrayLike,
        neighbours: Sequence[Hashable],
        rates: Rates,
        *,
        loss: str | Loss = "squared",
        hedge: str = "neighbours",
        name: Hashable = None,
        dtype: Float = np.float64,
    ) -> None:
        self.V = kernels.check(V, dtype=dtype)
        self.neighbours = _distinct(neighbours)
        self.rates, self.loss, self.hedge = rates, losses.get(loss), hedging.rule(hedge)
        self.name, self.round = name, 0
        self.fingerprint = _fingerprint(self.V, rates, self.loss, self.hedge)
        self.state = core.init(self.V)
        self.step: Step | None = None
        self._pulls = core.Pulls.of(np.asarray(len(self.neighbours), dtype), rates, self.loss)
        self._pending: tuple[Array, Array] | None = None  # theta', L' between observe and close
        self._inbox: dict[int, dict[Hashable, Update]] = {}
        nothing = Update(-1, self.state.theta, self.state.L, self.fingerprint)
        self._last: dict[Hashable, Update] = dict.fromkeys(self.neighbours, nothing)
        # Losses in transit, for hedge="messages": M_{i->j} and M_{j->i} of the last round.
        self._received = dict.fromkeys(self.neighbours, self.state.L)
        self._sent = dict.fromkeys(self.neighbours, self.state.L)
        self._seen: tuple[Array, Array] | None = None  # the last x and its features

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
        return tuple(name for name in self.neighbours if name not in heard)

    def predict(self, x: npt.ArrayLike) -> float:
        """The network's function, as this learner knows it, at x."""
        return float(core.predict(self.state, self._features(x))[1])

    def observe(self, x: npt.ArrayLike, y: float) -> Update:
        """Predict, learn from (x, y), and return the update for the neighbours.

        A label that comes late is observed when it comes: `step.y_hat` is then what the learner would
        have said at that moment, not what `predict` said when x was new.
        """
        if self.waiting:
            raise InputError(
                f"round {self.round} still waits for {self.missing}; receive() them or close() the round"
            )
        z, label = self._features(x), self._label(y)
        f, y_hat = core.predict(self.state, z)
        theta, L = core.local(self.state, z, f, label, self._pulls, self.loss)
        self.step = Step(self.round, self.name, float(label), float(y_hat), self.state.q)
        self._pending = theta, L
        update = Update(self.round, theta, self._shared(L), self.fingerprint)
        self._close_if_complete()
        return update

    def receive(self, neighbour: Hashable, update: Update) -> bool:
        """Take a neighbour's update; False if it came too late or a second time, and was not used."""
        self._check_update(neighbour, update)
        inbox = (
            self._inbox.setdefault(update.round, {}) if update.round >= self.round else {neighbour: update}
        )
        if neighbour in inbox:
            return False
        inbox[neighbour] = update
        self._close_if_complete()
        return True

    def close(self) -> None:
        """End the open round without the missing neighbours.

        Their last known estimate stands in for the missing one, and the dual moves only for edges that
        were heard. If the other end did hear us, the two duals of that edge no longer cancel.
        """
        if self._pending is None:
            raise InputError("no round is open; expected one; call observe() first")
        heard = self._inbox.pop(self.round, {})
        self._merge(*self._pending, heard)
        self._pending = None
        self.round += 1

    def _close_if_complete(self) -> None:
        if self.waiting and not self.missing:
            self.close()

    def _merge(self, theta: Array, L: Array, heard: dict[Hashable, Update]) -> None:
        total = self._total(L, heard)
        self._last.update(heard)
        theta_sum = self._sum([self._last[i].theta for i in self.neighbours])
        present = self._sum([heard[i].theta for i in self.neighbours if i in heard])
        n = np.asarray(len(heard), theta.dtype)
        self.state = core.merge(self.state, theta, L, theta_sum, total, self._pulls, self.rates, (n, present))

    def _shared(self, L: Array) -> Array | None:
        """What the neighbours hear about our losses."""
        if self.hedge == "local":
            return None
        return L if self.hedge == "neighbours" else self._belief(L)

    def _belief(self, L: Array) -> Array:
        return L + self._sum([self._received[i] for i in self.neighbours], L)

    def _total(self, L: Array, heard: dict[Hashable, Update]) -> Array:
        """The losses that enter Hedge's exponent, (P,)."""
        if self.hedge == "local":
            return L
        if self.hedge == "neighbours":
            latest = {**self._last, **heard}
            return L + self._sum([_losses(latest[i]) for i in self.neighbours], L)
        belief = self._belief(L)
        for i, update in heard.items():
            self._received[i], self._sent[i] = _losses(update) - self._sent[i], belief - self._received[i]
        return belief

    def _sum(self, values: list[Array], like: Array | None = None) -> Array:
        total = np.zeros_like(self.state.theta if like is None else like)
        for value in values:
            total += value
        return total

    def _features(self, x: npt.ArrayLike) -> Array:
        array = _checks.floats("x", x, self.V.dtype)
        _checks.shape(
            "x", array, self.V.shape[2:], "every sample needs the features the kernels were made for"
        )
        if self._seen is None or not np.array_equal(self._seen[0], array):
            self._seen = array.copy(), core.features(self.V, _checks.finite("x", array))
        return self._seen[1]

    def _label(self, y: float) -> Array:
        label = _checks.floats("y", y, self.V.dtype)
        _checks.shape("y", label, (), "give one label at a time")
        return losses.labels(self.loss, _checks.finite("y", label))

    def _check_update(self, neighbour: Hashable, update: Update) -> None:
        if neighbour not in self._last:
            raise PeerError(
                f"{neighbour!r} is not a neighbour; expected one of {self.neighbours}; check the graph"
            )
        if update.fingerprint != self.fingerprint:
            raise PeerError(
                f"{neighbour!r} sent fingerprint {update.fingerprint}; expected {self.fingerprint}; "
                "give all learners the same kernels, rates, loss and hedge"
            )
        if not 0 <= update.round <= self.round + EARLIEST:
            raise PeerError(
                f"{neighbour!r} is at round {update.round}; expected at most {self.round + EARLIEST}; "
                "restart it from a snapshot"
            )
        self._check_numbers(neighbour, "theta", update.theta, self.state.theta.shape)
        if self.hedge != "local":
            self._check_numbers(neighbour, "losses", update.losses, self.state.L.shape)

    @staticmethod
    def _check_numbers(
        neighbour: Hashable, what: str, value: Array | None, expected: tuple[int, ...]
    ) -> None:
        if value is None or np.shape(value) != expected or not np.isfinite(value).all():
            raise PeerError(
                f"{what} of {neighbour!r} is not {expected} finite numbers; expected so; mend that learner"
            )


def _losses(update: Update) -> Array:
    assert update.losses is not None  # receive() has checked it
    return update.losses


def _distinct(neighbours: Sequence[Hashable]) -> tuple[Hashable, ...]:
    if isinstance(neighbours, str) or len(set(neighbours)) != len(neighbours):
        raise InputError(f"neighbours is {neighbours!r}; expected a list of different names; name each once")
    return tuple(neighbours)


def _fingerprint(V: Array, rates: Rates, loss: Loss, hedge: str) -> str:
    """Of everything that learners must share for consensus to have a meaning."""
    text = f"{kernels.fingerprint(V)} {V.dtype} {rates} {loss.name} {loss.reg!r} {loss.delta!r} {hedge}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]

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

from . import _checks, engines, kernels, losses
from . import hedge as hedging
from ._types import Array, Float
from .core import Rates, State, Step, check_rates
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
    engine : as in `domkl.simulate`; with the same engine, the bits are the simulator's.

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
        engine: str = "auto",
        dtype: Float = np.float64,
    ) -> None:
        self.V = kernels.check(V, dtype=dtype)
        self.neighbours = _distinct(neighbours)
        self.rates, self.loss, self.hedge = check_rates(rates), losses.get(loss), hedging.rule(hedge)
        self.name, self.round = name, 0
        self.fingerprint = _fingerprint(self.V, rates, self.loss, self.hedge)
        self._last: tuple[int, Hashable, float, float, Array] | None = None
        deg = len(self.neighbours)
        self._device = engines.make_device(engine, self.V, deg, rates, self.loss, self.hedge)
        self._observe = self._device.observe if deg else self._device.alone
        # The native device checks samples itself, and quicker; what it refuses is looked at here.
        self._quick = engines.chosen(engine) == "native" and not self.loss.classifies
        self._pending: Array | None = None  # L' between observe and close
        self._inbox: dict[int, dict[Hashable, Update]] = {}
        zero = np.zeros(len(self.V), self.V.dtype)
        self._losses: dict[Hashable, Array] = dict.fromkeys(self.neighbours, zero)  # last heard
        # Losses in transit, for hedge="messages": M_{i->j} and M_{j->i} of the last round.
        self._received = dict.fromkeys(self.neighbours, zero)
        self._sent = dict.fromkeys(self.neighbours, zero)

    @property
    def state(self) -> State:
        """Everything the learner knows between two rounds."""
        return self._device.state

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
        return tuple(name for name in self.neighbours if name not in heard)

    def predict(self, x: npt.ArrayLike) -> float:
        """The network's function, as this learner knows it, at x."""
        if self._quick:
            try:
                return self._device.predict(x)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                pass
        return self._device.predict(self._sample(x))

    def observe(self, x: npt.ArrayLike, y: float) -> Update:
        """Predict, learn from (x, y), and return the update for the neighbours.

        A label that comes late is observed when it comes: `step.y_hat` is then what the learner would
        have said at that moment, not what `predict` said when x was new.
        """
        if self._pending is not None:
            raise InputError(
                f"round {self.round} still waits for {self.missing}; receive() them or close() the round"
            )
        q, t = self._device.q, self.round
        y_hat, theta, L = self._learn(x, y)
        self._last = t, self.name, y, y_hat, q
        if not self.neighbours:
            self.round = t + 1
            return Update(t, theta, L if self.hedge != "local" else None, self.fingerprint)
        update = Update(t, theta, self._shared(L), self.fingerprint)
        self._pending = L
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
        were heard. If the other end did hear us, the two duals of that edge no longer cancel, and with
        hedge="messages" the losses that only one end heard stay miscounted.
        """
        if self._pending is None:
            raise InputError("no round is open; expected one; call observe() first")
        heard = self._inbox.pop(self.round, {})
        total = self._total(self._pending, heard)
        thetas = {i: heard[name].theta for i, name in enumerate(self.neighbours) if name in heard}
        self._device.close(thetas, total)
        self._pending = None
        self.round += 1

    def _close_if_complete(self) -> None:
        if self.waiting and not self.missing:
            self.close()

    def _learn(self, x: npt.ArrayLike, y: float) -> tuple[float, Array, Array]:
        if self._quick:
            try:
                return self._observe(x, y)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                pass
        sample, label = self._sample(x), self._label(y)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._observe(sample, label)
        except ValueError:
            raise InputError(
                "learning this sample would overflow; expected x and y of moderate size; "
                "scale them, for example to [0, 1]"
            ) from None

    def _shared(self, L: Array) -> Array | None:
        """What the neighbours hear about our losses."""
        if self.hedge == "local":
            return None
        return L if self.hedge == "neighbours" else self._belief(L)

    def _belief(self, L: Array) -> Array:
        return L + self._sum(self._received)

    def _total(self, L: Array, heard: dict[Hashable, Update]) -> Array:
        """The losses that enter Hedge's exponent, (P,)."""
        if self.hedge == "local":
            return L
        if self.hedge == "neighbours":
            self._losses.update({name: _losses(update) for name, update in heard.items()})
            return L + self._sum(self._losses)
        belief = self._belief(L)
        for i, update in heard.items():
            self._received[i], self._sent[i] = _losses(update) - self._sent[i], belief - self._received[i]
        return belief

    def _sum(self, values: dict[Hashable, Array]) -> Array:
        total = np.zeros(len(self.V), self.V.dtype)
        for name in self.neighbours:
            total = total + values[name]
        return total

    def _sample(self, x: npt.ArrayLike) -> Array:
        array = _checks.floats("x", x, self._device.takes)
        remedy = "every sample needs the features the kernels were made for"
        _checks.shape("x", array, self.V.shape[2:], remedy)
        return _checks.finite("x", np.ascontiguousarray(array))

    def _label(self, y: float) -> float:
        label = _checks.floats("y", y, self.V.dtype)
        _checks.shape("y", label, (), "give one label at a time")
        return float(losses.labels(self.loss, _checks.finite("y", label)))

    def _check_update(self, neighbour: Hashable, update: Update) -> None:
        if neighbour not in self._losses:
            raise PeerError(
                f"{neighbour!r} is not a neighbour; expected one of {self.neighbours}; check the graph"
            )
        if not isinstance(update, Update) or type(update.round) is not int:
            raise PeerError(f"{neighbour!r} sent no update; expected an Update; mend that learner")
        if update.fingerprint != self.fingerprint:
            raise PeerError(
                f"{neighbour!r} sent fingerprint {update.fingerprint}; expected {self.fingerprint}; "
                "give all learners the same kernels, rates, loss and hedge"
            )
        if not 0 <= update.round <= self.round + EARLIEST:
            raise PeerError(
                f"{neighbour!r} is at round {update.round}; expected at most {self.round + EARLIEST}; "
                "check that learner's rounds"
            )
        P, D, _ = self.V.shape
        self._check_numbers(neighbour, "theta", update.theta, (P, 2 * D))
        if self.hedge != "local":
            self._check_numbers(neighbour, "losses", update.losses, (P,))

    @staticmethod
    def _check_numbers(
        neighbour: Hashable, what: str, value: Array | None, expected: tuple[int, ...]
    ) -> None:
        good = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.shape == expected
        if not good or not np.isfinite(value).all():  # type: ignore[arg-type]
            raise PeerError(
                f"{what} of {neighbour!r} is not {expected} finite numbers; expected so; mend that learner"
            )


def _losses(update: Update) -> Array:
    assert update.losses is not None  # receive() has checked it
    return update.losses


def _distinct(neighbours: Sequence[Hashable]) -> tuple[Hashable, ...]:
    if (
        not isinstance(neighbours, Sequence)
        or isinstance(neighbours, str)
        or len(set(neighbours)) < len(neighbours)
    ):
        raise InputError(f"neighbours is {neighbours!r}; expected a list of different names; name each once")
    return tuple(neighbours)


def _fingerprint(V: Array, rates: Rates, loss: Loss, hedge: str) -> str:
    """Of everything that learners must share for consensus to have a meaning."""
    text = f"{kernels.fingerprint(V)} {V.dtype} {rates} {loss.name} {loss.reg!r} {loss.delta!r} {hedge}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]

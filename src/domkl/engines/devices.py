"""What computes one learner's steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..learning import first_order, second_order
from ..learning.first_order import Rates, State
from ..learning.losses import Loss


class Past(NamedTuple):
    """What a second-order device keeps besides; the inverse is the one that it goes on with, not a copy."""

    m: Array  # (P, 2D)
    inverse: second_order.Inverse
    samples: int  # learnt so far
    deg: int  # the neighbours that the inverse counts

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it, copied; of the matrix, which is symmetric to the last bit, one half."""
        half, terms = self.inverse.halves()
        counts = np.array([self.samples, self.deg], np.int64)
        return {"m": self.m, "inverse": half, "terms": terms, "counts": counts}

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Past:
        """The same again."""
        inverse = second_order.Inverse.of_halves(arrays["inverse"], arrays["terms"])
        samples, deg = arrays["counts"].tolist()
        return cls(arrays["m"], inverse, samples, deg)

    def at(self, deg: int, rates: Rates, loss: Loss) -> second_order.Inverse:
        """The inverse of a learner that has `deg` neighbours now."""
        if deg == self.deg:
            return self.inverse
        c = rates.eta + rates.rho * self.deg + 2 * loss.reg
        return second_order.shift(self.inverse, c, rates.rho * (deg - self.deg))


class Kept(NamedTuple):
    """A device between two rounds, to the last bit."""

    theta: Array  # (P, 2D)
    lam: Array  # (P, 2D) in the device's unit
    L: Array  # (P,)
    q: Array  # (P,)
    past: Past | None = None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it by name."""
        more = {} if self.past is None else self.past.arrays()
        return {"theta": self.theta, "lam": self.lam, "L": self.L, "q": self.q, **more}

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Kept:
        """The same again."""
        past = Past.of(arrays) if "m" in arrays else None
        return cls(arrays["theta"], arrays["lam"], arrays["L"], arrays["q"], past)


class Device(Protocol):
    """One learner between two steps. Neighbours go by their number in the learner's list."""

    takes: np.dtype[Any]  # what its samples must be
    unit: float  # what it keeps of the duals, times this, is lam

    @property
    def q(self) -> Array:
        """Kernel weights. (P,)"""

    @property
    def state(self) -> State:
        """Everything it knows."""

    def predict(self, x: Array, /) -> float:
        """y_hat at x."""

    def observe(self, x: Array, y: float) -> tuple[float, Array, Array]:
        """Learn a sample: y_hat as it was before, theta' (P, 2D) and L' (P,).

        Raises ValueError, and has learnt nothing, where the losses overflow.
        """

    def alone(self, x: Array, y: float) -> tuple[float, Array, Array]:
        """The same for a learner without neighbours, whose round ends at once."""

    def close(self, thetas: list[Array], moving: Collection[int], total: Array) -> None:
        """End the round with every neighbour's theta', in order, and Hedge's losses (P,).

        `moving`: the neighbours whose edges' duals move.
        """

    def keep(self) -> Kept:
        """What `resume` needs to go on with the same bits; only between two rounds."""

    def resume(self, kept: Kept, thetas: Sequence[Array]) -> None:
        """Go on from there, with the last known theta of every neighbour."""


class ArrayDevice:
    """The steps of first_order.py on one learner: its numbers are those of an `ArrayEngine`, to the last bit."""

    def __init__(self, V: Array, deg: int, rates: Rates, loss: Loss) -> None:
        self.V, self.rates, self.loss = V, rates, loss
        self.takes, self.unit = V.dtype, 1.0
        self.now = first_order.init(V)
        self.pulls = first_order.Pulls.of(np.asarray(deg, V.dtype), rates, loss)
        self.last = [self.now.theta] * deg  # what was last heard of each neighbour
        self.seen: tuple[Array, Array] | None = None  # the last x and its features
        self.learnt: tuple[Array, ...] | None = None  # theta', L' of the open round

    @property
    def q(self) -> Array:
        return self.now.q

    @property
    def state(self) -> State:
        return State(*self.now[:5])

    def predict(self, x: Array, /) -> float:
        return float(first_order.predict(self.now, self._features(x))[1])

    def observe(self, x: Array, y: float) -> tuple[float, Array, Array]:
        z, label = self._features(x), np.asarray(y, self.V.dtype)
        f, y_hat = first_order.predict(self.now, z)
        theta, L, *more = self._local(z, f, label)
        if not np.isfinite(L).all():
            raise ValueError("the losses overflowed")
        theta.flags.writeable = L.flags.writeable = False  # they leave in an Update and stay our state
        self.learnt = theta, L, *more
        return float(y_hat), theta, L

    def alone(self, x: Array, y: float) -> tuple[float, Array, Array]:
        y_hat, theta, L = self.observe(x, y)
        self.close([], (), L)
        return y_hat, theta, L

    def close(self, thetas: list[Array], moving: Collection[int], total: Array) -> None:
        assert self.learnt is not None
        self.last = thetas
        present = self._sum([theta for i, theta in enumerate(self.last) if i in moving])
        self._merge(self.learnt, np.asarray(len(moving), self.V.dtype), present, total)

    def keep(self) -> Kept:
        theta, lam, _, L, q = self.state
        return Kept(theta, lam, L, q)

    def resume(self, kept: Kept, thetas: Sequence[Array]) -> None:
        self.last = list(thetas)
        self.now = State(kept.theta, kept.lam, self._sum(self.last), kept.L, kept.q)

    def _local(self, z: Array, f: Array, y: Array) -> tuple[Array, ...]:
        return first_order.local(self.now, z, f, y, self.pulls, self.loss)

    def _merge(self, learnt: tuple[Array, ...], count: Array, present: Array, total: Array) -> None:
        theta, L = learnt
        everyone = self._sum(self.last)
        self.now = first_order.merge(
            self.now, theta, L, everyone, total, self.pulls, self.rates, (count, present)
        )

    def _sum(self, thetas: list[Array]) -> Array:
        total = np.zeros_like(self.now.theta)
        for theta in thetas:
            total += theta
        return total

    def _features(self, x: Array) -> Array:
        if self.seen is None or not np.array_equal(self.seen[0], x):
            self.seen = x.copy(), first_order.features(self.V, x)
        return self.seen[1]


class Deferred(second_order.Inverse):
    """An inverse that is lowered when its round closes: until then the sample may still be refused."""

    def __init__(self, inverse: second_order.Inverse) -> None:
        self.base, self.waiting, self.used = inverse.base, inverse.waiting, inverse.used
        self.u: Array | None = None

    def lower(self, u: Array) -> None:
        self.u = u

    def close(self) -> None:
        """Lower it."""
        assert self.u is not None
        super().lower(self.u)


class NewtonDevice(ArrayDevice):
    """The steps of second_order.py on one learner: its numbers are those of a `NewtonEngine`, to the last bit.

    `memory` is the number of past samples that count; None for all of them.
    """

    now: second_order.State  # type: ignore[assignment]
    pulls: second_order.Pulls  # type: ignore[assignment]

    def __init__(self, V: Array, deg: int, rates: Rates, loss: Loss, memory: float | None = None) -> None:
        super().__init__(V, deg, rates, loss)
        P, D, _ = V.shape
        of_one = second_order.Pulls.of(np.full(1, deg, V.dtype), rates, loss)  # in the engine's own precision
        self.pulls = second_order.Pulls(of_one.deg[0], of_one.c[0], of_one.neighbours)
        self.deg, self.memory, self.samples = deg, memory, 0
        self._go_on(second_order.init(P, 2 * D, self.pulls))

    def keep(self) -> Kept:
        return super().keep()._replace(past=Past(self.now.m, self.now.inverse, self.samples, self.deg))

    def resume(self, kept: Kept, thetas: Sequence[Array]) -> None:
        assert kept.past is not None
        m, self.samples = kept.past.m, kept.past.samples
        inverse = kept.past.at(self.deg, self.rates, self.loss)
        self.last = list(thetas)
        self._go_on(
            second_order.State(kept.theta, kept.lam, self._sum(self.last), kept.L, kept.q, m, inverse)
        )

    def _go_on(self, state: second_order.State) -> None:
        self.now = state._replace(inverse=Deferred(state.inverse))

    def _local(self, z: Array, f: Array, y: Array) -> tuple[Array, ...]:
        learnt = second_order.local(self.now, z, f, y, self.pulls, self.loss)
        if not np.isfinite(learnt[0]).all():
            raise ValueError("the estimate overflowed")
        return learnt

    def _merge(self, learnt: tuple[Array, ...], count: Array, present: Array, total: Array) -> None:
        theta, L, m = learnt
        moves = self.pulls._replace(deg=count)
        state = second_order.merge(self.now, (theta, L, m), present, total, moves, self.rates.eta_g)
        self.now = state._replace(theta_sum=self._sum(self.last))
        self.now.inverse.close()  # type: ignore[attr-defined]
        self.samples += 1
        faded = second_order.fade(self.now, self.samples, self.memory, self.pulls)
        if faded is not self.now:
            self._go_on(faded)

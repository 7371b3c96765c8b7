"""What computes one learner's steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..exchange.links import sum_in_order
from ..learning import first_order, second_order
from ..learning.auto.guard import Guard
from ..learning.first_order import Rates, State
from ..learning.losses import Loss
from ..learning.paper import PaperPrediction, PaperRows


class Past(NamedTuple):
    """What a second-order device also keeps; the inverse is the one that it goes on with, not a copy."""

    m: Array  # (P, 2D)
    inverse: second_order.Inverse
    samples: int  # learnt so far
    deg: int  # the neighbours that the inverse counts
    guard: dict[str, Array] | None = None  # of `learning.auto.guard`, where labels are bounded

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it, copied; of the matrix, which is symmetric to the last bit, one half."""
        half, terms = self.inverse.halves()
        counts = np.array([self.samples, self.deg], np.int64)
        return {"m": self.m, "inverse": half, "terms": terms, "counts": counts, **(self.guard or {})}

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Past:
        """Inverse of `arrays`."""
        inverse = second_order.Inverse.of_halves(arrays["inverse"], arrays["terms"])
        samples, deg = arrays["counts"].tolist()
        names = [field.name for field in Guard.FIELDS]
        guard = {name: arrays[name] for name in names} if "errors" in arrays else None
        return cls(arrays["m"], inverse, samples, deg, guard)

    def at(self, deg: int, rates: Rates, loss: Loss) -> second_order.Inverse:
        """The inverse of a learner that has `deg` neighbours now."""
        if deg == self.deg:
            return self.inverse
        c = rates.eta + rates.rho * self.deg + 2 * loss.reg
        return second_order.shift(self.inverse, c, rates.rho * (deg - self.deg))


class DeviceState(NamedTuple):
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
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> DeviceState:
        """Inverse of `arrays`."""
        past = Past.of(arrays) if "m" in arrays else None
        return cls(arrays["theta"], arrays["lam"], arrays["L"], arrays["q"], past)


class NumpyDevice:
    """One learner between two steps, a row of `PaperRows`, with the bits of a `NumpyEngine`.

    Neighbours go by their number in the learner's list.
    """

    def __init__(
        self,
        V: Array,
        deg: int,
        rates: Rates,
        loss: Loss,
        step: str,
        memory: float | None,
        bounds_labels: bool = False,
    ) -> None:
        self.V, self.deg, self.rates, self.loss = V, deg, rates, loss
        self.takes = V.dtype  # what its samples must be
        self.unit = 1.0  # what it keeps of the duals, times this, is lam
        self.rows = PaperRows(V, np.array([deg]), rates, loss, step, memory, bounds_labels)
        self.last = [self.rows.now.theta[0]] * deg  # what was last received of each neighbour
        self._prediction: PaperPrediction | None = None

    @property
    def q(self) -> Array:
        """Kernel weights. (P,)"""
        q: Array = self.rows.now.q[0]
        return q

    @property
    def state(self) -> State:
        """State between two rounds."""
        return State(*(value[0] for value in self.rows.now[:5]))

    def predict(self, x: Array, /) -> float:
        """y_hat at x."""
        return float(self._predict(x).y_hat[0])

    def _predict(self, x: Array) -> PaperPrediction:
        """The prediction for x; its features are not computed again for the x that was last asked about."""
        last = self._prediction
        if last is None or not np.array_equal(last.x[0], x):
            last = self.rows.predict(x[None].copy())
        else:
            f, y_hat = first_order.predict(self.rows.now, last.z)
            last = last._replace(f=f, y_hat=y_hat)
        self._prediction = last
        return last

    def observe(self, x: Array, y: float) -> tuple[float, Array, Array]:
        """Learn a sample: y_hat as it was before, theta' (P, 2D) and L' (P,).

        Raises ValueError, and has learnt nothing, where the losses overflow.
        """
        prediction = self._predict(x)
        theta, L = (values[0] for values in self.rows.learn(prediction, np.array([y], self.V.dtype)))
        if not np.isfinite(L).all() or (self.rows.is_second and not np.isfinite(theta).all()):
            raise ValueError("the losses or the estimate overflowed")
        theta.flags.writeable = L.flags.writeable = False  # they leave in an Update and stay our state
        return float(prediction.y_hat[0]), theta, L

    def alone(self, x: Array, y: float) -> tuple[float, Array, Array]:
        """The same for a learner without neighbours, whose round ends at once."""
        y_hat, theta, L = self.observe(x, y)
        self.close([], (), L)
        return y_hat, theta, L

    def close(self, thetas: list[Array], moving: Collection[int], total: Array) -> None:
        """End the round with every neighbour's theta', in order, and Hedge's losses (P,).

        `moving`: the neighbours whose edges' duals move.
        """
        self.last = thetas
        moved = self._sum([theta for i, theta in enumerate(thetas) if i in moving])
        moves = np.array([len(moving)], self.V.dtype), moved[None]
        self.rows.merge(self._sum(thetas)[None], total[None], moves)

    def keep(self) -> DeviceState:
        """What `resume` needs to go on with the same bits; only between two rounds."""
        theta, lam, _, L, q = self.state
        now, past = self.rows.now, None
        if isinstance(now, second_order.SecondOrderState):
            guard = None if self.rows.guard is None else self.rows.guard.state()
            past = Past(now.m[0], _one_row(now.inverse), self.rows.samples, self.deg, guard)
        return DeviceState(theta, lam, L, q, past)

    def resume(self, state: DeviceState, thetas: Sequence[Array]) -> None:
        """Go on from there, with the last known theta of every neighbour."""
        self.last = list(thetas)
        near = self._sum(self.last)
        first = State(*(value[None] for value in (state.theta, state.lam, near, state.L, state.q)))
        if state.past is None:
            self.rows.resume(first)
            return
        inverse = state.past.at(self.deg, self.rates, self.loss)
        self.rows.samples = state.past.samples
        if self.rows.guard is not None and state.past.guard is not None:
            self.rows.guard.restore(state.past.guard)
        many = second_order.Inverse.of_halves(*(half[None] for half in inverse.halves()))
        self.rows.resume(second_order.SecondOrderState(*first, m=state.past.m[None], inverse=many))

    def _sum(self, thetas: list[Array]) -> Array:
        return sum_in_order(np.asarray(thetas)) if thetas else np.zeros_like(self.rows.now.theta[0])


def _one_row(inverse: second_order.Inverse) -> second_order.Inverse:
    return second_order.Inverse.of_halves(*(half[0] for half in inverse.halves()))

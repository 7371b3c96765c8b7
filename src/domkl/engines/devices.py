"""What computes one learner's steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from .. import core
from .._types import Array
from ..core import Rates, State
from ..losses import Loss


class Kept(NamedTuple):
    """A device between two rounds, to the last bit."""

    theta: Array  # (P, 2D)
    lam: Array  # (P, 2D) in the device's unit
    L: Array  # (P,)
    q: Array  # (P,)


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
    """The steps of core.py on one learner: its numbers are those of an `ArrayEngine`, to the last bit."""

    def __init__(self, V: Array, deg: int, rates: Rates, loss: Loss) -> None:
        self.V, self.rates, self.loss = V, rates, loss
        self.takes, self.unit = V.dtype, 1.0
        self.state = core.init(V)
        self.pulls = core.Pulls.of(np.asarray(deg, V.dtype), rates, loss)
        self.last = [self.state.theta] * deg  # what was last heard of each neighbour
        self.seen: tuple[Array, Array] | None = None  # the last x and its features
        self.learnt: tuple[Array, Array] | None = None  # theta', L' of the open round

    @property
    def q(self) -> Array:
        return self.state.q

    def predict(self, x: Array, /) -> float:
        return float(core.predict(self.state, self._features(x))[1])

    def observe(self, x: Array, y: float) -> tuple[float, Array, Array]:
        z, label = self._features(x), np.asarray(y, self.V.dtype)
        f, y_hat = core.predict(self.state, z)
        theta, L = core.local(self.state, z, f, label, self.pulls, self.loss)
        if not np.isfinite(L).all():
            raise ValueError("the losses overflowed")
        theta.flags.writeable = L.flags.writeable = False  # they leave in an Update and stay our state
        self.learnt = theta, L
        return float(y_hat), theta, L

    def alone(self, x: Array, y: float) -> tuple[float, Array, Array]:
        y_hat, theta, L = self.observe(x, y)
        self.close([], (), L)
        return y_hat, theta, L

    def close(self, thetas: list[Array], moving: Collection[int], total: Array) -> None:
        assert self.learnt is not None
        self.last = thetas
        present = self._sum([theta for i, theta in enumerate(self.last) if i in moving])
        count = np.asarray(len(moving), self.V.dtype)
        everyone = self._sum(self.last)
        self.state = core.merge(
            self.state, *self.learnt, everyone, total, self.pulls, self.rates, (count, present)
        )

    def keep(self) -> Kept:
        theta, lam, _, L, q = self.state
        return Kept(theta, lam, L, q)

    def resume(self, kept: Kept, thetas: Sequence[Array]) -> None:
        self.last = list(thetas)
        self.state = State(kept.theta, kept.lam, self._sum(self.last), kept.L, kept.q)

    def _sum(self, thetas: list[Array]) -> Array:
        total = np.zeros_like(self.state.theta)
        for theta in thetas:
            total += theta
        return total

    def _features(self, x: Array) -> Array:
        if self.seen is None or not np.array_equal(self.seen[0], x):
            self.seen = x.copy(), core.features(self.V, x)
        return self.seen[1]

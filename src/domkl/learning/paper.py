"""J rows of the paper's learner: an online ADMM for each kernel, by either local step, and Hedge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..base.types import Array
from . import first_order, second_order
from .auto.guard import Guard
from .first_order import Rates
from .losses import Loss


class Algorithm(NamedTuple):
    """How learners of `domkl.Paper` step, whatever computes them."""

    rates: Rates
    loss: Loss
    hedge: str = "neighbours"
    step: str = "first"
    memory: float | None = None  # with step="newton": about how many past samples count
    bounds_labels: bool = False  # with step="newton": whether labels that cannot be believed are bounded

    @property
    def is_second(self) -> bool:
        """Whether the step is of second order."""
        return self.step == "newton"


class PaperPrediction(NamedTuple):
    """A sample before its label is known."""

    x: Array  # (J, d)
    z: Array  # (J, P, 2D) features
    f: Array  # (J, P) each kernel's prediction
    y_hat: Array  # (J,)


class DeferredInverse(second_order.Inverse):
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


class PaperRows:
    """J learners, each with P kernels of 2D parameters; the first- or the second-order step.

    Parameters
    ----------
    V : frequencies (P, D, d); its dtype is computed in.
    deg : number of neighbours of each learner (J,).
    """

    def __init__(self, V: Array, deg: Array, how: Algorithm) -> None:
        self.guard = Guard(len(deg), 1) if how.bounds_labels else None
        self.V, self.rates, self.loss, self.is_second = V, how.rates, how.loss, how.is_second
        self.memory, self.samples = None if how.memory is None else 1 + how.memory, 0
        deg = deg.astype(V.dtype)
        self.pulls = first_order.Pulls.of(deg, how.rates, how.loss)
        self.second_pulls = second_order.SecondOrderPulls.of(deg, how.rates, how.loss)
        self.now: first_order.State | second_order.SecondOrderState
        if self.is_second:
            self.resume(second_order.init(len(V), 2 * V.shape[1], self.second_pulls))
        else:
            self.now = first_order.init(V, deg.shape)
        self.learnt: tuple[Array, ...] | None = None  # theta', L' (and m') of the open round

    def resume(self, state: first_order.State | second_order.SecondOrderState) -> None:
        """Go on from a state."""
        if isinstance(state, second_order.SecondOrderState):
            state = state._replace(inverse=DeferredInverse(state.inverse))
        self.now = state

    def predict(self, x: Array) -> PaperPrediction:
        """Predict samples (J, d)."""
        z = first_order.features(self.V, x)
        return PaperPrediction(x, z, *first_order.predict(self.now, z))

    def learn(self, prediction: PaperPrediction, y: Array) -> tuple[Array, Array]:
        """The local step with labels (J,): theta' (J, P, 2D) and cumulative losses L' (J, P)."""
        z, f = prediction.z, prediction.f
        if self.guard is not None and self.samples:
            bounded = self.guard.bound(y[:, None].astype(np.float64), prediction.y_hat[:, None])
            y = bounded[:, 0].astype(y.dtype)
        if isinstance(self.now, second_order.SecondOrderState):
            self.learnt = second_order.local(self.now, z, f, y, self.second_pulls, self.loss)
        else:
            self.learnt = first_order.local(self.now, z, f, y, self.pulls, self.loss)
        return self.learnt[0], self.learnt[1]

    def merge(self, near: Array, total: Array, moves: tuple[Array, Array] | None = None) -> None:
        """End the round with the sum of the neighbours' theta (J, P, 2D) and Hedge's losses (J, P).

        `moves`, where not all edges' duals move: their number (J,), and the sum over them.
        """
        assert self.learnt is not None
        learnt, self.learnt = self.learnt, None
        if isinstance(self.now, second_order.SecondOrderState):
            self._merge_second(learnt, near, total, moves)
        else:
            theta, L = learnt
            self.now = first_order.merge(self.now, theta, L, near, total, self.pulls, self.rates, moves)

    def _merge_second(
        self, learnt: tuple[Array, ...], near: Array, total: Array, moves: tuple[Array, Array] | None
    ) -> None:
        assert isinstance(self.now, second_order.SecondOrderState)
        theta, L, m = learnt
        count, moved = (self.second_pulls.deg, near) if moves is None else moves
        pulls = self.second_pulls._replace(deg=count)
        state = second_order.merge(self.now, (theta, L, m), moved, total, pulls, self.rates.eta_g)
        assert isinstance(self.now.inverse, DeferredInverse)
        self.now.inverse.close()
        self.samples += 1
        self.now = state._replace(theta_sum=near)
        faded = second_order.fade(self.now, self.samples, self.memory, self.second_pulls)
        if faded is not self.now:
            self.resume(faded)

    def take_back(self, moves: Array) -> None:
        """Take moves of edges' duals out of lam. (J, P, 2D)"""
        self.now = self.now._replace(lam=self.now.lam - moves * (self.rates.rho / 2))

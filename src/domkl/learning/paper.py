"""J rows of the paper's learner: an online ADMM for each kernel, by either local step, and Hedge."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base.types import Array
from . import first_order, second_order
from .first_order import Rates
from .losses import Loss


class Algorithm(NamedTuple):
    """How learners of `domkl.Paper` step, whatever computes them."""

    rates: Rates
    loss: Loss
    hedge: str = "neighbours"
    step: str = "first"

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


class PaperRows:
    """J learners, each with P kernels of 2D parameters, by the first-order step.

    Parameters
    ----------
    V : frequencies (P, D, d); its dtype is computed in.
    deg : number of neighbours of each learner (J,).
    """

    now: Any  # the state: a tuple that begins with theta, lam, theta_sum, L and q

    def __init__(self, V: Array, deg: Array, how: Algorithm) -> None:
        self.V, self.how, self.rates = V, how, how.rates
        self.learnt: Any = None  # of the open round: a tuple that begins with theta' and L'
        self.begin(deg.astype(V.dtype))

    @classmethod
    def of(cls, V: Array, deg: Array, how: Algorithm) -> PaperRows:
        """Rows by the step that is asked for."""
        return (SecondOrderRows if how.is_second else cls)(V, deg, how)

    def begin(self, deg: Array) -> None:
        """The state before the first round."""
        self.pulls: Any = first_order.Pulls.of(deg, self.rates, self.how.loss)
        self.now = first_order.init(self.V, deg.shape)

    def predict(self, x: Array) -> PaperPrediction:
        """Predict samples (J, d)."""
        z = first_order.features(self.V, x)
        return PaperPrediction(x, z, *first_order.predict(self.now, z))

    def learn(self, prediction: PaperPrediction, y: Array) -> tuple[Array, Array]:
        """The local step with labels (J,): theta' (J, P, 2D) and cumulative losses L' (J, P)."""
        self.learnt = self._local(prediction.z, prediction.f, y)
        return self.learnt[0], self.learnt[1]

    def _local(self, z: Array, f: Array, y: Array) -> Any:
        return first_order.local(self.now, z, f, y, self.pulls, self.how.loss)

    @property
    def is_finite(self) -> bool:
        """Whether what was learnt in the open round can be kept."""
        return bool(np.isfinite(self.learnt[1]).all())

    def merge(self, near: Array, total: Array, moves: tuple[Array, Array] | None = None) -> None:
        """End the round with the sum of the neighbours' theta (J, P, 2D) and Hedge's losses (J, P).

        `moves`, where not all edges' duals move: their number (J,), and the sum over them.
        """
        theta, L = self.learnt
        self.now = first_order.merge(self.now, theta, L, near, total, self.pulls, self.rates, moves)

    def take_back(self, moves: Array) -> None:
        """Take moves of edges' duals out of lam. (J, P, 2D)"""
        self.now = self.now._replace(lam=self.now.lam - moves * (self.rates.rho / 2))


class SecondOrderRows(PaperRows):
    """The same by the second-order step."""

    def begin(self, deg: Array) -> None:
        P, D, _ = self.V.shape
        self.pulls = second_order.SecondOrderPulls.of(deg, self.rates, self.how.loss)
        self.now = second_order.init(P, 2 * D, self.pulls)

    def _local(self, z: Array, f: Array, y: Array) -> Any:
        return second_order.local(self.now, z, f, y, self.pulls, self.how.loss)

    @property
    def is_finite(self) -> bool:
        return bool(self.learnt.is_finite)

    def merge(self, near: Array, total: Array, moves: tuple[Array, Array] | None = None) -> None:
        count, moved = (self.pulls.deg, near) if moves is None else moves
        pulls = self.pulls._replace(deg=count)
        state = second_order.merge(self.now, self.learnt, moved, total, pulls, self.rates.eta_g)
        self.now = state._replace(theta_sum=near)

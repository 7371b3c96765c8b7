"""The engine that needs NumPy alone: a round of all learners and kernels in a few array operations.

A device is one row of the same steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np

from ..base.types import Array
from ..exchange.graph import Links, sum_in_order
from ..learning import first_order, second_order
from ..learning.first_order import State
from ..learning.paper import Algorithm, PaperPrediction, PaperRows
from .base import DeviceState, Past, Setting, Sums

#: Puts rows of neighbours that other processes hold below one's own: (J, ...) -> (J + ghosts, ...).
Share: TypeAlias = Callable[..., "tuple[Array, ...]"]


def alone(*values: Array) -> tuple[Array, ...]:
    """The sharing of a process that holds all learners."""
    return values


class NumpyEngine:
    """Round by round, with the very steps that a device takes: its numbers are theirs to the last bit.

    `links` and `share` are given where its learners are only a part of the network.
    """

    most_rounds = 1 << 30  # of a block; it holds one round at a time

    def __init__(self, setting: Setting, links: Links | None = None, share: Share = alone) -> None:
        self.setting = setting
        self.links = Links(setting.graph) if links is None else links
        self.share = share
        self.deg = self.links.deg.astype(setting.V.dtype)
        self.model = PaperRows.of(setting.V, self.links.deg, setting.how)
        self.near = share(self.model.now.theta, self.model.now.q)  # with those of neighbours elsewhere
        self.sums = Sums.zero(len(self.deg), len(setting.V))
        self.messages = np.zeros((len(self.links.source), len(setting.V)), setting.V.dtype)
        self.unlabelled: deque[tuple[PaperPrediction, Array]] = deque()  # labels not known yet

    @property
    def q(self) -> Array:
        """Kernel weights of the coming round. (J, P)"""
        return np.asarray(self.model.now.q)

    @property
    def L(self) -> Array:
        """Cumulative losses. (J, P)"""
        return np.asarray(self.model.now.L)

    def state(self) -> tuple[Array, Array]:
        """theta and lam, (J, P, 2D) each; empty where `keep_state` is off."""
        if self.setting.keep_state:
            return self.model.now.theta, self.model.now.lam
        return self.model.now.theta[:0], self.model.now.lam[:0]

    def advance(self, X: Array, y: Array) -> Array:
        """Go through a block: X (J, B, d), y (J, B) -> the predictions (J, B)."""
        return np.stack([self._round(X[:, t], y[:, t]) for t in range(X.shape[1])], axis=1)

    def _round(self, x: Array, y: Array) -> Array:
        """Predict, record, and learn what has become known. (J, d), (J,) -> (J,)"""
        prediction = self.model.predict(x)
        self._record(prediction, y)
        self.unlabelled.append((prediction, y))
        if len(self.unlabelled) > self.setting.delay:
            before, label = self.unlabelled.popleft()
            if self.setting.delay:  # features stay; what the kernels predict of them is asked again
                f, y_hat = first_order.predict(self.model.now, before.z)
                before = before._replace(f=f, y_hat=y_hat)
            self._learn(before, label)
        return prediction.y_hat

    def _record(self, prediction: PaperPrediction, y: Array) -> None:
        sums, (theta, q) = self.sums, self.near
        z, f, y_hat = prediction.z, prediction.f, prediction.y_hat
        mixed = self.links.sum(q[..., None] * theta)
        gap = self.deg * y_hat - first_order.dot(mixed, z).sum(-1)
        kernel_gap = self.deg[:, None] * f - first_order.dot(self.model.now.theta_sum, z)
        sums.squares[:] += (y_hat - y) ** 2
        sums.gaps[:] += gap**2
        sums.kernel_squares[:] += (f - y[:, None]) ** 2
        sums.kernel_gaps[:] += kernel_gap**2

    def _learn(self, prediction: PaperPrediction, y: Array) -> None:
        theta, L = self.model.learn(prediction, y)
        sent = self.setting.exchange.outgoing(theta)
        near, *losses = self.share(sent, L) if self.setting.how.hedge == "neighbours" else self.share(sent)
        self.model.merge(self._sum(sent, near), self._total(L, *losses))
        if sent is not theta:  # neighbours have the rounded parameters, so the duals must too
            self.model.take_back(self.deg[:, None, None] * (theta - sent))
        self.near = near, *self.share(self.model.now.q)

    def _sum(self, own: Array, near: Array) -> Array:
        screen = self.setting.exchange.screen
        if screen is None:
            return self.links.sum(near)
        around = self.setting.graph.neighbours
        return np.stack([sum_in_order(screen(own[j], near[list(others)])) for j, others in enumerate(around)])

    def _total(self, L: Array, losses: Array | None = None) -> Array:
        """The losses that enter Hedge's exponent, (J, P); with messages, also those of the next round."""
        if self.setting.how.hedge == "local":
            return L
        if losses is not None:
            return L + self.links.sum(losses)
        total = L + self.links.sum_edges(self.messages)
        (beliefs,) = self.share(total)
        self.messages = beliefs[self.links.source] - self.messages[self.links.reverse]
        return total


class NumpyDevice:
    """One learner between two steps, a row of `PaperRows`, with the bits of a `NumpyEngine`.

    Neighbours go by their number in the learner's list.
    """

    native = None  # nothing of it is compiled

    def __init__(self, V: Array, deg: int, how: Algorithm) -> None:
        self.V, self.deg, self.how = V, deg, how
        self.takes = V.dtype  # what its samples must be
        self.unit = 1.0  # what it keeps of the duals, times this, is lam
        self.rows = PaperRows.of(V, np.array([deg]), how)
        self.last = [self.rows.now.theta[0]] * deg  # what was last received of each neighbour
        self._prediction: PaperPrediction | None = None

    @property
    def q(self) -> Array:
        """Kernel weights. (P,)"""
        q: Array = self.rows.now.q[0]
        return q

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
        if not self.rows.is_finite:
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
        theta, lam, _, L, q = (value[0] for value in self.rows.now[:5])
        now, past = self.rows.now, None
        if self.how.is_second:
            inverse = second_order.Inverse.of_halves(*(half[0] for half in now.inverse.halves()))
            past = Past(now.m[0], inverse, self.deg)
        return DeviceState(theta, lam, L, q, past)

    def resume(self, state: DeviceState, thetas: Sequence[Array]) -> None:
        """Go on from there, with the last known theta of every neighbour."""
        self.last = list(thetas)
        near = self._sum(self.last)
        first = State(*(value[None] for value in (state.theta, state.lam, near, state.L, state.q)))
        if state.past is None:
            self.rows.now = first
            return
        inverse = state.past.at(self.deg, self.how.rates, self.how.loss)
        many = second_order.Inverse.of_halves(*(half[None] for half in inverse.halves()))
        self.rows.now = second_order.SecondOrderState(*first, m=state.past.m[None], inverse=many)

    def _sum(self, thetas: list[Array]) -> Array:
        return sum_in_order(np.asarray(thetas)) if thetas else np.zeros_like(self.rows.now.theta[0])

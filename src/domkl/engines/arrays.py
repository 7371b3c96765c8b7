"""The engine that needs NumPy alone: a round of all learners and kernels in a few array operations."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ..base.types import Array
from ..exchange.links import Links, sum_in_order
from ..learning import first_order
from ..learning.paper import PaperPrediction, PaperRows
from .base import Setting, Sums

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
    rows = None  # the learners whose streams it reads; None for all of them

    def __init__(self, setting: Setting, links: Links | None = None, share: Share = alone) -> None:
        self.setting = setting
        self.links = Links(setting.graph) if links is None else links
        self.share = share
        self.deg = self.links.deg.astype(setting.V.dtype)
        how = setting.rates, setting.loss, setting.step, setting.memory, setting.bounds_labels
        self.model = PaperRows(setting.V, self.links.deg, *how)
        self.near = share(self.model.now.theta, self.model.now.q)  # with those of neighbours elsewhere
        self.sums = Sums.zero(len(self.deg), len(setting.V))
        self.messages = np.zeros((len(self.links.source), len(setting.V)), setting.V.dtype)
        self.unlabelled: deque[tuple[PaperPrediction, Array]] = deque()  # labels not known yet

    @property
    def q(self) -> Array:
        """Kernel weights of the coming round. (J, P)"""
        return self.model.now.q

    @property
    def L(self) -> Array:
        """Cumulative losses. (J, P)"""
        return self.model.now.L

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
        near, *losses = self.share(sent, L) if self.setting.hedge == "neighbours" else self.share(sent)
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
        if self.setting.hedge == "local":
            return L
        if losses is not None:
            return L + self.links.sum(losses)
        total = L + self.links.sum_edges(self.messages)
        (beliefs,) = self.share(total)
        self.messages = beliefs[self.links.source] - self.messages[self.links.reverse]
        return total

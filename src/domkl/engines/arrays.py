"""The engine that needs NumPy alone: a round of all learners and kernels in a few array operations."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ..base.types import Array
from ..exchange.links import Links
from ..learning import first_order
from .base import Setting, Sums

#: Puts rows of neighbours that other processes hold below one's own: (J, ...) -> (J + ghosts, ...).
Share: TypeAlias = Callable[..., "tuple[Array, ...]"]


def alone(*values: Array) -> tuple[Array, ...]:
    """The sharing of a process that holds all learners."""
    return values


class ArrayEngine:
    """Round by round, with the very steps that a device takes: its numbers are theirs to the last bit.

    `links` and `share` are given where its learners are only a part of the network.
    """

    most_rounds = 1 << 30  # it holds one round at a time, whatever the block

    def __init__(self, setting: Setting, links: Links | None = None, share: Share = alone) -> None:
        self.setting = setting
        self.links = Links(setting.graph) if links is None else links
        self.share = share
        self.deg = self.links.deg.astype(setting.V.dtype)
        self.pulls = first_order.Pulls.of(self.deg, setting.rates, setting.loss)
        self.now = first_order.init(setting.V, self.deg.shape)
        self.near = share(self.now.theta, self.now.q)  # theta and q, with those of neighbours elsewhere
        self.sums = Sums.zero(len(self.deg), len(setting.V))
        self.messages = np.zeros((len(self.links.source), len(setting.V)), setting.V.dtype)
        self.unlabelled: deque[tuple[Array, Array]] = deque()  # features and labels not known yet

    @property
    def q(self) -> Array:
        return self.now.q

    @property
    def L(self) -> Array:
        return self.now.L

    def state(self) -> tuple[Array, Array]:
        if self.setting.keep_state:
            return self.now.theta, self.now.lam
        return self.now.theta[:0], self.now.lam[:0]

    def advance(self, X: Array, y: Array) -> Array:
        return np.stack([self._round(X[:, t], y[:, t]) for t in range(X.shape[1])], axis=1)

    def _round(self, x: Array, y: Array) -> Array:
        """Predict, record, and learn what has become known. (J, d), (J,) -> (J,)"""
        z = first_order.features(self.setting.V, x)
        f, y_hat = first_order.predict(self.now, z)
        self._record(z, f, y_hat, y)
        self.unlabelled.append((z, y))
        if len(self.unlabelled) > self.setting.delay:
            z, y = self.unlabelled.popleft()
            self._learn(z, first_order.predict(self.now, z)[0] if self.setting.delay else f, y)
        return y_hat

    def _record(self, z: Array, f: Array, y_hat: Array, y: Array) -> None:
        sums, (theta, q) = self.sums, self.near
        mixed = self.links.sum(q[..., None] * theta)
        gap = self.deg * y_hat - first_order.dot(mixed, z).sum(-1)
        kernel_gap = self.deg[:, None] * f - first_order.dot(self.now.theta_sum, z)
        sums.squares[:] += (y_hat - y) ** 2
        sums.gaps[:] += gap**2
        sums.kernel_squares[:] += (f - y[:, None]) ** 2
        sums.kernel_gaps[:] += kernel_gap**2

    def _learn(self, z: Array, f: Array, y: Array) -> None:
        theta, L = first_order.local(self.now, z, f, y, self.pulls, self.setting.loss)
        near, *heard = self.share(theta, L) if self.setting.hedge == "neighbours" else self.share(theta)
        theta, total = near[: len(theta)], self._total(L, *heard)
        self.now = first_order.merge(
            self.now, theta, L, self.links.sum(near), total, self.pulls, self.setting.rates
        )
        self.near = near, *self.share(self.now.q)

    def _total(self, L: Array, heard: Array | None = None) -> Array:
        """The losses that enter Hedge's exponent, (J, P); with messages, also those of the next round."""
        if self.setting.hedge == "local":
            return L
        if heard is not None:
            return L + self.links.sum(heard)
        total = L + self.links.sum_edges(self.messages)
        (told,) = self.share(total)
        self.messages = told[self.links.source] - self.messages[self.links.reverse]
        return total

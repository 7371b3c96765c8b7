"""The engine of the second-order step: rounds of all learners and kernels in NumPy."""

from __future__ import annotations

from ..base.types import Array
from ..learning import second_order
from .arrays import ArrayEngine
from .base import Setting


class NewtonEngine(ArrayEngine):
    """As `ArrayEngine`, with the local step of `newton`; O((2D)^2) a kernel and round.

    `memory` is the number of past samples that count; None for all of them.
    """

    now: second_order.State  # type: ignore[assignment]

    def __init__(self, setting: Setting, memory: float | None = None) -> None:
        super().__init__(setting)
        P, D, _ = setting.V.shape
        self.newton_pulls = second_order.Pulls.of(self.deg, setting.rates, setting.loss)
        self.now = second_order.init(P, 2 * D, self.newton_pulls)
        self.memory, self.learnt = memory, 0

    def _learn(self, z: Array, f: Array, y: Array) -> None:
        setting = self.setting
        learnt = second_order.local(self.now, z, f, y, self.newton_pulls, setting.loss)
        theta, L, _ = learnt
        total = self._total(L, L) if setting.hedge == "neighbours" else self._total(L)
        self.now = second_order.merge(
            self.now, learnt, self.links.sum(theta), total, self.newton_pulls, setting.rates.eta_g
        )
        self.learnt += 1
        self.now = second_order.fade(self.now, self.learnt, self.memory, self.newton_pulls)
        self.near = theta, self.now.q

"""`Paper` over a whole network, by blocks of rounds in an engine."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..engines.base import Setting, Sums
from ..exchange.graph import Graph
from ..learning import kernels, losses
from ..learning.model import Watched

if TYPE_CHECKING:
    from .settings import Paper


#: Inputs beyond it are surely not scaled.
LARGEST = 10.0


class PaperNetwork:
    """A `simulator.driver.Stepper`; `how` it is carried out are the options of `domkl.simulate`."""

    alone, trust, final = np.empty(0), np.empty((0, 0)), None

    def __init__(self, settings: Paper, graph: Graph, d: int, T: int, how: Any) -> None:
        _refuse_cycles(settings.hedge, graph)
        self.labels = np.zeros((graph.J, 1))
        self.setting = Setting(
            V=kernels.check(settings.draw(d), d, how.dtype),
            graph=graph,
            how=settings.algorithm(T),
            delay=how.delay,
            keep_state=how.keep_state,
            one_block=not how.keep_state and T > 0 and not how.every,
            threads=how.threads,
            exchange=how.exchange,
        )
        self.engine = engines.make(how.engine, self.setting)
        is_followed = how.is_followed and not self.setting.one_block
        most = self.engine.most_rounds
        self.most_rounds = min(most, max(1, T // 100)) if is_followed else most

    @property
    def sums(self) -> Sums:
        return Sums(*(values[:, None] for values in self.engine.sums))

    @property
    def weights(self) -> Array:
        return self.engine.q

    @property
    def parameters(self) -> tuple[Array, Array, Array]:
        return *self.engine.state(), self.engine.L

    def traffic(self, T: int) -> tuple[float, float]:
        (P, D, _), setting = self.setting.V.shape, self.setting
        if setting.graph.J == 1:
            return 0.0, 0.0
        payload, shared = (
            np.dtype(setting.exchange.payload).itemsize,
            0 if setting.how.hedge == "local" else P,
        )
        return float(2 * P * D + shared), 2.0 * P * D * payload + 8 * shared

    def checked(self, X: Array, y: Array, first: int, is_flat: bool) -> tuple[Array, Array]:
        """As it is: pieces are checked when they are read, since a stream may be larger than memory."""
        return X, y

    def advance(self, X: Array, y: Array, first: int) -> Watched:
        rows = self.engine.rows  # a part of the network leaves the others' streams unread
        self.labels = self.labels + X.shape[1]
        mine, labels = (X, y[..., 0]) if rows is None else (X[rows], y[rows][..., 0])
        checks.finite("X", mine, first, rows)
        if not first:
            _warn_of_scale(mine)
        labels = losses.labels(self.setting.how.loss, checks.finite("y", labels, first, rows))
        with np.errstate(over="ignore", invalid="ignore"):  # reported below, in one line
            y_hat = self.engine.advance(mine, labels)
        if not np.isfinite(y_hat).all():
            raise InputError(
                f"predictions overflowed after round {first}; expected x and y of moderate size; "
                "scale them, for example to [0, 1]"
            )
        return Watched(y_hat[..., None], y, np.empty((len(y_hat), 0)), self.engine.q)


def _warn_of_scale(X: Array) -> None:
    """Kernels are as wide as inputs near [0, 1] need them; of others they see noise."""
    most = np.abs(X).max((0, 1), initial=0)
    if most.size and most.max() > LARGEST:
        warnings.warn(
            f"input {most.argmax()} is up to {most.max():.4g}, and Paper's kernels are made for inputs near "
            "[0, 1]; scale them, for example with Split.scaled_by_start(), or use domkl.Auto",
            UserWarning,
            stacklevel=2,
        )


def _refuse_cycles(rule: str, graph: Graph) -> None:
    if rule == "messages" and not graph.is_tree:
        raise InputError(
            'hedge="messages" counts losses again on a graph with cycles; expected a tree; '
            'use hedge="neighbours" or another graph'
        )

"""A whole network in one process: what `simulate(..., preset="auto")` runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ...base import checks
from ...base.types import Array
from ...engines import Sums
from ...exchange.graph import Graph
from .. import losses
from ..losses import Loss
from .features import MODELS, Stats, pooled
from .learners import Learners, Look
from .message import HEADER, NUMBERS, OTHERS
from .ties import Said, Ties


class Network(Learners):
    """Learners of a graph, who hear each other at once."""

    def __init__(self, graph: Graph, d: int, loss: Loss, **options: Any) -> None:
        self.ties = Ties.of(graph)
        near = np.eye(graph.J, dtype=bool)
        for j, others in enumerate(graph.neighbours):
            near[j, list(others)] = True
        self.around = near  # (J, J) each learner with its neighbours
        self._statistics: dict[int, Stats] = {}  # for the scale of a round
        self.sent = 0.0
        super().__init__(graph.J, graph.J, self.ties.weight, graph.diameter, d, loss, **options)

    def learn(self, look: Look, y: Array, asked: Look | None = None) -> None:
        """A whole round: see `propose`."""
        said = self.propose(look, y, asked)
        self.sent += self._numbers(said) if self.J > 1 else 0
        self.close(self.ties.hear(said, said))
        self._statistics = {t: stats for t, stats in self._known.items() if t > self.rounds}

    def _numbers(self, said: Said) -> int:
        """In a learner's message, statistics that it passes on included."""
        more = self.terms.K if self.forgets else 0
        for round, stats in self.fresh.items():
            rows = self.J if self.warm.is_common(round) else 1
            more += rows * (HEADER + (OTHERS + stats.quantiles.shape[1]) * (self.d + 1))
        return int(said.theta[0].size) + NUMBERS + more

    @property
    def _known(self) -> dict[int, Stats]:
        return self._statistics | self.fresh

    def pooled(self, round: int) -> Stats:
        who = np.ones((1, self.J), bool) if self.warm.is_common(round) else self.around
        return pooled(self._known[round], who)

    def gaps(self, look: Look) -> Array:
        """Sum over neighbours i of f_j(x_j) - f_i(x_j), in units of y; 0 while scales differ. (J, MODELS)"""
        if self.state is None or not self.shared:
            return np.zeros((self.J, MODELS))
        scores = np.einsum("jpk,ipk->pji", look.z, self.state.theta, optimize=True)
        own = np.einsum("pjj->pj", scores)[..., None]
        apart = np.where(self.around, own - scores, 0).sum(-1).T
        return np.asarray(apart * self.width[:, None], np.float64)


def rounds(
    network: Network,
    blocks: Iterable[tuple[Array, Array]],
    delay: int,
    sums: Sums,
    tell: Callable[[int], object],
) -> Iterator[Array]:
    """Every round's predictions (J,) of a stream X (J, B, d), y (J, B) in blocks; counts errors and gaps."""
    waiting: deque[tuple[Look, Array]] = deque()
    done = 0
    for X, y in blocks:
        _check_block(network, X)
        y = losses.labels(network.loss, checks.finite("y", y, done))
        for t in range(X.shape[1]):
            waiting.append((network.look(X[:, t]), y[:, t]))
            _count(network, *waiting[-1], sums)
            yield waiting[-1][0].y_hat
            if len(waiting) > delay:
                look, label = waiting.popleft()
                network.learn(network.look(look.x) if delay else look, label, look)
            done += 1
            tell(done)


def _check_block(network: Network, X: Array) -> None:
    checks.shape("X", X, (network.J, X.shape[1], network.d), "all blocks need the same form")
    checks.finite_or_missing("X", X)


def _count(network: Network, look: Look, y: Array, sums: Sums) -> None:
    gaps = network.gaps(look)
    sums.squares[:] += (look.y_hat - y) ** 2
    sums.gaps[:] += gaps.mean(-1) ** 2
    sums.kernel_squares[:] += (look.models - y[:, None]) ** 2
    sums.kernel_gaps[:] += gaps**2

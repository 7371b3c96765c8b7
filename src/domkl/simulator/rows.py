"""Models that go round by round, through the contract of `learning.model`."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from ..base import checks
from ..base.types import Array
from ..exchange.graph import GraphLike, as_graph
from ..exchange.network import Network
from ..learning import losses
from ..learning.model import Model, ModelMaker
from .blocks import Block, open_stream
from .results import STOP, Final, Run, RunOptions, Watched


@functools.singledispatch
def simulated(model: Any, X: Any, y: Any, graph: GraphLike, how: RunOptions) -> Run:
    """Let a network learn: round by round, unless another function is registered for its kind of settings."""
    blocks, (J, T, d), targets = open_stream(X, y, np.float64, how.delay)
    network = Network(as_graph(graph, J), how.exchange)
    rounds = Rounds(model, _make_rows(model, d, network, how), network, how)
    y_hat = np.stack(list(rounds.go_through(blocks, T)), axis=1)
    return rounds.result(y_hat, targets)


def _make_rows(model: ModelMaker, d: int, network: Network, how: RunOptions) -> Model:
    graph, near = network.graph, network.neighbours
    rows = model.make(graph.J, d, how.dtype)
    names = [[graph.names[i] for i in others] for others in graph.neighbours]
    rows.connect(graph.names, names, near.weight, near.deg)
    return rows


class Rounds:
    """Drives the rows of a model over a graph, and counts errors and gaps."""

    def __init__(self, settings: Any, rows: Model, network: Network, how: RunOptions) -> None:
        self.settings, self.rows, self.network, self.how = settings, rows, network, how
        self.squares, self.gaps, self.alone = np.zeros(rows.J), np.zeros(rows.J), np.zeros(rows.J)
        self.each_squares = self.each_gaps = np.zeros((rows.J, 1))  # of each model or kernel by itself
        self.path: list[Array] = []
        self.waiting: deque[tuple[Array, Any, Array]] = deque()  # samples whose labels are not known yet

    def go_through(self, blocks: Iterator[Block], T: int) -> Iterator[Array]:
        """Every round's predictions. (J,) each"""
        rows, done = self.rows, 0
        for X, y in blocks:
            checks.shape("X", X, (rows.J, X.shape[1], rows.d), "all blocks need the same form")
            checks.finite_or_missing("X", X)
            y = losses.labels(rows.loss, checks.finite("y", y, done))
            for t in range(X.shape[1]):
                yield self._round(X[:, t], y[:, t], done)
                done += 1
                if self.how.progress is not None and self.how.progress(done, T) == STOP:
                    return

    def _round(self, x: Array, y: Array, t: int) -> Array:
        if self.how.every and t % self.how.every == 0:
            self.path.append(self.rows.weights.copy())
        prediction = self.rows.predict(x)
        alone = self._count(prediction, y)
        if self.how.watch is not None:
            self.how.watch(self._watched(prediction, y, alone))
        self.waiting.append((x, prediction, y))
        if len(self.waiting) > self.how.delay:
            sample, earlier, label = self.waiting.popleft()
            now = self.rows.predict(sample) if self.how.delay else earlier
            outgoing = self.rows.learn(now, label, earlier)
            self.rows.merge(self.network.exchange_round(self.rows, outgoing))
        return cast(Array, prediction.y_hat)

    def _watched(self, prediction: Any, y: Array, alone: Array) -> Watched:
        y_hat, y, alone = (values[:, None] for values in (prediction.y_hat, y, alone))
        return Watched(y_hat, y, alone, self.rows.weights, cast(Any, self.rows))

    def _count(self, prediction: Any, y: Array) -> Array:
        """Add up errors; what own samples only predicted."""
        gaps, each = self.rows.gaps(prediction, self.network.around), self.rows.models(prediction)
        self.squares += (prediction.y_hat - y) ** 2
        self.gaps += gaps.mean(-1) ** 2
        alone = self.rows.alone(prediction)
        self.alone = self.alone + (alone - y) ** 2 if len(alone) else alone
        self.each_squares = self.each_squares + (each - y[:, None]) ** 2
        self.each_gaps = self.each_gaps + gaps**2
        return alone

    def result(self, y_hat: Array, targets: tuple[int, ...]) -> Run:
        """What the caller gets."""
        T, weights = y_hat.shape[1], self.rows.weights
        theta, lam, L = self._parameters()
        return Run(
            y_hat=y_hat.reshape(*y_hat.shape, *targets),
            mse=self.squares / T,
            cv=self.gaps / T,
            theta=theta,
            lam=lam,
            L=L,
            q=weights,
            kernel_mse=self.each_squares / T,
            kernel_cv=self.each_gaps / T,
            q_path=np.array(self.path) if self.path else np.empty((0, *weights.shape)),
            q_rounds=np.arange(len(self.path)) * max(1, self.how.every),
            graph=self.network.graph,
            sent=self.network.sent / T,
            bytes=self.network.bytes / T,
            alone=self.alone / T,
            trust=self.network.trust,
            final=self._final(),
        )

    def _final(self) -> Final | None:
        return Final(self.settings, cast(Any, self.rows), self.network) if self.how.keep_model else None

    def _parameters(self) -> tuple[Array, Array, Array]:
        """theta, lam and L, as far as the model shows them and they are wanted."""
        found = self.rows.parameters
        if found is None:
            return np.empty((0, 0, 0)), np.empty((0, 0, 0)), np.empty((self.rows.J, 0))
        keep = slice(None) if self.how.keep_state else slice(0)
        return found.theta[keep], found.lam[keep], found.L

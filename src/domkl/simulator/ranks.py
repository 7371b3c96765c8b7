"""Any model over the ranks of `mpiexec`, round by round; every rank has the whole result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..base.types import Array
from ..engines.base import Sums
from ..engines.mpi import RankNetwork
from ..exchange.graph import Graph
from ..learning.model import Watched
from .driver import Block, Rounds
from .results import RunOptions


class RankRounds:
    """A `Stepper`: `Rounds` of the learners of this rank, whose results are gathered."""

    final = None

    def __init__(self, settings: Any, graph: Graph, d: int, T: int, how: RunOptions, m: int) -> None:
        if how.keep_model:
            raise InputError("keep_model is given with engine 'mpi'; expected one process; leave it out")
        network = RankNetwork(graph, how.exchange, settings, d, m, how.delay, np.dtype(how.dtype))
        self.ranks, self.gather = network.ranks, network.ranks.gather
        self.own = Rounds(settings, graph, d, T, replace(how, engine="auto", threads=1), m, network)
        self.most_rounds = self.own.most_rounds

    @property
    def sums(self) -> Sums:
        return Sums(*map(self.gather, self.own.sums))

    @property
    def labels(self) -> Array:
        return self.gather(self.own.labels)

    @property
    def alone(self) -> Array:
        return self.gather(self.own.alone) if len(self.own.alone) else self.own.alone

    @property
    def believed(self) -> Array:
        return self.own.believed

    @property
    def weights(self) -> Array:
        return self.gather(self.own.weights)

    @property
    def parameters(self) -> tuple[Array, Array, Array]:
        theta, lam, L = self.own.parameters
        if self.ranks.comm.allreduce(int(not len(theta))):  # on any rank: all must do the same
            return theta[:0], lam[:0], self.gather(L)
        return self.gather(theta), self.gather(lam), self.gather(L)

    def traffic(self, T: int) -> tuple[float, float]:
        return self.own.traffic(T)

    def checked(self, X: Array, y: Array, first: int, is_flat: bool) -> Block:
        """Of the own learners: others' streams are left unread."""
        return self.own.checked(X[self.ranks.rows], y[self.ranks.rows], first, is_flat)

    def advance(self, X: Array, y: Array, first: int) -> Watched:
        seen = self.own.advance(X, y, first)
        alone = self.gather(seen.alone) if seen.alone.size else seen.alone
        return Watched(self.gather(seen.y_hat), self.gather(y), alone, self.gather(seen.weights), seen.model)

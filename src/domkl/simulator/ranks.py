"""Any model over the ranks of `mpiexec`, round by round; every rank has the whole result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.errors import InputError
from ..base.types import Array
from ..engines.base import Sums
from ..engines.mpi import RankNetwork, Ranks
from ..exchange.graph import Graph
from ..learning.model import Watched
from ..models.settings import Settings
from .driver import Block, Rounds, Stepper
from .results import RunOptions

#: Bytes of the samples that a rank holds at once.
BLOCK_BYTES = 64_000_000


class RankRounds:
    """A `Stepper`: that of the learners of this rank, whose results are gathered."""

    final = None

    def __init__(self, settings: Settings, graph: Graph, d: int, T: int, how: RunOptions, m: int) -> None:
        if how.keep_model:
            raise InputError("keep_model is given with engine 'mpi'; expected one process; leave it out")
        dtype, payload = np.dtype(how.dtype), how.exchange.payload
        known = (settings.table, d, T, m, how.delay, how.keep_state, dtype, payload)
        self.ranks = Ranks(graph, repr(known))
        self.gather, self.is_flat = self.ranks.gather, False
        made: Stepper | None = settings.make_network(graph, d, T, replace(how, ranks=self.ranks), m)
        self.own = made or self._rounds(settings, graph, d, T, how, m)
        # The same on all ranks, whatever the size of their parts, because each block ends with a gathering.
        block = BLOCK_BYTES * int(self.ranks.comm.size) // (dtype.itemsize * graph.J * d)
        self.most_rounds = max(1, min(self.own.most_rounds, block))

    def _rounds(self, settings: Settings, graph: Graph, d: int, T: int, how: RunOptions, m: int) -> Rounds:
        network = RankNetwork(graph, how.exchange, self.ranks)
        return Rounds(settings, graph, d, T, replace(how, engine="auto", threads=1), m, network)

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
        """As it is: others' streams are left unread, and the own ones read as they are needed."""
        self.is_flat = is_flat
        return X, y

    def advance(self, X: Array, y: Array, first: int) -> Watched:
        rows = self.ranks.rows
        mine = self.own.checked(X[rows], y[rows], first, self.is_flat)
        seen = self.own.advance(*mine, first)
        alone = self.gather(seen.alone) if seen.alone.size else seen.alone
        return Watched(
            self.gather(seen.y_hat), self.gather(seen.y), alone, self.gather(seen.weights), seen.model
        )

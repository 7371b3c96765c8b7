"""What learners say to each other in a round, and what each makes of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from ...exchange.graph import Graph

#: The round of a decision that nobody has taken; finite, as messages must be.
NEVER = 2.0**53


class Said(NamedTuple):
    """One round's message of each learner, a row each; the statistics of the warm-up travel beside it."""

    theta: Array  # (J, MODELS, K)
    terms: Array  # (J, 1, K') coefficients of the memory whose turn it is
    low: Array  # (J,) range of the targets
    high: Array  # (J,)
    errors: Array  # (J, EXPERTS) of the watch
    surplus: Array  # (J,)
    votes: Array  # (J,) 1 where another memory is clearly better than the long one, else 0
    alarm: Array  # (J, 2) in which round to begin the young memory anew, and since when errors surge
    restart: Array  # (J, 2) in which round to give up the long memory, and the verdict, times -1


class Heard(NamedTuple):
    """What the messages of a round come to, a row for each learner."""

    near: Array  # (J, MODELS, K) weighted sum of the neighbours' theta
    moved: Array  # (J, MODELS, K) the same over the edges whose duals move
    moving: Array  # (J,) the weights of those edges, summed
    mean: Array  # (J, MODELS, K) weighted mean of the neighbours' theta
    weight: Array  # (J,) of all edges, in sum
    terms_near: Array  # (J, 1, K')
    terms_mean: Array  # (J, 1, K')
    low: Array  # (J,)
    high: Array  # (J,)
    errors: Array  # (J, EXPERTS) averages
    surplus: Array  # (J,)
    votes: Array  # (J,) the share of the neighbourhood
    alarm: Array  # (J, 2) the earliest
    restart: Array  # (J, 2)


class Ties:
    """Who hears whom, and with which weights: 1/min(deg_i, deg_j) in sums, so that no degree makes a learner
    slow, and Metropolis' 1/(1 + max(deg_i, deg_j)) in averages.

    Sums run in the order of each learner's neighbours, so that a device gets the bits of a whole network.
    """

    def __init__(self, deg: Array, near: list[list[int]], degrees: Array) -> None:
        """`near[j]`: rows of what is said, `degrees` of their senders; `deg` of those who hear it."""
        most = max([len(rows) for rows in near], default=0)
        self.deg = deg
        self.slots = []  # the k-th neighbours of all learners that have so many
        for k in range(most):
            rows = np.array([j for j, found in enumerate(near) if len(found) > k], np.intp)
            senders = np.array([near[j][k] for j in rows], np.intp)
            mine, theirs = deg[rows], degrees[senders]
            weight, mixing = 1 / np.minimum(mine, theirs), 1 / (1 + np.maximum(mine, theirs))
            self.slots.append((rows, senders, weight, mixing))
        self.weight = self._total([weight for *_, weight, _ in self.slots])  # (J,) of all edges
        self.own = 1 - self._total([mixing for *_, mixing in self.slots])  # in averages

    @classmethod
    def of(cls, graph: Graph) -> Ties:
        """Of a whole network."""
        deg = np.array([len(others) for others in graph.neighbours], np.float64)
        return cls(deg, [list(others) for others in graph.neighbours], deg)

    def _total(self, weights: list[Array]) -> Array:
        total = np.zeros(len(self.deg))
        for (rows, *_), weight in zip(self.slots, weights, strict=True):
            total[rows] += weight
        return total

    def near(self, said: Array) -> Array:
        """Weighted sums over neighbours. (senders, ...) -> (J, ...)"""
        total = np.zeros((len(self.deg), *said.shape[1:]), said.dtype)
        for rows, senders, weight, _ in self.slots:
            total[rows] += _shaped(weight, said) * said[senders]
        return total

    def mean(self, own: Array, near: Array) -> Array:
        """Weighted means over neighbours from their sums, and what is one's own where there are none."""
        lonely, weight = _shaped(self.weight, near) == 0, _shaped(np.maximum(self.weight, 1e-9), near)
        return np.where(lonely, own, near / weight)

    def mixed(self, own: Array, said: Array) -> Array:
        """Averages over learners with their neighbours. (J, ...), (senders, ...) -> (J, ...)"""
        total: Array = _shaped(self.own, own) * own
        for rows, senders, _, mixing in self.slots:
            total[rows] += _shaped(mixing, said) * said[senders]
        return total

    def share(self, own: Array, said: Array) -> Array:
        """Of the learners of a neighbourhood. (J,), (senders,) -> (J,)"""
        total = own.astype(np.float64)
        for rows, senders, *_ in self.slots:
            total[rows] += said[senders]
        return np.asarray(total / (1 + self.deg))

    def least(self, own: Array, said: Array) -> Array:
        """The first of a neighbourhood's pairs in order. (J, 2), (senders, 2) -> (J, 2)"""
        first = own.copy()
        for rows, senders, *_ in self.slots:
            mine, theirs = first[rows], said[senders]
            as_soon = (theirs[:, 0] == mine[:, 0]) & (theirs[:, 1] < mine[:, 1])
            sooner = (theirs[:, 0] < mine[:, 0]) | as_soon
            first[rows] = np.where(sooner[:, None], theirs, mine)
        return np.asarray(first)

    def range(self, own: Said, said: Said) -> tuple[Array, Array]:
        """Of the targets that a neighbourhood has seen. -> (J,), (J,)"""
        low, high = own.low.copy(), own.high.copy()
        for rows, senders, *_ in self.slots:
            low[rows] = np.minimum(low[rows], said.low[senders])
            high[rows] = np.maximum(high[rows], said.high[senders])
        return low, high

    def hear(self, own: Said, said: Said, moves: npt.NDArray[np.bool_] | None = None) -> Heard:
        """What everybody makes of the messages; `moves`: the senders with whom duals move, None for all."""
        near, terms_near = self.near(said.theta), self.near(said.terms)
        moved, moving = near, self.weight
        if moves is not None:
            moved = self.near(np.where(moves[:, None, None], said.theta, 0))
            moving = self.near(moves.astype(np.float64))
        return Heard(
            near,
            moved,
            moving,
            self.mean(own.theta, near),
            self.weight,
            terms_near,
            self.mean(own.terms, terms_near),
            *self.range(own, said),
            self.mixed(own.errors, said.errors),
            self.mixed(own.surplus, said.surplus),
            self.share(own.votes, said.votes),
            self.least(own.alarm, said.alarm),
            self.least(own.restart, said.restart),
        )


def _shaped(weight: Array, values: Array) -> Array:
    return np.asarray(weight.reshape(-1, *(1,) * (values.ndim - 1)), values.dtype)

"""Sums over neighbours."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from .graph import Graph

Arrivals: TypeAlias = "tuple[Any, npt.NDArray[np.intp]]"


class Links:
    """Sums over neighbours, each in the order of the neighbour list, so that devices get the same bits.

    Directed edges are numbered learner by learner; edge e leads from `source[e]` to its receiver, and
    `reverse[e]` is the edge the other way. Where the graph is a part of a larger one, its first `own`
    learners have all their neighbours in it and are summed for; the others are only their neighbours.
    """

    def __init__(self, graph: Graph, own: int | None = None) -> None:
        J = graph.J
        receiver = np.repeat(np.arange(J), [len(near) for near in graph.neighbours])
        self.source = np.fromiter(chain.from_iterable(graph.neighbours), np.intp, len(receiver))
        key, other_way = receiver * J + self.source, self.source * J + receiver
        order = np.argsort(key)
        self.reverse = order[np.searchsorted(key, other_way, sorter=order)]
        self.deg = graph.deg[:own]

    @cached_property
    def _slots(self) -> list[Arrivals]:
        """The k-th neighbours of all learners that have so many: (receivers, edges to them)."""
        first = np.concatenate([[0], np.cumsum(self.deg)[:-1]]).astype(np.intp)
        rows = [np.flatnonzero(self.deg > k) for k in range(int(self.deg.max()))]
        return [(r, first[r] + k) for k, r in enumerate(rows)]

    @cached_property
    def _sources(self) -> list[Arrivals]:
        return [(r, self.source[edges]) for r, edges in self._slots]

    def sum(self, values: Array) -> Array:
        """Sum of the neighbours' values. (J, ...) -> (J, ...)"""
        return _sum(self._sources, values) if self._sources else np.zeros_like(values)

    def sum_edges(self, values: Array) -> Array:
        """Sum over the edges that lead to each learner. (E, ...) -> (J, ...)"""
        return _sum(self._slots, values) if self._slots else np.zeros((1, *values.shape[1:]), values.dtype)


def sum_in_order(values: Array) -> Array:
    """Sum over the first axis, one after the other. (n, ...) -> (...)"""
    total = np.zeros(values.shape[1:], values.dtype)
    for value in values:
        total += value
    return total


def _sum(slots: list[Arrivals], values: Array) -> Array:
    total = values.take(slots[0][1], axis=0)  # every learner has a first neighbour
    for rows, index in slots[1:]:
        if len(index) == len(total):
            total += values.take(index, axis=0)  # in place: `total[:] += ...` would copy it once more
        else:
            total[rows] += values.take(index, axis=0)
    return total

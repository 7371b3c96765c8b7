"""Sums over neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._types import Array
from ..graph import Graph


class Links:
    """Sums over neighbours, each in the order of the neighbour list, so that devices get the same bits.

    Directed edges are numbered learner by learner; edge e leads from `source[e]` to its receiver, and
    `reverse[e]` is the edge the other way.
    """

    def __init__(self, graph: Graph) -> None:
        pairs = [(i, j) for j, near in enumerate(graph.neighbours) for i in near]
        number = {pair: e for e, pair in enumerate(pairs)}
        self.source = np.array([i for i, _ in pairs], dtype=np.intp)
        self.reverse = np.array([number[j, i] for i, j in pairs], dtype=np.intp)
        first = np.concatenate([[0], np.cumsum(graph.deg)[:-1]]).astype(np.intp)
        # The k-th neighbours of all learners that have so many: (receivers, edges to them).
        rows = [np.flatnonzero(graph.deg > k) for k in range(int(graph.deg.max()))]
        self._slots = [(r if len(r) < graph.J else slice(None), first[r] + k) for k, r in enumerate(rows)]
        self._sources = [(r, self.source[edges]) for r, edges in self._slots]

    def sum(self, values: Array) -> Array:
        """Sum of the neighbours' values. (J, ...) -> (J, ...)"""
        return _sum(self._sources, values) if self._sources else np.zeros_like(values)

    def sum_edges(self, values: Array) -> Array:
        """Sum over the edges that lead to each learner. (E, ...) -> (J, ...)"""
        return _sum(self._slots, values) if self._slots else np.zeros((1, *values.shape[1:]), values.dtype)


def _sum(slots: list[tuple[Any, npt.NDArray[np.intp]]], values: Array) -> Array:
    total = values.take(slots[0][1], axis=0)  # every learner has a first neighbour
    for rows, index in slots[1:]:
        total[rows] += values.take(index, axis=0)
    return total

"""How what arrives is combined: each part of a message by its rule, over a graph or over an inbox.

A rule is a function of (neighbours, own, received): the receivers' own values (J, ...) and what each end of
an edge received (E, ...); it returns a row for each receiver. `RULES` has them all by name. A new rule is one
more function there.

Before any rule sees the parameters of neighbours, a `Screen` may change them, for example clip those that are
far away: it is the place for protection against neighbours that lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..learning.model import Part, Pull
from .graph import Graph

#: What a receiver with parameters (P, K) makes of its neighbours' (n, P, K): as many, changed or not.
Screen: TypeAlias = Callable[[Array, Array], Array]
Flags: TypeAlias = "npt.NDArray[np.bool_]"


class Slot(NamedTuple):
    """The k-th neighbours of all learners that have so many."""

    rows: npt.NDArray[np.intp]  # the receivers
    ends: slice  # which ends of edges these are
    weight: Array  # of the edges in sums
    mixing: Array  # of the senders in averages


class Neighbours:
    """Who receives from whom, and with which weights; E ends of edges, two for each edge of a whole network.

    1/min(deg_i, deg_j) in sums, so that no degree makes a learner slow, and Metropolis' weights
    1/(1 + max(deg_i, deg_j)) in averages. Sums run in the order of each learner's neighbours, so that a
    device gets the bits of a whole network.

    Parameters
    ----------
    deg : degrees of the receivers (J,).
    near : for each receiver, the rows of its neighbours among the senders.
    degrees : of the senders (N,).
    """

    def __init__(self, deg: Array, near: Sequence[Sequence[int]], degrees: Array) -> None:
        self.deg = deg
        self.slots: list[Slot] = []
        none = np.zeros(0, np.intp)
        self.rows, self.senders, self.weights = none, none, np.zeros(0)  # (E,) of each end, slot by slot
        for k in range(max([len(rows) for rows in near], default=0)):
            rows = np.array([j for j, found in enumerate(near) if len(found) > k], np.intp)
            senders = np.array([near[j][k] for j in rows], np.intp)
            mine, theirs = deg[rows], degrees[senders]
            weight, mixing = 1 / np.minimum(mine, theirs), 1 / (1 + np.maximum(mine, theirs))
            ends = slice(len(self.rows), len(self.rows) + len(rows))
            self.slots.append(Slot(rows, ends, weight, mixing))
            self.rows, self.senders = np.append(self.rows, rows), np.append(self.senders, senders)
            self.weights = np.append(self.weights, weight)
        self.weight = self.sums(np.ones(len(self.rows)))  # (J,) of all edges
        self.own = 1 - self._added([(slot, slot.mixing) for slot in self.slots], np.zeros(len(deg)))

    @classmethod
    def of(cls, graph: Graph) -> Neighbours:
        """Those of a whole network."""
        deg = np.array([len(others) for others in graph.neighbours], np.float64)
        return cls(deg, graph.neighbours, deg)

    def combine(
        self,
        parts: Sequence[Part],
        own: Mapping[str, Array],
        received: Mapping[str, Array],
        moving: Flags | None = None,
        used: Flags | None = None,
    ) -> dict[str, Any]:
        """Every part by its rule, from what each end received (E, ...).

        `moving` (E,): the ends whose duals move; `used`: those whose message counts in means. None for all.
        """
        found: dict[str, Any] = {}
        for part in parts:
            mine, theirs = own[part.name], received[part.name]
            if part.rule == "pull":
                found[part.name] = self.pull(mine, theirs, moving, used)
            else:
                found[part.name] = RULES[part.rule](self, mine, theirs)
        return found

    def pull(
        self, own: Array, received: Array, moving: Flags | None = None, used: Flags | None = None
    ) -> Pull:
        """Weighted sums and means of the neighbours' parameters.

        What stands for messages that are not used, the receiver's own parameters, pulls, but is not in the
        mean.
        """
        total = self.sums(received)
        if not self.slots:
            return Pull(total, total, self.weight, own, self.weight)
        whole = total, self.weight
        moved, weight = whole if moving is None or moving.all() else self._sums_of(received, moving)
        seen, counted = whole if used is None or used.all() else self._sums_of(received, used)
        nobody = _shaped(counted, total) == 0
        mean = np.where(nobody, own, seen / _shaped(np.maximum(counted, 1e-9), total))
        return Pull(total, moved, weight, mean, self.weight)

    @staticmethod
    def stepped(pull: Pull, received: Array, weights: Array) -> Pull:
        """The same at one receiver, whose duals move with other weights (E,), 0 where they do not."""
        moved = (_shaped(weights, received) * received).sum(0, keepdims=True)
        return pull._replace(moved=moved, moving=weights.sum(keepdims=True))

    def sums(self, received: Array) -> Array:
        """Weighted sums over neighbours. (E, ...) -> (J, ...)"""
        total = np.zeros((len(self.deg), *received.shape[1:]), received.dtype)
        shaped = ((slot, _shaped(slot.weight, received) * received[slot.ends]) for slot in self.slots)
        return self._added(shaped, total)

    def _sums_of(self, received: Array, which: Flags) -> tuple[Array, Array]:
        """Weighted sums of some ends' parameters, and of their weights. (J, P, K), (J,)"""
        return self.sums(np.where(which[:, None, None], received, 0)), self.sums(which.astype(np.float64))

    @staticmethod
    def _added(values: Iterable[tuple[Slot, Array]], total: Array) -> Array:
        for slot, amount in values:
            total[slot.rows] += amount
        return total


def mix(near: Neighbours, own: Array, received: Array) -> Array:
    """Averages over learners with their neighbours."""
    total: Array = _shaped(near.own, own) * own
    for slot in near.slots:
        total[slot.rows] += _shaped(slot.mixing, received) * received[slot.ends]
    return total


def own_value(near: Neighbours, own: Array, received: Array) -> Array:
    """The own value: the part only describes its sender."""
    return own


#: Rules by name, besides "pull", which also needs to know the edges whose duals move.
RULES: dict[str, Callable[[Neighbours, Array, Array], Array]] = {
    "mix": mix,
    "own": own_value,
}


def _shaped(weight: Array, values: Array) -> Array:
    return np.asarray(weight.reshape(-1, *(1,) * (values.ndim - 1)), values.dtype)

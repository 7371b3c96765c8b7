"""How what arrives is combined: each part of a message by its rule, over a graph or over an inbox.

A rule is a function of (neighbours, own, sent): the receivers' own values (J, ...) and the senders' (N, ...),
which are the same array in a simulation; it returns a row for each receiver. `RULES` has them all by name. A
new rule is one more function there.

Before any rule sees the parameters of neighbours, a `Screen` may change them, for example clip those that are
far away: it is the place for protection against neighbours that lie.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..learning.model import Part, Pull
from .graph import Graph

#: What a receiver with parameters (P, K) makes of its neighbours' (n, P, K): as many, changed or not.
Screen: TypeAlias = Callable[[Array, Array], Array]


class Slot(NamedTuple):
    """The k-th neighbours of all learners that have so many."""

    rows: npt.NDArray[np.intp]  # the receivers
    senders: npt.NDArray[np.intp]
    weight: Array  # of the edges in sums
    mixing: Array  # of the senders in averages


class Neighbours:
    """Who receives from whom, and with which weights.

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
        self.deg, self.near = deg, near
        self.slots: list[Slot] = []
        for k in range(max([len(rows) for rows in near], default=0)):
            rows = np.array([j for j, found in enumerate(near) if len(found) > k], np.intp)
            senders = np.array([near[j][k] for j in rows], np.intp)
            mine, theirs = deg[rows], degrees[senders]
            weight, mixing = 1 / np.minimum(mine, theirs), 1 / (1 + np.maximum(mine, theirs))
            self.slots.append(Slot(rows, senders, weight, mixing))
        self.weight = self._total([slot.weight for slot in self.slots])  # (J,) of all edges
        self.own = 1 - self._total([slot.mixing for slot in self.slots])  # in averages

    @classmethod
    def of(cls, graph: Graph) -> Neighbours:
        """Those of a whole network."""
        deg = np.array([len(others) for others in graph.neighbours], np.float64)
        return cls(deg, graph.neighbours, deg)

    def _total(self, weights: list[Array]) -> Array:
        total = np.zeros(len(self.deg))
        for slot, weight in zip(self.slots, weights, strict=True):
            total[slot.rows] += weight
        return total

    def combine(
        self,
        parts: Sequence[Part],
        own: Mapping[str, Array],
        sent: Mapping[str, Array],
        moves: npt.NDArray[np.bool_] | None = None,
        screened: Mapping[str, Sequence[Array]] | None = None,
        refused: npt.NDArray[np.bool_] | None = None,
    ) -> dict[str, Any]:
        """Every part by its rule; `moves`: the senders with whom duals move, None for all that are used.

        `screened` has, part by part, what `screened` below gives; `refused` are senders that are not in
        means, None for none.
        """
        found: dict[str, Any] = {}
        for part in parts:
            mine, theirs = own[part.name], sent[part.name]
            if part.rule == "pull":
                kept = (screened or {}).get(part.name)
                found[part.name] = pull(self, mine, theirs, moves, kept, refused)
            else:
                found[part.name] = RULES[part.rule](self, mine, theirs)
        return found

    def screened(self, screen: Screen, own: Array, sent: Array) -> list[Array]:
        """What each receiver makes of its neighbours' parameters, in their order. (n, P, K) each"""
        return [screen(own[j], sent[list(rows)]) if rows else sent[:0] for j, rows in enumerate(self.near)]

    def redirected(self, senders: Sequence[npt.NDArray[np.intp]]) -> Neighbours:
        """The same links, with other rows of what was sent in each slot."""
        other = copy.copy(self)
        other.slots = [slot._replace(senders=rows) for slot, rows in zip(self.slots, senders, strict=True)]
        found: list[list[int]] = [[] for _ in self.near]
        for slot in other.slots:
            for j, row in zip(slot.rows.tolist(), slot.senders.tolist(), strict=True):
                found[j].append(row)
        other.near = found
        return other

    def sums(self, sent: Array, screened: Sequence[Array] | None = None) -> Array:
        """Weighted sums over neighbours. (N, ...) -> (J, ...)

        `screened[j]` holds what receiver j makes of its neighbours' values, in their order.
        """
        total = np.zeros((len(self.deg), *sent.shape[1:]), sent.dtype)
        for k, slot in enumerate(self.slots):
            values = sent[slot.senders] if screened is None else np.stack([screened[j][k] for j in slot.rows])
            total[slot.rows] += _shaped(slot.weight, sent) * values
        return total


def pull(
    near: Neighbours,
    own: Array,
    sent: Array,
    moves: npt.NDArray[np.bool_] | None = None,
    screened: Sequence[Array] | None = None,
    refused: npt.NDArray[np.bool_] | None = None,
) -> Pull:
    """Weighted sums and means of the neighbours' parameters.

    What stands for senders that are `refused`, the receiver's own parameters, pulls, but is not in the mean.
    """
    total, weight = _sums_of(near, sent, screened, None)
    moved, moving = (total, weight) if moves is None else _sums_of(near, sent, screened, moves)
    seen, used = (total, weight) if refused is None else _sums_of(near, sent, screened, ~refused)
    nobody = _shaped(used, total) == 0
    mean = np.where(nobody, own, seen / _shaped(np.maximum(used, 1e-9), total))
    return Pull(total, moved, moving, mean, near.weight)


def _sums_of(
    near: Neighbours, sent: Array, screened: Sequence[Array] | None, which: npt.NDArray[np.bool_] | None
) -> tuple[Array, Array]:
    """Weighted sums of the parameters of some senders, None for all, and of their weights. (J, P, K), (J,)"""
    if which is None:
        return near.sums(sent, screened), near.weight
    if screened is not None:
        screened = [
            np.where(which[list(rows)][:, None, None], values, 0) if rows else values
            for rows, values in zip(near.near, screened, strict=True)
        ]
    masked = np.where(which[:, None, None], sent, 0)
    return near.sums(masked, screened), near.sums(which.astype(np.float64))


def mix(near: Neighbours, own: Array, sent: Array) -> Array:
    """Averages over learners with their neighbours."""
    total: Array = _shaped(near.own, own) * own
    for slot in near.slots:
        total[slot.rows] += _shaped(slot.mixing, sent) * sent[slot.senders]
    return total


def own_value(near: Neighbours, own: Array, sent: Array) -> Array:
    """The own value: the part only describes its sender."""
    return own


#: Rules by name, besides "pull", which also needs to know the edges whose duals move.
RULES: dict[str, Callable[[Neighbours, Array, Array], Array]] = {
    "mix": mix,
    "own": own_value,
}


def _shaped(weight: Array, values: Array) -> Array:
    return np.asarray(weight.reshape(-1, *(1,) * (values.ndim - 1)), values.dtype)

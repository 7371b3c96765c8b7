"""All learners of a graph, who exchange messages in one process."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..learning.fields import Concept, field, scalar
from ..learning.model import Model
from .combine import Flags, Neighbours
from .edges import NetworkDuals
from .graph import Graph
from .message import Exchange, Layout, layout_of

#: Messages that are judged at once: more take memory for their copies, and no less time.
AT_ONCE = 1024


class Group(NamedTuple):
    """Learners with equally many neighbours, who judge them at once."""

    who: list[int]  # (R,)
    near: npt.NDArray[np.intp]  # (R, n) the neighbours of each
    ends: npt.NDArray[np.intp]  # (R, n) which ends of edges these are


def _by_degree(neighbours: Sequence[Sequence[int]], rows: list[int]) -> list[Group]:
    """`rows`: whose each end of an edge is, in the order in which learners have their neighbours."""
    ends: list[list[int]] = [[] for _ in neighbours]
    for e, row in enumerate(rows):
        ends[row].append(e)
    groups = []
    for n in sorted(set(map(len, neighbours)) - {0}):
        alike = [j for j, others in enumerate(neighbours) if len(others) == n]
        size = max(1, AT_ONCE // n)
        for who in (alike[k : k + size] for k in range(0, len(alike), size)):
            near, own = ([each[j] for j in who] for each in (neighbours, ends))
            groups.append(Group(who, np.array(near), np.array(own)))
    return groups


class Network(Concept):
    """The exchange of a simulation: every message arrives, in the round it was sent in."""

    used: Array = field("E", low=0.0)  # messages, of each end of an edge
    judged: int = scalar("int64", low=0)  # rounds
    sent: float = scalar(low=0.0)  # numbers that a learner has sent to each neighbour
    bytes: float = scalar(low=0.0)
    PARTS = ("duals",)

    def __init__(self, graph: Graph, exchange: Exchange) -> None:
        self.graph, self.exchange = graph, exchange
        #: Names of all whose messages are here, and of each row which of these are its neighbours.
        self.names, self.near = self._who()
        self.neighbours = self._neighbours()
        self.duals = self._duals()
        self._groups = _by_degree(self.near, self.duals.rows.tolist())
        self.allocate(J=graph.J, E=len(self.duals.rows))

    def _who(self) -> tuple[Sequence[Hashable], Sequence[Sequence[int]]]:
        return self.graph.names, self.graph.neighbours

    def _neighbours(self) -> Neighbours:
        return Neighbours.of(self.graph)

    def _duals(self) -> NetworkDuals:
        return NetworkDuals(self.neighbours)

    def gaps(self, model: Model, prediction: Any) -> Array:
        """How far learners are from their neighbours on their own samples. (J, m, P)"""
        sent = self.delivered(model.message())
        theirs = {name: values[self.neighbours.senders] for name, values in sent.items()}
        return model.gaps(prediction, self.neighbours.rows, theirs)

    def exchange_round(self, model: Model, outgoing: Mapping[str, Array]) -> dict[str, Any]:
        """Combine the messages of a round; duals move as far as neighbours receive."""
        layout, own = layout_of(model.parts), dict(outgoing)
        for part in layout.wide:
            own[part.name] = self.exchange.outgoing(outgoing[part.name], model.largest)
        self._count(layout, 1)
        sent = self.delivered(own)
        if model.judges and self.graph.J > 1:
            incoming = self._combine_judged(model, layout, own, sent)
        else:
            received = self._received(model, layout, own, sent)
            incoming = self.neighbours.combine(layout.parts, own, received)
        if layout.theta is not None:
            name = layout.theta.name
            self._take_back(model, outgoing[name] - own[name], incoming[name].moving)
        self.bytes += self._spread(model) / self.graph.J
        return incoming

    def _spread(self, model: Model) -> int:
        """Pass on news to neighbours; how many bytes all learners had of it."""
        sent = 0
        for j, news in enumerate(model.news()):
            for i in self.near[j] if news else ():
                model.hear(i, news)
            sent += sum(one.nbytes for one in news.values())
        return sent

    def delivered(self, own: dict[str, Array]) -> dict[str, Array]:
        """What neighbours receive of everybody's message: the same, unless a subclass lets somebody lie."""
        return own

    def _combine_judged(
        self, model: Model, layout: Layout, own: Mapping[str, Array], sent: Mapping[str, Array]
    ) -> dict[str, Any]:
        """Combine what learners believe; duals move with those who believe each other."""
        assert layout.theta is not None
        duals, name = self.duals, layout.theta.name
        duals.restart(model.restarts)
        refused = self._refused(model, sent)
        self.judged += 1
        self.used += ~refused
        back, moving = duals.settle(refused)
        if back is not None:
            model.take_back(back)
        received = self._received(model, layout, own, sent, refused)
        incoming = self.neighbours.combine(layout.parts, own, received, moving, ~refused)
        duals.move(moving, own[name], received[name])
        return incoming

    def _refused(self, model: Model, sent: Mapping[str, Array]) -> Flags:
        """Which ends of edges do not use what they received. (E,)"""
        judged = {name: sent[name] for name in model.judges if name in sent}
        refused = np.zeros(len(self.duals.rows), bool)
        for group in self._groups:
            used = model.believes(group.who, {name: values[group.near] for name, values in judged.items()})
            refused[group.ends] = ~used
        return refused

    def _received(
        self,
        model: Model,
        layout: Layout,
        own: Mapping[str, Array],
        sent: Mapping[str, Array],
        refused: Flags | None = None,
    ) -> dict[str, Array]:
        """What every end of an edge makes of its message, its own values for one that it refused. (E, ...)"""
        near, found = (
            self.neighbours,
            {name: values[self.neighbours.senders] for name, values in sent.items()},
        )
        if refused is not None and refused.any():
            for name, values in found.items():
                values[refused] = own[name][near.rows[refused]]
        for part in layout.wide:
            found[part.name] = self.exchange.screened(near.rows, own[part.name], found[part.name])
        return found

    @property
    def believed(self) -> Array:
        """Part of the rounds in which each end of an edge used its message. (E,)"""
        return self.used / self.judged if self.judged else np.empty(0)

    def _take_back(self, model: Model, rounded: Array, moving: Array) -> None:
        """Neighbours have theta as it was sent, rounded or clipped, and so must the duals that move."""
        if rounded.any():
            model.take_back(rounded * np.asarray(moving[:, None, None], rounded.dtype))

    def begin(self, model: Model) -> None:
        """Make room for the duals of a model."""
        self.duals.begin(model.parts[0].shape, model.dtype)

    def opened(self, model: Model) -> dict[str, Any]:
        """What an engine that exchanges messages by itself works on, in place, from this round on."""
        duals = self.duals
        duals.restart(model.restarts)
        self.begin(model)
        parts = {"network": self, "near": self.neighbours, "duals": duals, "ends": duals.ends}
        return {"E": len(duals.rows), **parts}

    def count(self, model: Model, rounds: int) -> None:
        """That engine has been through so many rounds."""
        self.duals.round += rounds
        self.judged += rounds
        self._count(layout_of(model.parts), rounds)

    def _count(self, layout: Layout, rounds: int) -> None:
        if self.graph.J == 1:
            return
        wide, small = layout.sizes
        more = 1  # the degree
        self.sent += rounds * (wide + small + more)
        self.bytes += rounds * (wide * np.dtype(self.exchange.payload).itemsize + 8 * (small + more))

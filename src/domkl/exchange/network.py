"""All learners of a graph, who exchange messages in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.types import Array
from ..learning.model import Model, Statistics
from .combine import Neighbours
from .graph import Graph
from .message import Exchange, Layout, layout_of
from .topology import order

#: Numbers before the statistics of one learner in a message: of which round, whose, how many, of how many.
HEADER = 4


class Network:
    """The exchange of a simulation: every message arrives, in the round it was sent in."""

    def __init__(self, graph: Graph, exchange: Exchange) -> None:
        self.graph, self.exchange, self.neighbours = graph, exchange, Neighbours.of(graph)
        self.around = np.eye(graph.J, dtype=bool)  # (J, J) each learner with its neighbours
        for j, others in enumerate(graph.neighbours):
            self.around[j, list(others)] = True
        self.diameter = graph.diameter
        self._order = sorted(range(graph.J), key=lambda j: order(graph.names[j]))
        self.sent = self.bytes = 0.0  # numbers and bytes that a learner has sent to each neighbour

    def exchange_round(self, model: Model, outgoing: Mapping[str, Array]) -> dict[str, Any]:
        """Combine the messages of a round; duals move as far as neighbours receive."""
        layout, sent = layout_of(model.parts), dict(outgoing)
        for part in layout.wide:
            sent[part.name] = self.exchange.outgoing(outgoing[part.name], model.largest)
        if layout.theta is not None:
            self._take_back(model, outgoing[layout.theta.name] - sent[layout.theta.name])
        if self.graph.J > 1:
            self._count(layout, model)
        incoming = self.neighbours.combine(layout.parts, sent, sent, screen=self.exchange.screen)
        incoming["statistics"] = {
            t: self._pooled(each, model.is_common(t)) for t, each in model.statistics.items()
        }
        return incoming

    def _take_back(self, model: Model, rounded: Array) -> None:
        """Neighbours have theta as it was sent, rounded or clipped, and so must the duals."""
        if rounded.any():
            model.take_back(rounded * np.asarray(self.neighbours.weight[:, None, None], rounded.dtype))

    def _pooled(self, each: Any, is_common: bool) -> Statistics:
        """Statistics of everybody where they are common, else of each neighbourhood."""
        each = type(each)(*(values[self._order] for values in each))
        who = np.ones((1, self.graph.J), bool) if is_common else self.around[:, self._order]
        return Statistics(each, who)

    def _count(self, layout: Layout, model: Model) -> None:
        wide, small = layout.sizes
        more = 1  # the degree
        for round, each in model.statistics.items():
            rows = self.graph.J if model.is_common(round) else 1
            more += rows * (HEADER + sum(values[0].size for values in each))
        self.sent += wide + small + more
        self.bytes += wide * np.dtype(self.exchange.payload).itemsize + 8 * (small + more)

"""What leaves a learner, and how what arrives is combined: over a graph, or over an inbox."""

from __future__ import annotations

from .combine import RULES, Neighbours
from .graph import Graph, as_graph
from .message import Exchange, Update
from .topology import Topology

__all__ = ["RULES", "Exchange", "Graph", "Neighbours", "Topology", "Update", "as_graph"]

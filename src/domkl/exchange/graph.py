"""The communication graph: networkx graphs, edge lists and adjacencies become neighbour lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array

GraphLike: TypeAlias = "Graph | str | Array | Iterable[tuple[Hashable, Hashable]] | Any"
Pair: TypeAlias = "tuple[int, int]"
Arrivals: TypeAlias = "tuple[Any, npt.NDArray[np.intp]]"


@dataclass(frozen=True)
class Graph:
    """A connected undirected graph of J learners; `neighbours[j]` holds indices in ascending order."""

    names: tuple[Hashable, ...]
    neighbours: tuple[tuple[int, ...], ...]
    note: str = ""

    @property
    def J(self) -> int:
        return len(self.neighbours)

    @cached_property
    def deg(self) -> Array:
        """Number of neighbours of each learner. (J,)"""
        return np.array([len(n) for n in self.neighbours])

    @property
    def edges(self) -> list[Pair]:
        """Every edge once, as (smaller index, larger index)."""
        return [(j, i) for j, near in enumerate(self.neighbours) for i in near if j < i]

    @property
    def is_tree(self) -> bool:
        return len(self.edges) == self.J - 1  # connected by construction


#: Why no link is one-way.
BOTH = "as the two ends of a link must agree on its dual"
#: The graph of a learner alone.
LONE = Graph((0,), ((),))


def as_graph(graph: GraphLike, J: int | None = None) -> Graph:
    """Any description of a network as a checked `Graph`.

    Parameters
    ----------
    graph : a networkx graph, an adjacency (J, J) of 0 and 1, a list of edges, or a name: ring, path, star,
        complete, paper1 .. paper4.
        Integer nodes 0..J-1 are learners by that index; other nodes are numbered in their own order.
        A (2, 2) array is an adjacency if J is 2 or not given, else two edges.
    J : the expected number of learners. With it an adjacency may be a list of lists.

    Examples
    --------
    >>> from domkl import graph
    >>> graph.as_graph([("a", "b"), ("b", "c")]).neighbours
    ((1,), (0, 2), (1,))
    >>> graph.as_graph("ring", J=4).edges
    [(0, 1), (0, 3), (1, 2), (2, 3)]
    """
    _refuse_changing(graph)
    if isinstance(graph, str):
        graph = named(graph, J)
    if not isinstance(graph, Graph):
        graph = build(*_nodes_and_edges(graph, J))
    if J is not None and graph.J != J:
        raise InputError(
            f"the graph has {graph.J} learners but the data has {J}; expected the same number; "
            "give each learner a node and a stream"
        )
    return graph


def _refuse_changing(graph: Any) -> None:
    """Refuse a graph for each round: a list of them, a stack of adjacencies, or a function."""
    parts = graph if isinstance(graph, (list, tuple)) else ()
    timed = [part[1] for part in parts if isinstance(part, (list, tuple)) and len(part) == 2]
    several = any(isinstance(part, (str, Graph)) or _is_whole(part) for part in parts)
    stacked = isinstance(graph, np.ndarray) and graph.ndim == 3
    if several or stacked or any(isinstance(g, Graph) or _is_whole(g) for g in timed) or callable(graph):
        raise InputError(
            "the graph changes over time; expected one for all rounds, as a link that goes takes what its "
            "ends agreed on with it; drive domkl.Learner yourself: join() and leave() change its neighbours"
        )


def _is_whole(graph: Any) -> bool:
    return hasattr(graph, "nodes") or (isinstance(graph, np.ndarray) and graph.ndim == 2)


def named(name: str, J: int | None = None) -> Graph:
    """A network by name: ring, path, star, complete (of J learners), or paper1 .. paper4."""
    checks.one_of("graph", name, (*SHAPES, *PAPER))
    if name in PAPER:
        return paper(int(name[-1]))
    if J is None:
        raise InputError(f"graph {name!r} needs a number of learners; expected J; pass J=")
    return build(list(range(J)), SHAPES[name](J))


def paper(number: int) -> Graph:
    """The paper's network 1, 2, 3 or 4. Its figure is not in the text: these are inferred.

    They fit the printed tables best (see docs/reproduction.md): 1 and 3 complete graphs of 3
    and 5 learners, 2 a star around learner 1, 4 a star around learner 2.
    """
    name = f"paper{number}"
    checks.one_of("paper network", name, PAPER)
    J, hub = PAPER[name]
    edges = complete(J) if hub is None else star(J, hub)
    return Graph(tuple(range(1, J + 1)), build(list(range(J)), edges).neighbours, note="inferred")


def ring(J: int) -> list[Pair]:
    """0 - 1 - ... - J-1 - 0."""
    return path(J) + ([(0, J - 1)] if J > 2 else [])


def path(J: int) -> list[Pair]:
    """0 - 1 - ... - J-1."""
    return [(j, j + 1) for j in range(J - 1)]


def star(J: int, hub: int = 0) -> list[Pair]:
    """Every learner next to the hub alone."""
    return [(hub, j) for j in range(J) if j != hub]


def complete(J: int) -> list[Pair]:
    """Every learner linked to every other."""
    return [(j, i) for j in range(J) for i in range(j + 1, J)]


SHAPES: dict[str, Callable[[int], list[Pair]]] = {
    "ring": ring,
    "path": path,
    "star": star,
    "complete": complete,
}
#: The paper's networks: number of learners, and the hub where it is a star.
PAPER: dict[str, tuple[int, int | None]] = {
    "paper1": (3, None),
    "paper2": (3, 0),
    "paper3": (5, None),
    "paper4": (5, 1),
}


def _nodes_and_edges(graph: Any, J: int | None) -> tuple[list[Hashable], list[tuple[Hashable, Hashable]]]:
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        if graph.is_directed():
            raise InputError(
                f"the graph is directed; expected undirected links, {BOTH}; use graph.to_undirected()"
            )
        return list(graph.nodes), [(edge[0], edge[1]) for edge in graph.edges]
    if hasattr(graph, "toarray"):
        return _from_adjacency(graph.toarray())
    return _from_adjacency(np.asarray(graph)) if _is_adjacency(graph, J) else _from_edges(graph, J)


def _is_adjacency(graph: Any, J: int | None) -> bool:
    """A square array, but (2, 2) is two edges where there are not two learners; or J lists of J."""
    if isinstance(graph, np.ndarray):
        return graph.ndim == 2 and len(set(graph.shape)) == 1 and (graph.shape != (2, 2) or J in (None, 2))
    if J in (None, 2) or not isinstance(graph, (list, tuple)) or len(graph) != J:
        return False
    return all(isinstance(row, (list, tuple, np.ndarray)) and len(row) == J for row in graph)


def _from_adjacency(matrix: Array) -> tuple[list[Hashable], list[tuple[Hashable, Hashable]]]:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"the adjacency is {matrix.shape}; expected (J, J); give a row for each learner")
    if not np.isin(matrix, (0, 1)).all():
        raise InputError("the adjacency holds values other than 0 and 1; expected only those; use (A != 0)")
    if not np.array_equal(matrix, matrix.T):
        raise InputError(f"the adjacency is not symmetric; expected undirected links, {BOTH}; use A | A.T")
    edges: list[tuple[Hashable, Hashable]] = [(int(j), int(i)) for j, i in np.argwhere(matrix) if j <= i]
    return list(range(len(matrix))), edges


def _from_edges(graph: Any, J: int | None) -> tuple[list[Hashable], list[tuple[Hashable, Hashable]]]:
    try:
        edges = [(_plain(a), _plain(b)) for a, b in graph]
    except (TypeError, ValueError):
        raise InputError(
            "the graph cannot be read; expected a networkx graph, a square adjacency or a list of pairs; "
            "for example [(0, 1), (1, 2)]"
        ) from None
    nodes = list(dict.fromkeys(node for edge in edges for node in edge))
    if J is not None and all(isinstance(node, int) and 0 <= node < J for node in nodes):
        nodes = list(range(J))  # a learner that no edge names is isolated, and must be reported as such
    return nodes, edges


def _plain(node: Any) -> Hashable:
    whole = isinstance(node, np.integer) or (isinstance(node, np.floating) and node.is_integer())
    return int(node) if whole else node


def build(nodes: Sequence[Hashable], edges: Iterable[tuple[Hashable, Hashable]]) -> Graph:
    """The graph of these learners and links, checked."""
    if set(nodes) == set(range(len(nodes))):
        nodes = range(len(nodes))
    index = {node: j for j, node in enumerate(nodes)}
    near: list[set[int]] = [set() for _ in nodes]
    for a, b in edges:
        if a == b:
            raise InputError(
                f"learner {a!r} is linked to itself; expected links between two learners; remove it"
            )
        near[index[a]].add(index[b])
        near[index[b]].add(index[a])
    _refuse_unconnected(nodes, near)
    return Graph(tuple(nodes), tuple(tuple(sorted(n)) for n in near))


def _refuse_unconnected(nodes: Sequence[Hashable], near: list[set[int]]) -> None:
    if not nodes:
        raise InputError("the graph has no learners; expected at least one; add nodes and edges")
    for node, others in zip(nodes, near, strict=True):
        if not others and len(nodes) > 1:
            raise InputError(
                f"learner {node!r} has no neighbour; expected at least one; link it or leave it out"
            )
    reached, frontier = {0}, [0]
    while frontier:
        found = near[frontier.pop()] - reached
        reached |= found
        frontier.extend(found)
    if len(reached) < len(nodes):
        cut = next(node for j, node in enumerate(nodes) if j not in reached)
        raise InputError(
            f"the graph is not connected: no path leads from learner {nodes[0]!r} to {cut!r}; "
            "expected one connected graph; link its parts or run each alone"
        )


# Sums over neighbours


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


__all__ = ["Graph", "GraphLike", "as_graph", "complete", "named", "paper", "path", "ring", "star"]


def __dir__() -> list[str]:
    return __all__

"""One network over many processes: each rank of `mpiexec` computes a part of the learners.

A rank holds its own learners and, below them, ghosts: rows of neighbours that live on other ranks. Each
round it steps its own learners, and where that sums over neighbours, the ghosts' rows are fetched first.
Every sum keeps the order of the neighbour list, so the bits are those of one process. For `Paper` a
`NumpyEngine` computes a part; `RankNetwork` is the exchange of other models, which compute as ever.
"""

from __future__ import annotations

import math
import sys
import time
import traceback
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import Error, InputError, MissingExtra
from ..base.extras import need
from ..base.types import Array
from ..exchange.combine import Neighbours
from ..exchange.edges import Ends, NetworkDuals
from ..exchange.graph import Graph, Links
from ..exchange.message import Exchange
from ..exchange.network import Network
from ..learning.model import Index, Model

#: What a learner costs beside its neighbours, counted in neighbours: measured at P = 3, D = 20, d = 5.
BASE_COST = 16
#: The tag of messages about edges; those of arrays are their places.
ENDS = 1000
#: Seconds in which mpiexec can pass on a rank's error; an abort would overtake it on a busy machine.
PASSED_ON = 0.3


class Border(NamedTuple):
    """Rows that this rank and another exchange."""

    rank: int
    mine: Index  # own rows that the other rank needs, by ascending learner
    theirs: slice  # rows of its learners among the ghosts, in that same order


class RankPart(NamedTuple):
    """What one rank holds of a network."""

    learners: Index  # its own, ascending
    graph: Graph  # of its own learners, then the ghosts, with the links that touch its own
    borders: list[Border]

    @property
    def numbers(self) -> list[int]:
        """Of its rows in the whole network."""
        return [int(name) for name in self.graph.names]  # type: ignore[call-overload]


class Ranks:
    """The part of a network that this rank holds; every rank gets the results of all."""

    def __init__(self, graph: Graph, known: str) -> None:
        """`known` is all else that has to be the same on every rank, in words."""
        self.comm = comm = communicator()
        _refuse_other_arguments(comm, blake2b(known.encode() + _near(graph)).digest())
        owner = owners(comm, graph)
        self.order, self.counts = np.argsort(owner, kind="stable"), np.bincount(owner)
        self.part = part_of(graph, owner, comm.rank)
        self.rows = self.part.learners
        self.ghosts = Ghosts(comm, self.part)

    @property
    def links(self) -> Links:
        """Of the own learners."""
        return Links(self.part.graph, len(self.rows))

    def gather(self, values: Array) -> Array:
        """The rows of all ranks, in the order of the learners. (own, ...) -> (J, ...)"""
        ranked = np.empty((len(self.order), *values.shape[1:]), values.dtype)
        counts = [int(n) * math.prod(values.shape[1:]) for n in self.counts]
        self.comm.Allgatherv(np.ascontiguousarray(values), [ranked, counts])
        whole = np.empty_like(ranked)
        whole[self.order] = ranked
        return whole


class RankNetwork(Network):
    """The exchange of the learners of this rank, whose neighbours' messages may come from other ranks."""

    def __init__(self, graph: Graph, exchange: Exchange, ranks: Ranks) -> None:
        self.ranks = ranks
        super().__init__(graph, exchange)

    def _who(self) -> tuple[Sequence[Hashable], Sequence[Sequence[int]]]:
        part = self.ranks.part
        names = [self.graph.names[k] for k in part.numbers]
        return names, part.graph.neighbours[: len(part.learners)]

    def _neighbours(self) -> Neighbours:
        degrees = np.array([len(self.graph.neighbours[k]) for k in self.ranks.part.numbers], np.float64)
        return Neighbours(degrees[: len(self.near)], self.near, degrees)

    def _duals(self) -> RankDuals:
        return RankDuals(self.neighbours, self.ranks)

    def delivered(self, own: dict[str, Array]) -> dict[str, Array]:
        """Everybody's message, and below those of neighbours on other ranks."""
        return dict(zip(own, self.ranks.ghosts.share(*own.values()), strict=True))

    def _spread(self, model: Model) -> int:
        own, comm = len(self.near), self.ranks.comm
        sent, away, numbers = 0, list[tuple[int, Any]](), self.ranks.part.numbers
        for j, news in enumerate(model.news()):
            for i in self.near[j] if news else ():
                if i < own:
                    model.hear(i, news)
                else:
                    away.append((numbers[i], news))
            sent += sum(one.nbytes for one in news.values())
        total = np.array([sent, len(away)])
        comm.Allreduce(total.copy(), total)
        if total[1]:
            self._send(model, away)
        return int(total[0])

    def _send(self, model: Model, away: list[tuple[int, Any]]) -> None:
        """News to learners of other ranks, which look for their own."""
        here = {k: row for row, k in enumerate(self.ranks.rows.tolist())}
        for k, news in chain.from_iterable(self.ranks.comm.allgather(away)):
            if k in here:
                model.hear(here[k], news)

    @property
    def believed(self) -> Array:
        """As ever, of the whole network."""
        names, near = np.array(self.ranks.part.numbers), self.neighbours
        mine = list(
            zip(zip(names[near.rows], names[near.senders], strict=True), super().believed, strict=False)
        )
        found = dict(chain.from_iterable(self.ranks.comm.allgather(mine)))
        whole = Neighbours.of(self.graph)
        ends = zip(whole.rows, whole.senders, strict=True) if found else ()
        return np.array([found[end] for end in ends])


class RankDuals(NetworkDuals):
    """As `NetworkDuals`, with other ends of edges on other ranks; those are asked for their state."""

    def __init__(self, near: Neighbours, ranks: Ranks) -> None:
        self.ranks = ranks
        super().__init__(near)

    def _others(self) -> Index:
        """Places among the own ends, and below those of each border, in an order that both ranks know."""
        names = self.ranks.part.numbers
        pairs = [(names[j], names[i]) for j, i in zip(self.rows, self.senders, strict=True)]
        where = {pair: e for e, pair in enumerate(pairs)}
        #: Own ends at each border, in the order of (receiver, sender) there: what the other rank asks for.
        self.asked: list[Index] = []
        at = len(pairs)
        for border in self.ranks.part.borders:
            first, last = border.theirs.start, border.theirs.stop
            cross = [e for e, i in enumerate(self.senders) if first <= i < last]
            self.asked.append(np.array(sorted(cross, key=lambda e: pairs[e]), np.intp))
            for k, e in enumerate(sorted(cross, key=lambda e: pairs[e][::-1])):
                where[pairs[e][::-1]] = at + k
            at += len(cross)
        return np.array([where[i, j] for j, i in pairs], np.intp)

    def held(self) -> Ends:
        """What the other ends say of themselves, on whatever rank they are."""
        comm, borders, mine = self.ranks.comm, self.ranks.part.borders, np.stack(self.ends, -1)
        found = [np.empty((len(asked), mine.shape[1]), np.int64) for asked in self.asked]
        under_way = [comm.Irecv(to, b.rank, ENDS) for to, b in zip(found, borders, strict=True)]
        given = [mine[asked] for asked in self.asked]
        under_way += [comm.Isend(values, b.rank, ENDS) for values, b in zip(given, borders, strict=True)]
        for request in under_way:
            request.Wait()
        return Ends(*np.concatenate([mine, *found]).T).at(self.other)


class Ghosts:
    """Fetches the ghosts' rows from the ranks that compute them, and gives those their own."""

    def __init__(self, comm: Any, part: RankPart) -> None:
        self.comm = comm
        self.J = part.graph.J
        self.borders = part.borders

    def share(self, *values: Array) -> tuple[Array, ...]:
        """Each array with the ghosts' rows below: (own, ...) -> (own + ghosts, ...)."""
        wholes = tuple(np.empty((self.J, *v.shape[1:]), v.dtype) for v in values)
        wanted = [(whole[b.theirs], b.rank, k) for k, whole in enumerate(wholes) for b in self.borders]
        under_way = [self.comm.Irecv(*each) for each in wanted]
        given = [(v.take(b.mine, axis=0), b.rank, k) for k, v in enumerate(values) for b in self.borders]
        under_way += [self.comm.Isend(*each) for each in given]
        for whole, v in zip(wholes, values, strict=True):
            whole[: len(v)] = v
        for request in under_way:
            request.Wait()
        return wholes


def owners(comm: Any, graph: Graph) -> Index:
    """The rank of every learner; rank 0 decides, so that other versions of METIS elsewhere do not matter."""
    if comm.size > graph.J:
        raise InputError(
            f"there are {comm.size} ranks for {graph.J} learners; expected a learner for each; "
            f"use mpiexec -n {graph.J} or less"
        )
    owner = partition(graph, comm.size) if comm.rank == 0 else np.empty(graph.J, np.intp)
    comm.Bcast(owner)
    return owner


def partition(graph: Graph, ranks: int) -> Index:
    """Parts of about equal cost with few links between them, by METIS; each has at least one learner."""
    slices = np.arange(graph.J) * ranks // graph.J
    if ranks == 1:
        return slices
    metis = need("pymetis", "mpi")
    _, found = metis.part_graph(ranks, adjacency=graph.neighbours, vweights=graph.deg + BASE_COST)
    owner = np.asarray(found, np.intp)
    # METIS may leave parts of a tiny graph empty.
    return owner if len(np.unique(owner)) == ranks else slices


def part_of(graph: Graph, owner: Index, rank: int) -> RankPart:
    """The part of a rank, from the owners of all learners."""
    own = np.flatnonzero(owner == rank)
    beyond = {i for j in own for i in graph.neighbours[j] if owner[i] != rank}
    ghosts = sorted(beyond, key=lambda i: (owner[i], i))
    row = {j: k for k, j in enumerate([*own.tolist(), *ghosts])}
    near = [tuple(row[i] for i in graph.neighbours[j]) for j in own]
    back = [tuple(row[i] for i in graph.neighbours[j] if owner[i] == rank) for j in ghosts]
    borders = [
        _border(int(other), list(rows), len(own), back)
        for other, rows in groupby(range(len(ghosts)), key=lambda k: owner[ghosts[k]])
    ]
    return RankPart(own, Graph(tuple(row), (*near, *back)), borders)


def _border(rank: int, ghosts: list[int], own: int, back: list[tuple[int, ...]]) -> Border:
    mine = sorted({j for k in ghosts for j in back[k]})
    return Border(rank, np.array(mine, np.intp), slice(own + ghosts[0], own + ghosts[-1] + 1))


def _refuse_other_arguments(comm: Any, fingerprint: bytes) -> None:
    mine = np.frombuffer(fingerprint, np.uint8)
    first = mine.copy()
    comm.Bcast(first)
    if not np.array_equal(mine, first):
        raise InputError(
            "this rank's model, graph, exchange, kernels, rates or delay are not those of rank 0; "
            "expected the same arguments on all ranks; seed what is drawn at random"
        )


def _near(graph: Graph) -> bytes:
    """Who is whose neighbour."""
    near = np.fromiter(chain.from_iterable(graph.neighbours), np.intp)
    return graph.deg.tobytes() + near.tobytes()


def mpi() -> Any:
    """The module mpi4py.MPI; importing it starts MPI."""
    try:
        return need("mpi4py.MPI", "mpi")
    except RuntimeError as error:
        raise MissingExtra(
            f"mpi4py finds no MPI library ({str(error).splitlines()[0]}); "
            'install one with: pip install "domkl[mpi]"'
        ) from None


@cache
def communicator() -> Any:
    """All ranks; a duplicate, so that no message of the caller's own is mistaken for ours."""
    return mpi().COMM_WORLD.Dup()


@contextmanager
def together() -> Iterator[None]:
    """End all ranks where one of them fails: the others would wait for it for ever."""
    world = mpi().COMM_WORLD
    try:
        yield
    except BaseException as error:
        if world.size > 1:
            _report(error, world.rank, world.size)
            time.sleep(PASSED_ON)
            world.Abort(1)
        raise


def _report(error: BaseException, rank: int, size: int) -> None:
    if not isinstance(error, Error):
        traceback.print_exc()
    line = f"domkl: rank {rank} of {size} ends the run: {type(error).__name__}: {error}"
    print(line, file=sys.stderr, flush=True)

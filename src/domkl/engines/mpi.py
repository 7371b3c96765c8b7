"""One network over many processes: each rank of `mpiexec` computes a part of the learners.

A rank holds its own learners and, below them, ghosts: rows of neighbours that live on other ranks. Each
round it steps its own learners with `NumpyEngine`, and where that sums over neighbours, the ghosts' rows
are fetched first. Every sum keeps the order of the neighbour list, so the bits are those of one process.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from itertools import chain, groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.errors import Error, InputError, MissingExtra
from ..base.extras import need
from ..base.types import Array
from ..exchange.graph import Graph, Links
from .arrays import NumpyEngine
from .base import Setting, Sums

Index: TypeAlias = "npt.NDArray[np.intp]"

#: Bytes of the samples that a rank holds at once.
BLOCK_BYTES = 64_000_000
#: What a learner costs beside its neighbours, counted in neighbours: measured at P = 3, D = 20, d = 5.
BASE_COST = 16
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


class MpiEngine:
    """The learners of this rank; results are gathered, so that every rank has those of all."""

    def __init__(self, setting: Setting) -> None:
        self.comm = comm = communicator()
        self.setting = setting
        _refuse_other_arguments(comm, setting)
        owner = owners(comm, setting.graph)
        self.order, self.counts = np.argsort(owner, kind="stable"), np.bincount(owner)
        part = part_of(setting.graph, owner, comm.rank)
        self.rows = part.learners
        ghosts = Ghosts(comm, part)
        self.own = NumpyEngine(setting, Links(part.graph, len(self.rows)), ghosts.share)

    @property
    def most_rounds(self) -> int:
        # The same on all ranks, whatever the size of their parts, because each block ends with a gathering.
        J, d = self.setting.graph.J, self.setting.V.shape[2]
        return max(1, BLOCK_BYTES * int(self.comm.size) // int(self.setting.V.itemsize * J * d))

    @property
    def sums(self) -> Sums:
        return Sums(*map(self.gather, self.own.sums))

    @property
    def q(self) -> Array:
        return self.gather(self.own.q)

    @property
    def L(self) -> Array:
        return self.gather(self.own.L)

    def state(self) -> tuple[Array, Array]:
        theta, lam = self.own.state()
        return (self.gather(theta), self.gather(lam)) if self.setting.keep_state else (theta, lam)

    def advance(self, X: Array, y: Array) -> Array:
        return self.gather(self.own.advance(X, y))

    def gather(self, values: Array) -> Array:
        """The rows of all ranks, in the order of the learners. (own, ...) -> (J, ...)"""
        ranked = np.empty((len(self.order), *values.shape[1:]), values.dtype)
        counts = [int(n) * values[0].size for n in self.counts]
        self.comm.Allgatherv(np.ascontiguousarray(values), [ranked, counts])
        whole = np.empty_like(ranked)
        whole[self.order] = ranked
        return whole


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


def _refuse_other_arguments(comm: Any, setting: Setting) -> None:
    mine = np.frombuffer(_fingerprint(setting), np.uint8)
    first = mine.copy()
    comm.Bcast(first)
    if not np.array_equal(mine, first):
        raise InputError(
            "this rank's kernels, graph, rates, loss, hedge or delay are not those of rank 0; "
            "expected the same arguments on all ranks; seed what is drawn at random"
        )


def _fingerprint(setting: Setting) -> bytes:
    how, loss = setting.how, setting.how.loss
    plain = (setting.V.shape, setting.V.dtype, how.rates, loss.name, loss.reg, loss.delta)
    known = blake2b(repr((*plain, how.hedge, setting.delay, setting.keep_state)).encode())
    near = np.fromiter(chain.from_iterable(setting.graph.neighbours), np.intp)
    for values in (setting.V, setting.graph.deg, near):
        known.update(values.tobytes())
    return known.digest()


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

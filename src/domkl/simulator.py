"""Runner of a whole graph in one process: `domkl.simulate`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from . import engines
from .base import checks
from .base.errors import InputError
from .base.types import Array, Float
from .engines import Engine, Setting, Sums
from .exchange.graph import Graph, GraphLike, as_graph
from .exchange.message import Exchange
from .exchange.network import Network
from .learning import kernels as dictionaries
from .learning import losses
from .learning.auto import AutoRows
from .learning.settings import Auto, ModelSettings, Paper, check_model

Progress: TypeAlias = Callable[[int, int], object]
#: A block of rounds: X (J, B, d) and y (J, B).
Block: TypeAlias = "tuple[Array, Array]"


@dataclass(frozen=True)
class Run:
    """What a simulation gives back: J learners, T rounds, P kernels or models of K parameters."""

    y_hat: Array  # (J, T) predicted before the label was learnt; (J, T, m) where y was
    mse: Array  # (J,) mean squared error
    cv: Array  # (J,) consensus violation
    theta: Array  # (J, P, K) final parameters
    lam: Array  # (J, P, K) final duals
    L: Array  # (J, P) cumulative losses
    q: Array  # (J, n) final weights of the kernels (Paper) or experts (Auto)
    kernel_mse: Array  # (J, P) of each kernel by itself: these are P runs of DOKL
    kernel_cv: Array  # (J, P)
    q_path: Array  # (rounds, J, n) weights every `weights_every` rounds
    q_rounds: npt.NDArray[np.intp]  # (rounds,) the rounds of q_path
    graph: Graph
    sent: float  # numbers sent to each neighbour in a round, on average
    bytes: float  # the same in bytes, without the message's envelope


def simulate(
    X: npt.ArrayLike | Iterable[Block],
    y: npt.ArrayLike | None,
    graph: GraphLike,
    *,
    model: ModelSettings | None = None,
    delay: int = 0,
    exchange: Exchange | None = None,
    engine: str = "auto",
    threads: int | None = None,
    dtype: Float = np.float64,
    keep_state: bool = True,
    weights_every: int = 0,
    progress: Progress | None = None,
) -> Run:
    """Let a network of J learners learn for T rounds, in this process.

    Parameters
    ----------
    X, y : streams of all learners, (J, T, d) and (J, T), perhaps memory-mapped; or, as X, an iterable of
        blocks (X (J, B, d), y (J, B)) with y=None, for streams that do not fit into memory.
    graph : networkx graph, adjacency, list of edges, or a name such as "ring".
    model : `domkl.Auto()` (the default: nothing to tune, raw inputs of any scale, NaN where one is missing)
        or `domkl.Paper(...)`.
    delay : a label becomes known this many rounds after its prediction, and is learnt then.
    exchange : `domkl.Exchange(...)`: how messages are changed on their way; by default not at all.
    engine : "auto" (native where it was built), "native" or "numpy"; a `Learner` of the same engine has
        its bits; "mpi" spreads a network of `Paper` over the ranks of `mpiexec`, with the bits of "numpy".
    threads : how many the native engine may use; one for each core by default.
    dtype : numpy.float64 or numpy.float32.
    keep_state : whether theta and lam are wanted; without them a huge network takes far less memory, and
        the native engine reports progress only at the end.
    weights_every : keep the weights of kernels (`Paper`) or experts (`Auto`) of every n-th round in `q_path`.
    progress : called as progress(rounds done, T); T is 0 where the stream does not tell.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5, 400, 2))
    >>> y = np.sin(3 * X[..., 0]) * X[..., 1]
    >>> run = domkl.simulate(X, y, "ring", model=domkl.Auto(size=200))
    >>> bool(run.mse.max() < 0.05 * y.var())
    True
    """
    model = check_model(Auto() if model is None else model)
    chosen = _Run(
        checks.count("delay", delay, least=0),
        checks.count("weights_every", weights_every, least=0),
        keep_state,
        (Exchange() if exchange is None else exchange).check(),
        engine,
        checks.count("threads", (os.cpu_count() or 1) if threads is None else threads),
        checks.float_type(dtype),
        progress,
    )
    if isinstance(model, Paper):
        with engines.guard(engine):
            return _simulate_paper(X, y, graph, model, chosen)
    return _simulate_rows(X, y, graph, model, chosen)


@dataclass(frozen=True)
class _Run:
    """How a simulation is carried out."""

    delay: int
    every: int
    keep_state: bool
    exchange: Exchange
    engine: str
    threads: int
    dtype: Any
    progress: Progress | None


# Models that go round by round, through the contract of `learning.model`


def _simulate_rows(X: Any, y: Any, graph: GraphLike, model: Any, how: _Run) -> Run:
    blocks, (J, T, d), targets = _open(X, y, np.float64)
    network = Network(as_graph(graph, J), how.exchange)
    if isinstance(model, Auto):
        diagonal = engines.make_inverse(how.engine, how.threads)
        weight, size = network.neighbours.weight, (J, network.diameter)
        rows: Any = AutoRows(model, J, d, weight, *size, dtype=how.dtype, diagonal=diagonal)
    else:
        rows = model.make(J, d, how.dtype)
    rounds = _Rounds(rows, network, how)
    y_hat = np.stack(list(rounds.go_through(blocks, T)), axis=1)
    return rounds.result(y_hat, targets)


class _Rounds:
    """Drives the rows of a model over a graph, and counts errors and gaps."""

    def __init__(self, rows: Any, network: Network, how: _Run) -> None:
        self.rows, self.network, self.how = rows, network, how
        P = rows.parts[0].shape[0]
        self.sums = Sums.zero(rows.J, P)
        self.path: list[Array] = []
        self.waiting: deque[tuple[Any, Array]] = deque()  # predictions whose labels are not known yet

    def go_through(self, blocks: Iterator[Block], T: int) -> Iterator[Array]:
        """Every round's predictions. (J,) each"""
        rows, done = self.rows, 0
        for X, y in blocks:
            checks.shape("X", X, (rows.J, X.shape[1], rows.d), "all blocks need the same form")
            checks.finite_or_missing("X", X)
            y = losses.labels(rows.loss, checks.finite("y", y, done))
            for t in range(X.shape[1]):
                yield self._round(X[:, t], y[:, t], done)
                done += 1
                if self.how.progress is not None:
                    self.how.progress(done, T)

    def _round(self, x: Array, y: Array, t: int) -> Array:
        if self.how.every and t % self.how.every == 0:
            self.path.append(self.rows.weights.copy())
        prediction = self.rows.predict(x)
        self._count(prediction, y)
        self.waiting.append((prediction, y))
        if len(self.waiting) > self.how.delay:
            asked, label = self.waiting.popleft()
            now = self.rows.predict(asked.x) if self.how.delay else asked
            outgoing = self.rows.learn(now, label, asked)
            self.rows.merge(self.network.exchange_round(self.rows, outgoing))
        return cast(Array, prediction.y_hat)

    def _count(self, prediction: Any, y: Array) -> None:
        gaps, sums = self.rows.gaps(prediction, self.network.around), self.sums
        sums.squares[:] += (prediction.y_hat - y) ** 2
        sums.gaps[:] += gaps.mean(-1) ** 2
        sums.kernel_squares[:] += (prediction.models - y[:, None]) ** 2
        sums.kernel_gaps[:] += gaps**2

    def result(self, y_hat: Array, targets: tuple[int, ...]) -> Run:
        """What the caller gets."""
        T, found = y_hat.shape[1], self.rows.parameters
        if found is None:
            raise InputError(f"no label was learnt in {T} rounds; expected more rounds than delay; give more")
        keep = slice(None) if self.how.keep_state else slice(0)
        weights = self.rows.weights
        return Run(
            y_hat=y_hat.reshape(*y_hat.shape, *targets),
            mse=self.sums.squares / T,
            cv=self.sums.gaps / T,
            theta=found.theta[keep],
            lam=found.lam[keep],
            L=found.L,
            q=weights,
            kernel_mse=self.sums.kernel_squares / T,
            kernel_cv=self.sums.kernel_gaps / T,
            q_path=np.array(self.path) if self.path else np.empty((0, *weights.shape)),
            q_rounds=np.arange(len(self.path)) * max(1, self.how.every),
            graph=self.network.graph,
            sent=self.network.sent / T,
            bytes=self.network.bytes / T,
        )


# The paper's learner, by blocks of rounds in an engine


def _simulate_paper(X: Any, y: Any, graph: GraphLike, model: Paper, how: _Run) -> Run:
    blocks, (J, T, d), targets = _open(X, y, how.dtype)
    network = as_graph(graph, J)
    _refuse_cycles(model.hedge, network)
    setting = Setting(
        V=dictionaries.check(model.draw(d), d, how.dtype),
        graph=network,
        rates=model.rates_at(T),
        loss=model.loss_function,
        hedge=model.hedge,
        delay=how.delay,
        keep_state=how.keep_state,
        one_block=not how.keep_state and T > 0 and not how.every,
        threads=how.threads,
        step=model.step,
        memory=model.memory,
        exchange=how.exchange,
    )
    run = _drive(engines.make(how.engine, setting), setting, blocks, T, how)
    return run if not targets else _with_targets(run, targets)


def _with_targets(run: Run, targets: tuple[int, ...]) -> Run:
    return Run(**{**vars(run), "y_hat": run.y_hat.reshape(*run.y_hat.shape, *targets)})


def _refuse_cycles(rule: str, graph: Graph) -> None:
    if rule == "messages" and not graph.is_tree:
        raise InputError(
            'hedge="messages" counts losses again on a graph with cycles; expected a tree; '
            'use hedge="neighbours" or another graph'
        )


def _drive(engine: Engine, setting: Setting, blocks: Iterator[Block], T: int, how: _Run) -> Run:
    """Cut the stream into pieces that suit the engine, the weights' path and the progress, and collect."""
    predictions, path, done = [], [], 0
    pace = max(1, T // 100) if how.progress and not setting.one_block else 1 << 30
    for X, y in blocks:
        form = (setting.graph.J, X.shape[1], setting.V.shape[2])
        checks.shape("X", X, form, "all blocks need the same form")
        start = 0
        while start < X.shape[1]:
            if how.every and done % how.every == 0:
                path.append(engine.q.copy())
            until = how.every - done % how.every if how.every else 1 << 30
            piece = slice(start, start + min(engine.most_rounds, pace, until))
            predictions.append(_advance(engine, setting, X[:, piece], y[:, piece], done))
            start += predictions[-1].shape[1]
            done += predictions[-1].shape[1]
            if how.progress is not None:
                how.progress(done, T)
    return _collect(engine, setting, np.concatenate(predictions, axis=1), path, how.every)


def _advance(engine: Engine, setting: Setting, X: Array, y: Array, first: int) -> Array:
    rows = engines.rows(engine)
    if rows is not None:  # a part of the network leaves the others' streams unread
        X, y = X[rows], y[rows]
    checks.finite("X", X, first, rows)
    labels = losses.labels(setting.loss, checks.finite("y", y, first, rows))
    with np.errstate(over="ignore", invalid="ignore"):  # reported below, in one line
        y_hat = engine.advance(X, labels)
    if not np.isfinite(y_hat).all():
        raise InputError(
            f"predictions overflowed after round {first}; expected x and y of moderate size; "
            "scale them, for example to [0, 1]"
        )
    return y_hat


def _collect(engine: Engine, setting: Setting, y_hat: Array, path: list[Array], every: int) -> Run:
    T, sums, (P, D, _) = y_hat.shape[1], engine.sums, setting.V.shape
    theta, lam = engine.state()
    losses_sent = 0 if setting.hedge == "local" else P
    alone = setting.graph.J == 1
    return Run(
        y_hat=y_hat,
        mse=sums.squares / T,
        cv=sums.gaps / T,
        theta=theta,
        lam=lam,
        L=engine.L,
        q=engine.q,
        kernel_mse=sums.kernel_squares / T,
        kernel_cv=sums.kernel_gaps / T,
        q_path=np.array(path) if path else np.empty((0, *sums.kernel_gaps.shape)),
        q_rounds=np.arange(len(path)) * max(1, every),
        graph=setting.graph,
        sent=0.0 if alone else float(2 * P * D + losses_sent),
        bytes=0.0 if alone else 2.0 * P * D * np.dtype(setting.exchange.payload).itemsize + 8 * losses_sent,
    )


# Streams


def _open(
    X: npt.ArrayLike | Iterable[Block], y: npt.ArrayLike | None, dtype: Float
) -> tuple[Iterator[Block], tuple[int, int, int], tuple[int, ...]]:
    """The stream as blocks, its J, T (0 if unknown), d, and the further shape of the labels."""
    if y is None:
        blocks = _checked(iter(cast(Iterable[Block], X)), dtype)
        first = next(blocks, None)
        if first is None:
            raise InputError("X holds no block; expected blocks of rounds; give at least one")
        return _again(first, blocks), (first[0].shape[0], 0, first[0].shape[2]), ()
    whole, labels = checks.floats("X", cast(Array, X), dtype), checks.floats("y", y, dtype)
    targets = labels.shape[2:]
    if labels.ndim == 3 and targets == (1,):
        labels = labels[..., 0]
    elif labels.ndim == 3:
        raise InputError(f"y has {targets[0]} targets; expected one; run a network for each of them")
    _check_shapes(whole, labels)
    return iter([(whole, labels)]), (whole.shape[0], whole.shape[1], whole.shape[2]), targets


def _checked(blocks: Iterator[Block], dtype: Float) -> Iterator[Block]:
    for pair in blocks:
        X, y = checks.floats("X", pair[0], dtype), checks.floats("y", pair[1], dtype)
        _check_shapes(X, y)
        yield X, y


def _again(first: Block, rest: Iterator[Block]) -> Iterator[Block]:
    yield first
    yield from rest


def _check_shapes(X: Array, y: Array) -> None:
    if X.ndim != 3 or 0 in X.shape:
        raise InputError(
            f"X has shape {X.shape}; expected (J, T, d): learners, rounds, features; "
            "see domkl.datasets for splitting one table over learners"
        )
    checks.shape("y", y, X.shape[:2], "give one label for each sample of X")

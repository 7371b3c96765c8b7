"""A whole network in one process."""

from __future__ import annotations

import os
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
from .learning import auto, losses
from .learning import kernels as dictionaries
from .learning.auto import Network
from .learning.first_order import check_step
from .learning.settings import Auto, ModelSettings, check_model

Progress: TypeAlias = Callable[[int, int], object]
Tell: TypeAlias = Callable[[int], object]
#: A block of rounds: X (J, B, d) and y (J, B).
Block: TypeAlias = "tuple[Array, Array]"


@dataclass(frozen=True)
class Run:
    """What a simulation gives back: J learners, T rounds, P kernels of 2D numbers."""

    y_hat: Array  # (J, T) predicted before the label was learnt
    mse: Array  # (J,) mean squared error
    cv: Array  # (J,) consensus violation
    theta: Array  # (J, P, 2D) final state, as in `State`
    lam: Array  # (J, P, 2D)
    L: Array  # (J, P)
    q: Array  # (J, P)
    kernel_mse: Array  # (J, P) of each kernel by itself: these are P runs of DOKL
    kernel_cv: Array  # (J, P)
    q_path: Array  # (n, J, P) weights every `weights_every` rounds
    q_rounds: npt.NDArray[np.intp]  # (n,) the rounds of q_path
    graph: Graph
    sent: float = float("nan")  # with preset="auto": numbers sent to each neighbour in a round, on average


def simulate(
    X: npt.ArrayLike | Iterable[Block],
    y: npt.ArrayLike | None,
    graph: GraphLike,
    *,
    model: ModelSettings | None = None,
    delay: int = 0,
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
    >>> bool(run.mse.max() < 0.02 * y.var())
    True
    """
    model = check_model(Auto() if model is None else model)
    delay = checks.count("delay", delay, least=0)
    every = checks.count("weights_every", weights_every, least=0)
    if isinstance(model, Auto):
        blocks, (J, T, d) = _open(X, y, np.float64)
        network = as_graph(graph, J)
        options: Any = {
            "engine": engine,
            "threads": _threads(threads),
            "seed": model.seed,
            "start": model.start,
        }
        learners = Network(
            network,
            d,
            model.loss_function,
            dtype=dtype,
            forgets=model.forgetting == "auto",
            size=model.size,
            **options,
        )
        return _automatic(learners, network, blocks, delay, lambda done: progress and progress(done, T))
    with engines.guard(engine):
        blocks, (J, T, d) = _open(X, y, dtype)
        network, loss = as_graph(graph, J), model.loss_function
        _refuse_cycles(model.hedge, network)
        V = dictionaries.check(model.draw(d), d, dtype)
        one_block = not keep_state and T > 0 and not every
        rates = model.rates_at(T)
        setting = Setting(
            V, network, rates, loss, model.hedge, delay, keep_state, one_block, _threads(threads)
        )
        return _drive(_engine(engine, setting, model.step, model.memory), setting, blocks, T, every, progress)


def _threads(given: int | None) -> int:
    return checks.count("threads", (os.cpu_count() or 1) if given is None else given)


def _engine(name: str, setting: Setting, step: str, memory: float | None) -> Engine:
    if check_step(step, memory) == "newton":
        return engines.make_newton(name, setting, memory)
    return engines.make(name, setting)


def _automatic(network: Network, graph: Graph, blocks: Iterator[Block], delay: int, tell: Tell) -> Run:
    """The rounds of preset="auto"."""
    sums = Sums.zero(graph.J, auto.MODELS)
    y_hat = np.stack(list(auto.rounds(network, blocks, delay, sums, tell)), axis=1)
    T, state = y_hat.shape[1], network.state
    if state is None:
        raise InputError(f"no label was learnt in {T} rounds; expected more rounds than delay; give more")
    return Run(
        y_hat=y_hat,
        mse=sums.squares / T,
        cv=sums.gaps / T,
        theta=state.theta,
        lam=state.lam,
        L=state.L,
        q=state.q,
        kernel_mse=sums.kernel_squares / T,
        kernel_cv=sums.kernel_gaps / T,
        q_path=np.empty((0, graph.J, auto.MODELS)),
        q_rounds=np.empty(0, np.intp),
        graph=graph,
        sent=network.sent / T,
    )


def _refuse_cycles(rule: str, graph: Graph) -> None:
    if rule == "messages" and not graph.is_tree:
        raise InputError(
            'hedge="messages" counts losses again on a graph with cycles; expected a tree; '
            'use hedge="neighbours" or another graph'
        )


def _open(
    X: npt.ArrayLike | Iterable[Block], y: npt.ArrayLike | None, dtype: Float
) -> tuple[Iterator[Block], tuple[int, int, int]]:
    """The stream as blocks, and its J, T (0 if unknown), d."""
    if y is None:
        blocks = _checked(iter(cast(Iterable[Block], X)), dtype)
        first = next(blocks, None)
        if first is None:
            raise InputError("X holds no block; expected blocks of rounds; give at least one")
        return _again(first, blocks), (first[0].shape[0], 0, first[0].shape[2])
    whole, labels = checks.floats("X", cast(Array, X), dtype), checks.floats("y", y, dtype)
    _check_shapes(whole, labels)
    return iter([(whole, labels)]), (whole.shape[0], whole.shape[1], whole.shape[2])


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


def _drive(
    engine: Engine, setting: Setting, blocks: Iterator[Block], T: int, every: int, progress: Progress | None
) -> Run:
    """Cut the stream into pieces that suit the engine, the weights' path and the progress, and collect."""
    predictions, path, rounds, done = [], [], [], 0
    pace = max(1, T // 100) if progress and not setting.one_block else 1 << 30
    for X, y in blocks:
        checks.shape(
            "X", X, (setting.graph.J, X.shape[1], setting.V.shape[2]), "all blocks need the same form"
        )
        start = 0
        while start < X.shape[1]:
            if every and done % every == 0:
                path.append(engine.q.copy())
                rounds.append(done)
            until = every - done % every if every else 1 << 30
            piece = slice(start, start + min(engine.most_rounds, pace, until))
            predictions.append(_advance(engine, setting, X[:, piece], y[:, piece], done))
            start += predictions[-1].shape[1]
            done += predictions[-1].shape[1]
            if progress is not None:
                progress(done, T)
    return _collect(engine, setting, np.concatenate(predictions, axis=1), path, rounds)


def _advance(engine: Engine, setting: Setting, X: Array, y: Array, first: int) -> Array:
    rows = engines.rows(engine)
    if rows is not None:  # a part of the network leaves the others' streams unread
        X, y = X[rows], y[rows]
    checks.finite("X", X, first, rows)
    labels = losses.labels(setting.loss, checks.finite("y", y, first, rows))
    with np.errstate(over="ignore", invalid="ignore"):  # said below, in one line
        y_hat = engine.advance(X, labels)
    if not np.isfinite(y_hat).all():
        raise InputError(
            f"predictions overflowed after round {first}; expected x and y of moderate size; "
            "scale them, for example to [0, 1]"
        )
    return y_hat


def _collect(engine: Engine, setting: Setting, y_hat: Array, path: list[Array], rounds: list[int]) -> Run:
    T, sums = y_hat.shape[1], engine.sums
    theta, lam = engine.state()
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
        q_rounds=np.array(rounds, dtype=np.intp),
        graph=setting.graph,
    )

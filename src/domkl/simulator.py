"""A whole network in one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from . import _checks, auto, engines, losses
from . import hedge as hedging
from . import kernels as dictionaries
from ._types import Array, Float
from .auto import Network
from .core import Rates, check_rates, check_step
from .engines import Engine, Setting, Sums
from .errors import InputError
from .graph import Graph, GraphLike, as_graph
from .losses import Loss

PRESETS = ("paper", "auto")
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
    kernels: npt.ArrayLike | None = None,
    rates: Rates | None = None,
    loss: str | Loss = "squared",
    hedge: str = "neighbours",
    delay: int = 0,
    step: str = "first",
    memory: float | None = None,
    preset: str = "paper",
    seed: int = 0,
    start: float = 0.0,
    size: int | None = None,
    forgets: bool = True,
    engine: str = "auto",
    threads: int | None = None,
    dtype: Float = np.float64,
    keep_state: bool = True,
    weights_every: int = 0,
    progress: Progress | None = None,
) -> Run:
    """Run DOMKL (DOKL where V holds one kernel) on a network of J learners for T rounds.

    Parameters
    ----------
    X, y : streams of all learners, (J, T, d) and (J, T), perhaps memory-mapped; or, as X, an iterable of
        blocks (X (J, B, d), y (J, B)) with y=None, for streams that no memory holds (give `rates` then).
    graph : networkx graph, adjacency, list of edges, or a name such as "ring".
    kernels : frequencies V (P, D, d); the paper's 17 Gaussian kernels with D = 50 by default.
    rates : pulls and temperature; `Rates.paper(T)` by default.
    loss : "squared", "ridge", "huber", "logistic", or one made with `domkl.losses`.
    hedge : whose losses weigh the kernels: "neighbours", "messages" (trees only) or "local".
    delay : a label becomes known this many rounds after its prediction, and is learnt then.
    step : the local step: "first" (the paper's) or "newton", which keeps every past loss (`domkl.newton`):
        O((2D)^2) a kernel, the same message; `rates.eta` is then the ridge on the whole of the past.
    memory : with step="newton", about how many past samples count; all of them by default.
    preset : "paper", or "auto": a learner with nothing to tune (`domkl.auto`) on raw X and y of any scale,
        with NaN in X where a value is missing. It takes neither kernels nor rates;
        its two models are the kernels of the `Run`, which counts cv from the first scale that all share.
    seed : of the frequencies of preset="auto".
    start : what preset="auto" predicts before the first label.
    size : how many numbers a learner of preset="auto" has, 1700 by default; its time and memory grow with
        their square.
    forgets : whether preset="auto" drops the past when the last samples alone predict clearly better.
    engine : "auto" (native where it was built), "native" or "numpy"; a `Learner` of the same engine has
        its bits; "mpi" spreads the network over the ranks of `mpiexec`, with the bits of "numpy".
    threads : how many the native engine may use; one for each core by default.
    dtype : numpy.float64 or numpy.float32.
    keep_state : whether theta and lam are wanted; without them a huge network takes far less memory, and
        the native engine tells of progress only at the end.
    weights_every : keep the kernel weights of every n-th round in `q_path`.
    progress : called as progress(rounds done, T); T is 0 where the stream does not tell.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5, 400, 2))
    >>> y = np.sin(3 * X[..., 0]) * X[..., 1]
    >>> run = domkl.simulate(X, y, "ring", rates=domkl.Rates(rho=0.1, eta=0.1, eta_g=1.0))
    >>> bool(run.mse.max() < 0.1 * y.var())
    True
    """
    if _checks.one_of("preset", preset, PRESETS) == "auto":
        _refuse_settings(kernels=kernels, rates=rates, memory=memory)
        blocks, (J, T, d) = _open(X, y, np.float64)
        network = as_graph(graph, J)
        options: Any = {"engine": engine, "threads": _threads(threads), "seed": seed, "start": start}
        delay = _checks.count("delay", delay, least=0)
        if size is not None:
            options["size"] = _checks.count("size", size, least=16)
        learners = Network(network, d, losses.get(loss), dtype=dtype, forgets=forgets, **options)
        return _automatic(learners, network, blocks, delay, lambda done: progress and progress(done, T))
    with engines.guard(engine):
        blocks, (J, T, d) = _open(X, y, dtype)
        network, loss = as_graph(graph, J), losses.get(loss)
        _refuse_cycles(hedging.rule(hedge), network)
        if T == 0 and rates is None:
            raise InputError("a stream of blocks has no known length; expected rates for it; pass rates=")
        V = dictionaries.check(dictionaries.gaussian(d) if kernels is None else kernels, d, dtype)
        delay = _checks.count("delay", delay, least=0)
        every = _checks.count("weights_every", weights_every, least=0)
        rates = Rates.paper(T) if rates is None else check_rates(rates)
        one_block = not keep_state and T > 0 and not every
        setting = Setting(V, network, rates, loss, hedge, delay, keep_state, one_block, _threads(threads))
        return _drive(_engine(engine, setting, step, memory), setting, blocks, T, every, progress)


def _threads(given: int | None) -> int:
    return _checks.count("threads", (os.cpu_count() or 1) if given is None else given)


def _engine(name: str, setting: Setting, step: str, memory: float | None) -> Engine:
    if check_step(step, memory) == "newton":
        return engines.make_newton(name, setting, memory)
    return engines.make(name, setting)


def _refuse_settings(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} is given with preset='auto'; expected none, it sets all; leave it out")


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
    whole, labels = _checks.floats("X", cast(Array, X), dtype), _checks.floats("y", y, dtype)
    _check_shapes(whole, labels)
    return iter([(whole, labels)]), (whole.shape[0], whole.shape[1], whole.shape[2])


def _checked(blocks: Iterator[Block], dtype: Float) -> Iterator[Block]:
    for pair in blocks:
        X, y = _checks.floats("X", pair[0], dtype), _checks.floats("y", pair[1], dtype)
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
    _checks.shape("y", y, X.shape[:2], "give one label for each sample of X")


def _drive(
    engine: Engine, setting: Setting, blocks: Iterator[Block], T: int, every: int, progress: Progress | None
) -> Run:
    """Cut the stream into pieces that suit the engine, the weights' path and the progress, and collect."""
    predictions, path, rounds, done = [], [], [], 0
    pace = max(1, T // 100) if progress and not setting.one_block else 1 << 30
    for X, y in blocks:
        _checks.shape(
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
    _checks.finite("X", X, first, rows)
    labels = losses.labels(setting.loss, _checks.finite("y", y, first, rows))
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

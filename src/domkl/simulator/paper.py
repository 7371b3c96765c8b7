"""The paper's learner over a graph, by blocks of rounds in an engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..engines import Engine, Setting
from ..exchange.graph import Graph, GraphLike, as_graph
from ..learning import kernels as dictionaries
from ..learning import losses
from ..learning.settings import Paper
from .blocks import Block, open_stream
from .results import STOP, Run, RunOptions, Watched
from .rows import simulated


@simulated.register(Paper)
def simulate_paper(model: Paper, X: Any, y: Any, graph: GraphLike, how: RunOptions) -> Run:
    """A network of the paper's, by blocks of rounds."""
    with engines.guard(how.engine):
        return _simulate(model, X, y, graph, how)


def _simulate(model: Paper, X: Any, y: Any, graph: GraphLike, how: RunOptions) -> Run:
    blocks, (J, T, d), targets = open_stream(X, y, how.dtype, how.delay)
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
        bounds_labels=model.outliers == "bound",
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


def _drive(engine: Engine, setting: Setting, blocks: Iterator[Block], T: int, how: RunOptions) -> Run:
    """Cut the stream into pieces that suit the engine, the weights' path and the progress, and collect."""
    predictions, path, done = [], [], 0
    follows = how.progress is not None or how.watch is not None
    pace = max(1, T // 100) if follows and not setting.one_block else 1 << 30
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
            if how.watch is not None:
                how.watch(Watched(predictions[-1], y[:, piece], np.empty((0, 0)), engine.q))
            start += predictions[-1].shape[1]
            done += predictions[-1].shape[1]
            if how.progress is not None and how.progress(done, T) == STOP:
                return _collect(engine, setting, np.concatenate(predictions, axis=1), path, how.every)
    return _collect(engine, setting, np.concatenate(predictions, axis=1), path, how.every)


def _advance(engine: Engine, setting: Setting, X: Array, y: Array, first: int) -> Array:
    rows = engine.rows
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

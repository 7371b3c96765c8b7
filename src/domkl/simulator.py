"""A whole network in one process: every learner and kernel of a round in a few array operations."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _checks, core, hedge, kernels, losses
from ._types import Array, Float
from .core import Rates, State, Step
from .errors import InputError
from .graph import Graph, GraphLike, as_graph
from .losses import Loss

Progress: TypeAlias = Callable[[int, int], object]


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
    q_rounds: Array  # (n,) the rounds of q_path
    graph: Graph


class _Setting(NamedTuple):
    """Everything that stays the same from round to round."""

    V: Array
    graph: Graph
    deg: Array  # (J,) as floats
    rates: Rates
    loss: Loss
    hedge: str


class _Round(NamedTuple):
    state: State  # after the round
    step: Step
    f: Array  # (J, P) each kernel's prediction
    kernel_gap: Array  # (J, P) sum over i of f_j,p(x_j) - f_i,p(x_j)


def simulate(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    graph: GraphLike,
    *,
    kernels: npt.ArrayLike | None = None,
    rates: Rates | None = None,
    loss: str | Loss = "squared",
    hedge: str = "neighbours",
    delay: int = 0,
    dtype: Float = np.float64,
    weights_every: int = 0,
    progress: Progress | None = None,
) -> Run:
    """Run DOMKL (DOKL where V holds one kernel) on a network of J learners for T rounds.

    Parameters
    ----------
    X, y : streams of all learners, (J, T, d) and (J, T).
    graph : networkx graph, adjacency, list of edges, or a name such as "ring".
    kernels : frequencies V (P, D, d); the paper's 17 Gaussian kernels with D = 50 by default.
    rates : pulls and temperature; `Rates.paper(T)` by default.
    loss : "squared", "ridge", "huber", "logistic", or one made with `domkl.losses`.
    hedge : whose losses weigh the kernels: "neighbours", "messages" (trees only) or "local".
    delay : a label becomes known this many rounds after its prediction, and is learnt then.
    dtype : numpy.float64 or numpy.float32.
    weights_every : keep the kernel weights of every n-th round in `q_path`.
    progress : called as progress(rounds done, T).

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
    setting, X, y = _prepare(X, y, graph, kernels, rates, loss, hedge, dtype)
    delay = _checks.count("delay", delay, least=0)
    record = _Record(y.shape[0], y.shape[1], len(setting.V), weights_every)
    for last in _rounds(setting, X, y, delay):
        record.add(last)
        if progress is not None:
            progress(last.step.t + 1, y.shape[1])
    return record.run(last.state, setting.graph)


def _prepare(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    graph: GraphLike,
    V: npt.ArrayLike | None,
    rates: Rates | None,
    loss: str | Loss,
    rule: str,
    dtype: Float,
) -> tuple[_Setting, Array, Array]:
    X, y = _streams(X, y, dtype)
    J, T, d = X.shape
    network, loss = as_graph(graph, J), losses.get(loss)
    y = losses.labels(loss, y)
    if hedge.rule(rule) == "messages" and not network.is_tree:
        raise InputError(
            'hedge="messages" counts losses again on a graph with cycles; expected a tree; '
            'use hedge="neighbours" or another graph'
        )
    V = kernels.check(kernels.gaussian(d) if V is None else V, d, dtype)
    deg = network.deg.astype(dtype)
    return _Setting(V, network, deg, rates or Rates.paper(T), loss, rule), X, y


def _streams(X: npt.ArrayLike, y: npt.ArrayLike, dtype: npt.DTypeLike) -> tuple[Array, Array]:
    X, y = _checks.floats("X", X, dtype), _checks.floats("y", y, dtype)
    if X.ndim != 3 or 0 in X.shape:
        raise InputError(
            f"X has shape {X.shape}; expected (J, T, d): learners, rounds, features; "
            "see domkl.datasets for splitting one table over learners"
        )
    _checks.shape("y", y, X.shape[:2], "give one label for each sample of X")
    return _checks.finite("X", X), _checks.finite("y", y)


def _rounds(setting: _Setting, X: Array, y: Array, delay: int) -> Iterator[_Round]:
    V, graph, deg, rates, loss, rule = setting
    links, pulls, state = Links(graph), core.Pulls.of(deg, rates, loss), core.init(V, deg.shape)
    messages = np.zeros((len(links.source), len(V)), V.dtype)
    unlabelled: deque[Array] = deque()  # features that wait for their labels
    for t in range(X.shape[1]):
        z = core.features(V, X[:, t])
        f, y_hat = core.predict(state, z)
        kernel_gap = deg[:, None] * f - core.dot(state.theta_sum, z)
        gap = deg * y_hat - core.dot(links.sum(state.q[..., None] * state.theta), z).sum(-1)
        step = Step(t, slice(None), y[:, t], y_hat, state.q, gap)
        unlabelled.append(z)
        if t >= delay:
            z = unlabelled.popleft()
            past = core.predict(state, z)[0] if delay else f
            theta, L = core.local(state, z, past, y[:, t - delay], pulls, loss)
            total, messages = _totals(rule, links, L, messages)
            state = core.merge(state, theta, L, links.sum(theta), total, pulls, rates)
        yield _Round(state, step, f, kernel_gap)


def _totals(rule: str, links: Links, L: Array, messages: Array) -> tuple[Array, Array]:
    """The losses that enter Hedge's exponent, (J, P), and the messages of the next round."""
    if rule == "local":
        return L, messages
    if rule == "neighbours":
        return L + links.sum(L), messages
    total = L + links.sum_edges(messages)
    return total, total[links.source] - messages[links.reverse]


class Links:
    """Sums over neighbours, each in the order of the neighbour list, so that devices get the same bits.

    Directed edges are numbered learner by learner; edge e leads from `source[e]` to its receiver, and
    `reverse[e]` is the edge the other way.
    """

    def __init__(self, graph: Graph) -> None:
        pairs = [(i, j) for j, near in enumerate(graph.neighbours) for i in near]
        number = {pair: e for e, pair in enumerate(pairs)}
        self.source = np.array([i for i, _ in pairs], dtype=np.intp)
        self.reverse = np.array([number[j, i] for i, j in pairs], dtype=np.intp)
        first = np.concatenate([[0], np.cumsum(graph.deg)[:-1]]).astype(np.intp)
        # The k-th neighbours of all learners that have so many: (receivers, edges to them).
        rows = [np.flatnonzero(graph.deg > k) for k in range(int(graph.deg.max()))]
        self._slots = [(r if len(r) < graph.J else slice(None), first[r] + k) for k, r in enumerate(rows)]
        self._sources = [(r, self.source[edges]) for r, edges in self._slots]

    def sum(self, values: Array) -> Array:
        """Sum of the neighbours' values. (J, ...) -> (J, ...)"""
        return _sum(self._sources, values) if self._sources else np.zeros_like(values)

    def sum_edges(self, values: Array) -> Array:
        """Sum over the edges that lead to each learner. (E, ...) -> (J, ...)"""
        return _sum(self._slots, values) if self._slots else np.zeros((1, *values.shape[1:]), values.dtype)


def _sum(slots: list[tuple[Any, npt.NDArray[np.intp]]], values: Array) -> Array:
    total = values.take(slots[0][1], axis=0)  # every learner has a first neighbour
    for rows, index in slots[1:]:
        total[rows] += values.take(index, axis=0)
    return total


class _Record:
    """Collects Steps into a Run."""

    def __init__(self, J: int, T: int, P: int, weights_every: int) -> None:
        self.every = _checks.count("weights_every", weights_every, least=0)
        self.y_hat = np.empty((J, T))
        self.squares, self.gaps = np.zeros(J), np.zeros(J)
        self.kernel_squares, self.kernel_gaps = np.zeros((J, P)), np.zeros((J, P))
        self.path: list[Array] = []
        self.rounds: list[int] = []

    def add(self, done: _Round) -> None:
        step, f, kernel_gap = done.step, done.f, done.kernel_gap
        y, gap = np.asarray(step.y), np.asarray(step.gap)
        self.y_hat[:, step.t] = step.y_hat
        self.squares += (step.y_hat - y) ** 2
        self.gaps += gap**2
        self.kernel_squares += (f - y[:, None]) ** 2
        self.kernel_gaps += kernel_gap**2
        if self.every and step.t % self.every == 0:
            self.path.append(step.q)
            self.rounds.append(step.t)

    def run(self, state: State, graph: Graph) -> Run:
        T = self.y_hat.shape[1]
        path = np.array(self.path) if self.path else np.empty((0, *state.q.shape))
        return Run(
            y_hat=self.y_hat,
            mse=self.squares / T,
            cv=self.gaps / T,
            theta=state.theta,
            lam=state.lam,
            L=state.L,
            q=state.q,
            kernel_mse=self.kernel_squares / T,
            kernel_cv=self.kernel_gaps / T,
            q_path=path,
            q_rounds=np.array(self.rounds, dtype=int),
            graph=graph,
        )

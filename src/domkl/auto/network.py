"""Learners of a graph, all at once: what `simulate(..., preset="auto")` runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _checks, core, engines, losses, newton
from .._types import Array, Float
from ..core import Rates
from ..engines import Sums
from ..errors import InputError
from ..graph import Graph
from ..losses import Loss
from .features import MODELS, Features, Stats, statistics
from .window import Watch, Window

#: rho and eta of the local step, and the temperature of the device's Hedge in squared ranges of y.
RATES = Rates(rho=0.4, eta=0.005, eta_g=0.1)
#: The logistic loss has an eighth of the squared one's curvature, so pulls of that size are as strong.
CLASSES = Rates(rho=0.05, eta=0.03, eta_g=0.1)
#: Whoever learns alone has nobody's estimates to hold its own in check.
ALONE = Rates(rho=0.4, eta=0.1, eta_g=0.1)
#: The samples after which the scale is fixed: enough for a season to show more than its first days.
WARM_UP = 512
#: Fixed share: the weight that experts get back in every round.
SHARE = 1e-3


class Ties(NamedTuple):
    """What a graph says to its learners."""

    near: npt.NDArray[np.bool_]  # (J, J)
    weight: Array  # (J, J) of edges in sums, the same at both ends
    mixing: Array  # (J, J) Metropolis weights, rows sum to 1
    diameter: int

    @classmethod
    def of(cls, graph: Graph, dtype: Float) -> Ties:
        near = np.zeros((graph.J, graph.J), bool)
        for j, others in enumerate(graph.neighbours):
            near[j, list(others)] = True
        deg = near.sum(1)
        fewer, more = np.minimum(deg[:, None], deg), np.maximum(deg[:, None], deg)
        mixing = near / (1 + more)
        mixing += np.diag(1 - mixing.sum(1))
        weight = near / np.maximum(fewer, 1)
        return cls(near, weight.astype(dtype), mixing.astype(dtype), _diameter(near))


def _diameter(near: npt.NDArray[np.bool_]) -> int:
    reached, steps = np.eye(len(near), dtype=bool), 0
    while not reached.all():
        reached, steps = reached | (reached.astype(np.float32) @ near > 0), steps + 1
    return steps


class Look(NamedTuple):
    """A sample as the network sees it before its label is known."""

    x: Array  # (J, d)
    z: Array  # (J, MODELS, K); empty before the first label
    f: Array  # (J, MODELS) each model's score, in scaled units
    models: Array  # (J, MODELS) the same in units of y
    experts: Array  # (J, n) predictions in units of y: own theta, averaged theta
    y_hat: Array  # (J,)


class Network:
    """J learners, round by round; row j of every array belongs to learner j."""

    def __init__(
        self,
        graph: Graph,
        d: int,
        loss: Loss,
        *,
        seed: int = 0,
        size: int = 1700,
        start: float = 0.0,
        dtype: Float = np.float64,
        forgets: bool = False,
        engine: str = "auto",
        threads: int = 1,
    ) -> None:
        self.forgets, self.restarts, self.due = forgets, 0, -1
        self.loss, self.start, self.size, self.seed, self.dtype = loss, start, size, seed, dtype
        engines.chosen_newton(engine)  # refuses now what would be refused later
        self.engine, self.threads = engine, threads
        self.ties = Ties.of(graph, dtype)
        self.J, self.d = graph.J, d
        self.features = Features(seed, size, d, dtype)
        self.buffer: list[tuple[Array, Array]] | None = []
        self.fixed = next(r for r in _powers(WARM_UP) if r - self.ties.diameter >= WARM_UP // 2)
        self.low, self.high = np.full(self.J, np.inf), np.full(self.J, -np.inf)
        self.log_w = np.zeros((self.J, 2))
        self.window: Window | None = None
        self.shared, self.sent, self.rounds = False, 0.0, 0
        self.state: newton.State | None = None

    # Predicting

    def look(self, x: Array) -> Look:
        """Everything known about a sample before its label. (J, d)"""
        if self.state is None:
            y_hat = np.full(self.J, self.start)
            both = np.stack([y_hat, y_hat], -1)
            return Look(x, np.empty(0), np.empty(0), both, both, y_hat)
        z = self.features.of(x, self.stats)
        f, near = core.dot(self.state.theta, z), core.dot(self.mixed, z)
        scores = [f.mean(-1), near.mean(-1)]
        if self.window is not None:
            scores.append(self._window_score(z))
        experts = self._in_units(np.stack(scores, -1))
        return Look(x, z, f, self._in_units(f), experts, (self._weights() * experts).sum(-1))

    def gaps(self, look: Look) -> Array:
        """Sum over neighbours i of f_j(x_j) - f_i(x_j), in units of y; 0 while scales differ. (J, MODELS)"""
        if self.state is None or not self.shared:
            return np.zeros((self.J, MODELS))
        scores = np.einsum("jpk,ipk->pji", look.z, self.state.theta, optimize=True)
        own = np.einsum("pjj->pj", scores)[..., None]
        apart = np.where(self.ties.near, own - scores, 0).sum(-1).T
        return np.asarray(apart * self.width[:, None], np.float64)

    def _in_units(self, scores: Array) -> Array:
        """Scores as predictions of y, inside the range of the targets seen. (J, n)"""
        if self.loss.classifies:
            return np.asarray(np.tanh(scores / 2))
        y = self.centre[:, None] + scores * self.width[:, None]
        return np.asarray(np.clip(y, self.low[:, None], self.high[:, None]))

    def _weights(self) -> Array:
        w = np.exp(self.log_w - self.log_w.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        return np.asarray((1 - SHARE) * w + SHARE / w.shape[-1])

    # Learning

    def learn(self, look: Look, y: Array) -> None:
        """A label becomes known to every learner. (J,)"""
        self.rounds += 1
        self._judge(look, y)
        self._widen(y)
        if self.buffer is None:
            self._step(look.z, look.f, y)
            self._remember(look, y)
            return
        self.buffer.append((look.x, y))
        n = len(self.buffer)
        if n & (n - 1) == 0:
            self._rebuild(n)
        else:
            self._step(look.z, look.f, y)

    def _judge(self, look: Look, y: Array) -> None:
        """Fixed-share Hedge between the experts."""
        span = np.where(self.high > self.low, self.high - self.low, 1) if self.state is not None else 1.0
        worse = ((look.experts - y[:, None]) / np.reshape(span, (-1, 1))) ** 2
        self.log_w = np.log(self._weights()) - np.minimum(worse, 1) / RATES.eta_g

    def _widen(self, y: Array) -> None:
        """The range of y: one's own, and what the neighbours knew a round ago."""
        low, high = np.minimum(self.low, y), np.maximum(self.high, y)
        near = self.ties.near
        self.low = np.minimum(low, np.where(near, self.low, np.inf).min(1))
        self.high = np.maximum(high, np.where(near, self.high, -np.inf).max(1))

    def _target(self, y: Array) -> Array:
        return np.asarray((y - self.centre) / self.width, self.dtype)

    def _step(self, z: Array, f: Array, y: Array) -> None:
        assert self.state is not None
        learnt = newton.local(self.state, z, f, self._target(y), self.pulls, self.loss)
        self._close(learnt)

    def _close(self, learnt: tuple[Array, Array, Array]) -> None:
        """Exchange, where the scale is common, and end the round."""
        assert self.state is not None
        theta, L, _ = learnt
        self.mixed, near = theta, np.zeros_like(theta)
        if self.shared:
            self.mixed, near = _sums(self.ties.mixing, theta), _sums(self.ties.weight, theta)
            self.sent += theta[0].size + 2
        self.state = newton.merge(self.state, learnt, near, np.zeros_like(L), self.pulls, 1.0)

    # Forgetting

    def _open_window(self, samples: list[tuple[Array, Array]]) -> None:
        """Begin to watch for changes; samples are features and scaled targets."""
        self.window = Window(self.J, MODELS * self.features.K, ALONE.eta, self.dtype)
        self.watch = Watch(self.J)
        for z, y in samples:
            self.window.learn(z.reshape(self.J, -1), y)
        self.log_w = np.log(np.pad(self._weights(), ((0, 0), (0, 1)), constant_values=SHARE))

    def _window_score(self, z: Array) -> Array:
        assert self.window is not None
        found = self.window.predict(z.reshape(self.J, -1))
        if self.loss.classifies:  # it has learnt the labels' mean, 2 P - 1; as a margin
            return np.asarray(2 * np.arctanh(np.clip(found, -0.999, 0.999)))
        return found

    def _remember(self, look: Look, y: Array) -> None:
        if self.window is None:
            return
        self.window.learn(look.z.reshape(self.J, -1), self._target(y))
        misses = ((look.experts - y[:, None]) / self.width[:, None]) ** 2
        surge, again = self.watch.see(misses[:, :2].min(-1), misses[:, 2])
        self.window.drop(surge, kept=Watch.FADE // 2)
        if again and self.due < self.rounds:
            self.due = self.rounds + self.ties.diameter  # until then the votes have reached everybody
        if self.due == self.rounds:
            self._restart()

    def _restart(self) -> None:
        """All learners at once forget what came before their windows."""
        assert self.window is not None
        self.restarts += 1
        self.watch = Watch(self.J)
        self.state = self._blank()
        samples = self.window.samples()
        for z, y in samples:
            self._again(z.reshape(self.J, MODELS, -1), np.asarray(y, self.dtype), last=z is samples[-1][0])

    # Warming up

    def _rebuild(self, n: int) -> None:
        """Take the scale anew from the first n rounds, and replay them."""
        assert self.buffer is not None
        X, y = (np.stack(values, 1) for values in zip(*self.buffer, strict=True))  # (J, n, d), (J, n)
        self.shared = self.J > 1 and n >= 4 and n - self.ties.diameter >= 2
        until = n - self.ties.diameter if self.shared else n
        self._scale(X[:, :until], y[:, :until])
        deg = self.ties.weight.sum(1) if self.shared else np.zeros(self.J, self.dtype)
        together = CLASSES if self.loss.classifies else RATES
        self.pulls = newton.Pulls.of(deg, together if self.shared else ALONE, self.loss)
        self.state = self._blank()
        samples = [(self.features.of(X[:, t], self.stats), self._target(y[:, t])) for t in range(n)]
        for t, (z, target) in enumerate(samples):
            self._again(z, target, last=t == n - 1)
        if n >= self.fixed:
            self.buffer = None
            if self.forgets:
                self._open_window(samples)

    def _blank(self) -> newton.State:
        diagonal = engines.make_inverse(self.engine, self.threads)
        return newton.init(MODELS, self.features.K, self.pulls, diagonal)

    def _scale(self, X: Array, y: Array) -> None:
        if self.shared:
            X, y = X.reshape(1, -1, self.d), y.reshape(1, -1)
            self.sent += self.J * (5 * self.d + 4)  # everybody's statistics are passed on once
        self.stats = statistics(X)
        centre, width = y.mean(-1), np.ptp(y, -1)
        if self.loss.classifies:
            centre, width = np.zeros_like(centre), np.ones_like(width)
        self.centre = np.broadcast_to(centre, self.J)
        self.width = np.broadcast_to(np.where(width > 0, width, 1), self.J)

    def _again(self, z: Array, y: Array, last: bool) -> None:
        """Learn a kept sample, features and scaled target, as if the neighbours agreed."""
        assert self.state is not None
        f = core.dot(self.state.theta, z)
        learnt = newton.local(self.state, z, f, y, self.pulls, self.loss)
        if last:
            self._close(learnt)
            return
        agreed = learnt[0] * self.pulls.deg[:, None, None]
        self.state = self.state._replace(theta=learnt[0], L=learnt[1], m=learnt[2], theta_sum=agreed)

    # More inputs (of one device)

    def grow(self, d: int) -> None:
        """Samples have d inputs from now on; the old samples had none of the new ones."""
        self.d = d
        if self.buffer is None:
            self._add_columns(d)
            return
        more = ((0, 0), (0, d - self.features.d))
        self.buffer = [(np.pad(x, more, constant_values=np.nan), y) for x, y in self.buffer]
        self.features = Features(self.seed, self.size, d, self.dtype)
        if self.buffer:
            self._rebuild(len(self.buffer))

    def _add_columns(self, d: int) -> None:
        assert self.state is not None
        old, more = self.features.K, ((0, 0), (0, d - self.features.d))
        self.stats = Stats(*(np.pad(value, more) for value in self.stats))
        self.features.grow(d)
        wider = ((0, 0), (0, 0), (0, self.features.K - old))
        theta, lam, near, m = (np.pad(v, wider) for v in (self.state[:3] + self.state[5:6]))
        P = np.pad(self.state.inverse.settle(), (*wider, wider[-1]))
        new = np.arange(old, self.features.K)
        P[..., new, new] = 1 / self.pulls.c[..., None]
        self.mixed = np.pad(self.mixed, wider)
        if self.window is not None:
            self.window.widen(MODELS, self.features.K - old)
        self.state = newton.State(theta, lam, near, self.state.L, self.state.q, m, self.state.inverse.anew(P))

    def set_column(self, c: int, values: Array) -> None:
        """Fix the scale of a column that came late."""
        for old, new in zip(self.stats, statistics(values[:, None]), strict=True):
            old[..., c] = new[0]


def _powers(first: int) -> list[int]:
    return [first << k for k in range(30)]


def _sums(weights: Array, theta: Array) -> Array:
    """Weighted sums over learners. (J, J), (J, ...) -> (J, ...)"""
    return np.asarray((weights @ theta.reshape(len(theta), -1)).reshape(theta.shape))


def rounds(
    network: Network,
    blocks: Iterable[tuple[Array, Array]],
    delay: int,
    sums: Sums,
    tell: Callable[[int], object],
) -> Iterator[Array]:
    """Every round's predictions (J,) of a stream X (J, B, d), y (J, B) in blocks; counts errors and gaps."""
    waiting: deque[tuple[Look, Array]] = deque()
    done = 0
    for X, y in blocks:
        _check_block(network, X)
        y = losses.labels(network.loss, _checks.finite("y", y, done))
        for t in range(X.shape[1]):
            waiting.append((network.look(X[:, t]), y[:, t]))
            _count(network, *waiting[-1], sums)
            yield waiting[-1][0].y_hat
            if len(waiting) > delay:
                look, label = waiting.popleft()
                network.learn(network.look(look.x) if delay else look, label)
            done += 1
            tell(done)


def _check_block(network: Network, X: Array) -> None:
    _checks.shape("X", X, (network.J, X.shape[1], network.d), "all blocks need the same form")
    if np.isinf(X).any():
        raise InputError("X holds an infinite number; expected finite numbers or NaN; use NaN for missing")


def _count(network: Network, look: Look, y: Array, sums: Sums) -> None:
    gaps = network.gaps(look)
    sums.squares[:] += (look.y_hat - y) ** 2
    sums.gaps[:] += gaps.mean(-1) ** 2
    sums.kernel_squares[:] += (look.models - y[:, None]) ** 2
    sums.kernel_gaps[:] += gaps**2

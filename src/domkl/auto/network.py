"""Learners of a graph, all at once: what `simulate(..., preset="auto")` runs."""

from __future__ import annotations

import functools
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
from .additive import Memory, Terms
from .features import MODELS, STEPS, Features, Stats, pooled, statistics
from .watch import EXPERTS, News, Watch

#: rho and eta of the local step, and the temperature of the device's Hedge in squared ranges of y.
RATES = Rates(rho=0.4, eta=0.005, eta_g=0.1)
#: The logistic loss has an eighth of the squared one's curvature, so pulls of that size are as strong.
CLASSES = Rates(rho=0.05, eta=0.03, eta_g=0.1)
#: Whoever learns alone has nobody's estimates to hold its own in check.
ALONE = Rates(rho=0.4, eta=0.1, eta_g=0.1)
#: The samples after which the scale is fixed: enough for a season to show more than its first days.
WARM_UP = 512
#: The samples after which a learner begins to watch for changes.
LOOKS = 64
#: Fixed share: the weight that experts get back in every round.
SHARE = 1e-3
#: Additive models: the long memory, the young one, and one that is kept from before a change.
LONG, YOUNG, PAST = 0, 1, 2
#: Which part of all numbers one of them may have; how many rounds the young memory looks back.
PART, FADING = 1 / 7, 200
#: For so many rounds a new memory has the exchange for itself.
TRIAL = 100
#: The temperature of the Hedge over memories, in mean squared errors of the best.
HEAT = 4.0


class Ties(NamedTuple):
    """What a graph says to its learners."""

    near: npt.NDArray[np.bool_]  # (J, J)
    weight: Array  # (J, J) of edges in sums, the same at both ends
    mixing: Array  # (J, J) Metropolis weights, rows sum to 1
    diameter: int

    @property
    def around(self) -> npt.NDArray[np.bool_]:
        """Each learner with its neighbours. (J, J)"""
        return np.asarray(self.near | np.eye(len(self.near), dtype=bool))

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
        self.forgets, self.restarts, self.due, self.alarm = forgets, 0, -1, -1
        self.loss, self.start, self.size, self.seed, self.dtype = loss, start, size, seed, dtype
        engines.chosen_newton(engine)  # refuses now what would be refused later
        self.engine, self.threads = engine, threads
        self.ties = Ties.of(graph, dtype)
        self.J, self.d = graph.J, d
        self._lay_out(d)
        self.buffer: list[tuple[Array, Array]] | None = []  # samples while the scale is not fixed
        self.before: list[tuple[Array, Array]] = []  # and those from before a change
        self.fixed = next(r for r in _powers(WARM_UP) if r - self.ties.diameter >= WARM_UP // 2)
        self.low, self.high = np.full(self.J, np.inf), np.full(self.J, -np.inf)
        self.log_w = np.zeros((self.J, 2))
        self.memories: list[Memory] = []  # LONG, YOUNG, PAST
        self.recent: deque[tuple[Array, Array]] = deque(maxlen=FADING)
        self.shared, self.sent, self.rounds = False, 0.0, 0
        self.state: newton.State | None = None

    def _lay_out(self, d: int) -> None:
        self.terms = Terms(int(PART * self.size), d)
        left = self.size - self.terms.K - Watch.NUMBERS if self.forgets else self.size
        self.features = Features(self.seed, left, d, self.dtype)

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
        if self.memories:
            terms = self.terms.of(x, self.stats)
            scores += [memory.score(terms) for memory in self.memories]
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

    def learn(self, look: Look, y: Array, told: Look | None = None) -> None:
        """A label becomes known to every learner (J,); `told` is what was predicted if that was rounds ago.

        Experts are judged by what they had told: a short memory looks good on samples between those it knows.
        """
        if told is None or told.experts.shape != look.experts.shape:
            told = look
        self.rounds += 1
        self._judge(told, y)
        self._widen(y)
        if self.buffer is not None:
            self.buffer.append((look.x, y))
            if self._is_time_to_rebuild():
                self._rebuild()
                return
        self._step(look.z, look.f, y)
        self._remember(told, y)

    def _judge(self, look: Look, y: Array) -> None:
        """Fixed-share Hedge between the experts."""
        if self.memories:
            self._judge_memories(look, y)
            return
        span = np.where(self.high > self.low, self.high - self.low, 1) if self.state is not None else 1.0
        worse = ((look.experts - y[:, None]) / np.reshape(span, (-1, 1))) ** 2
        self.log_w = np.log(self._weights()) - np.minimum(worse, 1) / RATES.eta_g

    def _judge_memories(self, look: Look, y: Array) -> None:
        """The same in units of the best expert's error, so that few rounds tell after a change."""
        misses = self._misses(look, y)
        worse = misses - misses.min(-1, keepdims=True)
        level = HEAT * np.maximum(self.watch.errors.min(-1, keepdims=True), 1e-12)
        self.log_w = np.log(self._weights()) - np.minimum(worse / level, 1)

    def _misses(self, look: Look, y: Array) -> Array:
        """The experts' squared errors, scaled like the targets. (J, n)"""
        return np.asarray(((look.experts - y[:, None]) / self.width[:, None]) ** 2)

    def _widen(self, y: Array) -> None:
        """The range of y: one's own, and what the neighbours send at the end of the round."""
        low, high = np.minimum(self.low, y), np.maximum(self.high, y)
        self.low = np.where(self.ties.around, low, np.inf).min(1)
        self.high = np.where(self.ties.around, high, -np.inf).max(1)

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

    def _open_memories(self, samples: list[tuple[Array, Array]]) -> None:
        """Begin to watch for changes, or go on with another scale; samples are inputs and scaled targets."""
        weight, mixing = (np.asarray(v, np.float64) for v in (self.ties.weight, self.ties.mixing))
        if not self.memories:
            self.watch, self.log_w = Watch(mixing), np.zeros((self.J, EXPERTS))
        make = functools.partial(Memory, self.terms, weight, mixing, self.loss)
        self.memories = [make(np.inf), make(FADING), make(np.inf)]
        self.recent.clear()
        self.recent.extend(samples)
        self._teach(self.memories[LONG], samples)
        self._teach(self.memories[YOUNG], samples[-FADING:])
        self._teach(self.memories[PAST], [(x, np.float64(self._target(y))) for x, y in self.before])

    def _teach(self, memory: Memory, samples: list[tuple[Array, Array]]) -> None:
        """The memory learns these samples and nothing else."""
        memory.renew()
        for x, y in samples:
            memory.replay(self.terms.of(x, self.stats), y)

    def _last(self, n: int) -> list[tuple[Array, Array]]:
        """The last n samples, where as many are kept."""
        return list(self.recent)[-n:] if n else []

    def _remember(self, look: Look, y: Array) -> None:
        if not self.memories:
            return
        target = self._target(y).astype(np.float64)
        self.recent.append((look.x, target))
        terms = self.terms.of(look.x, self.stats)
        learning = self.memories[:PAST]
        new = [memory for memory in learning if memory.n < TRIAL]
        turn = new[0] if new else learning[self.rounds % 2]  # there is room for one of them in a message
        for memory in learning:
            memory.learn(terms, target, exchanges=memory is turn)
        self.sent += self.terms.K + self.watch.NUMBERS if self.shared else 0
        self._act(self.watch.see(((look.y_hat - y) / self.width) ** 2, self._misses(look, y)))

    def _act(self, news: News) -> None:
        """Do what the news ask for, as soon as everybody can have heard of them."""
        if news.alarm and self.alarm < self.rounds:
            self.alarm = self.rounds + self.ties.diameter
        if news.better and self.due < self.rounds:
            self.due = self.rounds + self.ties.diameter
        if self.alarm == self.rounds:
            self._teach(self.memories[YOUNG], self._last(int(self.watch.since.min())))
            self.watch.calm()
            self.log_w = np.log(self._weights() / 2 + 0.5 / self.log_w.shape[1])
        elif self.due == self.rounds:
            self._restart()
            self.watch.compare()

    def _restart(self) -> None:
        """The young memory or that of the past takes the long one's place, at all learners at once."""
        self.restarts += 1
        long, young, past = self.memories
        misled, returns = self.watch.misled(), self.watch.returns()
        if returns:
            self.memories = [past, young, long]
            self.log_w = self.log_w[:, [0, 1, 4, 3, 2]]
        else:
            self.memories = [young.copy(np.inf), young, long if long.n >= TRIAL else past]
            self.log_w = self.log_w[:, [0, 1, 3, 3, 2]]
        if not misled:
            return
        self._divide_buffer(young.n, returns)
        self.state, kept = self._blank(), self._last(young.n)
        for k, (x, y) in enumerate(kept, start=1):
            self._again(self.features.of(x, self.stats), np.asarray(y, self.dtype), last=k == len(kept))

    def _divide_buffer(self, n: int, returns: bool) -> None:
        """The next scale is of the samples that count: the last n, and those of a past that returns."""
        if self.buffer is not None:
            past = self.before if returns else []
            self.before, self.buffer = self.buffer[:-n], past + self.buffer[-n:]

    # Warming up

    def _is_time_to_rebuild(self) -> bool:
        """In rounds 1, 2, 4 .., and once they have a common scale only when it is to be fixed."""
        assert self.buffer is not None
        enough = len(self.buffer) - self.ties.diameter >= LOOKS // 2
        doubled = self.rounds & (self.rounds - 1) == 0
        return doubled and (self.rounds <= LOOKS or not self.shared or (self.rounds >= self.fixed and enough))

    def _rebuild(self) -> None:
        """Take the scale anew from the kept samples, and replay them."""
        assert self.buffer is not None
        n = len(self.buffer)
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
        if self.forgets and self.rounds >= LOOKS and until >= LOOKS // 2:
            self._open_memories([(X[:, t], np.float64(y)) for t, (_, y) in enumerate(samples)])
        if self.rounds >= self.fixed:
            self.buffer, self.before = None, []

    def _blank(self) -> newton.State:
        diagonal = engines.make_inverse(self.engine, self.threads)
        return newton.init(MODELS, self.features.K, self.pulls, diagonal)

    def _scale(self, X: Array, y: Array) -> None:
        """From everybody's statistics; from one's own and the neighbours' while others' are on the way."""
        J, n = y.shape
        who = np.ones((1, J), bool) if self.shared else self.ties.around
        self.stats = pooled(statistics(X), who)
        if J > 1:
            size = (3 + min(n, STEPS + 1)) * self.d + 4  # of few samples there are no more quantiles
            self.sent += J * size if self.shared else size
        targets = pooled(statistics(y[..., None]), who)
        centre, width = targets.mean[:, 0], targets.high[:, 0] - targets.low[:, 0]
        if self.loss.classifies:
            centre, width = np.zeros_like(centre), np.ones_like(width)
        self.centre = np.broadcast_to(centre, J)
        self.width = np.broadcast_to(np.where(width > 0, width, 1), J)

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
        self.buffer, self.before = self._padded(self.buffer, d), self._padded(self.before, d)
        self._lay_out(d)
        if self.buffer:
            self._rebuild()

    def _padded(self, samples: Iterable[tuple[Array, Array]], d: int) -> list[tuple[Array, Array]]:
        more = ((0, 0), (0, d - self.features.d))
        return [(np.pad(x, more, constant_values=np.nan), y) for x, y in samples]

    def _add_columns(self, d: int) -> None:
        assert self.state is not None
        old, more = self.features.K, (0, d - self.features.d)
        self.stats = Stats(*(np.pad(v, [(0, 0)] * (v.ndim - 1) + [more]) for v in self.stats))
        self._add_terms(d)
        self.features.grow(d)
        wider = ((0, 0), (0, 0), (0, self.features.K - old))
        theta, lam, near, m = (np.pad(v, wider) for v in (self.state[:3] + self.state[5:6]))
        P = np.pad(self.state.inverse.settle(), (*wider, wider[-1]))
        new = np.arange(old, self.features.K)
        P[..., new, new] = 1 / self.pulls.c[..., None]
        self.mixed = np.pad(self.mixed, wider)
        self.state = newton.State(theta, lam, near, self.state.L, self.state.q, m, self.state.inverse.anew(P))

    def _add_terms(self, d: int) -> None:
        kept = self._padded(self.recent, d)
        self.recent.clear()
        self.recent.extend(kept)
        for c in range(self.features.d, d):
            self.terms.add_input(c)
        for memory in self.memories:
            memory.widen()

    def set_column(self, c: int, values: Array) -> None:
        """Fix the scale of a column that came late."""
        for old, new in zip(self.stats, statistics(values[:, None]), strict=True):
            old[..., c] = new[..., 0]


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
                network.learn(network.look(look.x) if delay else look, label, look)
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

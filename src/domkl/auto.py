"""The learner that needs no settings: `simulate(..., preset="auto")`, and `Model` for one device.

Two joint second-order models (`domkl.newton`) of about 850 numbers each are averaged. Each mixes four
bandwidths in one set of frequencies; half of its rows see the inputs on their range, half see a softsign of
the standardised inputs, half of either see four inputs only; the inputs themselves and a constant join them.

The scale is taken from the stream. After 1, 2, 4, ... 64 samples a learner takes the statistics of inputs and
targets anew, builds its features anew, and replays the samples it has kept; after that the scale is fixed and
the samples are dropped. From the first scale that all learners can know (the statistics of a round need as
many rounds as the network's diameter to reach everybody) they exchange theta; before it each is alone.

Edge weights are 1/min(deg_i, deg_j), so that no degree makes a learner slow. On the device, Hedge with fixed
share chooses between its own theta, the average of its neighbourhood's (Metropolis weights), and a ridge
regression on its last samples (`domkl.window`). Where that is clearly better at half of the learners, all of
them at once start again from their last samples: this is how they follow a change.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import _checks, core, losses, newton
from ._types import Array, Float
from .core import Rates
from .engines import Sums
from .errors import InputError
from .graph import Graph
from .losses import Loss
from .window import Watch, Window

MODELS = 2
SIGMA2 = (0.1, 0.2, 0.4, 0.8)
#: rho and eta of the local step, and the temperature of the device's Hedge in squared ranges of y.
RATES = Rates(rho=0.4, eta=0.005, eta_g=0.1)
#: Whoever learns alone has nobody's estimates to hold its own in check.
ALONE = Rates(rho=0.4, eta=0.1, eta_g=0.1)
#: The samples after which the scale is fixed.
WARM_UP = 64
#: Fixed share: the weight that experts get back in every round.
SHARE = 1e-3
#: Values after which a column that came late gets its scale, and errors that `Model.interval` looks back on.
LATE, RESIDUALS = 32, 500
FADING = 0.99


class Stats(NamedTuple):
    """What is known of each column, and of the targets."""

    n: Array  # (..., d) how many values
    mean: Array  # (..., d)
    sd: Array  # (..., d)
    low: Array  # (..., d)
    high: Array  # (..., d)


def statistics(X: Array) -> Stats:
    """Of the samples on the second last axis, NaN left out. (..., n, d) -> (..., d)"""
    known = ~np.isnan(X)
    n = known.sum(-2)
    many = np.maximum(n, 1)
    size = np.abs(np.where(known, X, 0)).max(-2, keepdims=True)
    size = np.where(size > 0, size, 1)  # squares of the largest numbers stay finite
    Z = np.where(known, X / size, 0)
    mean = Z.sum(-2) / many
    sd = np.sqrt((np.where(known, Z - mean[..., None, :], 0) ** 2).sum(-2) / many)
    low, high = np.where(known, X, np.inf).min(-2), np.where(known, X, -np.inf).max(-2)
    seen = n > 0
    size = size[..., 0, :]
    return Stats(n, mean * size, sd * size, np.where(seen, low, 0), np.where(seen, high, 0))


def scaled(x: Array, stats: Stats) -> Array:
    """[x on its range, softsign of standardised x], 0 where missing or constant. (..., d) -> (..., 2d)"""
    varies = (stats.high > stats.low) & (stats.sd > 0)
    x = np.where(varies & ~np.isnan(x), x, stats.mean)
    span = np.where(varies, stats.high / 2 - stats.low / 2, 1)
    away = x / 2 - stats.mean / 2  # halves, so that the largest numbers do not overflow
    sd = np.where(varies, stats.sd, 1)
    u = np.clip(away / span, -1.5, 1.5) * 2
    s = np.clip(away / sd, -1e9, 1e9) * 2
    return np.concatenate([u, 1.25 * s / (1 + np.abs(s))], -1)


def frequencies(seed: int, D: int, first: int, d: int) -> Array:
    """V (MODELS, D, 2d) for `scaled` inputs. Columns are drawn one by one: more of them change no other.

    `first` is the number of columns for which lengths were chosen.
    """
    V = np.zeros((MODELS, D, 2, d))
    rows = np.arange(D)
    width = 1 / np.sqrt(np.resize(SIGMA2, D))
    few = (rows // 4 % 2 == 0) & (first > 4)
    width = width * np.where(few, math.sqrt(first / 4), 1) / math.sqrt(first)
    for p in range(MODELS):
        mask = _four_columns(np.random.default_rng([seed, p]), D, first)
        for c in range(d):
            rng = np.random.default_rng([seed, p, c])
            column = rng.standard_normal(D) * width
            chosen = mask[:, c] if c < first else rng.uniform(size=D) < 4 / first
            V[p, rows, rows // 8 % 2, c] = np.where(few & ~chosen, 0, column)
    V[:, :, 0] *= 2  # the range is [0, 1] wide, the softsign [-1.25, 1.25]
    return V.reshape(MODELS, D, 2 * d)


def _four_columns(rng: np.random.Generator, D: int, d: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros((D, d), bool)
    for row in mask:
        row[rng.permutation(d)[:4]] = True
    return mask


class Features:
    """z of all models: [sin, cos of V u]/sqrt(D), 1, u."""

    def __init__(self, seed: int, size: int, d: int, dtype: Float) -> None:
        self.seed, self.first, self.d, self.dtype = seed, d, d, dtype
        self.linear = d if 8 * d <= size else 0
        self.D = max(1, (size // MODELS - self.linear - 1) // 2)
        self.V = frequencies(seed, self.D, d, d).astype(dtype)

    @property
    def K(self) -> int:
        return 2 * self.D + 1 + self.linear

    def of(self, x: Array, stats: Stats) -> Array:
        """(..., d) -> (..., MODELS, K)"""
        inputs = scaled(x, stats).astype(self.dtype)
        z = np.ones((*x.shape[:-1], MODELS, self.K), self.dtype)
        z[..., : 2 * self.D] = core.features(self.V, inputs)
        z[..., 2 * self.D + 1 :] = inputs[..., None, : self.linear] * (2 / math.sqrt(self.first))
        return z

    def grow(self, d: int) -> None:
        """More columns; all that was there stays."""
        self.linear += d - self.d if self.linear else 0
        self.d = d
        self.V = frequencies(self.seed, self.D, self.first, d).astype(self.dtype)


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
    ) -> None:
        self.forgets, self.restarts, self.due = forgets, 0, -1
        self.loss, self.start, self.size, self.seed, self.dtype = loss, start, size, seed, dtype
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
        self.state = newton.init(MODELS, self.features.K, self.pulls)
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
        self.pulls = newton.Pulls.of(deg, RATES if self.shared else ALONE, self.loss)
        self.state = newton.init(MODELS, self.features.K, self.pulls)
        samples = [(self.features.of(X[:, t], self.stats), self._target(y[:, t])) for t in range(n)]
        for t, (z, target) in enumerate(samples):
            self._again(z, target, last=t == n - 1)
        if n >= self.fixed:
            self.buffer = None
            if self.forgets:
                self._open_window(samples)

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
        self.state = newton.State(theta, lam, near, self.state.L, self.state.q, m, newton.Inverse(P))

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


class Model:
    """One device that learns online, with nothing to tune.

    Parameters
    ----------
    d : number of inputs.
    loss : "squared" for numbers, "logistic" for labels of -1 and +1 (0 is read as -1).
    seed : of the frequencies.
    size : how many numbers the two models have together; time and memory grow with its square.
    forgetting : "auto" (the past is dropped when the last samples alone predict clearly better), "none" (all
        samples count), or about how many past samples count.

    Inputs may have any scale and may be missing (NaN). `predict` gives the target, clipped to the range seen,
    or for "logistic" the score 2 P(y = +1) - 1, in [-1, 1]; before any label it gives 0.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.auto import Model
    >>> model, rng = Model(2, size=200), np.random.default_rng(0)
    >>> for x in rng.uniform(0, 1000, size=(300, 2)):
    ...     model.learn(x, np.sin(x[0] / 200) + x[1] / 500)
    >>> bool(abs(model.predict([500.0, 500.0]) - np.sin(2.5) - 1) < 0.1)
    True
    """

    def __init__(
        self,
        d: int,
        *,
        loss: str = "squared",
        seed: int = 0,
        size: int = 1700,
        forgetting: str | float = "auto",
    ) -> None:
        d, size = _checks.count("d", d), _checks.count("size", size, least=16)
        self.forgetting = _memory(forgetting)
        _checks.one_of("loss", loss, ("squared", "logistic"))
        self._network = Network(
            Graph((0,), ((),)), d, losses.get(loss), seed=seed, size=size, forgets=forgetting == "auto"
        )
        self._late: dict[int, list[float]] = {}  # columns that came after the scale was fixed
        self._misses = np.zeros(RESIDUALS)  # absolute errors, the oldest overwritten
        self._seen: Look | None = None

    @property
    def d(self) -> int:
        """How many inputs a sample has."""
        return self._network.d

    @property
    def n(self) -> int:
        """How many samples were learnt."""
        return self._network.rounds

    def predict(self, x: npt.ArrayLike) -> float:
        """What to expect at x, before its label is known."""
        return float(self._look(x).y_hat[0])

    def learn(self, x: npt.ArrayLike, y: float) -> None:
        """A sample with its label."""
        network, look = self._network, self._look(x)
        label = _checks.finite("y", _checks.floats("y", y))
        _checks.shape("y", label, (), "give one label at a time")
        label = losses.labels(network.loss, label)
        if self.n:  # the first error says nothing about the model
            self._misses[(self.n - 1) % RESIDUALS] = abs(float(look.y_hat[0]) - float(label))
        network.learn(look, label[None])
        self._forget()
        self._take_late(look.x[0])
        self._seen = None

    def interval(self, x: npt.ArrayLike, coverage: float = 0.9) -> tuple[float, float]:
        """Between which bounds y will lie, in `coverage` of all cases: conformal, from the last errors.

        The width is a weighted quantile of the last 500 absolute errors, each made before its label was
        known; an error's weight falls by 1 % with every newer one, so the width follows a stream that changes
        (conformal prediction beyond exchangeability). Without enough errors the bounds are infinite.
        """
        if not 0 < coverage < 1:
            raise InputError(f"coverage is {coverage}; expected a number between 0 and 1; for example 0.9")
        middle, wide = self.predict(x), _quantile(*self._errors(), coverage)
        return middle - wide, middle + wide

    def _errors(self) -> tuple[Array, Array]:
        """The last absolute errors, and their weights."""
        count = max(self.n - 1, 0)
        errors = self._misses[:count]
        age = (count - 1 - np.arange(len(errors))) % RESIDUALS
        return errors, np.asarray(FADING**age, np.float64)

    def grow(self, d: int) -> None:
        """From now on samples have d inputs, the new ones last; what was learnt stays.

        While the scale is not fixed, the kept samples are replayed with the new inputs missing. Later, a new
        input is left out until 32 of its values have shown its scale.
        """
        network, more = self._network, _checks.count("d", d, least=self.d) - self.d
        if more == 0:
            return
        self._seen = None
        if network.buffer is None:
            self._late.update((c, []) for c in range(network.d, d))
        network.grow(d)

    def _look(self, x: npt.ArrayLike) -> Look:
        sample = _checks.floats("x", x)
        _checks.shape("x", sample, (self.d,), "every sample needs the same features; see grow()")
        if np.isinf(sample).any():
            raise InputError(
                "x holds an infinite number; expected finite numbers or NaN; use NaN for missing"
            )
        if self._seen is None or not np.array_equal(self._seen.x[0], sample, equal_nan=True):
            self._seen = self._network.look(sample[None].copy())
        return self._seen

    def _forget(self) -> None:
        network = self._network
        if self.forgetting is None or network.buffer is not None:
            return
        assert network.state is not None
        n = newton.pace(self.forgetting, network.features.K)
        if network.rounds % n == 0:
            keep = (1 - 1 / self.forgetting) ** n
            network.state = newton.forget(network.state, keep, network.pulls)

    def _take_late(self, x: Array) -> None:
        """Collect values of new columns; fix the scale of those that have shown enough."""
        for c, values in list(self._late.items()):
            if not np.isnan(x[c]):
                values.append(float(x[c]))
            if len(values) == LATE:
                self._network.set_column(c, np.array(values))
                del self._late[c]


def _quantile(errors: Array, weights: Array, coverage: float) -> float:
    """The least error with enough weight at or below it, where one more error of weight 1 is infinite."""
    order = np.argsort(errors)
    below = np.cumsum(weights[order]) / (weights.sum() + 1)
    rank = int(np.searchsorted(below, coverage))
    return float(errors[order[rank]]) if rank < len(errors) else math.inf


def _memory(forgetting: str | float) -> float | None:
    if isinstance(forgetting, str):
        _checks.one_of("forgetting", forgetting, ("auto", "none"))
        return None
    return 1 + _checks.positive("forgetting", forgetting)

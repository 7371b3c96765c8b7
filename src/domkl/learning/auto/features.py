"""The inputs' scale, and the features of the joint models."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...base import checks
from ...base.arrays import clip
from ...base.types import Array, Float
from .. import first_order
from .constants import C


class Stats(NamedTuple):
    """Statistics of each column: of the inputs and, last, of the target."""

    n: Array  # (..., d) how many values
    mean: Array  # (..., d)
    sd: Array  # (..., d)
    low: Array  # (..., d)
    high: Array  # (..., d)
    quantiles: Array  # (..., steps + 1, d) from the lowest value to the highest


def statistics(X: Array, steps: int | None = None) -> Stats:
    """Statistics of the samples on the second last axis, without NaN. (..., n, d) -> (..., d)

    `steps` are those of the quantiles; by default as many as the samples can tell.
    """
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
    low, high = np.where(seen, low, 0), np.where(seen, high, 0)
    return Stats(n, mean * size, sd * size, low, high, _quantiles(X, n, steps))


def _quantiles(X: Array, n: npt.NDArray[np.intp], steps: int | None) -> Array:
    """Of n values in each column, NaN left out. (..., samples, d), (..., d) -> (..., steps + 1, d)"""
    ordered = np.nan_to_num(np.sort(X, -2), nan=0.0)  # NaN comes last
    if steps is None:
        steps = (
            C.quantile_steps if X.shape[-2] >= C.many_samples else min(max(X.shape[-2] - 1, 1), C.few_steps)
        )
    place = np.linspace(0, 1, steps + 1)[:, None] * (np.maximum(n, 1) - 1)[..., None, :]
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, X.shape[-2] - 1)
    part = place - below
    first, second = (np.take_along_axis(ordered, rank, -2) for rank in (below, above))
    return np.asarray(first * (1 - part) + second * part)


def pooled(stats: Stats, who: npt.NDArray[np.bool_]) -> Stats:
    """Statistics of groups of learners, from each one's. who (G, J), stats (J, d) -> (G, d)

    Quantiles are averaged, which for learners of one distribution is close to the quantiles of all. A learner
    far away from the others has no part in that column, and no range reaches further (`Reach`).
    """
    some = who[..., None] & (stats.n > 0)  # (G, J, d)
    reach = Reach.of(stats, some)
    some = some & reach.holds(stats)
    each = np.where(some, np.minimum(stats.n, reach.n), 0)
    n = each.sum(1)
    part = each / np.maximum(n, 1)[:, None]
    low, high = (np.where(some, v, w) for v, w in ((stats.low, np.inf), (stats.high, -np.inf)))
    low, high = np.maximum(low.min(1), reach.low[:, 0]), np.minimum(high.max(1), reach.high[:, 0])
    low, high = np.where(n > 0, low, 0), np.where(n > 0, high, 0)
    size = np.maximum(np.abs(low), np.abs(high))
    size = np.where(size > 0, size, 1)[:, None]  # squares of the largest numbers stay finite
    mean = (part * stats.mean).sum(1)
    apart = np.where(some, np.where(some, stats.mean, 0) / size - mean[:, None] / size, 0)
    sd = np.sqrt((part * ((np.where(some, stats.sd, 0) / size) ** 2 + apart**2)).sum(1)) * size[:, 0]
    quantiles = clip((part[:, :, None] * stats.quantiles).sum(1), reach.low, reach.high)
    return Stats(n, mean, np.minimum(sd, reach.spread[:, 0]), low, high, quantiles)


class Reach(NamedTuple):
    """How far a group of learners lets one of them move its scale, so that one that lies cannot spoil it.

    `far_apart` times the typical spread, the medians of the deviations and of the means' distances from their
    median. Infinite where less than three learners have values, or most have few or constant ones; but
    targets, the last column, may then lie as many times as far as there are too few.
    """

    n: Array  # (G, 1, d) the most values that one learner counts for
    low: Array  # (G, 1, d)
    high: Array
    spread: Array  # the largest standard deviation

    @classmethod
    def of(cls, stats: Stats, some: npt.NDArray[np.bool_]) -> Reach:
        """stats (J, d), some (G, J, d)"""
        n, centre = median_of(stats.n, some), median_of(stats.mean, some)
        apart = np.abs(stats.mean / 2 - centre / 2) * 2
        spreads = [np.minimum(median_of(values, some), checks.LARGEST) for values in (stats.sd, apart)]
        typical = spreads[0] + spreads[1]
        count = some.sum(1, keepdims=True)
        few = np.maximum(C.few_values / np.maximum(count * n, 1), 1)
        knows = (count >= 3) & (n > 0) & (typical > 0) & ((few == 1) | is_target(few.shape[-1]))
        spread = np.where(knows, C.far_apart * few * typical, np.inf)
        return cls(np.where(knows, C.most_values * n, np.inf), centre - spread, centre + spread, spread)

    def holds(self, stats: Stats) -> npt.NDArray[np.bool_]:
        """Which learners are inside. (G, J, d)"""
        is_near = (stats.mean >= self.low) & (stats.mean <= self.high)
        return np.asarray(is_near & (stats.sd <= self.spread))


def is_target(columns: int) -> npt.NDArray[np.bool_]:
    """Which of the columns of statistics is the target's: the last."""
    return np.asarray(np.arange(columns) == columns - 1)


def median_of(values: Array, some: npt.NDArray[np.bool_]) -> Array:
    """Medians over some learners; 0 for none. (J, d) or (G, J, d), some (G, J, d) -> (G, 1, d)"""
    count = some.sum(1, keepdims=True)
    ordered = np.sort(np.where(some, values, np.inf), 1)
    first, second = (
        np.take_along_axis(ordered, np.clip(at, 0, some.shape[1] - 1), 1)
        for at in ((count - 1) // 2, count // 2)
    )
    return np.asarray(np.where(count > 0, first / 2 + second / 2, 0.0))


def distance(stats: Stats, own: Stats) -> float:
    """How far statistics of one learner are from those of another, by means and deviations. (1, d) each

    A column's part is bounded, so that one column that is far off hides no other.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        apart = np.abs(stats.mean / 2 - own.mean / 2) * 2 / own.sd
        wider = np.abs(np.log(stats.sd / own.sd))
    varies = columns_vary(own)
    each = [np.where(varies, np.nan_to_num(np.minimum(v, 100), nan=100), 0) for v in (apart, wider)]
    return float(np.sum(each))


def columns_vary(stats: Stats) -> npt.NDArray[np.bool_]:
    """Which columns are not constant, as far as numbers can be divided by their span. (..., d)"""
    return np.asarray((stats.high / 2 - stats.low / 2 > checks.NARROWEST) & (stats.sd > checks.NARROWEST))


def scaled(x: Array, stats: Stats) -> Array:
    """[x on its range, softsign of standardised x, rank of x], 0 where constant. (..., d) -> (..., 3d)

    A missing value is the mean.
    """
    varies = columns_vary(stats)
    x = np.where(varies & ~np.isnan(x), x, stats.mean)
    span = np.where(varies, stats.high / 2 - stats.low / 2, 1)
    away = x / 2 - stats.mean / 2  # halves, so that the largest numbers do not overflow
    sd = np.where(varies, stats.sd, 1)
    u = clip(away / span, -1.5, 1.5) * 2
    s = clip(away / sd, -1e9, 1e9) * 2
    rank = np.where(varies, C.rank_size * (_ranks(x, stats.quantiles) - 0.5), 0)
    return np.concatenate([u, C.softsign_size * s / (1 + np.abs(s)), rank], -1)


def _ranks(x: Array, quantiles: Array) -> Array:
    """The share of values below x, straight between quantiles; a value that fills a step counts half."""
    below, above = quantiles[..., :-1, :], quantiles[..., 1:, :]
    wide = above / 2 - below / 2 > checks.NARROWEST
    x = x[..., None, :]
    steps = clip((x / 2 - below / 2) / np.where(wide, above / 2 - below / 2, 1), 0, 1)
    return np.asarray(np.where(wide, steps, (1 + np.sign(x - below)) / 2).mean(-2))


def frequencies(seed: int, D: int, first: int, d: int) -> Array:
    """Frequencies V (models, D, maps d) for `scaled` inputs; each column is drawn from a seed of its own, so
    that more columns change no other.

    `first` is the number of columns for which lengths were chosen.
    """
    V = np.zeros((C.models, D, C.input_maps, d))
    rows = np.arange(D)
    turn = rows // len(C.sigma2)  # every bandwidth meets every number of inputs, and these every map
    sees = np.array([first if n is None else min(n, first) for n in C.inputs_seen])[turn % len(C.inputs_seen)]
    width = 1 / np.sqrt(np.resize(C.sigma2, D) * sees)
    for p in range(C.models):
        order = np.argsort(np.random.default_rng([seed, p]).uniform(size=(D, first)), -1)
        chosen = np.argsort(order, -1) < sees[:, None]
        for c in range(d):
            rng = np.random.default_rng([seed, p, c])
            column = rng.standard_normal(D) * width
            used = chosen[:, c] if c < first else rng.uniform(size=D) < sees / first
            V[p, rows, turn // len(C.inputs_seen) % C.input_maps, c] = np.where(used, column, 0)
    V[:, :, 0] *= 2  # the range is [0, 1] wide, the other maps about [-1, 1]
    return V.reshape(C.models, D, C.input_maps * d)


class Sizes(NamedTuple):
    """Frequencies of a joint model, and its linear features."""

    D: int
    linear: int


class Features:
    """Features z of the joint models: [sin, cos of V u]/sqrt(D), 1, u, with u the scaled inputs."""

    def __init__(self, seed: int, size: int, d: int, dtype: Float) -> None:
        self.seed, self.first, self.d, self.dtype = seed, d, d, dtype
        self.D, self.linear = self.sizes(size, d, d)
        self.V = frequencies(seed, self.D, d, d).astype(dtype)

    @staticmethod
    def sizes(size: int, first: int, now: int) -> Sizes:
        """How `size` parameters are divided, for inputs that were `first` and are `now`."""
        linear = first if 8 * first <= size else 0
        return Sizes(max(1, (size // C.models - linear - 1) // 2), now if linear else 0)

    @property
    def K(self) -> int:
        return 2 * self.D + 1 + self.linear

    def of(self, x: Array, stats: Stats) -> Array:
        """Features of samples. (..., d) -> (..., models, K)"""
        inputs = scaled(x, stats).astype(self.dtype)
        z = np.ones((*x.shape[:-1], C.models, self.K), self.dtype)
        z[..., : 2 * self.D] = first_order.features(self.V, inputs)
        z[..., 2 * self.D + 1 :] = inputs[..., None, : self.linear] * (2 / math.sqrt(self.first))
        return z

    def grow(self, d: int) -> None:
        """Add columns; the features of the others stay the same."""
        self.linear += d - self.d if self.linear else 0
        self.d = d
        self.V = frequencies(self.seed, self.D, self.first, d).astype(self.dtype)

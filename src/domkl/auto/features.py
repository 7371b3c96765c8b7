"""The inputs' scale, and the features of the joint models."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import core
from .._types import Array, Float

MODELS = 2
SIGMA2 = (0.1, 0.2, 0.4, 0.8)


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

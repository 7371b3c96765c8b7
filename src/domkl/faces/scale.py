"""Mean and spread of a stream, as far as it has come."""

from __future__ import annotations

import numpy as np

from ..base.types import Array

#: Inputs beyond say nothing about a scale.
HUGE = 1e150


class Scale:
    """Mean and spread of columns, from blocks with gaps."""

    def __init__(self) -> None:
        self.n = self.mean = self.squares = np.zeros(0)

    def grow(self, count: int) -> None:
        more = np.zeros(count)
        self.n, self.mean = np.append(self.n, more), np.append(self.mean, more)
        self.squares = np.append(self.squares, more)

    def update(self, block: Array) -> None:
        """Chan's rule for merging moments. (k, d)"""
        seen = np.abs(block) < HUGE  # not so NaN
        k = seen.sum(0)
        mean = np.where(seen, block, 0).sum(0) / np.maximum(k, 1)
        apart, n = mean - self.mean, np.maximum(self.n + k, 1)
        self.squares = self.squares + (np.where(seen, block - mean, 0) ** 2).sum(0)
        self.squares += apart * apart * self.n * k / n
        self.mean = self.mean + apart * k / n
        self.n = self.n + k

    @property
    def factor(self) -> Array:
        """What a column is multiplied with to get deviation 1; 0 where nothing varies. (d,)"""
        spread = np.sqrt(self.squares / np.maximum(self.n, 1))
        varies = (spread > 1e-9 * np.abs(self.mean)) & (spread > 1e-300) & np.isfinite(spread)
        return np.where(varies, 1 / np.where(varies, spread, 1), 0.0)

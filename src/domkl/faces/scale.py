"""Scaling of a stream by the mean and spread of what has come so far."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..base.types import Array
from ..learner.handed import FAR

#: Inputs beyond this do not count in a mean or spread.
HUGE = 1e150


class Scale:
    """Running mean and spread of columns, updated by blocks that may hold NaN."""

    FIELDS: ClassVar = ("n", "mean", "squares")

    def __init__(self) -> None:
        self.n = self.mean = self.squares = np.zeros(0)

    def grow(self, count: int) -> None:
        """Add columns without values."""
        more = np.zeros(count)
        self.n, self.mean = np.append(self.n, more), np.append(self.mean, more)
        self.squares = np.append(self.squares, more)

    def update(self, block: Array) -> None:
        """Add rows (k, d), by Chan's rule for merging moments."""
        seen = np.abs(block) < HUGE  # False for NaN
        k = seen.sum(0)
        mean = np.where(seen, block, 0).sum(0) / np.maximum(k, 1)
        apart, n = mean - self.mean, np.maximum(self.n + k, 1)
        self.squares = self.squares + (np.where(seen, block - mean, 0) ** 2).sum(0)
        self.squares += apart * apart * self.n * k / n
        self.mean = self.mean + apart * k / n
        self.n = self.n + k

    @property
    def factor(self) -> Array:
        """Factors that give each column deviation 1; 0 where a column does not vary. (d,)"""
        spread = np.sqrt(self.squares / np.maximum(self.n, 1))
        varies = (spread > 1e-9 * np.abs(self.mean)) & (spread > 1e-300) & np.isfinite(spread)
        return np.where(varies, 1 / np.where(varies, spread, 1), 0.0)


def fill(z: Array) -> Array:
    """Fill a scaled sample in place: a missing input becomes its mean, an infinite one is cut off."""
    z[np.isnan(z)] = 0.0
    return np.clip(z, -FAR, FAR, out=z)

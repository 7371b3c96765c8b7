"""Features: random cosines of the inputs, of four bandwidths, over few or all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.types import Array
from .algebra import times
from .scale import Inputs


class Features:
    """z(x) = [sin V u / sqrt(D), cos V u / sqrt(D), 1, ranges / sqrt(d)], u the inputs as two maps see them.

    Each frequency sees 2, 4, 8 or all inputs through one map: as ranges, or as ranks. Ranks make a heavy tail
    harmless, ranges keep distances; which helps differs from stream to stream, and the matrix behind sorts it
    out. Linear terms are there if they take an eighth of the parameters at most. There are `size` features
    or one less, and all devices draw the same frequencies from the seed.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.learning.auto.features import Features
    >>> features = Features(d=3, size=100)
    >>> features.K, features.V.shape
    (100, (48, 6))
    """

    variances: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8)  # kernel bandwidths sigma^2, taken in turn
    sees: tuple[int, ...] = (2, 4, 8, 0)  # how many inputs a frequency sees; 0: all
    spread: tuple[float, float] = (2.0, 1.9)  # factors that make the two maps about equally wide

    def __init__(self, d: int, size: int, seed: int = 0, dtype: Any = np.float64) -> None:
        self.d, self.dtype = d, np.dtype(dtype)
        self.linear = d if 8 * d <= size else 0
        self.D = max(1, (size - 1 - self.linear) // 2)
        self.K = 2 * self.D + 1 + self.linear
        self.V = self._draw(seed).astype(dtype)  # (D, 2 d)
        self.VT = np.ascontiguousarray(self.V.T)

    def _draw(self, seed: int) -> Array:
        """Frequencies: the bandwidth changes from one to the next, then what they see, then the map."""
        d, D, rng = self.d, self.D, np.random.default_rng([seed, 0])
        r = np.arange(D)
        turn = r // len(self.variances)
        seen = np.array([min(n, d) if n else d for n in self.sees])[turn % len(self.sees)]
        width = 1 / np.sqrt(np.resize(self.variances, D) * seen)
        used = np.argsort(np.argsort(rng.uniform(size=(D, d)), -1), -1) < seen[:, None]
        V = np.zeros((D, len(self.spread), d))
        V[r, turn // len(self.sees) % len(self.spread)] = rng.standard_normal((D, d)) * width[:, None] * used
        return V.reshape(D, -1)

    def __call__(self, inputs: Inputs) -> Array:
        """Features of inputs (R, ..., d). -> (R, ..., K)"""
        a, b = self.spread
        u = np.concatenate([np.clip(inputs.ranges, -1.5, 1.5) * a, inputs.ranks * b], -1).astype(self.dtype)
        angle, D = times(u, self.VT), self.D
        z = np.ones((*u.shape[:-1], self.K), self.dtype)
        z[..., :D], z[..., D : 2 * D] = np.sin(angle), np.cos(angle)
        z[..., : 2 * D] /= np.sqrt(D)
        if self.linear:
            z[..., 2 * D + 1 :] = u[..., : self.d] * (1 / np.sqrt(self.d))
        return z

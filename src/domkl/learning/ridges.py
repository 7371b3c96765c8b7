"""Small linear models that learn at once, one for each of several rows."""

from __future__ import annotations

import numpy as np

from ..base.types import Array
from .fields import Concept, field


class Ridges(Concept):
    """A linear ridge for each of H rows, such as leads, with forgetting; coefficients begin at 0.

        S <- (1 - 1 / fade) S + b b',   s <- (1 - 1 / fade) s + y b,   (S + prior diag(S) / n) beta = s

    The prior is as strong as `prior` samples, whatever the columns' units.
    """

    S: Array = field("H c c")
    s: Array = field("H c")
    beta: Array = field("H c")
    n: Array = field("H", low=0.0)

    def __init__(self, H: int, c: int, *, fade: float = 2000.0, prior: float = 10.0) -> None:
        self.keep, self.prior = 1 - 1 / fade, prior
        self.allocate(np.float64, H=H, c=c)

    def predict(self, b: Array) -> Array:
        """(H, c) -> (H,)"""
        return np.asarray((b * self.beta).sum(-1))

    def learn(self, b: Array, y: Array) -> None:
        """Columns (H, c) and labels (H,), NaN where a row has none."""
        rows = np.flatnonzero(np.isfinite(y))
        b, i = b[rows], np.arange(b.shape[1])
        self.n[rows] = self.keep * self.n[rows] + 1
        S = self.S[rows] = self.keep * self.S[rows] + b[:, :, None] * b[:, None, :]
        self.s[rows] = self.keep * self.s[rows] + y[rows, None] * b
        size, A = S[:, i, i], S.copy()
        A[:, i, i] += self.prior * size / self.n[rows, None] + 1e-9 * size.max(1, keepdims=True) + 1e-12
        self.beta[rows] = np.linalg.solve(A, self.s[rows, :, None])[..., 0]

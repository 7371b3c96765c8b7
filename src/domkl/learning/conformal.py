"""Conformal prediction intervals for any learner, from its last errors.

The width is a weighted quantile of the last 500 absolute errors, each made before its label was known; an
error's weight falls by 1 % with every newer one, so the width follows a stream that changes (conformal
prediction beyond exchangeability). Without enough errors it is infinite.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from .fields import Concept, field, scalar

#: Number of errors in the window, and the factor of an error's weight with every newer one.
KEPT, FADING = 500, 0.99


class Errors(Concept):
    """The last absolute errors of J streams."""

    misses: Array = field("J w", low=0.0, missing=True)  # the oldest overwritten
    n: int = scalar("int64", low=0)

    def __init__(self, J: int = 1) -> None:
        self.allocate(J=J, w=KEPT)

    def note(self, miss: npt.ArrayLike) -> None:
        """Add the error of one prediction of each stream (J,), NaN where it is not known."""
        self.misses[:, self.n % KEPT] = np.abs(miss)
        self.n += 1

    def width(self, coverage: float) -> Array:
        """Half-width of the interval that holds the next label in `coverage` of all cases. (J,)"""
        known = min(self.n, KEPT)
        age = (self.n - 1 - np.arange(known)) % KEPT
        weights = FADING ** age.astype(np.float64)
        rows, seen = self.misses[:, :known], ~np.isnan(self.misses[:, :known])
        return np.array(
            [weighted_quantile(row[s], weights[s], coverage) for row, s in zip(rows, seen, strict=True)]
        )


class Misses:
    """The last errors of one stream, noted as quickly as can be."""

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=KEPT)

    def note(self, miss: float) -> None:
        """Add the error of one prediction."""
        self.last.append(miss)

    def width(self, coverage: float) -> float:
        """Half-width of the interval that holds the next label in `coverage` of all cases."""
        weights = FADING ** np.arange(len(self.last), dtype=float)[::-1]
        return weighted_quantile(np.abs(self.last), weights, check_coverage(coverage))


def check_coverage(coverage: float) -> float:
    """`coverage` itself if it lies between 0 and 1."""
    if not 0 < coverage < 1:
        raise InputError(f"coverage is {coverage}; expected a number between 0 and 1; write for example 0.9")
    return float(coverage)


def bounds(
    y_hat: npt.ArrayLike, y: npt.ArrayLike, coverage: float = 0.9, delay: int = 0
) -> tuple[Array, Array]:
    """Low and high (J, T) around predictions (J, T), each from errors known when it was made.

    `delay` as in `simulate`. The error of the first prediction, made before any label, does not count.

    >>> import domkl, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(3, 300, 2))
    >>> y = X[..., 0] + 0.1 * rng.standard_normal((3, 300))
    >>> run = domkl.simulate(X, y, "ring", model=domkl.Auto(size=100))
    >>> low, high = domkl.conformal.bounds(run.y_hat, y, coverage=0.8)
    >>> bool(abs(((low <= y) & (y <= high))[:, 50:].mean() - 0.8) < 0.05)
    True
    """
    guesses, labels = checks.floats("y_hat", y_hat), checks.floats("y", y)
    checks.shape("y", labels, guesses.shape, "give one label for each prediction")
    if guesses.ndim != 2:
        raise InputError(f"y_hat has shape {guesses.shape}; expected (J, T); give a row for each learner")
    check_coverage(coverage)
    delay = checks.count("delay", delay, least=0)
    errors, wide = Errors(len(guesses)), np.empty_like(guesses)
    for t in range(guesses.shape[1]):
        if t - delay > 1:
            errors.note(guesses[:, t - delay - 1] - labels[:, t - delay - 1])
        wide[:, t] = errors.width(coverage)
    return guesses - wide, guesses + wide


def weighted_quantile(errors: Array, weights: Array, coverage: float) -> float:
    """The least error with enough weight at or below it, where one more error of weight 1 is infinite."""
    order = np.argsort(errors)
    below = np.cumsum(weights[order]) / (weights.sum() + 1)
    rank = int(np.searchsorted(below, coverage))
    return float(errors[order[rank]]) if rank < len(errors) else float("inf")

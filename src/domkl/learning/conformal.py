"""Conformal prediction intervals for any learner, from its last errors.

The width is a weighted quantile of the last 500 absolute errors, each made before its label was known; an
error's weight falls by 1 % with every newer one, so the width follows a stream that changes (conformal
prediction beyond exchangeability). Without enough errors it is infinite. `Widths` divides errors by how large
they are at such inputs, so that bounds are narrow where little is unknown.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from .fields import Concept, field, scalar
from .ridges import Ridges

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


class Widths(Concept):
    """Half-widths for R streams with d inputs, which follow the state that the inputs and predictions tell.

    A ridge learns log |error| from the inputs and from how far a prediction lies from the mean. What counts
    is the quantile of the last |error| / s, times s: with s from the ridge, or the same for all inputs,
    whichever has the better running score log s + |error| / s.

    >>> rng, widths = np.random.default_rng(0), Widths(1, 1)
    >>> for x in rng.integers(0, 2, size=(500, 1, 1)).astype(float):
    ...     widths.note(x, np.zeros(1), (0.1 + x[0]) * rng.standard_normal())  # more noise where x is 1
    >>> quiet, loud = (float(widths.at(np.full((1, 1), x), np.zeros(1), 0.9)[0]) for x in (0.0, 1.0))
    >>> quiet < 0.3, loud > 1.2
    (True, True)
    """

    PARTS = ("logs", "plain", "scaled")
    #: Columns besides the inputs; errors before scales are compared; more inputs than that are not looked at.
    COLUMNS, EARLY, MOST = 3, 12, 64
    #: Errors that wait to be learnt; older ones would count less than 2 %.
    NOTED = 2000

    usual: Array = field("d")
    spread: Array = field("d", low=0.0)
    mean: Array = field("R")
    deviation: Array = field("R", low=0.0)
    whole: Array = field("R", low=0.0)  # the mean error
    score: Array = field("R 2")
    n: Array = field("R", low=0.0)
    seen: Array = field("", low=0.0)

    def __init__(self, R: int, d: int) -> None:
        self.allocate(R=R, d=d if d <= self.MOST else 0)
        self.logs = Ridges(R, self.COLUMNS + len(self.usual), fade=500.0)
        self.plain, self.scaled = Errors(R), Errors(R)
        self._noted: deque[tuple[Array, Array, npt.ArrayLike]] = deque(maxlen=self.NOTED)

    def at(self, x: Array, y_hat: Array, coverage: float) -> Array:
        """Half-widths around predictions (R,) at inputs (R, d); infinite where few errors are known."""
        self._learn_noted()
        by_input = self.score[:, 1] < self.score[:, 0]
        if not by_input.any():
            return self.plain.width(coverage)
        own = self._scales(self._columns(x, y_hat))[:, 1] * self.scaled.width(coverage)
        return own if by_input.all() else np.where(by_input, own, self.plain.width(coverage))

    def typical(self, coverage: float) -> Array:
        """Half-widths that hold whatever the inputs are. (R,)"""
        self._learn_noted()
        return self.plain.width(coverage)

    def note(self, x: Array, y_hat: Array, miss: npt.ArrayLike) -> None:
        """The error of one prediction of each stream (R,), NaN where it is not known.

        It is learnt when somebody asks for a width: of errors in between, the last `NOTED` are.
        """
        self._noted.append((x, y_hat, miss))

    def state(self) -> dict[str, Any]:
        self._learn_noted()
        return super().state()

    def _learn_noted(self) -> None:
        while self._noted:
            self._learn(*self._noted.popleft())

    def _learn(self, x: Array, y_hat: Array, miss: npt.ArrayLike) -> None:
        errors, columns = np.abs(np.asarray(miss, np.float64)), self._columns(x, y_hat)
        scales = self._scales(columns)
        known = np.isfinite(errors) & (self.n > 1) & (self.whole > 0)
        ratios = np.where(known, errors, np.nan)[:, None] / np.where(known[:, None], scales, 1)
        self.plain.note(errors)
        self.scaled.note(ratios[:, 1])
        score = np.log(scales / scales[:, :1]) + np.minimum(ratios, 20)
        self.score += np.where(
            known[:, None] & (self.n[:, None] > self.EARLY), 0.01 * (score - self.score), 0
        )
        whole = np.maximum(self.whole, 1e-300)
        logs = np.log(np.maximum(errors, 0.01 * whole) + 1e-300) - np.log(whole)
        self.logs.learn(columns, np.where(known, logs, np.nan))
        told = np.isfinite(errors)
        self.n += told
        self.whole += np.where(told, (errors - self.whole) / np.clip(self.n, 1, 300), 0)
        self._remember(x, y_hat)

    def _remember(self, x: Array, y_hat: Array) -> None:
        self.seen += 1
        moved = y_hat - self.mean
        self.mean += moved / self.seen
        self.deviation += (np.abs(moved) - self.deviation) / self.seen
        if len(self.usual):
            step = np.nan_to_num(x.mean(0) - self.usual)
            self.usual += step / self.seen
            self.spread += (np.abs(np.nan_to_num(x - self.usual)).mean(0) - self.spread) / self.seen

    def _columns(self, x: Array, y_hat: Array) -> Array:
        level = _parts(y_hat - self.mean, self.deviation)
        course = [np.ones_like(level), np.tanh(level), np.tanh(level**2)]
        inputs = _parts(x - self.usual, self.spread) if len(self.usual) else np.empty((len(level), 0))
        return np.column_stack([*course, inputs])

    def _scales(self, columns: Array) -> Array:
        """The same for all inputs, and that of these. (R, 2)"""
        whole = np.maximum(self.whole, 1e-300)
        return np.column_stack([whole, whole * np.exp(np.clip(self.logs.predict(columns), -4, 2))])


def _parts(values: Array, unit: Array) -> Array:
    """Values in a unit, 0 where they or it are not known, and never far out."""
    known = np.isfinite(values) & (unit > 0)
    size = 5 * np.where(unit > 0, unit, 1)
    return np.where(known, np.clip(values, -size, size) / np.where(unit > 0, unit, 1), 0)


def check_coverage(coverage: float) -> float:
    """`coverage` itself if it lies between 0 and 1."""
    if not 0 < coverage < 1:
        raise InputError(f"coverage is {coverage}; expected a number between 0 and 1; write for example 0.9")
    return float(coverage)


def bounds(
    y_hat: npt.ArrayLike,
    y: npt.ArrayLike,
    coverage: float = 0.9,
    delay: int | npt.ArrayLike = 0,
    X: npt.ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Low and high (J, T) around predictions (J, T), each from errors known when it was made.

    `delay` as in `simulate`. With the inputs X (J, T, d) bounds follow the state that they tell. The error of
    the first prediction, made before any label, does not count.

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
    late = np.broadcast_to(checks.floats("delay", delay), guesses.shape)
    if (late < 0).any():
        raise InputError(f"delay is {late.min():g}; expected rounds, 0 or more; fix it")
    inputs = np.empty((*guesses.shape, 0)) if X is None else checks.floats("X", X)
    checks.shape("X", inputs, (*guesses.shape, inputs.shape[-1]), "give the inputs of each prediction")
    rows = zip(guesses, guesses - labels, inputs, late, strict=True)
    wide = np.stack([_widths(*row, coverage, X is not None) for row in rows])
    return guesses - wide, guesses + wide


def _widths(y_hat: Array, misses: Array, X: Array, late: Array, coverage: float, by_input: bool) -> Array:
    """Half-widths for one stream (T,), each from the errors whose labels are known."""
    errors, wide, told = Widths(1, X.shape[1]), np.empty_like(misses), np.arange(len(misses)) + late
    order, n = np.argsort(told, kind="stable"), 0
    for t in range(len(misses)):
        while told[order[n]] < t:
            k = order[n]
            if k and by_input:  # the first was made before any label
                errors.note(X[None, k], y_hat[[k]], misses[[k]])
            elif k:
                errors.plain.note(misses[k])
            n += 1
        found = errors.at(X[None, t], y_hat[[t]], coverage) if by_input else errors.typical(coverage)
        wide[t] = found[0]
    return wide


def weighted_quantile(errors: Array, weights: Array, coverage: float, unknown: float = 1.0) -> float:
    """The least error with enough weight at or below it, where one more, of weight `unknown`, is infinite."""
    order = np.argsort(errors)
    below = np.cumsum(weights[order]) / (weights.sum() + unknown)
    rank = int(np.searchsorted(below, coverage))
    return float(errors[order[rank]]) if rank < len(errors) else float("inf")


__all__ = ["Errors", "bounds"]


def __dir__() -> list[str]:
    return __all__

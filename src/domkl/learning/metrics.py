"""Regret against the best function in hindsight, and its growth with T."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from . import first_order, losses
from . import kernels as kernel_dictionaries
from .losses import Loss


class Hindsight(NamedTuple):
    """The best fixed function of the dictionary in hindsight."""

    kernel: int  # the index p of the best kernel
    theta: Array  # (2D,)
    squares: Array  # (J, T) its squared errors on each learner's stream


def hindsight(X: Array, y: Array, V: Array, loss: str | Loss = "squared") -> Hindsight:
    """The one theta, of the one kernel, with the least loss over all learners' data (θ* of the paper).

    Exact: one least-squares problem for each kernel. Losses other than squared and ridge are refused.
    With ridge the penalty chooses theta, and regrets compare squared errors.
    """
    X, y = checks.finite("X", checks.floats("X", X)), checks.finite("y", checks.floats("y", y))
    loss = losses.get(loss)
    if loss.name not in ("squared", "ridge"):
        raise InputError(
            f"loss is {loss.name}; expected squared or ridge, for which the regret is exact; use one of them"
        )
    J, T, d = X.shape
    checks.shape("y", y, (J, T), "give one label for each sample of X")
    V = kernel_dictionaries.check(V, d)
    fits = [_fit(V[p : p + 1], X.reshape(J * T, d), y.reshape(J * T), loss.reg) for p in range(len(V))]
    best = min(range(len(V)), key=lambda p: fits[p].least)
    return Hindsight(best, fits[best].theta, fits[best].squares.reshape(J, T))


class _Fit(NamedTuple):
    theta: Array  # (2D,)
    squares: Array  # (N,) squared error at each sample
    least: float  # their sum, and the penalty


def _fit(V: Array, X: Array, y: Array, reg: float) -> _Fit:
    """Ridge regression on one kernel's features."""
    Z = first_order.features(V, X)[:, 0]  # (N, 2D)
    # A triangle with the same least squares: a few hundred rows at a time, so that it stays fast.
    R = np.sqrt(reg * len(y)) * np.eye(Z.shape[1] + 1)[:-1]
    rows = np.column_stack([Z, y])
    for start in range(0, len(y), 4096):
        R = np.linalg.qr(np.vstack([R, rows[start : start + 4096]]), mode="r")
    theta = np.linalg.lstsq(R[:, :-1], R[:, -1], rcond=None)[0]
    squares = (Z @ theta - y) ** 2
    return _Fit(theta, squares, float(squares.sum() + len(y) * reg * theta @ theta))


class Regret(NamedTuple):
    """Both regrets of each learner after some of the rounds; `domkl.Run.regret` makes it."""

    rounds: npt.NDArray[np.intp]  # (n,) how many rounds were done
    learning: Array  # (J, n)
    discrepancy: Array  # (J, n)


def regret_a(y_hat: npt.ArrayLike, y: npt.ArrayLike, best: Hindsight, *, over_time: bool = False) -> Array:
    """Learning regret of each learner: its squared errors minus those of the best function. (J,)

    With `over_time` after each round, (J, T), against the best function of all rounds.
    """
    y_hat, y = checks.floats("y_hat", y_hat), checks.floats("y", y)
    checks.shape("y", y, best.squares.shape, "give the labels that `best` was found for")
    checks.shape("y_hat", y_hat, y.shape, "give one prediction for each label")
    grown = np.cumsum((y_hat - y) ** 2 - best.squares, axis=1)
    return grown if over_time else grown[:, -1]


def regret_d(cv: npt.ArrayLike, T: int) -> Array:
    """Discrepancy regret of each learner: T times its consensus violation. (J,)"""
    return checks.floats("cv", cv) * T


def exponent(T: npt.ArrayLike, regret: npt.ArrayLike) -> float:
    """The a of regret ~ T^a, by a straight line through the logarithms.

    >>> from domkl import metrics
    >>> round(metrics.exponent([100, 400, 1600], [1, 2, 4]), 6)
    0.5
    """
    T, regret = checks.floats("T", T), checks.floats("regret", regret)
    if T.size < 2:
        raise InputError(f"T has {T.size} lengths; expected at least 2 to fit a line; run more of them")
    if (regret <= 0).any():
        raise InputError(
            "a regret is not above 0; expected positive values to fit a power law; use longer streams"
        )
    return float(np.polyfit(np.log(T), np.log(regret), 1)[0])


__all__ = ["Hindsight", "Regret", "exponent", "hindsight", "regret_a", "regret_d"]


def __dir__() -> list[str]:
    return __all__

"""Regret: how much worse than the best function in hindsight, and how it grows with T."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import _checks, core, losses
from . import kernels as kernel_dictionaries
from ._types import Array
from .errors import InputError
from .losses import Loss


class Hindsight(NamedTuple):
    """The best fixed function of the dictionary, found after the fact."""

    kernel: int  # the index p of the best kernel
    theta: Array  # (2D,)
    losses: Array  # (J,) its cumulative loss on each learner's stream


def hindsight(X: Array, y: Array, V: Array, loss: str | Loss = "squared") -> Hindsight:
    """The one theta, of the one kernel, with the least loss over all learners' data (θ* of the paper).

    Exact: a least-squares problem for each kernel. Other losses than squared and ridge are refused.
    """
    loss = losses.get(loss)
    if loss.name not in ("squared", "ridge"):
        raise InputError(
            f"regret is found exactly for the squared loss, not {loss.name}; use squared or ridge"
        )
    J, T, d = X.shape
    V = kernel_dictionaries.check(V, d)
    fits = [_fit(V[p : p + 1], X.reshape(J * T, d), y.reshape(J * T), loss.reg) for p in range(len(V))]
    best = min(range(len(V)), key=lambda p: fits[p][1].sum())
    theta, at_each = fits[best]
    return Hindsight(best, theta, at_each.reshape(J, T).sum(1))


def _fit(V: Array, X: Array, y: Array, reg: float) -> tuple[Array, Array]:
    """Ridge regression on one kernel's features: theta (2D,) and its loss at each sample (N,)."""
    Z = core.features(V, X)[:, 0]  # (N, 2D)
    penalty = np.sqrt(reg * len(y)) * np.eye(Z.shape[1])
    A, b = (np.vstack([Z, penalty]), np.append(y, np.zeros(len(penalty)))) if reg else (Z, y)
    theta = np.linalg.lstsq(A, b, rcond=None)[0]
    return theta, (Z @ theta - y) ** 2 + reg * theta @ theta


def regret_a(y_hat: npt.ArrayLike, y: npt.ArrayLike, best: Hindsight) -> Array:
    """Learning regret of each learner: its loss minus that of the best function in hindsight. (J,)"""
    y_hat, y = _checks.floats("y_hat", y_hat), _checks.floats("y", y)
    return np.asarray(((y_hat - y) ** 2).sum(1) - best.losses)


def regret_d(cv: npt.ArrayLike, T: int) -> Array:
    """Discrepancy regret of each learner: T times its consensus violation. (J,)"""
    return _checks.floats("cv", cv) * T


def exponent(T: npt.ArrayLike, regret: npt.ArrayLike) -> float:
    """The a of regret ~ T^a, by a straight line through the logarithms.

    >>> from domkl import metrics
    >>> round(metrics.exponent([100, 400, 1600], [1, 2, 4]), 6)
    0.5
    """
    T, regret = _checks.floats("T", T), _checks.floats("regret", regret)
    if (regret <= 0).any():
        raise InputError(
            "a regret is not above 0; expected positive numbers for a power law; use longer streams"
        )
    return float(np.polyfit(np.log(T), np.log(regret), 1)[0])

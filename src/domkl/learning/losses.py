"""Convex losses g(s, y) of a score s = theta . z, and the one-dimensional problem behind the local step.

The local step minimises g(v . z, y) + reg |v|^2 + (c0/2)|v|^2 - b . v over v. Because |z| = 1, its
minimiser is (b - a z)/c with c = c0 + 2 reg, where the scalar a = g'(s) solves c s + g'(s) = z . b:
one scalar equation whatever the number of features. `Loss.prox_slope(u, c, y)` returns that a for
u = z . b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array

Scores: TypeAlias = Callable[[Array, Array], Array]
#: Log-odds are cut off here: beyond, a probability is 0 or 1 for all purposes.
SURE = 30.0


class Loss(NamedTuple):
    """A convex loss: `value(s, y)`, its `slope(s, y)` in s, and `prox_slope(u, c, y)`."""

    name: str
    value: Scores
    slope: Scores
    prox_slope: Callable[[Array, Array, Array], Array]
    reg: float = 0.0
    classifies: bool = False
    delta: float = 1.0  # where the Huber loss becomes linear
    bounds: tuple[float, float] | None = None  # the lowest and the highest possible label


def squared(reg: float = 0.0) -> Loss:
    """(s - y)^2, plus reg |theta|^2: the paper's loss.

    >>> import numpy as np
    >>> from domkl import losses
    >>> float(losses.squared().value(np.array(3.0), np.array(1.0)))
    4.0
    """
    return Loss("squared", _squared_value, _squared_slope, _squared_prox, checks.not_negative("reg", reg))


def ridge(reg: float = 1e-2) -> Loss:
    """The squared loss with a ridge penalty, reg |theta|^2."""
    return squared(reg)._replace(name="ridge")


def huber(delta: float = 1.0, reg: float = 0.0) -> Loss:
    """(s - y)^2 while |s - y| <= delta, linear beyond: the gradient of an outlier is bounded."""
    delta = checks.positive("delta", delta)

    def value(s: Array, y: Array) -> Array:
        r = np.abs(s - y)
        return np.where(r <= delta, r * r, delta * (2 * r - delta))

    def slope(s: Array, y: Array) -> Array:
        return np.clip(2 * (s - y), -2 * delta, 2 * delta)

    def prox_slope(u: Array, c: Array, y: Array) -> Array:
        return np.clip(_squared_prox(u, c, y), -2 * delta, 2 * delta)

    reg = checks.not_negative("reg", reg)
    return Loss("huber", value, slope, prox_slope, reg, delta=delta)


def logistic(reg: float = 0.0) -> Loss:
    """log(1 + exp(-y s)) for labels y of -1 or +1 (0 is read as -1)."""
    reg = checks.not_negative("reg", reg)
    return Loss("logistic", _logistic_value, _logistic_slope, _logistic_prox, reg, classifies=True)


def classes() -> Loss:
    """(s - y)^2 of each of k classes, a target each: 1 where the sample is of that class, else 0.

    Predictions are probabilities: see `probabilities`.
    """
    return squared()._replace(name="classes", classifies=True)


def probabilities(scores: Array) -> Array:
    """Scores of classes (..., k) as probabilities: what is below 0 counts as 0, and they sum to 1.

    >>> import numpy as np
    >>> probabilities(np.array([0.9, -0.1, 0.3]))
    array([0.75, 0.  , 0.25])
    """
    positive = np.maximum(scores, 0.0)
    total = positive.sum(-1, keepdims=True)
    return np.asarray(np.where(total > 0, positive / np.where(total > 0, total, 1), 1 / scores.shape[-1]))


def one_hot(labels: Array, k: int) -> Array:
    """Labels 0 to k - 1, NaN where one is not known, as k targets. (...) -> (..., k)"""
    known = ~np.isnan(labels)
    bad = known & ~np.isin(labels, np.arange(k))
    if bad.any():
        raise InputError(
            f"y holds the class {labels[bad].flat[0]:g}; expected 0 to {k - 1}; number the classes from 0 on"
        )
    return np.where(known[..., None], labels[..., None] == np.arange(k), np.nan)


NAMED: dict[str, Callable[[], Loss]] = {
    "squared": squared,
    "ridge": ridge,
    "huber": huber,
    "logistic": logistic,
}


def get(loss: str | Loss) -> Loss:
    """A loss by name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    return NAMED[checks.one_of("loss", loss, NAMED)]()


def labels(loss: Loss, y: Array, name: str = "y") -> Array:
    """Labels in the form that `loss` needs: unchanged for regression, -1 or +1 for classification.

    Labels outside the bounds of `loss` are refused; NaN is a label that is not known.
    """
    if not loss.classifies:
        return y if loss.bounds is None else _inside(*loss.bounds, y, name)
    several = loss.name == "classes"
    bad = ~(np.isin(y, (0.0, 1.0) if several else (-1.0, 0.0, 1.0)) | np.isnan(y))
    if bad.any() and several:
        raise InputError(
            f"{name} holds {y[bad].flat[0]:g}; expected 1 for the class of a sample, and 0 for others"
        )
    if bad.any():
        found = y[bad].flat[0] if y.ndim else y[()]
        raise InputError(
            f"{name} holds the label {found:g}; expected -1 and +1 (or 0 and 1) for the logistic loss; "
            "map the classes to -1 and +1"
        )
    return y if several else np.where(np.isnan(y), y, np.where(y > 0, 1.0, -1.0)).astype(y.dtype)


def _inside(low: float, high: float, y: Array, name: str) -> Array:
    bad = (y < low) | (y > high)
    if bad.any():
        found = y[bad].flat[0] if y.ndim else y[()]
        raise InputError(
            f"{name} holds the target {found:g}; expected {low:g} to {high:g}, the model's bounds; "
            "leave impossible targets out or change the bounds"
        )
    return y


def check_bounds(bounds: Any, loss: Loss) -> tuple[float, float] | None:
    """`bounds` as two finite numbers, the lower first; None where none are given."""
    if bounds is None:
        return None
    wrong = f"bounds is {bounds!r}; expected two finite numbers, the lower first; write bounds=(low, high)"
    if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != 2:
        raise InputError(wrong)
    low, high = (float(checks.floats("bounds", bound)) for bound in bounds)
    if loss.classifies:
        raise InputError(f"bounds is {bounds!r} but targets are classes; expected none; leave bounds out")
    if not -math.inf < low < high < math.inf:
        raise InputError(wrong)
    return low, high


def one_label(loss: Loss, y: float, dtype: npt.DTypeLike = np.float64) -> Array:
    """A single label, checked, in the form that `loss` needs. ()"""
    label = checks.finite("y", checks.floats("y", y, dtype))
    return labels(loss, checks.shape("y", label, (), "give one label at a time"))


def one_sample(loss: Loss, y: npt.ArrayLike, m: int) -> Array:
    """The labels of a sample, a number or one for each of m targets, NaN where one is not known. (m,)"""
    if m == 1:
        return one_label(loss, np.reshape(y, ()) if np.shape(y) == (1,) else y).reshape(1)  # type: ignore[arg-type]
    values = checks.floats("y", y)
    if loss.name == "classes" and not values.ndim:
        values = one_hot(values, m)
    label = checks.shape("y", values, (m,), "give one label for each target, NaN for none")
    return labels(loss, checks.finite_or_missing("y", label))


def log_odds(prediction: float) -> float:
    """log P(y = +1) / P(y = -1) from a prediction 2 P(y = +1) - 1.

    >>> log_odds(0.0), log_odds(1.0)
    (0.0, 30.0)
    """
    if abs(prediction) < 1:
        return max(-SURE, min(SURE, 2 * math.atanh(prediction)))
    return math.copysign(SURE, prediction)


def probability(score: float) -> float:
    """P(y = +1) from its log-odds.

    >>> probability(0.0)
    0.5
    """
    return 1 / (1 + math.exp(-max(-SURE, min(SURE, score))))


def _squared_value(s: Array, y: Array) -> Array:
    return (s - y) ** 2


def _squared_slope(s: Array, y: Array) -> Array:
    return 2 * (s - y)


def _squared_prox(u: Array, c: Array, y: Array) -> Array:
    return 2 * (u - c * y) / (c + 2)


def _logistic_value(s: Array, y: Array) -> Array:
    return np.logaddexp(0, -y * s)


def _logistic_slope(s: Array, y: Array) -> Array:
    return -y * _sigmoid(-y * s)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # never overflows
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def _logistic_prox(u: Array, c: Array, y: Array) -> Array:
    """Newton's method on h(s) = c s + g'(s) - u, kept inside the bracket that |g'| <= 1 gives.

    An element stops by itself once it has converged, so its result does not depend on the other elements.
    """
    low, high = (u - 1) / c, (u + 1) / c
    s = u / c
    for _ in range(100):
        slope = _logistic_slope(s, y)
        h = c * s + slope - u
        low, high = np.where(h < 0, s, low), np.where(h > 0, s, high)
        newton = s - h / (c + np.abs(slope) * (1 - np.abs(slope)))
        new = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
        done = (np.abs(new - s) <= 4 * np.spacing(np.abs(s))) | (h == 0)
        s = np.where(done, s, new)
        if done.all():
            break
    return _logistic_slope(s, y)


__all__ = ["Loss", "classes", "get", "huber", "labels", "logistic", "ridge", "squared"]


def __dir__() -> list[str]:
    return __all__

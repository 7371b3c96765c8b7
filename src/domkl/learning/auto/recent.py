"""Recent: a small model that forgets, and the decision to forget everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from ..fields import Concept, field
from .algebra import dot, mean, times

#: Which of the errors that are compared are of functions of all samples, and which of this model.
LONG, SHORT = slice(0, 2), 2


class Recent(Concept):
    """Ridge regression on Legendre polynomials of single inputs, fading over `fade` samples.

        S <- (1 - 1/fade) S + 2 b b',   s <- (1 - 1/fade) s + 2 y b,   beta = (S + 2 noise / v)^-1 s

    where the variance v of the coefficients of each input is learnt from them (MacKay).

    It knows little, but learns a new world in a few samples. Two decisions rest on it, both from own errors.
    Page's test on the prediction's squared error e over its level l, g <- max(0, g + min(e/l, clip) - slack),
    restarts it from where the excursion began once g exceeds `alarm`. And where it has been better than
    `better` times the long memory for `window` samples, while that one errs `rise` times its usual, the
    device gives up its past and learns its last samples again.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.learning.auto.recent import Recent
    >>> model = Recent(J=1, d=1, m=1, size=100)
    >>> for x in np.tile(np.linspace(-1, 1, 10), 40):
    ...     model.learn(model.terms(np.array([[x]])), np.array([[2 * x]]))
    >>> bool(abs(model.predict(model.terms(np.array([[0.5]])))[0, 0] - 1) < 0.01)
    True
    """

    fade: int = 200  # samples after which one counts for a third of a new one
    part: float = 1 / 7  # terms at most, as a part of the model's size
    prior: float = 0.005  # variance of a coefficient before anything is known
    weak: float = 0.006  # how many coefficients the prior counts as
    level: int = 300  # samples that the usual error is a mean of
    slack: float = 2.0  # of Page's test, in usual errors, as the next two: what an error may be
    clip: float = 10.0  # what a single error counts at most
    alarm: float = 15.0  # the sum at which it restarts the model
    better: float = 0.75  # part of the long memory's error below which this model is better
    rise: float = 1.5  # times its usual error that the long memory must err to be given up
    window: int = 30  # samples that errors are compared over, and for which this model must be better

    S: Array = field("J k k", is_sum=True)
    s: Array = field("J m k")
    beta: Array = field("J m k")
    variance: Array = field("J g", first=prior, low=1e-9)  # of the coefficients of each input
    noise: Array = field("J", first=0.02, low=0.0)
    age: npt.NDArray[Any] = field("J", "int64", low=0)
    level_age: npt.NDArray[Any] = field("J", "int64", low=0)
    error_level: Array = field("J", low=0.0)  # usual error of the prediction
    excess: Array = field("J", low=0.0)  # g of Page's test
    since: npt.NDArray[Any] = field("J", "int64", low=0)  # samples since it last was zero
    errors: Array = field("J 3", low=0.0)  # of the common and the alone function, and of this model
    errors_age: npt.NDArray[Any] = field("J", "int64", low=0)
    usual: Array = field("J", low=0.0)  # mean of the smaller error of the two long ones, each time
    lasting: npt.NDArray[Any] = field("J", "int64", low=0)  # for how many samples this model has been better

    def __init__(self, J: int, d: int, m: int, size: int, **chosen: float) -> None:
        self.choose(chosen)
        most = max(2, int(self.part * size))
        self.degree = int(np.clip((most - 1) // (2 * d), 1, 4))
        self.single = min(d, most - 1)
        self.k, self.groups = 1 + self.single * self.degree, self.single + 1
        singles = np.tile(np.arange(self.single), self.degree)
        self.group = np.append(self.single, singles)  # of each term: one variance each
        self.members = np.eye(self.groups)[self.group]  # (k, g)
        self.allocate(np.float64, J=J, m=m, k=self.k, g=self.groups)

    # The model

    def terms(self, deviations: Array) -> Array:
        """Polynomials of inputs (..., d) in deviations, squeezed into [-1, 1]. -> (..., k)"""
        half = deviations / 2
        v = half / np.sqrt(1 + half * half)
        w = v * v
        legendre = [v, 1.5 * w - 0.5, (2.5 * w - 1.5) * v, (4.375 * w - 3.75) * w + 0.375][: self.degree]
        parts = [np.ones((*v.shape[:-1], 1))] + [p[..., : self.single] for p in legendre]
        return np.concatenate(parts, -1)

    def predict(self, b: Array) -> Array:
        """What it says of terms (J, k). -> (J, m)"""
        return dot(b[:, None], self.beta)

    def learn(self, b: Array, y: Array, weight: npt.ArrayLike = 1.0) -> None:
        """Take a sample: terms (J, k), targets (J, m) in widths, where one is missing (NaN) what the model
        says, and how much it counts (J,)."""
        keep, h, f = 1 - 1 / self.fade, np.reshape(2 * np.asarray(weight), (-1, 1, 1)), self.predict(b)
        y = np.where(np.isnan(y), f, y)
        self.age += 1
        missed = mean((f - y) ** 2)
        self.noise = self.noise + (missed - self.noise) / np.minimum(self.age, self.window)
        self.S = keep * self.S + h * b[:, :, None] * b[:, None, :]
        self.s = keep * self.s + h * y[:, :, None] * b[:, None, :]
        self._solve(slice(None))

    def teach(self, row: int, B: Array, y: Array) -> None:
        """Let a row know these samples only, the newest last: (n, k) and (n, m)."""
        f = 2 * (1 - 1 / self.fade) ** np.arange(len(B) - 1, -1, -1)
        self.S[row], self.s[row] = (B * f[:, None]).T @ B, (y * f[:, None]).T @ B
        self._solve(slice(row, row + 1))

    def _solve(self, rows: Any) -> None:
        """Coefficients from the sums, and from them the variances of each group for the next time."""
        A, k = self.S[rows].copy(), np.arange(self.k)
        ridge = (2 * np.maximum(self.noise[rows], 1e-9))[:, None] / self.variance[rows][:, self.group]
        A[:, k, k] += ridge
        inverse = np.linalg.inv(A)
        self.beta[rows] = self.s[rows] @ inverse
        known = np.maximum(times(1 - ridge * inverse[:, k, k], self.members), 0)
        squares = times((self.beta[rows] ** 2).mean(1), self.members)
        self.variance[rows] = (squares + self.weak * self.prior) / (known + self.weak)

    # The decisions

    def watch(self, total: Array, parts: Array) -> None:
        """Note squared errors in widths: of the prediction (J,), and of common, alone and recent (J, 3)."""
        self.level_age += 1
        odd = np.minimum(total / np.maximum(self.error_level, 1e-12), self.clip) - self.slack
        self.excess = np.maximum(self.excess + np.where(self.level_age > self.window, odd, 0), 0)
        self.since = np.where(self.excess > 0, self.since + 1, 0)
        self.error_level += (total - self.error_level) / np.minimum(self.level_age, self.level)
        self.errors_age += 1
        self.errors += (parts - self.errors) / np.minimum(self.errors_age, self.window)[:, None]
        self.usual += (parts[:, LONG].min(-1) - self.usual) / np.minimum(self.age + 1, self.level)

    def alarms(self, repeats: Array) -> list[tuple[int, int]]:
        """Which rows restart this model, and from how many last samples; `repeats` (J,) as in `Echo`."""
        rows = np.flatnonzero(self.excess > self.alarm * repeats)
        found = [(int(j), int(np.clip(self.since[j], 2, self.fade))) for j in rows]
        if found:
            self.reset(rows, "excess", "since", "level_age", "error_level", "lasting", "errors_age")
        return found

    def gives_up(self, repeats: Array) -> npt.NDArray[np.bool_]:
        """Which rows (J,) are to forget all but their last samples."""
        long = self.errors[:, LONG].min(-1)
        is_better = (self.errors[:, SHORT] < self.better * long) & (long > self.rise * self.usual)
        is_better &= self.errors_age >= self.window
        self.lasting[:] = np.where(is_better, self.lasting + 1, 0)
        rows = self.lasting >= self.window * repeats
        if rows.any():
            self.reset(rows, "lasting", "errors_age")
        return np.asarray(rows)

    def rescale(self, rows: Any, factor: Array) -> None:
        """Widths of the targets (R,) have changed: errors are kept in them."""
        for name in ("noise", "error_level", "usual"):
            getattr(self, name)[rows] *= factor
        self.errors[rows] *= factor[:, None]

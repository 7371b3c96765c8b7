"""Echo: errors that repeat are predictable."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from ..fields import Concept, field
from .algebra import mean


class Echo(Concept):
    """Regression of the error on the last one and on a mean of about ten.

        e_t ~ g . [e_{t-1}, mean of e],   g = (sum l l' + doubt E I)^-1 sum l e,   E = sum e^2

    with sums that fade. Its correlation r of one error with the next says how much a sample tells: of errors
    that repeat, (1 + r)/(1 - r) tell as much as one that does not, so a sample counts (1 - r)/(1 + r); and of
    squared errors, whose correlation is r^2, `repeats` = (1 + r^2)/(1 - r^2) do.

    Examples
    --------
    Errors that alternate are foreseen.

    >>> import numpy as np
    >>> from domkl.learning.auto.echo import Echo
    >>> echo = Echo(J=1, m=1)
    >>> for t in range(50):
    ...     echo.learn(np.array([[(-1.0) ** t]]))
    >>> bool(echo.predict()[0, 0] > 0.8)  # the last was -1
    True
    """

    keep: float = 0.998  # part of the sums that stays with each sample
    doubt: float = 0.05  # ridge, as a part of the sum of squared errors
    few: int = 10  # samples that the mean of errors is over
    most: float = 0.97  # largest correlation that is believed

    last: Array = field("J m 2")  # the last error, and a mean of the last few
    S: Array = field("J m 2 2")
    s: Array = field("J m 2")
    size: Array = field("J m", low=0.0)  # E
    pairs: Array = field("J m")  # sum of products of one error with the next
    gain: Array = field("J m 2")
    r: Array = field("J", low=0.0, high=1.0)  # correlation of one error with the next, over all targets
    age: npt.NDArray[Any] = field("J", "int64", low=0)

    def __init__(self, J: int, m: int, **chosen: float) -> None:
        self.choose(chosen)
        self.allocate(np.float64, J=J, m=m)

    def predict(self) -> Array:
        """The error that is to be expected. (J, m)"""
        return np.asarray((self.gain * self.last).sum(-1))

    def learn(self, error: Array, earlier: Array | None = None) -> None:
        """Note an error (J, m); `earlier` (J, m, 2): what `last` was when it was predicted."""
        error = np.clip(error, -2, 2)
        before = self.last if earlier is None else earlier
        self.age += 1
        self.S = self.keep * self.S + before[..., :, None] * before[..., None, :]
        self.s = self.keep * self.s + before * error[..., None]
        self.size = self.keep * self.size + error**2
        self.pairs = self.keep * self.pairs + error * self.last[..., 0]
        ridge = self.doubt * self.size + 1e-12
        a, b, d = self.S[..., 0, 0] + ridge, self.S[..., 0, 1], self.S[..., 1, 1] + ridge
        u, v = self.s[..., 0], self.s[..., 1]
        self.gain = np.stack([d * u - b * v, a * v - b * u], -1) / (a * d - b * b)[..., None]
        slow = self.last[..., 1] + (error - self.last[..., 1]) / self.few
        self.last = np.stack([error, slow], -1)
        self.r = np.clip(mean(self.pairs / np.maximum(self.size, 1e-12)), 0, self.most)

    @property
    def weight(self) -> Array:
        """How much a sample counts. (J,)"""
        r = np.where(self.age > 24, self.r, 0)
        return np.asarray((1 - r) / (1 + r))

    @property
    def repeats(self) -> Array:
        """How many errors tell as much as an independent one. (J,)"""
        r = self.r**2
        return np.asarray((1 + r) / (1 - r))

    def rescale(self, rows: Any, factor: Array) -> None:
        """Widths of the targets have changed by this factor (R, m): errors are kept in them."""
        self.last[rows] *= factor[..., None]
        square = factor**2
        self.S[rows] *= square[..., None, None]
        self.s[rows] *= square[..., None]
        for name in ("size", "pairs"):
            getattr(self, name)[rows] *= square

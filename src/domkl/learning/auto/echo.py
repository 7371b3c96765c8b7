"""Errors that come again: in a slow stream the last ones tell something of the next."""

from __future__ import annotations

import numpy as np

from ...base.types import Array

#: How much of the past stays at each error, and which part of it doubts that there is an echo at all.
FADE, DOUBT = 0.998, 0.05
#: Errors of which the second input is the mean, about.
FEW = 10
#: The largest error that counts, in scaled units: that of a class taken for the other.
MOST = 2.0
#: How sure of a class an echo may be, as 2 P(y = +1) - 1.
SURE = 0.98


class Echo:
    """Errors of J learners, each predicted from that learner's last error and the mean of its last few.

    A ridge regression that forgets slowly; nothing of it leaves the device. Errors are scaled like targets.
    """

    def __init__(self, J: int) -> None:
        self.last: Array = np.zeros((J, 2))  # the last error, and the mean of the last few
        self.gain: Array = np.zeros((J, 2))
        self.M, self.m, self.size = np.zeros((J, 2, 2)), np.zeros((J, 2)), np.zeros(J)

    def expected(self) -> Array:
        """The next error. (J,)"""
        return np.asarray((self.gain * self.last).sum(-1))

    def rescale(self, ratio: Array) -> None:
        """Targets have another scale: errors are so many times as large (J,)."""
        self.last, self.m = self.last * ratio[:, None], self.m * (ratio**2)[:, None]
        self.M, self.size = self.M * (ratio**2)[:, None, None], self.size * ratio**2

    def learn(self, last: Array, error: Array) -> None:
        """An error (J,) becomes known; `last` (J, 2) was known when it was made."""
        error = np.clip(error, -MOST, MOST)
        self.M = FADE * self.M + last[:, :, None] * last[:, None, :]
        self.m = FADE * self.m + last * error[:, None]
        self.size = FADE * self.size + error**2
        doubt = (DOUBT * self.size + 1e-12)[:, None, None] * np.eye(2)
        self.gain = np.asarray(np.linalg.solve(self.M + doubt, self.m[..., None])[..., 0], np.float64)
        mean = self.last[:, 1]
        self.last = np.stack([error, mean + (error - mean) / FEW], -1)

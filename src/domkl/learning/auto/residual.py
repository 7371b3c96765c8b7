"""An autoregressive correction of the residual: in a slow stream the last errors predict the next."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.types import Array
from .constants import C


class ResidualModel:
    """Errors of J learners, each predicted from that learner's last error and the mean of its last few.

    A ridge regression that forgets slowly; nothing of it leaves the device. Errors are scaled like targets.
    """

    FIELDS: ClassVar = {
        "last": "last",
        "gain": "gain",
        "matrix": "M",
        "vector": "m",
        "size": "size",
        "pairs": "pairs",
    }

    def __init__(self, J: int) -> None:
        self.last: Array = np.zeros((J, 2))  # the last error, and the mean of the last few
        self.gain: Array = np.zeros((J, 2))
        self.M, self.m, self.size = np.zeros((J, 2, 2)), np.zeros((J, 2)), np.zeros(J)
        self.pairs = np.zeros(J)  # sum of products of one error with the next

    def expected(self) -> Array:
        """The error to expect next. (J,)"""
        return np.asarray((self.gain * self.last).sum(-1))

    def repeats(self) -> Array:
        """How many errors tell as much as one that is independent of those before. (J,)

        Where one error resembles the next, so do the differences between two experts' squared errors.
        """
        r = np.clip(self.pairs / np.maximum(self.size, 1e-12), 0, C.repeats) ** 2
        return np.asarray((1 + r) / (1 - r))

    def rescale(self, ratio: Array) -> None:
        """Targets have another scale: errors are so many times as large (J,)."""
        self.last, self.m = self.last * ratio[:, None], self.m * (ratio**2)[:, None]
        self.M, self.size = self.M * (ratio**2)[:, None, None], self.size * ratio**2
        self.pairs = self.pairs * ratio**2

    def learn(self, last: Array, error: Array) -> None:
        """An error (J,) becomes known; `last` (J, 2) was known when it was made."""
        error = np.clip(error, -C.echo_most, C.echo_most)
        self.M = C.echo_fade * self.M + last[:, :, None] * last[:, None, :]
        self.m = C.echo_fade * self.m + last * error[:, None]
        self.size = C.echo_fade * self.size + error**2
        self.pairs = C.echo_fade * self.pairs + error * self.last[:, 0]
        doubt = (C.echo_doubt * self.size + 1e-12)[:, None, None] * np.eye(2)
        self.gain = np.asarray(np.linalg.solve(self.M + doubt, self.m[..., None])[..., 0], np.float64)
        mean = self.last[:, 1]
        self.last = np.stack([error, mean + (error - mean) / C.echo_few], -1)

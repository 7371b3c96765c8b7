"""An autoregressive correction of the residual: in a slow stream the last errors predict the next."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.arrays import clip
from ...base.types import Array
from .constants import C
from .message import LARGEST


class ResidualModel:
    """Errors of J learners, each predicted from that learner's last error and the mean of its last few.

    A ridge regression that forgets slowly; nothing of it leaves the device. Errors are scaled like targets.
    """

    FIELDS: ClassVar = ("last", "gain", "matrix", "vector", "size", "pairs")

    def __init__(self, J: int) -> None:
        self.last: Array = np.zeros((J, 2))  # the last error, and the mean of the last few
        self.gain: Array = np.zeros((J, 2))
        self.matrix, self.vector, self.size = np.zeros((J, 2, 2)), np.zeros((J, 2)), np.zeros(J)
        self.pairs = np.zeros(J)  # sum of products of one error with the next

    def expected(self) -> Array:
        """The error to expect next. (J,)"""
        return np.asarray((self.gain * self.last).sum(-1))

    def repeats(self) -> Array:
        """How many errors tell as much as one that is independent of those before. (J,)

        Where one error resembles the next, so do the differences between two experts' squared errors.
        """
        r = clip(self.pairs / np.maximum(self.size, 1e-12), 0, C.repeats) ** 2
        return np.asarray((1 + r) / (1 - r))

    def rescale(self, ratio: Array) -> None:
        """Targets have another scale: errors are so many times as large (J,)."""
        ratio = np.minimum(ratio, LARGEST)  # its square must be finite
        self.last, self.vector = self.last * ratio[:, None], self.vector * (ratio**2)[:, None]
        self.matrix, self.size = self.matrix * (ratio**2)[:, None, None], self.size * ratio**2
        self.pairs = self.pairs * ratio**2

    def learn(self, last: Array, error: Array) -> None:
        """An error (J,) becomes known; `last` (J, 2) was known when it was made."""
        error = clip(error, -C.residual_most, C.residual_most)
        self.matrix = C.residual_fade * self.matrix + last[:, :, None] * last[:, None, :]
        self.vector = C.residual_fade * self.vector + last * error[:, None]
        self.size = C.residual_fade * self.size + error**2
        self.pairs = C.residual_fade * self.pairs + error * self.last[:, 0]
        doubt = (C.residual_doubt * self.size + 1e-12)[:, None, None] * np.eye(2)
        gain = np.linalg.solve(self.matrix + doubt, self.vector[..., None])[..., 0]
        self.gain = np.asarray(gain, np.float64)
        mean = self.last[:, 1]
        self.last = np.stack([error, mean + (error - mean) / C.residual_few], -1)

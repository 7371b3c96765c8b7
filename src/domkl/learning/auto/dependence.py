"""How much one error of a learner resembles the one before, and the ridge that follows from it.

Samples that a network takes hour by hour are not independent: where errors resemble each other, many of them
tell as much as one. A ridge that is right for independent samples then lets learners who live through the
same weather overfit it together.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.arrays import clip
from ...base.types import Array
from .constants import C


class Dependence:
    """Correlation of J learners' errors with the next, since the scale was last taken.

    Errors on an earlier scale were of other models, and may be far larger than all since.
    """

    FIELDS: ClassVar = ("last", "size", "pairs", "errors")

    def __init__(self, J: int) -> None:
        self.last, self.size = np.zeros(J), np.zeros(J)  # the last error, and the sum of squares
        self.pairs = np.zeros(J)  # sum of products of one error with the next
        self.errors = 0  # how many there were

    def learn(self, error: Array) -> None:
        """An error (J,) becomes known, in any unit that stays."""
        self.size, self.pairs = self.size + error**2, self.pairs + error * self.last
        self.last, self.errors = error, self.errors + 1

    def ridge(self) -> Array:
        """How many times as strong a network's ridge has to be as for independent samples. (J,)

        With a correlation r of errors, (1 + r)/(1 - r) of them tell as much as one. Of this the square, which
        was chosen by measurement: what repeats in time is also what neighbours have in common.
        """
        if self.errors < C.ridge_errors:
            return np.ones(len(self.size))
        r = clip(self.pairs / np.maximum(self.size, 1e-300), 0, C.repeats)
        return np.asarray(np.minimum(((1 + r) / (1 - r)) ** 2, C.ridge_most))

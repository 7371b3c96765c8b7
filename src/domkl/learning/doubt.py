"""Doubt: a value that no sensor can have measured must not ruin what is made of values."""

from __future__ import annotations

import numpy as np

from ..base.types import Array
from .fields import LARGEST, Concept, field

#: Values before the first that can be doubted: what is usual is not known sooner.
SETTLED = 48


class Doubt(Concept):
    """Which values are absurd: those farther from what is usual than `far` times a unit.

    Each that is absurd lets the next lie ten times as far, so that a level that has moved is soon believed.

    >>> doubt = Doubt(far=5)
    >>> [doubt.believes(size, 1.0, n=100) for size in (2, 1e9, 2, 1e3, 1e3, 1e3)], int(doubt.absurd)
    ([True, False, True, False, False, True], 3)
    """

    far: Array = field("", first=1.0, low=1.0)
    absurd: Array = field("", low=0.0)  # how many there were

    def __init__(self, far: float) -> None:
        self.allocate(np.float64)
        self._least = far
        self.far[...] = far

    def believes(self, size: float, unit: float, n: int) -> bool:
        """Whether a value can be one that is `size` away from what is usual, after n others."""
        far = float(self.far)
        good = n < SETTLED or not unit > 0 or size <= far * unit
        self.far[...] = max(self._least, 0.99 * far) if good else min(10 * far, LARGEST)
        self.absurd += not good
        return good

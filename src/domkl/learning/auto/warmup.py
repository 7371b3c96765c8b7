"""The first samples, which show the scale."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...base.types import Array
from .features import Stats, statistics

#: The samples after which the scale is fixed: enough for a season to show more than its first days.
WARM_UP = 512
#: The samples of all learners after which a common scale is good enough to go on with, and to begin to watch
#: for changes; and the most rounds that this takes.
ENOUGH, LOOKS = 320, 64

Sample = tuple[Array, Array]  # x (J, d), y (J,)


class WarmUp:
    """The samples that learners keep until their scale is fixed, and when to take it from them.

    Statistics of a round need as many rounds as the network's diameter to reach everybody. Until there are
    some that all can know, each learner takes its own and its neighbours'.
    """

    def __init__(self, of: int, diameter: int) -> None:
        self.of, self.diameter = of, diameter
        self.samples: list[Sample] = []
        self.before: list[Sample] = []  # those from before a change
        self.old = 0  # how many of the samples the long memory does not count
        self.over, self.shared = False, False  # the scale is fixed; it is common
        self.first = max(4, diameter + 2)  # the round of the first scale that all can know
        self.looks = next(r for r in _powers(4) if r * of >= ENOUGH or r == LOOKS)
        self.fixed = next(r for r in _powers(WARM_UP) if r - diameter >= WARM_UP // 2)

    def is_due(self, round: int) -> bool:
        """In rounds 1, 2, 4 .., in the first that all can know, and later only when it is to be fixed."""
        enough = len(self.samples) - self.diameter >= LOOKS // 2
        return self._may_be_due(round) and (round <= self.looks or not self.shared or enough)

    def _may_be_due(self, round: int) -> bool:
        doubled = round > 0 and (round & (round - 1) == 0 or round == self.first)
        return not self.over and doubled and (round <= self.looks or not self.shared or round >= self.fixed)

    def is_common(self, round: int) -> bool:
        """Whether that round's scale is of statistics that all can know."""
        return self.of > 1 and round >= self.first

    def told_for(self, round: int) -> list[int]:
        """The rounds whose scales need the statistics of this round's samples."""
        later = round + self.diameter
        common = [later] if self._may_be_due(later) and self.is_common(later) else []
        return [*common, round] if self.is_due(round) and not self.is_common(round) else common

    def statistics(self) -> Stats:
        """Of each learner's inputs, and of its targets as one column more. (J, d + 1)"""
        X, y = self.stacked()
        return statistics(np.concatenate([X, y[..., None]], -1))

    def stacked(self) -> tuple[Array, Array]:
        """All samples. (J, n, d), (J, n)"""
        X, y = (np.stack(values, 1) for values in zip(*self.samples, strict=True))
        return X, y

    def divide(self, n: int, returns: bool, for_all: bool) -> None:
        """For the long memory the last n samples count, and those of a past that returns; others are past.

        `for_all`: also for the joint models, and for the next scale.
        """
        self.old = 0 if returns else max(len(self.samples) - n, 0)
        if for_all and not self.over:
            past = self.before if returns else []
            self.before, self.samples, self.old = self.samples[:-n], past + self.samples[-n:], 0

    def end(self) -> None:
        """The scale stays; the samples go."""
        self.over, self.samples, self.before = True, [], []

    def grow(self, d: int) -> None:
        """Samples have d inputs from now on; the old ones had none of the new."""
        self.samples, self.before = padded(self.samples, d), padded(self.before, d)


def padded(samples: Iterable[Sample], d: int) -> list[Sample]:
    """Samples with as many inputs; new ones are missing."""
    return [(np.pad(x, ((0, 0), (0, d - x.shape[-1])), constant_values=np.nan), y) for x, y in samples]


def _powers(first: int) -> list[int]:
    return [first << k for k in range(30)]

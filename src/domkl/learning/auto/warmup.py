"""The first samples, which show the scale of inputs and targets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from .constants import C
from .features import Stats, statistics
from .outliers import Fenced

Sample = tuple[Array, Array]  # x (J, d), y (J,)


class WarmUp:
    """The samples that learners keep until their scale is fixed, and when to take the scale from them.

    In lockstep, statistics of a round need as many rounds as the network's diameter to reach everybody. Until
    there are some that all can know, each learner takes its own and its neighbours'. Learners out of step
    (asynchronous) take their own, and agree on one of them; only the one it came from takes it again.
    """

    FIELDS: ClassVar = ("samples", "old", "over", "shared", "own", "learners", "diameter", "gone", "skip")

    def __init__(
        self, J: int, learners: int, diameter: int, lockstep: bool = True, *, fenced: bool = False
    ) -> None:
        self.lockstep, self.fenced = lockstep, fenced
        self.samples: list[Sample] = []
        self.old = 0  # how many of the samples the long memory does not count
        self.over, self.shared = False, False  # the scale is fixed; it is common
        self.own = True  # it was made here, and not taken from another learner
        self.gone = np.zeros(J, int)  # how many of the first samples each learner has given up
        self.skip = np.zeros(J, int)  # how many of them are no own samples any more
        self.resize(learners, diameter)

    def resize(self, learners: int, diameter: int) -> None:
        """The network has another size: the rounds in which a scale is due follow from it."""
        self.learners, self.diameter = learners, diameter

    @property
    def first(self) -> int:
        """The round of the first scale that all can know."""
        return max(4, self.diameter + 2)

    @property
    def looks(self) -> int:
        """The round from which on a common scale is good enough, and changes are watched for."""
        return next(r for r in _powers(4) if r * self.learners >= C.enough or r == C.looks)

    @property
    def fixed(self) -> int:
        """The round in which the scale is fixed."""
        return next(r for r in _powers(C.warm_up) if r - self.diameter >= C.warm_up // 2)

    def is_due(self, round: int) -> bool:
        """Whether a scale is taken: in rounds 1, 2, 4 .., the first that all can know, and the last."""
        enough = len(self.samples) - self.diameter >= C.looks // 2
        return self.may_be_due(round) and (round <= self.looks or not self.shared or enough)

    def may_be_due(self, round: int) -> bool:
        """Whether a scale may be taken in that round, if there are samples enough."""
        doubled = round > 0 and (round & (round - 1) == 0 or round == self.first)
        if self.over or not doubled or self.is_anothers:
            return False
        return round <= self.looks or not self.shared or round >= self.fixed or self.is_second_look(round)

    def is_second_look(self, round: int) -> bool:
        """Whether a scale is taken only if the first one has become too old.

        Samples of many learners are soon enough, but may be of few days.
        """
        return self.lockstep and self.looks < round == C.looks

    @property
    def is_overdue(self) -> bool:
        """Whether rounds in which a scale was due were skipped, so that too many samples are kept."""
        return not self.over and len(self.samples) >= 2 * self.fixed

    @property
    def is_anothers(self) -> bool:
        """Whether the scale is up to another learner: one out of step, whose scale this is."""
        return self.shared and not self.own and not self.lockstep

    def is_common(self, round: int) -> bool:
        """Whether that round's scale is of statistics that all can know by then."""
        return self.lockstep and self.learners > 1 and round >= self.first

    def will_be_shared(self, round: int) -> bool:
        """Whether a scale that is taken in that round is to be everybody's."""
        if self.lockstep:
            return self.is_common(round)
        return self.learners > 1 and (self.shared or round >= self.looks)

    def statistics_for(self, round: int) -> list[int]:
        """The rounds whose scales need the statistics of this round's samples."""
        later = round + self.diameter
        common = [later] if self.may_be_due(later) and self.is_common(later) else []
        return [*common, round] if self.is_due(round) and not self.is_common(round) else common

    def statistics(self) -> Stats:
        """Statistics of each learner's inputs, and of its targets as one column more. (J, d + 1)"""
        kept = self.believed()
        if not self.gone.any():
            return statistics_of(kept)
        gone = [n < self.gone for n in range(len(kept))]
        pairs = zip(kept, gone, strict=True)
        return statistics_of([(_without(x, whose[:, None]), _without(y, whose)) for (x, y), whose in pairs])

    def believed(self) -> list[Sample]:
        """The samples with those labels bounded that lie far from nearly all others.

        Where one is wild its inputs are missing too: what they belong to is not known.
        """
        samples = self.samples
        if not self.fenced or not samples:
            return samples
        rows = [Fenced.of(row) for row in np.stack([y for _, y in samples], 1).tolist()]
        labels, wild = np.array([row.labels for row in rows]).T, np.array([row.wild for row in rows]).T
        given = zip(samples, labels, wild[..., None], strict=True)
        return [(np.where(gone, np.nan, x), y) for (x, _), y, gone in given]

    def correct_last(self, row: int, labels: Array) -> None:
        """The last labels of one learner, of which it now turns out that they were these."""
        n = min(len(labels), len(self.samples))
        for i, label in zip(range(-n, 0), labels[len(labels) - n :], strict=True):
            x, y = self.samples[i]
            self.samples[i] = x, np.where(np.arange(len(y)) == row, label, y)

    def divide(self, n: int, returns: bool, whose: npt.NDArray[np.bool_]) -> None:
        """For the long memory the last n samples count, and those of a past that returns; others are past.

        `whose`: for which learners' joint models and next scale only the last n count, too. Booleans (J,)
        """
        first = max(len(self.samples) - n, 0)
        self.old = 0 if returns else first
        self.gone = np.where(whose, np.maximum(self.gone, first), self.gone)

    def end(self) -> None:
        """Fix the scale and drop the samples."""
        self.over, self.samples = True, []
        self.gone, self.skip = np.zeros_like(self.gone), np.zeros_like(self.skip)

    def grow(self, d: int) -> None:
        """Samples have d inputs from now on; in the old ones the new inputs are missing."""
        self.samples = padded(self.samples, d)


def statistics_of(samples: list[Sample]) -> Stats:
    """Statistics of each learner's inputs, and of its targets as one column more. (J, d + 1)"""
    X, y = (np.stack(values, 1) for values in zip(*samples, strict=True))
    return statistics(np.concatenate([X, y[..., None]], -1))


def _without(values: Array, whose: npt.NDArray[np.bool_]) -> Array:
    """Values of which those of some learners are missing."""
    return np.where(whose, np.nan, values)


def padded(samples: Iterable[Sample], d: int) -> list[Sample]:
    """Samples with d inputs; new ones are missing."""
    return [(np.pad(x, ((0, 0), (0, d - x.shape[-1])), constant_values=np.nan), y) for x, y in samples]


def _powers(first: int) -> list[int]:
    return [first << k for k in range(30)]

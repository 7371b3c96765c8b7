"""Labels that cannot be believed: each is bounded before anything in the model sees it.

A label may lie `label_reach` robust deviations from what was predicted, or `label_near` of the range of those
believed so far, or in that range if it is not far from the last ones: a rare peak is no error. Any other that
lies `label_wild` or more away counts as the prediction itself. The deviation is a quantile of the last
absolute errors, or the median of the last few where that is larger: so a change that lasts is let through
after some labels. While errors are few, labels are compared with each other too (`fence`).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.types import Array
from .constants import C

#: Median of the absolute values of a normal distribution, in standard deviations.
MEDIAN = 0.6745
#: Fewer labels tell nothing of how far others may lie.
LEAST = 4
#: The range of no labels: nothing lies in it.
NOTHING = (math.inf, -math.inf)


class LabelGate:
    """Bounds the labels of J learners, each by its own errors; nothing of it is sent."""

    def __init__(self, J: int) -> None:
        self.rows = [RowGate() for _ in range(J)]

    def bound(
        self, y_hat: Array, alone: Array, y: Array, predicted: bool, inside: Array | None = None
    ) -> tuple[Array, Array]:
        """Labels to learn from, and to keep for the next scale, which judges the first ones again. (J,) each

        `alone`: what is predicted without neighbours, who may be wrong (J,); `predicted`: whether any labels
        have a part in it and in y_hat (J,); `inside`: least and greatest label believed so far (2, J).
        """
        is_new = self.rows[0].is_new
        ranges = [NOTHING] * len(y) if inside is None else inside.T.tolist()
        each = zip(self.rows, y_hat.tolist(), alone.tolist(), y.tolist(), ranges, strict=True)
        bounded = [row.bound(guess, own, label, predicted, known) for row, guess, own, label, known in each]
        return np.array(bounded), y if is_new else np.array(bounded)

    def state(self) -> dict[str, Any]:
        """The last errors and labels of each learner. (J, n) each"""
        return {
            "errors": np.array([row.errors.values for row in self.rows]),
            "labels": np.array([row.labels.values for row in self.rows]),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        self.rows = [
            RowGate(*both) for both in zip(state["errors"].tolist(), state["labels"].tolist(), strict=True)
        ]

    def drop_labels(self) -> None:
        """Keep no label, as a model without samples; the errors stay."""
        self.rows = [RowGate(row.errors.values) for row in self.rows]

    def inherit(self, other: LabelGate) -> None:
        """Every row starts with the errors of a learner alone, and without its labels."""
        self.rows = [RowGate(other.rows[0].errors.values) for _ in self.rows]


class RowGate:
    """The last absolute errors and labels of one learner."""

    def __init__(self, errors: Sequence[float] = (), labels: Sequence[float] = ()) -> None:
        self.errors, self.labels = LastValues(errors), LastValues(labels)

    @property
    def is_new(self) -> bool:
        """Whether there are too few errors to judge a label by."""
        return len(self.errors.values) < C.label_errors

    def bound(
        self, y_hat: float, alone: float, y: float, predicted: bool, inside: Sequence[float] = NOTHING
    ) -> float:
        """The label to learn from; y counts for labels to come. `inside`: the range of those believed."""
        self.labels.add(y)
        miss = min(abs(y - y_hat), abs(y - alone))
        bounded = y if self.is_new else self._bound(y_hat, alone, y, inside)
        if self.errors.are_few:
            found = fence(self.labels.ordered)
            if self.is_new or not found.is_near(miss, inside):
                bounded = found.bound(y_hat if predicted and found.is_wild(bounded) else bounded)
        if predicted:
            self.errors.add(miss)
        return bounded

    def correct_last(self, labels: Array, errors: Array) -> None:
        """The last labels and errors, of which it now turns out that they were these."""
        self.labels, self.errors = self.labels.ending(labels), self.errors.ending(errors)

    def _bound(self, y_hat: float, alone: float, y: float, inside: Sequence[float]) -> float:
        deviation, (low, high) = self.deviation(), inside
        reach, miss = C.label_reach * deviation, min(abs(y - y_hat), abs(y - alone))
        if miss <= reach or self.labels.mostly_same:
            return y
        found = fence(self.labels.ordered)
        if found.is_near(miss, inside) or (low <= y <= high and found.holds(y)):
            return y
        centre = y_hat if abs(y_hat - alone) <= reach else alone  # neighbours may have misled y_hat
        is_wild = miss >= C.label_wild * deviation
        return centre if is_wild else centre + math.copysign(reach, y - centre)

    def deviation(self) -> float:
        """Of errors: how far `label_quantile` of them reach, as the standard deviation of normal ones."""
        last = sorted(list(self.errors.values)[-C.label_last :])
        usual = self.errors.ordered[int(C.label_quantile * len(self.errors.ordered))]
        return max(usual / C.label_normal, last[(len(last) - 1) // 2] / MEDIAN)


class LastValues:
    """The last `label_window` values of one stream, in their order and by size."""

    def __init__(self, values: Sequence[float] = ()) -> None:
        self.values, self.ordered = deque(values), sorted(values)

    @property
    def are_few(self) -> bool:
        """Whether there are fewer than `label_window` so far."""
        return len(self.values) < C.label_window

    def add(self, value: float) -> None:
        """One value more; the oldest is dropped."""
        self.values.append(value)
        bisect.insort(self.ordered, value)
        if len(self.values) > C.label_window:
            del self.ordered[bisect.bisect_left(self.ordered, self.values.popleft())]

    def ending(self, last: Array) -> LastValues:
        """The same, with other last values."""
        kept = list(self.values)
        return LastValues(kept[: max(len(kept) - len(last), 0)] + last[-len(kept) :].tolist() if kept else ())

    @property
    def mostly_same(self) -> bool:
        """Whether more than half of them are one value: the others are then events, and no errors."""
        n = len(self.ordered)
        middle = self.ordered[n // 2]
        same = bisect.bisect_right(self.ordered, middle) - bisect.bisect_left(self.ordered, middle)
        return same > n / 2


class Fenced(NamedTuple):
    """Labels with the first ones inside the `fence` of all; later ones were compared with predictions."""

    labels: list[float]
    wild: list[bool]  # which were so far outside that they say nothing

    @classmethod
    def of(cls, labels: list[float]) -> Fenced:
        """Of the first labels those are bounded that lie far outside: a peak among them may be true."""
        ordered, first = sorted(labels), labels[: C.label_errors + 1]
        found, wide = fence(ordered), fence(ordered, C.label_again)
        bounded = [y if wide.holds(y) else found.bound(y) for y in first]
        later = labels[len(first) :]
        return cls(bounded + later, [found.is_wild(y) for y in first] + [False] * len(later))


class Fence(NamedTuple):
    """How far labels may lie from nearly all others."""

    low: float = -math.inf  # the least and the greatest that is not far from them
    high: float = math.inf
    least: float = -math.inf  # beyond these it is as far as `label_wild` is beyond `label_reach`
    most: float = math.inf
    median: float = 0.0

    def holds(self, y: float) -> bool:
        """Whether a label is not far from nearly all others."""
        return self.low <= y <= self.high

    def is_near(self, miss: float, inside: Sequence[float]) -> bool:
        """Whether an error is a part of the range of labels believed, `inside`, that is no reason for doubt.

        What lies far from the last labels, as those of an old fault, does not count for that range.
        """
        return miss <= C.label_near * (min(inside[1], self.high) - max(inside[0], self.low))

    def is_wild(self, y: float) -> bool:
        """Whether a label is too far away to say anything."""
        return not self.least <= y <= self.most

    def bound(self, y: float) -> float:
        """The label itself, the last that is not far, or the median where it is wild."""
        return self.median if self.is_wild(y) else min(max(y, self.low), self.high)


def fence(ordered: list[float], times: float = 1.0) -> Fence:
    """Of labels in order: which of them lie far from nearly all others.

    Nearly all: the four fifths that lie closest together, or all but one if these are the same, or else any
    two that differ. Far: `label_fence` times their range, far more while labels are few, and `times` as far
    as that. Three labels tell nothing, nor do labels that are all the same.
    """
    n = len(ordered)
    gaps = [b - a for a, b in itertools.pairwise(ordered) if b > a]
    if n < LEAST or not gaps:
        return Fence()
    low, high = _closest(ordered, n - math.ceil(n / 5))
    if low == high:
        low, high = _closest(ordered, n - 1)
    far = times * C.label_fence * (1 + (C.label_few / n) ** 2) * (high - low or min(gaps))
    kept = [y for y in ordered if low - far <= y <= high + far]
    wild = far * C.label_wild / C.label_reach
    return Fence(kept[0], kept[-1], low - wild, high + wild, _median(ordered))


def _median(ordered: list[float]) -> float:
    return ordered[(len(ordered) - 1) // 2]


def _closest(ordered: list[float], count: int) -> tuple[float, float]:
    """The least and the greatest of so many labels that lie closest together."""
    ends = zip(ordered, ordered[count - 1 :], strict=False)
    return min(ends, key=lambda both: both[1] / 2 - both[0] / 2)

"""When a learner's own samples are no guide any more, as after a change of unit at its sensor."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from .constants import C
from .label_unit import LabelUnit, line_of

#: So many of the last labels must be in another unit to be recognised.
NEW = C.own_last // 2 + 1


class LabelChange(NamedTuple):
    """What one more label has shown of each learner. (J,) each"""

    lost: npt.NDArray[np.bool_]  # whose own samples are no guide any more
    shift: Array  # whose labels are in another unit: shift + factor * those before; 0 and 1 elsewhere
    factor: Array
    span: npt.NDArray[np.int64]  # how many of the last labels are in that unit

    @classmethod
    def none(cls, J: int) -> LabelChange:
        """Everything is as it was."""
        return cls(np.zeros(J, bool), np.zeros(J), np.ones(J), np.zeros(J, np.int64))

    @property
    def of_unit(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.span > 0)


class OwnWatch:
    """Compares the labels of J learners with what each one's own samples predict.

    The own samples say less than the median of the last labels would where the predictions' errors are large
    beside the distance of these labels from each other, and beside the usual errors. Medians of `own_last`
    decide, so that some wrong labels do not, nor a front that comes early. If all at once a straight line
    leads from the predictions to the labels, the sensor has another unit, and nothing else has changed; the
    line is drawn again when there are more labels in that unit (`unit_looks`). Nothing of it is sent.
    """

    FIELDS: ClassVar = ("errors", "guesses", "labels", "since", "age")

    def __init__(self, J: int) -> None:
        self.errors: Array = np.zeros((J, 0))  # the last `label_window` absolute errors
        self.guesses: Array = np.zeros((J, 0))  # the last `label_window` predictions, and labels
        self.labels: Array = np.zeros((J, 0))
        self.since = np.zeros(J, int)  # how many of the errors are of today's own samples
        self.age = np.zeros(J, int)  # how many labels there are of another unit, until they are enough

    @property
    def is_unsure(self) -> npt.NDArray[np.bool_]:
        """Whose labels are in a unit that too few of them show to learn from them. Booleans (J,)"""
        return (self.age > 0) & (self.age < C.unit_sure)

    def observe(self, predicted: Array, y: Array, inside: Array, unit: LabelUnit) -> LabelChange:
        """One more label of each learner, and what its own samples had predicted. (J,) each

        `inside`: least and greatest label believed so far (2, J); `unit`: in which labels come by now.
        """
        self.errors = np.hstack([self.errors, np.abs(y - predicted)[:, None]])[:, -C.label_window :]
        self.guesses = np.hstack([self.guesses, predicted[:, None]])[:, -C.label_window :]
        self.labels = np.hstack([self.labels, y[:, None]])[:, -C.label_window :]
        self.since = np.minimum(self.since + 1, C.label_window)
        self.age = self.age + (self.age > 0)
        usual, last = self._usual(), _median(self.errors[:, -C.own_last :])
        if not (unit.is_another.any() or (last > C.unit_rise * usual).any()):
            return LabelChange.none(len(y))
        lost = (last > C.own_rise * usual) & (self.since >= C.own_errors)
        lost &= last > C.own_spread * _spread(self.labels[:, -C.own_last :])
        return self._changed(self._may_be_unit(usual, last, inside), lost, usual, unit)

    def _may_be_unit(self, usual: Array, last: Array, inside: Array) -> npt.NDArray[np.bool_]:
        """Whose last labels are so strange, all at once, that they may be in another unit. Booleans (J,)

        Either most of them are out of range, and miss their predictions by half of it, or predictions differ
        enough to see a straight line, and errors of more than a few rounds, as in a front, are unusual.
        """
        width = inside[1] - inside[0]
        labels = self.labels[:, -C.own_last :]
        outside = ((labels < inside[0][:, None]) | (labels > inside[1][:, None])).sum(-1) > C.own_last // 2
        clear = _spread(self.guesses[:, -C.own_last :]) > C.unit_clear * usual
        clear &= self._repeats() < C.unit_repeats
        clear &= last > np.maximum(C.unit_rise * usual, C.unit_part * width)
        strange = clear | (outside & (last > np.maximum(C.own_rise * usual, C.unit_far * width)))
        is_known = (self.since == C.label_window) & (self.labels.shape[1] == C.label_window)
        return np.asarray(strange & self._is_sudden(usual) & is_known)

    def _is_sudden(self, usual: Array) -> npt.NDArray[np.bool_]:
        """Whether nearly all of the last errors are large and nearly none of those before were."""
        large, few = self._are_large(usual), C.unit_others
        return np.asarray((large[:, -NEW:].sum(-1) >= NEW - few) & (large[:, :-NEW].sum(-1) <= few))

    def _return(self, usual: Array, unit: LabelUnit) -> npt.NDArray[np.bool_]:
        """Whose last labels are as predicted in the first unit, and far from it in today's. Booleans (J,)"""
        guesses, labels = self.guesses[:, -NEW:], self.labels[:, -NEW:]
        now, first = _median(np.abs(labels - guesses)), _median(np.abs(unit.now(labels) - guesses))
        return np.asarray(unit.is_another & (first <= C.unit_fits * usual) & (now > C.unit_rise * first))

    def _are_large(self, usual: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(self.errors[:, -C.own_last :] > C.unit_rise * usual[:, None])

    def _changed(
        self, strange: npt.NDArray[np.bool_], lost: npt.NDArray[np.bool_], usual: Array, unit: LabelUnit
    ) -> LabelChange:
        change, large = LabelChange.none(len(lost))._replace(lost=lost), self._are_large(usual)
        returns = self._return(usual, unit)
        for row in np.flatnonzero(strange | returns | np.isin(self.age, C.unit_looks)).tolist():
            is_new = strange[row] or returns[row]
            n = int(large[row].sum() if strange[row] else NEW if returns[row] else self.age[row])
            guesses, labels = self.guesses[row, -n:].tolist(), self.labels[row, -n:].tolist()
            line = unit.way_back(row) if returns[row] else line_of(guesses, labels, float(usual[row]))
            if line is not None and unit.allows(row, line[1]):
                n = _since_change(guesses, labels, *line) if is_new else n
                self._take(row, n, *line)
                lost[row] = False
                change.shift[row], change.factor[row], change.span[row] = *line, n
        self.since = np.where(lost, 0, self.since)
        self.age = np.where(lost | returns | (self.age >= C.label_window), 0, self.age)
        return change

    def _take(self, row: int, n: int, shift: float, factor: float) -> None:
        """The last n labels as they would have been in the unit before."""
        self.labels[row, -n:] = (self.labels[row, -n:] - shift) / factor
        self.errors[row, -n:] = np.abs(self.labels[row, -n:] - self.guesses[row, -n:])
        self.age[row] = n

    def _repeats(self) -> Array:
        """How much more often than not an error has the sign of the one before, but for the last `own_last`.

        Of signs, as a single wrong label would hide that errors resemble each other. (J,)
        """
        signs = np.sign((self.labels - self.guesses)[:, : -C.own_last])
        return np.asarray((signs[:, 1:] * signs[:, :-1]).sum(-1) / max(signs.shape[1] - 1, 1))

    def _usual(self) -> Array:
        n = self.errors.shape[1]
        is_old = np.arange(n) < n - self.since[:, None]
        ordered = np.sort(np.where(is_old, np.inf, self.errors), -1)
        return np.asarray(ordered[np.arange(len(ordered)), (self.since - 1) // 2])


def _since_change(guesses: list[float], labels: list[float], shift: float, factor: float) -> int:
    """How many of the last labels are in another unit: the first of them may be from before."""
    for n in range(len(labels), 1, -1):
        y, guess = labels[-n], guesses[-n]
        if abs((y - shift) / factor - guess) < abs(y - guess):
            return n
    return 1


def _spread(values: Array) -> Array:
    """The median distance from the median of each row. (J,)"""
    return _median(np.abs(values - _median(values)[:, None]))


def _median(values: Array) -> Array:
    """The lower median of each row. (J,)"""
    return np.asarray(np.sort(values, -1)[:, (values.shape[1] - 1) // 2])

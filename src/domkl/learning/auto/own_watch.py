"""When a learner's own samples are no guide any more, as after a change of unit at its sensor."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from .constants import C


class OwnWatch:
    """Compares the labels of J learners with what each one's own samples predict.

    The own samples say less than the median of the last labels would where the predictions' errors are large
    beside the distance of these labels from each other, and beside the usual errors. Medians of `own_last`
    decide, so that some wrong labels do not, nor a front that comes early. Nothing of it is sent.
    """

    FIELDS: ClassVar = ("errors", "labels", "since")

    def __init__(self, J: int) -> None:
        self.errors: Array = np.zeros((J, 0))  # the last `label_window` absolute errors
        self.labels: Array = np.zeros((J, 0))  # the last `own_last` labels
        self.since = np.zeros(J, int)  # how many of the errors are of today's own samples

    def observe(self, predicted: Array, y: Array) -> npt.NDArray[np.bool_]:
        """Whose own samples are no guide any more, by one more label (J,). Booleans (J,)"""
        error = np.abs(y - predicted)
        self.errors = np.hstack([self.errors, error[:, None]])[:, -C.label_window :]
        self.labels = np.hstack([self.labels, y[:, None]])[:, -C.own_last :]
        self.since = np.minimum(self.since + 1, C.label_window)
        last = _median(self.errors[:, -C.own_last :])
        spread = _median(np.abs(self.labels - _median(self.labels)[:, None]))
        lost = (last > C.own_rise * self._usual()) & (last > C.own_spread * spread)
        lost &= self.since >= C.own_errors
        self.since = np.where(lost, 0, self.since)
        return np.asarray(lost)

    def _usual(self) -> Array:
        n = self.errors.shape[1]
        is_old = np.arange(n) < n - self.since[:, None]
        ordered = np.sort(np.where(is_old, np.inf, self.errors), -1)
        return np.asarray(ordered[np.arange(len(ordered)), (self.since - 1) // 2])


def _median(values: Array) -> Array:
    """The lower median of each row. (J,)"""
    return np.asarray(np.sort(values, -1)[:, (values.shape[1] - 1) // 2])

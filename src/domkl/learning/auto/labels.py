"""What a learner makes of a label before it learns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from .experts import ALONE
from .own_watch import LabelChange

if TYPE_CHECKING:
    from .prediction import AutoPrediction
    from .rows import AutoRows


def believed(rows: AutoRows, earlier: AutoPrediction, y: Array) -> tuple[Array, Array]:
    """Labels (J,) to learn from, and those to keep for the next scale, by what was predicted.

    Both are in the first unit of each learner's sensor. Own samples that the labels have left start again,
    where changes are watched for, unless only the unit has changed.
    """
    y, alone, predicted = rows.unit.first(y), earlier.experts[:, ALONE], rows.joint.state is not None
    if rows.gate is None:
        return y, y
    if predicted and rows.watches:
        change = rows.own_watch.observe(alone, y, rows.own_range, rows.unit)
        if change.of_unit.any():
            y = _take_unit(rows, change)
        if change.lost.any():
            _drop_own(rows, change.lost)
    learnt, kept = rows.gate.bound(earlier.mixed, alone, y, predicted, rows.own_range)
    unsure = rows.own_watch.is_unsure
    return np.where(unsure, earlier.mixed, learnt) if unsure.any() else learnt, kept


def _take_unit(rows: AutoRows, change: LabelChange) -> Array:
    """Go on in the first unit; the labels since the change are corrected. Returns this round's. (J,)"""
    assert rows.gate is not None
    rows.unit.change(change.shift, change.factor)
    labels, errors = rows.own_watch.labels, rows.own_watch.errors
    for row in np.flatnonzero(change.of_unit).tolist():
        before = slice(-change.span[row], -1)  # this round's label is still to be judged
        rows.gate.rows[row].correct_last(labels[row, before], errors[row, before])
        rows.warm.correct_last(row, labels[row, before])
        rows.joint.correct_last(row, rows.scaled_targets(row, labels[row, before]))
    return np.array(labels[:, -1])


def _drop_own(rows: AutoRows, lost: npt.NDArray[np.bool_]) -> None:
    rows.joint.own.drop(lost)
    rows.warm.skip = np.where(lost, len(rows.warm.samples), rows.warm.skip)

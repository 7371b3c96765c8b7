"""What a learner makes of a label before it learns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...base.types import Array

if TYPE_CHECKING:
    from .prediction import AutoPrediction
    from .rows import AutoRows


def believed(rows: AutoRows, earlier: AutoPrediction, y: Array) -> tuple[Array, Array]:
    """Labels (J,) to learn from, and those to keep for the next scale, by what was predicted.

    Own samples that the labels have left start again, where changes are watched for.
    """
    if rows.gate is None:
        return y, y
    alone, predicted = rows.alone(earlier), rows.joint.state is not None
    if predicted and rows.watches:
        _drop_own(rows, rows.own_watch.observe(alone, y))
    return rows.gate.bound(earlier.y_hat, alone, y, predicted, rows.own_range)


def _drop_own(rows: AutoRows, lost: npt.NDArray[np.bool_]) -> None:
    if lost.any():
        rows.joint.own.drop(lost)
        rows.warm.skip = np.where(lost, len(rows.warm.samples), rows.warm.skip)

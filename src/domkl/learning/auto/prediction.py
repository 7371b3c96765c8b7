"""What is known of a sample before its label, and what is made of the experts' predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...base.arrays import clip
from ...base.types import Array
from . import units
from .constants import C

if TYPE_CHECKING:
    from .rows import AutoRows


class AutoPrediction(NamedTuple):
    """A sample before its label is known."""

    x: Array  # (J, d)
    z: Array  # (J, models, K) features; empty before the first label
    f: Array  # (J, models) each joint model's score, in scaled units
    models: Array  # (J, models) the same in units of y
    experts: Array  # (J, n) predictions in units of y: `experts.NAMES`
    y_hat: Array  # (J,) in the unit of the last labels
    own: Array  # (J,) what own samples alone predict, in the same unit
    mixed: Array  # (J,) y_hat in the unit of the first ones, as all else here that is in units of y
    alone: Array  # (J, 2) own samples with a weak and with a strong ridge, in units of y
    halves: Array  # (J, 2) the experts' weighted mean, and half of it with half the own memory
    residual: Array  # (J, 3) two errors and what the other experts predict; empty without memories


def with_residual(rows: AutoRows, experts: Array, w: Array) -> tuple[Array, Array]:
    """One expert more: what the others predict together, corrected by the error to expect."""
    assert rows.scale is not None
    rest = w[:, :-1] / w[:, :-1].sum(-1, keepdims=True)
    together = (rest * experts).sum(-1)
    y = clip(together + rows.residual.expected() * rows.scale.width, rows.low, rows.high)
    y = clip(y, -C.residual_sure, C.residual_sure) if rows.loss.classifies else y
    return np.hstack([experts, y[:, None]]), np.hstack([rows.residual.last, together[:, None]])


def halves(rows: AutoRows, y: Array, x: Array) -> Array:
    """What the experts predict, and the middle between that and the own memory, where it counts. (J, 2)"""
    if rows.own_memory is None:
        return np.stack([y, y], -1)
    own = units.predicted(rows, rows.own_memory.score(x)[:, None], units.around_own(rows))[:, 0]
    return np.stack([y, np.where(rows.is_far, (y + own) / 2, y)], -1)


def weighed(rows: AutoRows, both: Array) -> Array:
    """The two of `halves` in one. (J, 2) -> (J,)"""
    if rows.own_memory is None:
        return np.asarray(both[:, 0])
    return np.where(rows.is_far, (rows.halves.weights() * both).sum(-1), both[:, 0])

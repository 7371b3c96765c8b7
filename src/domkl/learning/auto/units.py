"""Scores, which are in scaled units, as predictions of y, and errors in scaled units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.arrays import clip
from ...base.types import Array
from .constants import C
from .scale import in_widths

if TYPE_CHECKING:
    from .rows import AutoRows


def predicted(rows: AutoRows, scores: Array, inside: Array | None = None) -> Array:
    """Scores as predictions of y, inside a range (2, J), by default of all targets known. (J, n)"""
    assert rows.scale is not None
    if rows.loss.classifies:
        return np.asarray(np.tanh(scores / 2))
    y = rows.scale.centre[:, None] + scores * rows.scale.width[:, None]
    low, high = (rows.low, rows.high) if inside is None else inside
    return clip(y, low[:, None], high[:, None])


def around_own(rows: AutoRows) -> Array | None:
    """Range of the own targets, and a little more, as there are few; None before the first. (2, J)"""
    low, high = rows.own_range
    beyond = C.own_beyond * (high - low)
    return np.stack([low - beyond, high + beyond]) if low[0] <= high[0] else None


def reachable(rows: AutoRows, low: Array, high: Array) -> tuple[Array, Array]:
    """The range of all targets known (J,), no further from the centre than believable without own labels.

    One message could make it as wide as it liked, for everybody and for good.
    """
    if rows.scale is None or not rows.shared:
        return low, high
    far = C.range_widths * rows.scale.width
    own_low, own_high = rows.own_range
    low = np.maximum(low, np.minimum(own_low, rows.scale.centre - far))
    return low, np.minimum(high, np.maximum(own_high, rows.scale.centre + far))


def misses(rows: AutoRows, predictions: Array, y: Array) -> Array:
    """Squared errors of predictions of y, scaled like the targets. (J, n)"""
    assert rows.scale is not None
    return np.asarray(in_widths(predictions - y[:, None], rows.scale.width[:, None]) ** 2)

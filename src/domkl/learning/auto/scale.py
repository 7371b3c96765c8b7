"""The scale that inputs and targets are seen on, and its identity in a network."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from ...base import checks
from ...base.arrays import clip
from ...base.types import Array
from .features import Stats
from .message import FIXED_RANK, LARGEST, packed


@dataclass
class DataScale:
    """Statistics of the inputs, and centre and width of the targets, of J learners."""

    inputs: Stats  # (J or 1, d)
    centre: Array  # (J,)
    width: Array  # (J,)
    whole: Array  # the statistics in a row, as they are sent; empty where the scale is not common
    count: int  # of how many learners they are
    fixed: bool = False

    @classmethod
    def of(cls, stats: Stats, J: int, classifies: bool, count: int, shared: bool) -> DataScale:
        """From statistics of inputs and, in the last column, of targets. (J or 1, d + 1)"""
        inputs = Stats(*(value[..., :-1] for value in stats))
        centre, width = stats.mean[:, -1], stats.high[:, -1] - stats.low[:, -1]
        if classifies:
            centre, width = np.zeros_like(centre), np.ones_like(width)
        width = np.broadcast_to(np.where(width > checks.NARROWEST, width, 1), J)
        whole = packed(stats) if shared else np.zeros(0)
        return cls(inputs, np.broadcast_to(centre, J), width, whole, count)

    @property
    def number(self) -> int:
        """Identifies a common scale, the same at all who have it; 0 where the scale is not common."""
        return scale_number(self.whole) if len(self.whole) else 0

    @property
    def rank(self) -> float:
        """Which scale stays where two differ: one that is fixed, then one of more learners."""
        return self.count + FIXED_RANK * self.fixed if len(self.whole) else 0.0


def in_widths(distance: Array, width: Array) -> Array:
    """A distance between targets in widths, `LARGEST` at most, so that its square is finite."""
    with np.errstate(over="ignore"):
        return clip(distance / width, -LARGEST, LARGEST)


def scale_number(whole: Array) -> int:
    """Identifies a scale by its statistics, as they are sent."""
    return 1 + zlib.crc32(np.ascontiguousarray(whole).tobytes())

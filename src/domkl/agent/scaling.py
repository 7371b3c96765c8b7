"""Scaling of readings by fixed bounds, and of predictions back to the labels' unit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..base.types import Array
from .config import StreamSection


class Scaling(NamedTuple):
    """Scaling by fixed bounds to [0, 1]; inputs are clipped, a target may lie outside."""

    low: Array  # (d,)
    span: Array  # (d,)
    bounded: bool
    target_low: float = 0.0
    target_span: float = 1.0
    missing: bool = False  # whether inputs may be missing

    @classmethod
    def of(cls, section: StreamSection, inputs: int, missing: bool = False) -> Scaling:
        """The scaling of a configuration; without bounds, none."""
        low = np.array(section.low or [0.0] * inputs)
        high = np.array(section.high or [1.0] * inputs)
        bounds = low, high - low, bool(section.low)
        if section.target_low is None or section.target_high is None:
            return cls(*bounds, missing=missing)
        return cls(*bounds, section.target_low, section.target_high - section.target_low, missing)

    def x(self, X: Array) -> Array:
        """Inputs (n, d) to [0, 1]."""
        if not self.bounded:
            return X
        with np.errstate(over="ignore"):
            return np.clip((X - self.low) / self.span, 0.0, 1.0)

    def y(self, y: float) -> float:
        """A target in the unit that is learnt."""
        return (y - self.target_low) / self.target_span

    def original(self, y: float) -> float:
        """A prediction in the target's own unit."""
        return y * self.target_span + self.target_low

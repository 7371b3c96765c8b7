"""What figures call the error: its root mean square, or the share of wrong classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...base.types import Array
from ..trial import Outcome
from .facts import labels_of
from .text import with_unit


class Measure(NamedTuple):
    name: str
    unit: str
    samples: Array  # (J, T) whose mean, or the root of whose mean, is the error
    root: bool

    @property
    def axis(self) -> str:
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def of(self, means: Array) -> Array:
        """The error where samples have these means."""
        return np.asarray(np.sqrt(np.maximum(means, 0)) if self.root else means)

    def words(self, error: float) -> str:
        return with_unit(float(error), self.unit)


def measure(outcome: Outcome) -> Measure:
    """A classifier's score may leave its label behind and be right all the more, so that is counted."""
    labels, y_hat = labels_of(outcome), outcome.run.y_hat
    if outcome.experiment.learning.make_loss().classifies:
        return Measure("wrong classes", "%", np.where(labels * y_hat > 0, 0.0, 100.0), root=False)
    return Measure("RMSE", outcome.unit, outcome.scale * (y_hat - labels) ** 2, root=True)

"""An additive model of a learner's own samples on a scale of their own, which no message changes.

On the network's scale a device that differs from the others uses a small part of each input's range, and the
additive memories, which learners agree on, mean what all have in common. This one is each device's own.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from ..losses import Loss
from .additive import AdditiveMemory, Terms
from .constants import C
from .scale import DataScale, in_widths
from .warmup import Sample, statistics_of


class OwnMemory:
    """Additive models of J learners, from samples with targets scaled as the network's are."""

    def __init__(self, terms: Terms, loss: Loss, scale: DataScale) -> None:
        self.scale = scale
        self.memory = AdditiveMemory(terms, np.zeros(len(scale.width)), 1, loss, math.inf)

    @classmethod
    def of(cls, samples: list[Sample], terms: Terms, loss: Loss) -> OwnMemory | None:
        """That of these samples; None where they are too few to show a scale."""
        if len(samples) < C.looks:
            return None
        J = len(samples[0][1])
        made = cls(terms, loss, DataScale.of(statistics_of(samples), J, loss.classifies, 1, shared=False))
        made.teach(samples)
        return made

    def teach(self, samples: list[Sample]) -> None:
        """Learn these samples and nothing else; the scale stays."""
        self.memory.reset()
        for x, target in samples:
            self.learn(x, target)

    def restart(self, samples: list[Sample], whose: npt.NDArray[np.bool_]) -> None:
        """These learners (J,) go on with what they learn from these samples alone; the scale stays."""
        fresh = self
        if whose.any():
            fresh = OwnMemory(self.memory.terms, self.memory.loss, self.scale)
            fresh.teach(samples)
        self.memory.take(fresh.memory, whose)

    def learn(self, x: Array, target: Array) -> None:
        """A sample of each learner. (J, d), (J,)"""
        own = in_widths(target - self.scale.centre, self.scale.width)
        self.memory.replay(self.memory.terms.of(x, self.scale.inputs), own)

    def score(self, x: Array) -> Array:
        """Predictions in the network's scaled units. (J, d) -> (J,)"""
        own = self.memory.score(self.memory.terms.of(x, self.scale.inputs))
        return np.asarray(self.scale.centre + own * self.scale.width)

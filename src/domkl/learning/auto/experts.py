"""Which of a learner's predictions to believe: Hedge with fixed share, on each device by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.types import Array
from .watch import JOINT, Watch

#: What the experts are; the first two from the start, all once there are memories.
NAMES = ("own", "neighbours", "long memory", "young memory", "past memory", "blend", "echo")
#: The weight that experts get back in every round.
SHARE = 1e-3
#: The temperature, in mean squared errors of the best.
HEAT = 4.0
#: The weight that new experts have together before they are tried.
UNTRIED = 0.2


class Experts:
    """Weights of J learners' experts, by errors in units of the best one's: few rounds tell."""

    def __init__(self, J: int) -> None:
        self.log_w = np.zeros((J, JOINT))
        self.errors, self.n = np.zeros((J, JOINT)), 0  # of the first two, while nobody watches

    def weights(self) -> Array:
        """(J, n)"""
        w = np.exp(self.log_w - self.log_w.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        return np.asarray((1 - SHARE) * w + SHARE / w.shape[-1])

    def judge(self, misses: Array, errors: Array | None) -> None:
        """Squared errors of a round (J, n), and their averages, if somebody watches them."""
        if errors is None:
            self.n += 1
            self.errors = self.errors + (misses - self.errors) / min(self.n, Watch.FADE)
            errors = self.errors
        worse = misses - misses.min(-1, keepdims=True)
        level = HEAT * np.maximum(errors.min(-1, keepdims=True), 1e-12)
        self.log_w = np.log(self.weights()) - np.minimum(worse / level, 1)

    def add_all(self) -> None:
        """From now on there are all of `NAMES`."""
        w, new = self.weights(), len(NAMES) - JOINT
        few = np.full((len(w), new), UNTRIED / new)
        self.log_w = np.log(np.hstack([(1 - UNTRIED) * w, few]))

    def doubt(self) -> None:
        """Half of the weight is shared out equally: after a change the last errors say less."""
        self.log_w = np.log(self.weights() / 2 + 0.5 / self.log_w.shape[1])

    def follow(self, before: Sequence[int]) -> None:
        """Each expert goes on with the weight of the one that it was `before`."""
        self.log_w = self.log_w[:, before]

"""Weights of a learner's predictions: Hedge with fixed share, on each device by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ...base.types import Array
from .change import JOINT
from .constants import C

#: What the experts are; the first two from the start, all once there are memories.
NAMES = ("own", "neighbours", "long memory", "young memory", "past memory", "blend", "residual")
#: Those that may take the place of what misleads.
MEMORIES = ("young memory", "past memory")


class Experts:
    """Weights of J learners' experts, by errors in units of the best one's: few rounds tell."""

    FIELDS: ClassVar = ("log_weights", "errors", "rounds")

    def __init__(self, J: int) -> None:
        self.log_weights = np.zeros((J, JOINT))
        self.errors, self.rounds = np.zeros((J, JOINT)), 0  # of the first two, before there are memories

    def weights(self) -> Array:
        """Weights of the experts. (J, n)"""
        w = np.exp(self.log_weights - self.log_weights.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        return np.asarray((1 - C.fixed_share) * w + C.fixed_share / w.shape[-1])

    def doubts_joint(self) -> bool:
        """Whether to some learner the young and the past memory are better than the joint models."""
        w = self.weights()
        memories, joint = ([NAMES.index(name) for name in names] for names in (MEMORIES, NAMES[:JOINT]))
        return bool((w[:, memories].sum(-1) > w[:, joint].sum(-1)).any())

    def judge(self, misses: Array, errors: Array | None) -> None:
        """Weigh by squared errors of a round (J, n); `errors`: their averages, where there are any."""
        if errors is None:
            self.rounds += 1
            self.errors = self.errors + (misses - self.errors) / min(self.rounds, C.watch_fade)
            errors = self.errors
        worse = misses - misses.min(-1, keepdims=True)
        level = C.heat * np.maximum(errors.min(-1, keepdims=True), 1e-12)
        self.log_weights = np.log(self.weights()) - np.minimum(worse / level, 1)

    def add_all(self) -> None:
        """From now on there are all of `NAMES`."""
        w, new = self.weights(), len(NAMES) - JOINT
        few = np.full((len(w), new), C.untried / new)
        self.log_weights = np.log(np.hstack([(1 - C.untried) * w, few]))

    def doubt(self) -> None:
        """Half of the weight is shared out equally: after a change the last errors say less."""
        self.log_weights = np.log(self.weights() / 2 + 0.5 / self.log_weights.shape[1])

    def follow(self, before: Mapping[str, str]) -> None:
        """Each named expert goes on with the weight of the one that it was `before`."""
        index = [NAMES.index(before.get(name, name)) for name in NAMES]
        self.log_weights = self.log_weights[:, index]

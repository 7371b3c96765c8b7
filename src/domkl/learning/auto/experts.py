"""Weights of a learner's predictions: Hedge with fixed share, on each device by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from .constants import C

#: What the experts are; the first five from the start, all once there are memories.
NAMES = (
    *("own", "neighbours", "alone", "personal", "shrunk"),
    *("long memory", "young memory", "past memory", "blend", "residual"),
)
#: How many there are from the start.
FIRST = len(C.first_weights)
ALONE, MEMORIES = NAMES.index("alone"), NAMES.index("long memory")
#: Those that may take the place of what misleads.
OTHERS = NAMES.index("young memory"), NAMES.index("past memory")


class Experts:
    """Weights of J learners' experts, by errors in units of the best one's: few rounds tell.

    `first` are the weights at first, as many as there are experts, `heat` the temperature of Hedge, `share`
    the weight that all get back in every round.
    """

    FIELDS: ClassVar = ("log_weights", "errors", "rounds")

    def __init__(
        self,
        J: int,
        first: Sequence[float] = C.first_weights,
        heat: float = C.heat,
        share: float = C.fixed_share,
    ) -> None:
        self.heat, self.share = heat, share
        self.log_weights = np.tile(np.log(first), (J, 1))
        self.errors = np.zeros((J, len(first)))  # averages over the last rounds
        self.rounds = np.zeros(len(first))  # for which there has been each

    def weights(self) -> Array:
        """Weights of the experts. (J, n)"""
        w = np.exp(self.log_weights - self.log_weights.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        return np.asarray((1 - self.share) * w + self.share / w.shape[-1])

    def doubt_joint(self) -> npt.NDArray[np.bool_]:
        """To whom the young and the past memory are worth more than all that is older. Booleans (J,)"""
        w = self.weights()
        return np.asarray(w[:, OTHERS].sum(-1) > w[:, :FIRST].sum(-1))

    def judge(self, misses: Array, repeats: Array) -> None:
        """Weigh by squared errors of a round (J, n), of which about `repeats` (J,) tell as much as one."""
        self.rounds = self.rounds + 1
        self.errors = self.errors + (misses - self.errors) / np.minimum(self.rounds, C.watch_fade)
        worse = misses - misses.min(-1, keepdims=True)
        level = self.heat * repeats[:, None] * np.maximum(self.errors.min(-1, keepdims=True), 1e-12)
        self.log_weights = np.log(self.weights()) - np.minimum(worse / level, C.hedge_most)

    def start_with(self, name: str) -> None:
        """The named expert gets `newcomer` of all weight, as long as nothing is known of any."""
        w = (1 - C.newcomer) * self.weights()
        w[:, NAMES.index(name)] += C.newcomer
        self.log_weights = np.log(w)

    def start_equal(self, whose: npt.NDArray[np.bool_]) -> None:
        """To some learners, booleans (J,), no expert is more likely than another to be the best."""
        self.log_weights = np.where(whose[:, None], 0.0, self.log_weights)

    def add_all(self) -> None:
        """From now on there are all of `NAMES`."""
        w, new = self.weights(), len(NAMES) - FIRST
        few = np.full((len(w), new), C.untried / new)
        self.log_weights = np.log(np.hstack([(1 - C.untried) * w, few]))
        self.errors, self.rounds = np.pad(self.errors, ((0, 0), (0, new))), np.pad(self.rounds, (0, new))

    def doubt(self) -> None:
        """Half of the weight is shared out: after a change the last errors say less.

        Little of it to those that there were from the start, which all count samples from before it.
        """
        new = len(NAMES) - FIRST
        shares = np.repeat([C.doubt_first / FIRST, (1 - C.doubt_first) / new], [FIRST, new])
        self.log_weights = np.log((self.weights() + shares) / 2)

    def hand_over(self, giver: str, taker: str) -> None:
        """All weight of one named expert, but for the least that each has, goes to another."""
        w, given, taken = self.weights(), NAMES.index(giver), NAMES.index(taker)
        w[:, taken] += w[:, given]
        w[:, given] = self.share / w.shape[-1]
        self.log_weights = np.log(w)

    def follow(self, before: Mapping[str, str]) -> None:
        """Each named expert goes on with the weight of the one that it was `before`."""
        index = [NAMES.index(before.get(name, name)) for name in NAMES]
        # `take` keeps the order in memory, so that sums of one row have the bits of many
        self.log_weights, self.errors = self.log_weights.take(index, 1), self.errors.take(index, 1)
        self.rounds = self.rounds[index]

"""When the past is no guide any more: what learners watch, and tell each other in a few numbers."""

from __future__ import annotations

import numpy as np

from ...base.types import Array
from .additive import LONG, PAST, YOUNG

#: Experts whose errors are seen: two of the joint models (own theta, neighbours' mean), then the memories.
EXPERTS, JOINT = 5, 2
#: What takes the long memory's place: the young one or that of the past, and whether joint models begin anew.
RETURNS, MISLED = 1, 2


class Watch:
    """Errors of J learners' predictions and of their experts, averaged with the neighbours' in every round.

    An alarm (Page's test): errors in units of their level (the average over `LEVEL` rounds), `MOST` at most,
    exceed `SLACK` by `ALARM` in sum. Better: the young memory's error or the past one's, averaged over `FADE`
    rounds, is below `BETTER` times the long memory's for `LASTING` rounds, in half of a neighbourhood.
    """

    LEVEL, MOST, SLACK, ALARM = 300, 10.0, 2.0, 15.0
    FADE, BETTER, LASTING = 30, 0.75, 30
    #: The joint models begin anew too if the other memory's error is below this part of theirs, and theirs is
    #: so many times what it was in the mean of `AGES` rounds: errors of a slow series come and go together.
    WORSE, RISE, AGES = 0.7, 3.0, 1000

    def __init__(self, J: int) -> None:
        self.level, self.surplus = np.zeros(J), np.zeros(J)
        self.since = np.zeros(J, int)  # rounds for which errors have exceeded their level
        self.errors, self.lasting = np.zeros((J, EXPERTS)), np.zeros(J, int)
        self.n, self.age = 0, 0
        self.usual, self.rounds = np.zeros(J), 0  # the joint models' error over the ages

    def see(self, miss: Array, experts: Array) -> None:
        """Squared errors of a round: of the prediction (J,), of the experts (J, EXPERTS)."""
        self.n += 1
        self.age += 1
        self.rounds += 1
        if self.n > self.FADE:
            odd = np.minimum(miss / np.maximum(self.level, 1e-12), self.MOST)
            self.surplus = self.surplus + odd - self.SLACK
        self.level = self.level + (miss - self.level) / min(self.n, self.LEVEL)
        self.errors = self.errors + (experts - self.errors) / min(self.age, self.FADE)
        self.usual = self.usual + (experts[:, :JOINT].min(-1) - self.usual) / min(self.rounds, self.AGES)

    def hear(self, surplus: Array, errors: Array) -> None:
        """The averages over each neighbourhood."""
        self.surplus, self.errors = np.maximum(surplus, 0), errors
        self.since = np.where(self.surplus > 0, self.since + 1, 0)
        memories = self.errors[:, JOINT:]
        better = memories[:, YOUNG:].min(-1) < self.BETTER * memories[:, LONG]
        self.lasting = np.where(better, self.lasting + 1, 0)

    @property
    def votes(self) -> Array:
        """1 where another memory is clearly better than the long one, else 0. (J,)"""
        return np.asarray(self.lasting >= self.LASTING, np.float64)

    @property
    def alarms(self) -> Array:
        """1 where errors surge, else 0. (J,)"""
        return np.asarray(self.surplus > self.ALARM, np.float64)

    def verdict(self) -> Array:
        """What each learner would do about a better memory: `RETURNS` and `MISLED` where they are so. (J,)"""
        joint, memories = self.errors[:, :JOINT].min(-1), self.errors[:, JOINT:]
        returns = memories[:, PAST] < memories[:, YOUNG]
        misled = memories[:, YOUNG:].min(-1) < self.WORSE * joint
        misled &= joint > self.RISE * self.usual
        return np.asarray(RETURNS * returns + MISLED * misled, np.float64)

    def calm(self) -> None:
        """After an alarm today's errors are the level."""
        self.n, self.level = 0, np.zeros_like(self.level)
        self.wait()
        self.compare()

    def wait(self) -> None:
        """Let the next alarm and the next vote be of errors to come."""
        self.surplus, self.since = np.zeros_like(self.surplus), np.zeros_like(self.since)
        self.lasting = np.zeros_like(self.lasting)

    def compare(self) -> None:
        """Compare the experts from now on."""
        self.age = 0
        self.lasting = np.zeros_like(self.lasting)

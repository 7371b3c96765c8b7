"""When the past is no guide any more: what learners watch, and tell each other in a few numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._types import Array

#: Experts whose errors are seen: own and mixed theta of the joint models; long, young and past memory.
EXPERTS = 5
JOINT, LONG, YOUNG, PAST = slice(0, 2), 2, 3, 4


class News(NamedTuple):
    """What a round has shown."""

    alarm: bool  # errors surge
    better: bool  # another memory is clearly better than the long one


class Watch:
    """Errors of J learners' predictions and of their experts, averaged over the network (Metropolis weights).

    An alarm (Page's test): errors in units of their level (the average over `LEVEL` rounds), `MOST` at most,
    exceed `SLACK` by `ALARM` in sum. Better: the young memory's error or the past one's, averaged over `FADE`
    rounds, is below `BETTER` times the long memory's for `LASTING` rounds, at half of the learners or more.
    """

    LEVEL, MOST, SLACK, ALARM = 300, 10.0, 2.0, 15.0
    FADE, BETTER, LASTING = 30, 0.75, 30
    #: The joint models begin anew too if the other memory's error is below this part of theirs, and theirs is
    #: so many times what it was in the mean of `AGES` rounds: errors of a slow series come and go together.
    MISLED, RISE, AGES = 0.7, 3.0, 1000
    #: In a message: the experts' errors, the surplus, when to act, and since when.
    NUMBERS = EXPERTS + 3

    def __init__(self, mixing: Array) -> None:
        self.mixing, J = mixing, len(mixing)
        self.level, self.surplus = np.zeros(J), np.zeros(J)
        self.since = np.zeros(J, int)  # rounds for which errors have exceeded their level
        self.errors, self.lasting = np.zeros((J, EXPERTS)), np.zeros(J, int)
        self.n, self.age = 0, 0
        self.usual, self.rounds = np.zeros(J), 0  # the joint models' error over the ages

    def see(self, miss: Array, experts: Array) -> News:
        """Squared errors of a round: of the prediction (J,), of the experts (J, EXPERTS)."""
        self.n += 1
        self.age += 1
        self._sum(miss)
        self.level += (miss - self.level) / min(self.n, self.LEVEL)
        self.errors = self.mixing @ (self.errors + (experts - self.errors) / min(self.age, self.FADE))
        self.rounds += 1
        self.usual += (experts[:, JOINT].min(-1) - self.usual) / min(self.rounds, self.AGES)
        better = self.errors[:, YOUNG:].min(-1) < self.BETTER * self.errors[:, LONG]
        self.lasting = np.where(better, self.lasting + 1, 0)
        half = (self.lasting >= self.LASTING).mean() >= 0.5
        return News(bool((self.surplus > self.ALARM).any()), bool(half))

    def _sum(self, miss: Array) -> None:
        if self.n > self.FADE:
            odd = np.minimum(miss / np.maximum(self.level, 1e-12), self.MOST)
            self.surplus = np.maximum(self.mixing @ (self.surplus + odd - self.SLACK), 0)
        self.since = np.where(self.surplus > 0, self.since + 1, 0)

    def returns(self) -> bool:
        """Whether the memory of the past is better than the young one."""
        errors = self.errors.mean(0)
        return bool(errors[PAST] < errors[YOUNG])

    def misled(self) -> bool:
        """Whether the joint models are much worse than the other memory."""
        errors = self.errors.mean(0)
        joint = errors[JOINT].min()
        return bool(errors[YOUNG:].min() < self.MISLED * joint and joint > self.RISE * self.usual.mean())

    def calm(self) -> None:
        """After an alarm today's errors are the level."""
        self.n = 0
        self.surplus[:], self.since[:], self.level[:] = 0, 0, 0
        self.compare()

    def compare(self) -> None:
        """Compare the experts from now on."""
        self.age = 0
        self.lasting[:] = 0

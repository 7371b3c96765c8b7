"""When the past is no guide any more: detects changes from errors that learners average over neighbours."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from .additive import LONG, PAST, YOUNG
from .constants import C

#: Experts that are compared: two of the joint models (own theta, neighbours' mean), then the memories.
EXPERTS, JOINT = 5, 2
#: What takes the long memory's place: the young one or that of the past; whether the joint models mislead.
RETURNS, MISLED = 1, 2


class ChangeDetector:
    """Errors of J learners' predictions and of their experts, averaged with the neighbours' in every round.

    An alarm (Page's test): errors in units of their level, `watch_most` at most, exceed `watch_slack` by
    `watch_alarm` in sum. Better: the young or the past memory's error, averaged over `watch_fade` rounds, is
    below `watch_better` times the long memory's for `watch_lasting` rounds, in half of a neighbourhood, whose
    members find it no worse by their own errors.
    The joint models mislead if the other memory's error is below `watch_worse` times theirs, and theirs is
    `watch_rise` times its mean over `watch_ages` rounds: errors of a slow series rise and fall together.
    """

    FIELDS: ClassVar = (
        *("level", "surplus", "own_surplus", "since", "errors", "own_errors", "lasting"),
        *("rounds_of_level", "rounds_compared", "usual_error", "rounds"),
    )

    def __init__(self, J: int) -> None:
        self.level, self.surplus = np.zeros(J), np.zeros(J)
        self.since = np.zeros(J, int)  # rounds for which errors have exceeded their level
        self.errors, self.lasting = np.zeros((J, EXPERTS)), np.zeros(J, int)
        self.own_surplus, self.own_errors = np.zeros(J), np.zeros((J, EXPERTS))  # without any neighbour's
        self.rounds_of_level, self.rounds_compared = 0, 0
        self.usual_error, self.rounds = np.zeros(J), 0  # the joint models' error over the ages

    def observe(self, miss: Array, experts: Array) -> None:
        """Squared errors of a round: of the prediction (J,), of the experts (J, EXPERTS)."""
        self.rounds_of_level += 1
        self.rounds_compared += 1
        self.rounds += 1
        if self.rounds_of_level > C.watch_fade:
            odd = np.minimum(miss / np.maximum(self.level, 1e-12), C.watch_most)
            self.surplus = self.surplus + odd - C.watch_slack
            self.own_surplus = np.maximum(self.own_surplus + odd - C.watch_slack, 0)
        self.level = self.level + (miss - self.level) / min(self.rounds_of_level, C.watch_level)
        n = min(self.rounds_compared, C.watch_fade)
        self.errors, self.own_errors = (old + (experts - old) / n for old in (self.errors, self.own_errors))
        beyond = experts[:, :JOINT].min(-1) - self.usual_error
        self.usual_error = self.usual_error + beyond / min(self.rounds, C.watch_ages)

    def average(self, surplus: Array, errors: Array) -> None:
        """Take over the averages over each neighbourhood."""
        self.surplus, self.errors = np.maximum(surplus, 0), errors
        self.since = np.where(self.surplus > 0, self.since + 1, 0)
        memories = self.errors[:, JOINT:]
        better = memories[:, YOUNG:].min(-1) < C.watch_better * memories[:, LONG]
        self.lasting = np.where(better, self.lasting + 1, 0)

    @property
    def votes(self) -> Array:
        """1 where another memory is clearly better than the long one, and no worse by own errors; else 0.

        (J,) So nobody can be made to vote by errors that a neighbour made up.
        """
        own = self.own_errors[:, JOINT:]
        better = np.where(self._returns, own[:, PAST], own[:, YOUNG])
        return np.asarray((self.lasting >= C.watch_lasting) & (better <= own[:, LONG]), np.float64)

    @property
    def _returns(self) -> npt.NDArray[np.bool_]:
        """Where the past memory is better than the young one. Booleans (J,)"""
        return np.asarray(self.errors[:, JOINT + PAST] < self.errors[:, JOINT + YOUNG])

    @property
    def alarms(self) -> Array:
        """1 where errors surge, else 0. (J,)"""
        return np.asarray(self.surplus > C.watch_alarm, np.float64)

    @property
    def may_alarm(self) -> bool:
        """Whether an alarm can be true: the level is known."""
        return self.rounds_of_level > C.watch_fade

    @property
    def may_restart(self) -> bool:
        """Whether a restart can be true: since the last one, or an alarm, there were rounds enough."""
        return self.rounds_compared >= C.watch_lasting

    def verdict(self) -> Array:
        """What each learner would do about a better memory: `RETURNS` and `MISLED` where they are so. (J,)"""
        return np.asarray(RETURNS * self._returns + MISLED * self.misled(), np.float64)

    def misled(self) -> npt.NDArray[np.bool_]:
        """Whom the joint models mislead, by the errors of its neighbourhood. Booleans (J,)"""
        joint, memories = self.errors[:, :JOINT].min(-1), self.errors[:, JOINT:]
        worse = memories[:, YOUNG:].min(-1) < C.watch_worse * joint
        return np.asarray(worse & (joint > C.watch_rise * self.usual_error))

    def reset_level(self) -> None:
        """After an alarm today's errors are the level."""
        self.rounds_of_level, self.level = 0, np.zeros_like(self.level)
        self.reset_suspicion()
        self.reset_comparison()

    def reset_suspicion(self) -> None:
        """Let the next alarm and the next vote be of errors to come."""
        self.surplus, self.since = np.zeros_like(self.surplus), np.zeros_like(self.since)
        self.own_surplus = np.zeros_like(self.own_surplus)
        self.lasting = np.zeros_like(self.lasting)

    def reset_comparison(self) -> None:
        """Compare the experts from now on."""
        self.rounds_compared = 0
        self.lasting = np.zeros_like(self.lasting)

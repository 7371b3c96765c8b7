"""How learners follow a change: additive models of several memories, and decisions that all act on at once.

The long memory counts all samples since the last change, the young one the last few, the past one those from
before the change. Where errors surge, learners raise an alarm and the young memory starts again; where
another memory is clearly better than the long one, they vote to put it in the long one's place.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...base.types import Array
from ..losses import Loss
from .additive import LONG, PAST, YOUNG, AdditiveMemory, Terms
from .change import EXPERTS, MISLED, RETURNS, ChangeDetector
from .constants import C
from .experts import Experts
from .features import Stats
from .judge import Seen
from .warmup import Sample, padded

#: No memory has its turn in a round.
NOBODY = -1
#: The round of a decision that nobody has taken; finite, as messages must be.
NEVER = 2.0**53
#: The fewest samples of a young memory after an alarm, which one error cannot raise.
LEAST_SAMPLES = 2


class MemoryScale(NamedTuple):
    """What a memory's coefficients are relative to."""

    stats: Stats
    weight: Array  # (J,) of each learner's edges, in sum; 0 while the scale is not common
    learners: int


class Memories:
    """The memories of J learners; none of them before `start`."""

    FIELDS: ClassVar = ("restarts", "alarm", "restart", "unconfirmed")

    terms: Terms

    def __init__(self, J: int, loss: Loss) -> None:
        self.J, self.loss = J, loss
        self.all: list[AdditiveMemory] = []  # LONG, YOUNG, PAST
        self.detector = ChangeDetector(J)
        self.recent: deque[Sample] = deque(maxlen=C.young_rounds)  # inputs and scaled targets
        self.seen = Seen.nothing(J, 0)  # the last ones of these
        self._at: tuple[Array, Stats, Array] | None = None  # the last inputs, their scale and their terms
        self.turn = NOBODY
        self.outgoing: Array | None = None  # coefficients of the memory whose turn it is
        self.alarm, self.restart = np.full((J, 2), NEVER), np.full((J, 2), NEVER)
        self.restarts = 0
        self.unconfirmed = np.full(C.unconfirmed_most, -NEVER)  # rounds of the last such decisions

    def __bool__(self) -> bool:
        return bool(self.all)

    def make(self, rounds: float, weight: Array, learners: int) -> AdditiveMemory:
        """A memory without samples."""
        return AdditiveMemory(self.terms, weight, learners, self.loss, float(rounds))

    def start(self, samples: list[Sample], old: int, scale: MemoryScale) -> None:
        """Start, or start again on another scale, from samples with scaled targets.

        The long memory does not count the first `old` of them, which are from before a change.
        """
        if not self.all:
            self.detector = ChangeDetector(self.J)
        lengths = (math.inf, C.young_rounds, math.inf)
        self.all = [self.make(rounds, scale.weight, scale.learners) for rounds in lengths]
        self.recent.clear()
        self.recent.extend(samples)
        self.see_again(scale.stats)
        self.teach(self.all[LONG], samples[old:], scale.stats)
        self.teach(self.all[YOUNG], samples[old:][-C.young_rounds :], scale.stats)
        self.teach(self.all[PAST], samples[:old], scale.stats)

    def see_again(self, stats: Stats) -> None:
        """The last samples' terms, as the inputs' scale is from now on."""
        self._at = None
        self.seen = Seen.nothing(self.J, self.terms.K)
        for x, y in self.last(C.judge_samples):
            self.seen = self.seen.and_one(self.terms.of(x, stats), y)

    def teach(self, memory: AdditiveMemory, samples: list[Sample], stats: Stats) -> None:
        """The memory learns these samples, targets scaled, and nothing else."""
        memory.reset()
        for x, y in samples:
            memory.replay(self.terms.of(x, stats), y)

    def scores(self, x: Array, stats: Stats) -> list[Array]:
        """What each memory predicts, in scaled units. (J,) each"""
        terms = self.terms.of(x, stats)
        self._at = x, stats, terms
        return [memory.score(terms) for memory in self.all]

    def _terms_of(self, x: Array, stats: Stats) -> Array:
        """The terms of inputs, which as a rule were predicted last."""
        if self._at is None or self._at[0] is not x or self._at[1] is not stats:
            return self.terms.of(x, stats)
        return self._at[2]

    def learn(self, x: Array, y: Array, stats: Stats, rounds: int) -> None:
        """A sample of each learner, target scaled."""
        self.recent.append((x, y))
        terms = self._terms_of(x, stats)
        self.seen = self.seen.and_one(terms, y)
        self.turn = self._whose_turn(rounds)
        for k in (LONG, YOUNG):
            if k == self.turn:
                self.outgoing = self.all[k].learn(terms, y)
            else:
                self.all[k].learn_silently(terms, y)

    def _whose_turn(self, rounds: int) -> int:
        """There is room for one memory in a message; a new one goes first."""
        new = [k for k in (LONG, YOUNG) if self.all[k].samples + 1 < C.trial_rounds]
        return new[0] if new else (LONG, YOUNG)[rounds % 2]

    def message(self, rounds: int, diameter: int) -> dict[str, Array]:
        """The parts of a message that are about memories and changes."""
        J, watched = self.J, self.turn != NOBODY
        return {
            "terms": np.zeros((J, 1, self.terms.K)) if self.outgoing is None else self.outgoing,
            "errors": self.detector.errors if watched else np.zeros((J, EXPERTS)),
            "surplus": self.detector.surplus if watched else np.zeros(J),
            "votes": self.detector.votes if watched else np.zeros(J),
            "alarm": pending(self.alarm, rounds, diameter),
            "restart": pending(self.restart, rounds, diameter),
        }

    def merge(self, incoming: Mapping[str, Any]) -> None:
        """End the round for the memory whose turn it was."""
        if self.turn != NOBODY:
            terms = incoming["terms"]
            self.all[self.turn].merge(terms.near, terms.mean, terms.weight)
            self.detector.average(incoming["surplus"], incoming["errors"])

    def decide(
        self, incoming: Mapping[str, Any], rounds: int, diameter: int
    ) -> tuple[int | None, int | None]:
        """Take in decisions: how many samples an alarm that is due leaves, the verdict of a restart that is.

        A decision is acted on as soon as everybody can have received it, unless it can be nobody's: those of
        honest learners are as far apart as our own would be.
        """
        self.alarm = pending(incoming["alarm"], rounds, diameter)
        self.restart = pending(incoming["restart"], rounds, diameter)
        if self.turn != NOBODY:
            self._raise(incoming["votes"], rounds, rounds + diameter)
        samples, verdict = None, None
        if self.alarm[0, 0] == rounds and self.detector.may_alarm:
            samples = min(max(rounds + int(self.alarm[0, 1]), LEAST_SAMPLES), C.young_rounds)
        elif self.restart[0, 0] == rounds and self.detector.may_restart:
            verdict = -int(self.restart[0, 1]) & (RETURNS | MISLED)
        if self.alarm[0, 0] == rounds:
            self.alarm = np.full_like(self.alarm, NEVER)
        self.restart = np.where(self.restart[:, :1] == rounds, NEVER, self.restart)
        return samples, verdict

    def _raise(self, votes: Array, now: int, act: int) -> None:
        """Each learner's own decisions, where none is on its way."""
        detector = self.detector
        raised = (detector.alarms > 0) & (self.alarm[:, 0] == NEVER)
        self.alarm = np.where(raised[:, None], _pairs(act, detector.since - now), self.alarm)
        agreed = (detector.votes > 0) & (votes >= 0.5) & (self.restart[:, 0] == NEVER)
        self.restart = np.where(agreed[:, None], _pairs(act, -detector.verdict()), self.restart)

    def follow_unconfirmed(self, now: int) -> bool:
        """Whether a decision is followed that own errors do not confirm: if there were few of them lately."""
        if (now - self.unconfirmed < C.unconfirmed_rounds).sum() >= C.unconfirmed_most:
            return False
        self.unconfirmed = np.append(self.unconfirmed, float(now))[-C.unconfirmed_most :]
        return True

    def reset_young(self, n: int, stats: Stats, experts: Experts) -> None:
        """After an alarm the young memory is of the last n samples."""
        self.teach(self.all[YOUNG], self.last(n), stats)
        self.detector.reset_level()
        experts.doubt()

    def replace_long(self, returns: bool, experts: Experts) -> int:
        """The young or the past memory takes the long one's place; how many samples the young one has."""
        self.restarts += 1
        long, young, past = self.all
        if returns:
            self.all = [past, young, long]
            experts.follow({"long memory": "past memory", "past memory": "long memory"})
        else:
            self.all = [young.copy(math.inf), young, long if long.samples >= C.trial_rounds else past]
            experts.follow({"long memory": "young memory", "past memory": "long memory"})
        self.detector.reset_comparison()
        return young.samples

    def last(self, n: int) -> list[Sample]:
        """The last n samples, where as many are kept."""
        return list(self.recent)[-n:] if n > 0 else []

    def reweigh(self, weight: Array, learners: int) -> None:
        """Edges have other weights, or the network another size, from now on."""
        for memory in self.all:
            memory.of = learners
            memory.reweigh(weight)

    def grow(self, d: int) -> None:
        """Samples have d inputs from now on, the new ones last."""
        kept = padded(self.recent, d)
        self.recent.clear()
        self.recent.extend(kept)
        for memory in self.all:
            memory.widen()


def pending(decisions: Array, rounds: int, diameter: int) -> Array:
    """The decisions that may still be acted on, by their rounds. (J, 2)"""
    at = decisions[:, :1]
    return np.where((at >= rounds) & (at <= rounds + diameter), decisions, NEVER)


def _pairs(first: float, second: Array) -> Array:
    return np.stack([np.full(len(second), float(first)), np.asarray(second, np.float64)], -1)

"""Which neighbours' parameters a learner uses: those that err little on its own last samples.

The standard is what the learner's own samples alone predict, which no message can change, and where others do
better than that, what most of them reach, or at first the best of them. Nothing is sent for it, and as only
the last samples count, a neighbour that errs no longer is soon used again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...base.types import Array, Float
from .constants import C

if TYPE_CHECKING:
    from .rows import AutoRows

#: A neighbour's parameters may predict, at the last input, targets so many widths from the centre.
REACH = 100.0


def believes(rows: AutoRows, who: list[int], sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
    """Whether learners use the messages of n neighbours each, by their parameters and terms. (R, n)"""
    judge, memories = rows.joint.own.judge, rows.memories
    alone = judge.alone(who)
    used = judge.believes(who, sent["theta"], rows.joint.outgoing[who], alone)
    if memories.outgoing is None:
        return used
    own = memories.outgoing[who, 0]
    other = sent["turn"] != memories.turn  # terms of another memory, which have no effect here
    right = judge.believes_terms(memories.seen, who, sent["terms"][:, :, 0], own, alone)
    return np.asarray(used & (other | right))


class Seen(NamedTuple):
    """The last samples as the terms of memories, in their order."""

    terms: Array  # (J, n, K)
    targets: Array  # (J, n) scaled

    @classmethod
    def nothing(cls, J: int, K: int) -> Seen:
        return cls(np.zeros((J, 0, K)), np.zeros((J, 0)))

    def and_one(self, terms: Array, targets: Array) -> Seen:
        """One sample more (J, K), (J,); the oldest is dropped."""
        new = Seen(terms[:, None], targets[:, None])
        if not self.targets.size:  # of terms that were not known yet
            return new
        both = [np.concatenate(parts, 1) for parts in zip(self, new, strict=True)]
        return Seen(*(values[:, -C.judge_samples :] for values in both))


class Judge:
    """The last labelled samples of J learners, and the errors of their models that never listen."""

    def __init__(self, classifies: bool, dtype: Float) -> None:
        self.classifies, self.dtype = classifies, dtype
        self.reset(0, 0)

    def reset(self, J: int, K: int) -> None:
        """Forget the samples: features mean something else from now on."""
        n = C.judge_samples
        self.z: Array = np.zeros((J, n, C.models, K), self.dtype)
        self.y, self.misses = np.zeros((J, n)), np.zeros((J, n, 2))
        self.count = 0
        self.since = np.zeros(J, int)  # the first sample from which each learner's models have learnt

    @property
    def is_settled(self) -> npt.NDArray[np.bool_]:
        """Who has learnt from enough samples to be like other honest learners. Booleans (J,)"""
        return np.asarray(self.count - self.since >= C.judge_settled)

    def clear(self) -> None:
        """Drop the samples."""
        self.reset(len(self.z), self.z.shape[-1])

    def note(self, z: Array, y: Array, alone: Array) -> None:
        """A sample's features (J, models, K), scaled target (J,) and scores of both ridges alone (J, 2)."""
        k = self.count % C.judge_samples
        self.z[:, k], self.y[:, k] = z, y
        self.misses[:, k] = self._misses(alone, y[:, None])
        self.count += 1

    def take(self, fresh: Judge, whose: npt.NDArray[np.bool_]) -> None:
        """These learners (J,) have started again: alone has the errors of `fresh` on their last samples."""
        n = min(fresh.count, self.count, C.judge_samples)
        rows, size = np.flatnonzero(whose), C.judge_samples
        there, here = (np.arange(one.count - n, one.count) % size for one in (fresh, self))
        self.misses[np.ix_(rows, here)] = fresh.misses[np.ix_(rows, there)]
        self.since = np.where(whose, self.count - fresh.count, self.since)

    def correct_last(self, row: int, targets: Array) -> tuple[Array, Array]:
        """The last targets of learner `row` were these (n,). Returns features and how much more they are."""
        n = min(len(targets), self.count, C.judge_samples)
        at = np.arange(self.count - n, self.count) % C.judge_samples
        more = targets[len(targets) - n :] - self.y[row, at]
        self.y[row, at] += more
        return self.z[row, at], more

    def _misses(self, scores: Array, y: Array) -> Array:
        """Squared errors of scores; of classes the logistic loss, which is large for one too sure."""
        scores = np.asarray(scores, np.float64)
        return np.logaddexp(0, -y * scores) if self.classifies else np.asarray((scores - y) ** 2)

    def believes(self, who: list[int], theta: Array, own: Array, alone: Array) -> npt.NDArray[np.bool_]:
        """Whether learners, with parameters `own` (R, models, K), use those of n neighbours each.

        (R, n, models, K) and errors of `alone` (R, m, 1) -> (R, n)
        """
        m = min(self.count, C.judge_samples)
        if not m:
            return np.ones(theta.shape[:2], bool)
        every = np.concatenate([theta, own[:, None]], 1).astype(self.dtype)
        scores = _scores(self.z[who, :m], every) / C.models  # (R, m, n + 1)
        near = np.abs(scores[:, (self.count - 1) % C.judge_samples, :-1]) <= REACH
        if m < C.judge_fewest:
            return np.asarray(near)
        misses = self._misses(scores, self.y[who, :m, None])
        good, settled = ~_exceed(misses[..., :-1], C.judge_most * alone), self.is_settled[who, None]
        if settled.any():
            good &= ~(settled & self._mislead(scores, misses, alone))
        if not settled.all():
            good &= settled | ~_differ(misses, alone)
        return np.asarray(near & good)

    def _mislead(self, scores: Array, misses: Array, alone: Array) -> npt.NDArray[np.bool_]:
        """Which neighbours err more than most: by more than chance, or since they predict something else.

        Scores and errors (R, m, n + 1) of all, the learner last, and errors of alone (R, m, 1). -> (R, n)
        """
        errors, half = misses.mean(1), misses.shape[2] // 2
        common = np.sort(errors, -1)[:, [half]]
        most = np.maximum(C.judge_common * common, alone.mean(1))
        err = errors[:, :-1] > most + C.judge_least
        if not err.any():
            return np.asarray(err)
        usual = np.sort(scores, -1)[..., [half]]
        apart = ((scores[..., :-1] - usual).astype(np.float64) ** 2).mean(1)
        apart = C.own_classes * apart if self.classifies else apart  # in errors
        middle = np.argsort(errors, -1, kind="stable")[:, half]  # who errs as most do
        each = C.judge_common * np.take_along_axis(misses, middle[:, None, None], 2)  # (R, m, 1)
        each = np.where((C.judge_common * common >= most)[:, None], each, alone)
        return np.asarray(err & ((apart > C.judge_apart * common) | _exceed(misses[..., :-1], each)))

    def alone(self, who: list[int]) -> Array:
        """Errors of the better ridge on the last samples. (R, m, 1)"""
        misses = self.misses[who, : min(self.count, C.judge_samples)]
        if not misses.size:
            return np.zeros((len(who), 0, 1))
        better = misses.mean(1).argmin(-1)
        return np.asarray(misses[np.arange(len(who)), :, better][..., None])

    def believes_terms(self, seen: Seen, who: list[int], terms: Array, own: Array, alone: Array) -> Array:
        """The same by the coefficients of a memory (R, n, K), own (R, K), on its last samples.

        These may be far worse than parameters where all of them are: our own are the standard, or alone.
        """
        z, y = seen.terms[who], seen.targets[who]
        if min(self.count, y.shape[1]) < C.judge_fewest:
            return np.ones(terms.shape[:2], bool)
        every = np.concatenate([terms, own[:, None]], 1)
        errors = self._misses(_scores(z, every), y[..., None]).mean(1)
        most = np.maximum(errors[:, -1:], alone.mean(1))
        return np.asarray(errors[:, :-1] <= C.judge_terms * most + C.judge_least)

    def grow(self, more: int) -> None:
        """There are more features than before, which were 0 so far."""
        self.z = np.pad(self.z, ((0, 0), (0, 0), (0, 0), (0, more)))

    def state(self) -> dict[str, Any]:
        """The samples, by name; none of them where there are none."""
        m = min(self.count, C.judge_samples)
        kept = {name: getattr(self, name)[:, :m].copy() for name in ("z", "y", "misses")}
        return {"count": self.count, "since": self.since, **(kept if m else dict.fromkeys(kept))}

    def restore(self, state: Mapping[str, Any], J: int, K: int) -> None:
        """Inverse of `state`."""
        self.reset(J, K)
        self.count, self.since = state["count"], state["since"]
        m = min(self.count, C.judge_samples)
        if m:
            self.z[:, :m], self.y[:, :m], self.misses[:, :m] = state["z"], state["y"], state["misses"]


def _scores(z: Array, theta: Array) -> Array:
    """What each of n parameters predicts for each of m samples. (R, m, ...), (R, n, ...) -> (R, m, n)"""
    flat = [values.reshape(*values.shape[:2], -1) for values in (z, theta)]
    return np.asarray(np.matmul(flat[0], flat[1].swapaxes(-1, -2)))


def _differ(misses: Array, alone: Array) -> npt.NDArray[np.bool_]:
    """Which neighbours have clearly another function than the best of them, by early errors. (R, n)

    Errors (R, m, n + 1), the learner's own last, and of alone (R, m, 1). Alone knows little yet, so that it
    is no standard for those who know as little; but neighbours with the learner's own function soon err far
    less than others. One that seems better than the learner itself sets no standard: they are its samples.
    Of many neighbours the best one is so by chance: the standard is the last of the best quarter.
    """
    errors = misses.mean(1)
    errors = np.where(np.isnan(errors), np.inf, errors)
    n = errors.shape[1] - 1
    best = np.argsort(errors[:, :-1], -1, kind="stable")[:, [(n - 1) // C.judge_few]]
    own = np.array([[n]])
    best = np.where(np.take_along_axis(errors, best, 1) < errors[:, -1:], own, best)
    most = C.judge_best * np.take_along_axis(errors, best, 1)
    worse = errors[:, :-1] > np.maximum(most, C.judge_worth * alone.mean(1))
    if not worse.any():
        return np.asarray(worse)
    return np.asarray(worse & _exceed(misses[..., :-1], np.take_along_axis(misses, best[:, None], 2)))


def _exceed(misses: Array, most: Array) -> npt.NDArray[np.bool_]:
    """Whether mean errors are larger than allowed, by more than chance. (R, m, n), (R, m, 1) -> (R, n)"""
    more = misses - most
    mean = more.mean(1)
    larger = mean > C.judge_least
    if not larger.any():
        return np.asarray(larger)
    chance = more.std(1) / np.sqrt(more.shape[1])
    return np.asarray(mean > _clear(misses.shape[2]) * chance + C.judge_least)


def _clear(n: int) -> float:
    """Standard errors that are more than chance where n neighbours are judged.

    The largest of n chance errors grows like sqrt(log n): of many neighbours no more are refused by chance
    than of few.
    """
    return C.judge_clear * math.sqrt(max(1.0, math.log(n) / math.log(C.judge_few)))

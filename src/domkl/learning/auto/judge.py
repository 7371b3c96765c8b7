"""Which neighbours' parameters a learner uses: those that err little on its own last samples.

The standard is what the learner's own samples alone predict, which no message can change, and where others do
better than that, what most of them reach. Nothing is sent for it, and as only the last samples count, a
neighbour that errs no longer is soon used again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...base.types import Array, Float
from .constants import C

if TYPE_CHECKING:
    from .rows import AutoRows

Sample = tuple[Array, Array]  # of J learners

#: A neighbour's parameters may predict, at the last input, targets so many widths from the centre.
REACH = 100.0


def believes(rows: AutoRows, row: int, sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
    """Whether learner `row` uses its neighbours' messages, by their parameters and by their terms. (n,)"""
    judge, memories = rows.joint.own.judge, rows.memories
    used = judge.believes(row, sent["theta"], rows.joint.outgoing[row])
    if memories.outgoing is None:
        return used
    own, seen = memories.outgoing[row, 0], list(memories.seen)
    other = sent["turn"] != memories.turn  # terms of another memory, which have no effect here
    return np.asarray(used & (other | judge.believes_terms(seen, row, sent["terms"][:, 0], own)))


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

    def clear(self) -> None:
        """Drop the samples."""
        self.reset(len(self.z), self.z.shape[-1])

    def note(self, z: Array, y: Array, alone: Array) -> None:
        """A sample's features (J, models, K), scaled target (J,) and scores of both ridges alone (J, 2)."""
        k = self.count % C.judge_samples
        self.z[:, k], self.y[:, k] = z, y
        self.misses[:, k] = self._misses(alone, y[:, None])
        self.count += 1

    def _misses(self, scores: Array, y: Array) -> Array:
        """Squared errors of scores; of classes the logistic loss, which is large for one too sure."""
        scores = np.asarray(scores, np.float64)
        return np.logaddexp(0, -y * scores) if self.classifies else np.asarray((scores - y) ** 2)

    def believes(self, row: int, theta: Array, own: Array) -> npt.NDArray[np.bool_]:
        """Whether learner `row`, with parameters `own` (models, K), uses those of each of its neighbours.

        (n, models, K) -> (n,)
        """
        m = min(self.count, C.judge_samples)
        if not m:
            return np.ones(len(theta), bool)
        z, every = self.z[row, :m].reshape(m, -1), np.concatenate([theta, own[None]])
        scores = z @ every.reshape(len(every), -1).T.astype(self.dtype) / C.models  # (m, n + 1)
        near = np.abs(scores[(self.count - 1) % C.judge_samples, :-1]) <= REACH
        if m < C.judge_fewest:
            return np.asarray(near)
        errors = self._misses(scores, self.y[row, :m, None]).mean(0)
        alone = self.misses[row, :m].mean(0).min()
        most = C.judge_most * alone
        if self.count >= C.judge_settled:  # before that, honest learners differ by what they have seen
            common = np.sort(errors)[len(errors) // 2]
            most = min(most, max(C.judge_common * common, alone))
        return np.asarray(near & (errors[:-1] <= most + C.judge_least))

    def believes_terms(self, samples: Sequence[Sample], row: int, terms: Array, own: Array) -> Array:
        """The same by the coefficients of a memory (n, K), whose samples are terms (J, K) and targets (J,).

        These may be far worse than parameters where all of them are: our own are the standard, or alone.
        """
        m = min(self.count, C.judge_samples)
        if m < C.judge_fewest or len(samples) < C.judge_fewest:
            return np.ones(len(terms), bool)
        z, y = (np.stack([one[row] for one in values]) for values in zip(*samples, strict=True))
        errors = self._misses(z @ np.concatenate([terms, own[None]]).T, y[:, None]).mean(0)
        most = max(errors[-1], self.misses[row, :m].mean(0).min())
        return np.asarray(errors[:-1] <= C.judge_terms * most + C.judge_least)

    def grow(self, more: int) -> None:
        """There are more features than before, which were 0 so far."""
        self.z = np.pad(self.z, ((0, 0), (0, 0), (0, 0), (0, more)))

    def state(self) -> dict[str, Any]:
        """The samples, by name; none of them where there are none."""
        m = min(self.count, C.judge_samples)
        kept = {name: getattr(self, name)[:, :m].copy() for name in ("z", "y", "misses")}
        return {"count": self.count, **(kept if m else dict.fromkeys(kept))}

    def restore(self, state: Mapping[str, Any], J: int, K: int) -> None:
        """Inverse of `state`."""
        self.reset(J, K)
        self.count = state["count"]
        m = min(self.count, C.judge_samples)
        if m:
            self.z[:, :m], self.y[:, :m], self.misses[:, :m] = state["z"], state["y"], state["misses"]

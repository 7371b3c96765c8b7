"""Errors of all learners of a simulation over its last rounds, computed only when somebody looks."""

from __future__ import annotations

import numpy as np

from ..base.types import Array
from .errors import MOST, ROLLING


class Rolling:
    """The last rounds of J learners: predictions, labels, and what own samples only predicted.

    Parameters
    ----------
    keep : rounds that can be asked for.
    delay : rounds after which a label is known, which the simple guesses have to wait for, too.
    """

    def __init__(self, J: int, keep: int, delay: int) -> None:
        self.done, self._delay = 0, delay
        self._keep = max(keep, ROLLING) + delay + 1
        self._parts, self._held = [np.empty((3, J, 0))], 0
        self._dropped = np.zeros(J)  # the sum of the labels that are kept no more

    def add(self, y_hat: Array, y: Array, alone: Array) -> None:
        """Some more rounds. (J, B) each"""
        self._parts.append(np.array([y_hat, y, alone]))
        self.done += y.shape[1]
        self._held += y.shape[1]
        if self._held > 3 * self._keep:
            self._join()

    def _join(self) -> Array:
        """All that is kept, in one piece. (3, J, n)"""
        if len(self._parts) > 1:
            held = np.concatenate(self._parts, axis=2)
            extra = max(0, held.shape[2] - self._keep)
            self._dropped += held[1, :, :extra].sum(1)
            self._parts, self._held = [held[:, :, extra:].copy()], held.shape[2] - extra
        return self._parts[0]

    def last(self, j: int, most: int) -> tuple[range, Array]:
        """The last rounds of a learner, at most those that are kept; predictions and labels. (2, n)"""
        held = self._join()[:2, j]
        found = held[:, max(0, held.shape[1] - most) :]
        return range(self.done - found.shape[1], self.done), found

    def squares(self) -> Array | None:
        """Mean squared errors over the last ROLLING rounds, or all since a label was known. (4, J)

        They are those of the learners, with own samples only, of no change, and of the mean so far. None at
        first: before a label is known, all guesses are of nothing.
        """
        start, held = max(self._delay + 1, self.done - ROLLING), self._join()
        if start >= self.done:
            return None
        first = self.done - held.shape[2]  # the round of the first column
        judged = slice(start - first, None)
        known = slice(start - self._delay - 1 - first, self.done - self._delay - 1 - first)  # the last label
        y_hat, y, alone = held[:, :, judged]
        sums = np.cumsum(held[1, :, : known.stop], axis=1)[:, known.start :] + self._dropped[:, None]
        means = sums / np.arange(start - self._delay, self.done - self._delay)
        misses = np.minimum(np.abs(np.stack([y_hat, alone, held[1, :, known], means]) - y), MOST)
        return np.asarray((misses * misses).mean(-1))

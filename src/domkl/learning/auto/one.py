"""One row of `Learners` that knows statistics of others as they come."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from ...base.types import Array
from . import message
from .features import Stats, pooled
from .learners import Learners
from .message import HEADER

#: How many learners' worth a rank of a fixed scale has.
FOR_GOOD = 2.0**30


class One(Learners):
    """A single learner of a network: it knows statistics of others as they come."""

    def __init__(self, index: int, **options: Any) -> None:
        super().__init__(1, **options)
        self.index = index
        self.table: dict[int, dict[int, Array]] = {}  # statistics for the scale of a round, by learner
        self.whole = np.zeros(0)  # the statistics of today's scale, as they are sent
        self.count = 0  # of how many learners they are

    def pooled(self, round: int) -> Stats:
        rows = self.table.get(round, {})
        alike = [rows[index] for index in sorted(rows) if len(rows[index]) == len(rows[self.index])]
        self.table = {t: kept for t, kept in self.table.items() if t > round}
        one_by_one = [message.unpacked(row, self.d + 1) for row in alike]
        together = Stats(*(np.concatenate(values) for values in zip(*one_by_one, strict=True)))
        stats = pooled(together, np.ones((1, len(alike)), bool))
        self.whole, self.count = message.packed(stats), len(alike)
        return stats

    def knows(self, round: int) -> bool:
        return self.index in self.table.get(round, {})

    @property
    def scale(self) -> int:
        """A number of today's common scale, the same at all who have it; 0 for none."""
        return scale_number(self.whole) if self.shared else 0

    @property
    def rank(self) -> float:
        """Whose scale stays where two differ: one that is fixed, one that is of more learners."""
        return self.count + FOR_GOOD * self.warm.over if self.shared else 0.0

    def statistics_told(self) -> list[Array]:
        """This round's statistics of our own, as they are sent; they count for us too."""
        rows = []
        for round, stats in self.fresh.items():
            self.table.setdefault(round, {})[self.index] = message.packed(stats)
            rows.append(message.headed(round, self.index, 1, message.packed(stats), self.d + 1))
        return rows

    def scale_told(self) -> Array:
        """Today's scale, for a neighbour that has another."""
        return message.headed(
            self.rounds,
            message.FIXED if self.warm.over else message.WHOLE,
            self.count,
            self.whole,
            self.d + 1,
        )

    def take(self, row: Array, theta: Array) -> None:
        """Go on with another's scale, told like ours, and its theta (1, MODELS, K)."""
        self.count, self.whole = int(row[3]), row[HEADER:].copy()
        self.take_scale(message.unpacked(self.whole, self.d + 1), theta, row[1] == message.FIXED)


def scale_number(whole: Array) -> int:
    """Of a scale's statistics, as they are sent."""
    return 1 + zlib.crc32(whole.tobytes())

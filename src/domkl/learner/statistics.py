"""Statistics of all learners' first samples, as one device receives them, for scales to come."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.types import Array
from ..exchange.message import Update
from ..exchange.network import HEADER
from ..exchange.topology import order
from ..learning.auto import AutoRows, C
from ..learning.auto import message as parts
from ..learning.auto.features import Stats, distance
from ..learning.auto.scale import scale_number
from ..learning.model import Statistics
from .scales import headed, name_number

#: Whose statistics they are that make a whole scale: one that may still change, or one that is fixed.
WHOLE, FIXED = -1, -2
#: How many times as wide as another a scale is that counts as nearly the same.
WIDER = 1.5


class StatisticsTable:
    """Rows of statistics for the scale of a round, by learner.

    What a neighbour sends of itself counts, whatever others send of it. Of a learner further away one may
    receive different statistics; those nearer to one's own samples count, as a lie is seldom near them.
    """

    def __init__(self, name: Hashable) -> None:
        self.name = name  # of this learner
        self.rows: dict[int, dict[Hashable, Array]] = {}
        self.first_hand: set[tuple[int, Hashable]] = set()  # which of them came from that learner itself
        self.disputed: set[tuple[int, Hashable]] = set()  # which of them were passed on a second time

    def add_own(self, round: int, row: Array) -> None:
        self.rows.setdefault(round, {})[self.name] = row

    def receive(
        self, model: AutoRows, members: Sequence[Hashable], received: Mapping[Hashable, Update]
    ) -> list[Array]:
        """Keep what is for a scale to come; returns what has to be passed on, as all need it."""
        names = {name_number(name): name for name in members}
        found = [
            (names.get(int(row[1])), sender, row)
            for sender, update in received.items()
            for row in statistics_in(update, model.d + 1)
        ]
        found.sort(key=lambda each: each[0] != each[1])  # first-hand ones first
        others = [(name, row, name == sender) for name, sender, row in found if name not in (None, self.name)]
        return [row for name, row, is_first_hand in others if self._keep(model, name, row, is_first_hand)]

    def _keep(self, model: AutoRows, name: Hashable, row: Array, is_first_hand: bool) -> bool:
        """Keep one learner's statistics, if no better ones are known; returns whether to pass them on."""
        round, warm = int(row[0]), model.warm
        is_common, which = warm.is_common(round), (round, name)
        soon = 0 <= round - model.rounds <= model.diameter and warm.may_be_due(round)
        if not soon or not (is_common or is_first_hand) or which in self.first_hand:
            return False
        known = self.rows.get(round, {})
        if name in known and not is_first_hand and not _is_nearer(model, row[HEADER:], known[name]):
            return False
        passes_on = is_common and which not in self.disputed  # nobody makes us pass on more than two
        if name in known:
            self.disputed.add(which)
        if is_first_hand:
            self.first_hand.add(which)
        self.rows[round] = known | {name: row[HEADER:]}
        return passes_on

    def take_due(self, model: AutoRows) -> dict[int, Statistics]:
        """Statistics for the scale of this round or, where all can know it by now, of the next."""
        due = [t for t in self.rows if t <= model.rounds + (1 if model.warm.is_common(t) else 0)]
        found = {t: self._stacked(t, self.rows.pop(t), model) for t in due}
        self.first_hand = {which for which in self.first_hand if which[0] in self.rows}
        self.disputed = {which for which in self.disputed if which[0] in self.rows}
        return {t: stats for t, stats in found.items() if stats is not None}

    def _stacked(self, round: int, rows: Mapping[Hashable, Array], model: AutoRows) -> Statistics | None:
        """Those that can be pooled with our own; others, of fewer samples or missing, are without values."""
        own, columns = rows.get(self.name), model.d + 1
        if own is None:
            return None
        missing = max(model.learners - len(rows), 0) if model.warm.is_common(round) else 0
        found = [rows[name] for name in sorted(rows, key=order)] + [np.zeros_like(own)] * missing
        alike = [row if len(row) == len(own) else np.zeros_like(own) for row in found]
        each = [parts.unpacked(row, columns) for row in alike]
        stacked = Stats(*(np.concatenate(values) for values in zip(*each, strict=True)))
        return Statistics(stacked, np.arange(len(each))[None] < len(rows))

    def state(self, columns: int) -> list[Any]:
        """The rows, each with its round, its learner, and in its head whether it is first-hand."""
        return [
            [t, name, headed(t, int((t, name) in self.first_hand), 1, row, columns)]
            for t, found in self.rows.items()
            for name, row in found.items()
        ]

    def restore(self, state: Sequence[Any]) -> None:
        """Inverse of `state`."""
        self.rows, self.disputed = {}, set()
        for t, name, row in state:
            self.rows.setdefault(t, {})[name] = row[HEADER:]
        self.first_hand = {(t, name) for t, name, row in state if row[1]}


def statistics_in(update: Update, columns: int) -> Iterator[Array]:
    """The statistics in an update, one by one; what cannot be such ends the list."""
    left = np.zeros(0) if update.more is None else update.more
    while len(left) >= HEADER and left[1] >= FIXED and 2 <= left[2] <= C.quantile_steps + 1:
        end = HEADER + (parts.OTHERS + int(left[2])) * columns
        if len(left) < end:
            break
        yield left[:end]
        left = left[end:]


def scales_in(
    updates: Sequence[Update], heads: Sequence[tuple[float, int]], columns: int
) -> list[tuple[Array, list[Update]]]:
    """Scales that updates bring, each with who brings it, most first; heads are their ranks and numbers.

    A number is soon forged, so only those who bring the very same statistics count as having it.
    """
    brought: dict[bytes, tuple[Array, list[Update]]] = {}
    for update, (rank, number) in zip(updates, heads, strict=True):
        wholes = [row for row in statistics_in(update, columns) if row[1] < 0]
        own = [row.copy() for row in wholes if row[3] + parts.FIXED_RANK * (row[1] == FIXED) == rank]
        for whole, row in {row[HEADER:].tobytes(): row for row in own}.items():
            if scale_number(row[HEADER:]) == number:
                brought.setdefault(whole, (row, []))[1].append(update)
    return sorted(brought.values(), key=lambda one: len(one[1]), reverse=True)


def _is_nearer(model: AutoRows, new: Array, old: Array) -> bool:
    """Whether statistics are more like those of our own samples than others are."""
    if not model.warm.samples or np.array_equal(new, old):
        return False
    own = model.warm.statistics()
    apart = [distance(parts.unpacked(row, model.d + 1), own) for row in (new, old)]
    return apart[0] < apart[1]


def is_alike(stats: Stats, other: Stats) -> bool:
    """Whether two scales are nearly the same: as those of most of the same samples are. (1, d + 1) each"""
    both = stats, other
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        spans = [one.high / 2 - one.low / 2 for one in both]
        pairs = spans, [one.sd for one in both]
        near = [np.maximum(a / b, b / a) <= WIDER for a, b in pairs]
        places = [np.concatenate([one.mean[:, None], _quartiles(one)], 1) / 2 for one in both]
        in_place = (np.abs(places[0] - places[1]) <= np.minimum(*spans) / 2).all(1)
    alike = in_place & np.all(near, 0)
    return bool((alike | ((spans[0] == 0) & (spans[1] == 0))).all())


def _quartiles(stats: Stats) -> Array:
    """Straight between the quantiles, however many there are. (1, d) -> (1, 5, d)"""
    last = stats.quantiles.shape[1] - 1
    place = np.linspace(0, last, 5)
    below = place.astype(int)
    part = (place - below)[:, None]
    above = np.minimum(below + 1, last)
    return np.asarray(stats.quantiles[:, below] * (1 - part) + stats.quantiles[:, above] * part)

"""What a message of the learner without settings holds besides parameters, and what of it can be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...base.arrays import clip
from ...base.errors import PeerError
from ...base.types import Array
from ..model import Part
from .change import EXPERTS
from .constants import C
from .features import Stats
from .memories import pending

if TYPE_CHECKING:
    from .rows import AutoRows

#: The parts besides theta and terms.
SMALL_PARTS = (
    Part("low", (), "least"),  # range of the targets
    Part("high", (), "most"),
    Part("errors", (EXPERTS,), "mix"),  # of the change detector
    Part("surplus", (), "mix"),
    Part("votes", (), "share"),  # 1 where another memory is clearly better than the long one
    Part("alarm", (2,), "first"),  # in which round to reset the young memory, and since when errors surge
    Part("restart", (2,), "first"),  # in which round to replace the long memory, and the verdict, times -1
    Part("scale", (), "own"),  # a number of the sender's common scale, 0 for none
    Part("rank", (), "own"),  # of that scale
    Part("turn", (), "own"),  # which of its memories the terms are of
)
#: Numbers of a message besides parameters and statistics; one is the sender's degree.
SCALARS = sum(part.size for part in SMALL_PARTS) + 1
#: Rows of statistics besides quantiles.
OTHERS = 5
#: The largest coefficient that is sent; also how far from the centre, in widths, a label counts at most.
LARGEST = 1e8
#: The most learners whose statistics make a scale.
MOST_COUNT = 2**16
#: The least and the largest value of parts of a message, as they are sent and accepted.
RANGES = {"errors": (0.0, LARGEST**2), "surplus": (-LARGEST, LARGEST), "votes": (0.0, 1.0)}
#: How far from the centre, in widths, the range of the targets may reach where the scale is common.
WIDEST = 1e4
#: What a scale that is fixed has in rank before one that may still change.
FIXED_RANK = 2.0**30


def interpret(rows: AutoRows, message: Mapping[str, Array], own: Mapping[str, Array]) -> dict[str, Array]:
    """One neighbour's message as far as it means the same here; else the own values, which are neutral."""
    used = dict(message)
    if rows.lockstep:
        for name in ("alarm", "restart"):
            used[name] = pending(message[name], rows.rounds, rows.diameter)
    else:  # its rounds are not ours
        used |= {"alarm": own["alarm"], "restart": own["restart"]}
    used |= within_reach(rows, message)
    same = own["scale"][0] == message["scale"][0] != 0
    if not same:
        used["theta"] = own["theta"]
    if rows.shared and not same:
        used |= {"low": own["low"], "high": own["high"], "votes": np.zeros_like(own["votes"])}
    if not same or message["turn"][0] != own["turn"][0]:
        used |= {name: own[name] for name in ("terms", "errors", "surplus") if name in own}
    return used


def within_reach(rows: AutoRows, message: Mapping[str, Array]) -> dict[str, Array]:
    """The range of the targets, as far as it counts."""
    ends = {name: message[name] for name in ("low", "high")}
    if rows.scale is None or not rows.shared:
        return ends
    reach = WIDEST * rows.scale.width
    low, high = rows.scale.centre - reach, rows.scale.centre + reach
    return {name: clip(value, low, high) for name, value in ends.items()}


def check(message: Mapping[str, Array]) -> None:
    """Refuse numbers that no learner can have."""
    about = np.array([float(message[name][0]) for name in ("scale", "rank", "turn")])
    least, most = np.array([0.0, 0.0, -1.0]), np.array([2.0**32, FIXED_RANK + MOST_COUNT, 1.0])
    if not ((about == np.floor(about)) & (about >= least) & (about <= most)).all():
        raise PeerError(f"scale, rank and turn are {about}; expected {least} to {most}; fix that learner")
    for name, (low, high) in RANGES.items():
        values = message[name]
        if not ((values >= low) & (values <= high)).all():
            raise PeerError(f"{name} are {values}; expected {low:g} to {high:g}; fix that learner")


def within_ranges(message: dict[str, Array]) -> dict[str, Array]:
    """What leaves a learner, so that `check` accepts it whatever its labels are."""
    return message | {name: clip(message[name], *ends) for name, ends in RANGES.items()}


def check_statistics(stats: Stats) -> None:
    """Refuse statistics that no data can have."""
    low, high = stats.low, stats.high
    with np.errstate(over="ignore"):
        spans = high - low
        slack = 1e-9 * np.maximum(np.abs(low), np.abs(high))  # rounding, where a column is all but constant
        inside = [(v >= low - slack) & (v <= high + slack) for v in (stats.mean, *stats.quantiles[0])]
        sound = (stats.n >= 0) & (stats.n <= 2.0**53) & (low <= high) & (spans < np.inf)
        sound &= (stats.sd >= 0) & (stats.sd <= spans + slack)
        ordered = np.diff(stats.quantiles, axis=1) >= -slack[:, None]
    if not (sound.all() and ordered.all() and np.all(inside)):
        raise PeerError("a message holds statistics of no data; expected true ones; fix that learner")


def packed(stats: Stats) -> Array:
    """Statistics of one learner, (1, ...), in a row."""
    return np.concatenate([np.stack(stats[:OTHERS], 1), stats.quantiles], 1, dtype=np.float64).ravel()


def unpacked(row: Array, columns: int) -> Stats:
    """Inverse of `packed`, for as many columns. (1, ...)"""
    kinds = row.reshape(1, -1, columns)
    n, mean, sd, low, high = (kinds[:, k] for k in range(OTHERS))
    return Stats(n, mean, sd, low, high, kinds[:, OTHERS:])


def most_statistics(columns: int) -> int:
    """The most numbers that statistics of one learner have."""
    return (OTHERS + C.quantile_steps + 1) * columns

"""What a message of the learner without settings holds besides parameters, and what of it can be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

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
#: The largest coefficient or error, all of scaled targets, that can be sent; and the largest rank of a scale.
LARGEST, MOST_RANK = 1e8, 2.0**31
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
    same = own["scale"][0] == message["scale"][0] != 0
    if not same:
        used["theta"] = own["theta"]
    if not same or message["turn"][0] != own["turn"][0]:
        used |= {name: own[name] for name in ("terms", "errors", "surplus") if name in own}
    return used


def check(message: Mapping[str, Array]) -> None:
    """Refuse numbers that no learner can have."""
    about = np.array([float(message[name][0]) for name in ("scale", "rank", "turn")])
    least, most = np.array([0.0, 0.0, -1.0]), np.array([2.0**32, MOST_RANK, 1.0])
    if not ((about == np.floor(about)) & (about >= least) & (about <= most)).all():
        raise PeerError(f"scale, rank and turn are {about}; expected {least} to {most}; fix that learner")
    small = [message[name] for name in ("errors", "surplus", "votes")]
    largest = max(float(np.abs(values).max()) for values in small)
    if largest > LARGEST:
        raise PeerError(f"a message holds {largest:.3g}; expected at most {LARGEST:g}; fix that learner")


def check_statistics(stats: Stats) -> None:
    """Refuse statistics that no data can have."""
    with np.errstate(over="ignore"):
        spans = stats.high - stats.low
    good = (
        ((stats.n >= 0) & (stats.n <= 2.0**53) & (stats.sd >= 0)).all()
        and ((stats.low <= stats.high) & (spans < np.inf)).all()
        and (np.diff(stats.quantiles, axis=1) >= -1e-9 * np.maximum(1, spans)[:, None]).all()
    )
    if not good:
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

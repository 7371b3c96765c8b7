"""What travels beside theta: a round's few numbers, and statistics now and then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ...base.errors import PeerError
from ...base.types import Array, Float
from ...learner.member import Update
from .features import MODELS, STEPS, Stats
from .ties import Said
from .watch import EXPERTS

#: In front of statistics: for the scale of which round, whose, how many quantiles, of how many learners.
HEADER = 4
#: Whose statistics are that make a whole scale: one that may still change, or one that is fixed.
WHOLE, FIXED = -1, -2
#: Rows of statistics besides quantiles.
OTHERS = 5
#: The largest coefficient or error, all of scaled targets, that can be told; and the largest rank of a scale.
LARGEST, MOST_RANK = 1e8, 2.0**31


class Sender(NamedTuple):
    """What a message says of who sent it."""

    scale: int  # a number of its common scale, 0 for none
    rank: float  # of that scale
    turn: int  # whose turn it is of its memories
    deg: int


#: The numbers of a message besides coefficients and statistics.
NUMBERS = 2 + EXPERTS + 2 + 4 + len(Sender._fields)


def numbers(said: Said, sender: Sender) -> Array:
    """Of one learner's message, without coefficients and statistics. (NUMBERS,)"""
    own = np.array(sender, np.float64)
    columns = (said.low, said.high, said.errors, said.surplus, said.votes, said.alarm, said.restart, own)
    return np.concatenate([np.ravel(column) for column in columns])


def sender(update: Update) -> Sender:
    """Who sent an update."""
    scale, rank, turn, deg = _numbers(update)[-4:]
    return Sender(int(scale), float(rank), int(turn), max(1, int(deg)))


def said(update: Update, joint: int, dtype: Float) -> Said:
    """One row of what is said; `joint` coefficients are of the joint models, in their `dtype`."""
    theta = update.theta[0]
    sizes = [1, 1, EXPERTS, 1, 1, 2]
    low, high, errors, surplus, votes, alarm, restart = np.split(_numbers(update)[:-4], np.cumsum(sizes))
    rows = errors[None], surplus, votes, alarm[None], restart[None]
    models = theta[:joint].reshape(1, MODELS, -1).astype(dtype)
    return Said(models, theta[None, None, joint:], low, high, *rows)


def _numbers(update: Update) -> Array:
    assert update.losses is not None  # receive() has checked it
    return update.losses


def check(neighbour: object, update: Update, learners: int, columns: int) -> None:
    """Refuse an update whose numbers no learner of such a network can have."""
    about, least = _numbers(update)[-4:], np.array([0.0, 0.0, -1.0, 0.0])
    most = np.array([2.0**32, MOST_RANK, 1.0, learners - 1.0])
    if not ((about == np.floor(about)) & (about >= least) & (about <= most)).all():
        raise PeerError(
            f"{neighbour!r} says {about} of itself; expected {least} to {most}; mend that learner"
        )
    largest = max(np.abs(update.theta).max(), np.abs(_numbers(update)[2 : 2 + EXPERTS + 2]).max())
    if largest > LARGEST:
        raise PeerError(f"{neighbour!r} sent {largest:.3g}; expected at most {LARGEST:g}; mend that learner")
    read = 0
    for row in rows([update], learners, columns):
        _check_row(neighbour, row, learners, columns)
        read += len(row)
    if read != (0 if update.more is None else len(update.more)):
        raise PeerError(f"{neighbour!r} sent broken statistics; expected whole ones; mend that learner")


def _check_row(neighbour: object, row: Array, learners: int, columns: int) -> None:
    head, stats = row[:HEADER], unpacked(row[HEADER:], columns)
    with np.errstate(over="ignore"):
        spans = stats.high - stats.low
    good = (
        (head == np.floor(head)).all()
        and 1 <= head[3] <= learners
        and ((stats.n >= 0) & (stats.n <= 2.0**53) & (stats.sd >= 0)).all()
        and ((stats.low <= stats.high) & (spans < np.inf)).all()
        and (np.diff(stats.quantiles, axis=1) >= -1e-9 * np.maximum(1, spans)[:, None]).all()
    )
    if not good:
        raise PeerError(f"{neighbour!r} sent statistics of no data; expected true ones; mend that learner")


def packed(stats: Stats) -> Array:
    """Of one learner, (1, ...), in a row."""
    return np.concatenate([np.stack(stats[:OTHERS], 1), stats.quantiles], 1, dtype=np.float64).ravel()


def unpacked(row: Array, columns: int) -> Stats:
    """The same again. (1, ...)"""
    kinds = row.reshape(1, -1, columns)
    n, mean, sd, low, high = (kinds[:, k] for k in range(OTHERS))
    return Stats(n, mean, sd, low, high, kinds[:, OTHERS:])


def headed(round: int, whose: int, count: int, row: Array, columns: int) -> Array:
    """Statistics as they are sent."""
    return np.concatenate([[round, whose, len(row) // columns - OTHERS, count], row])


def rows(updates: Iterable[Update], learners: int, columns: int) -> Iterator[Array]:
    """The statistics in updates, one by one; what cannot be such ends an update's list."""
    for update in updates:
        left = np.zeros(0) if update.more is None else update.more
        while len(left) >= HEADER and FIXED <= left[1] < learners and 2 <= left[2] <= STEPS + 1:
            end = HEADER + (OTHERS + int(left[2])) * columns
            if len(left) < end:
                break
            yield left[:end]
            left = left[end:]

"""Rows in order of time: where a column says when, and only if it is when a row was measured."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
from numpy.typing import NDArray

from ..base.types import Array
from .columns import Columns
from .guess import Guess

#: The share of rows that are later than the row above in a log with some rows out of order.
NEARLY = 0.9
#: Names that say when a row was measured; others, such as "birth date", may be a property like any other.
_WHEN = re.compile(r"(time|date|datetime|date[ _-]?time|timestamp|time[ _-]?stamp|ts|when|day|index|_time)")


def by_time(
    times: Array | None, rows: NDArray[np.intp], given_by: Guess, columns: Columns
) -> tuple[NDArray[np.intp], Columns, tuple[str, ...]]:
    """The rows in order of time; the columns, without a time that was guessed and orders nothing; notes."""
    if times is None or not len(rows):
        return rows, columns, ()
    when = carried(times[rows])
    early = int((when[1:] < when[:-1]).sum())
    if not early:
        return rows, columns, ()
    name = columns.time[0]
    if not (
        given_by.time_is_given or len(columns.time) == 2 or _WHEN.fullmatch(name.lower()) or _nearly(when)
    ):
        note = (
            f"rows stay as they are: column {name!r} may not be their time; --time {name} puts them in order"
        )
        return rows, dataclasses.replace(columns, time=()), (note,)
    note = f"rows put in order of time by column {name!r}: {early} came before an earlier one"
    return rows[np.argsort(when, kind="stable")], columns, (note,)


def carried(times: Array) -> Array:
    """Times with the one above in place of a missing one, so that a row without stays where it is."""
    known = np.isfinite(times)
    last = np.maximum.accumulate(np.where(known, np.arange(len(times)), -1))
    return np.where(last >= 0, times[np.maximum(last, 0)], -np.inf)


def _nearly(when: Array) -> bool:
    """Whether rows are nearly in order, or the newest first."""
    before, after = when[:-1], when[1:]
    return bool((after >= before).mean() >= NEARLY or (after <= before).all())

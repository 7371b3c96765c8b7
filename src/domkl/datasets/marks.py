"""Numbers that stand for a missing cell, such as -200 or -999, and spoil a model: no file says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import cells

#: A mark is a whole number, at most that, and further below all others than so many times their range.
MOST, FAR = -9, 3.0
#: Columns that are named.
NAMED = 3


def mark_of(values: Sequence[float]) -> float | None:
    """The lowest number, if it comes again and again, far below all others.

    >>> mark_of([2.5, -200.0, 1.5, 3.0, -200.0]), mark_of([2.5, -200.0, 1.5, 100.0]), mark_of([-9.0, -9.0])
    (-200.0, None, None)
    """
    low = min(values, default=0.0)
    others = [v for v in values if v != low]
    if low > MOST or low != round(low) or len(others) < 2 or len(values) - len(others) < 2:
        return None
    nearest = min(others)
    return low if nearest - low > FAR * (max(others) - nearest) else None


def note(present: Mapping[str, Sequence[Any]], decimal: str) -> list[str]:
    """What to think of columns of numbers that have such a mark, in words."""
    found: dict[float, list[str]] = {}
    for name, some in present.items():
        values = [cells.number(cell, decimal) for cell in some if cells.is_number(cell, decimal)]
        if (mark := mark_of(values)) is not None:
            found.setdefault(mark, []).append(name)
    return [_words(mark, names) for mark, names in found.items()]


def _words(mark: float, names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    where = ", ".join(names[:NAMED]) + more
    return f"{mark:g} in {where} is far below all other values; if it means missing, add --na={mark:g}"

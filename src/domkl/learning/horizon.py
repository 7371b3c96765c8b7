"""Horizons: how far ahead to forecast, as people write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from ..base import checks
from ..base.errors import InputError

#: What `horizon=` may be: "1h", "24 rows", 24 (rows), a list of such, or a range "1h..24h".
HorizonLike: TypeAlias = "str | int | Sequence[str | int] | Horizon"
#: Seconds of a unit; rows count readings.
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
WORDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
    **dict.fromkeys(("row", "rows", ""), "rows"),
}
#: The most leads of one learner.
MOST = 336
_LEAD = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_EXPECTED = 'a time ("1h", "30 min"), a number of rows ("24 rows"), a range ("1h..24h") or a list of such'


class Horizon(NamedTuple):
    """Leads in rising order: seconds, or rows where `rows`.

    >>> horizon("1h..3h"), horizon(["2 rows", 6]).names
    (Horizon(leads=(3600.0, 7200.0, 10800.0), rows=False), ('2 rows', '6 rows'))
    >>> horizon("15min..1h by 15min").names
    ('15min', '30min', '45min', '1h')
    """

    leads: tuple[float, ...]
    rows: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Each lead as people write it."""
        return tuple(f"{lead:g} row{'s' * (lead != 1)}" if self.rows else _named(lead) for lead in self.leads)


def horizon(given: HorizonLike) -> Horizon:
    """The leads that `given` names."""
    if isinstance(given, Horizon):
        return given
    parts = [given] if isinstance(given, (str, int)) else list(given)
    texts = [text for part in parts for text in str(part).split(",")]
    found = [lead for text in texts for lead in _leads(text)]
    kinds = {unit == "rows" for _, unit in found}
    if len(kinds) != 1:
        raise InputError(f"horizon is {given!r}; expected all in times or all in rows; choose one of the two")
    leads = tuple(sorted({size * UNITS.get(unit, 1.0) for size, unit in found}))
    if len(leads) > MOST:
        raise InputError(
            f'horizon has {len(leads)} leads; expected {MOST} at most; add a step: "1h..24h by 6h"'
        )
    return Horizon(leads, kinds == {True})


def _leads(text: str) -> list[tuple[float, str]]:
    """One lead, or the leads of a range."""
    first, dots, rest = text.partition("..")
    last, _, step = rest.partition("by")
    start = _lead(first, text)
    if not dots:
        return [start]
    unit = start[1]
    size = UNITS.get(unit, 1.0)
    (end, end_unit), (by, by_unit) = _lead(last, text), _lead(step, text) if step else (1.0, unit)
    if {unit, end_unit, by_unit} > {"rows"}:
        raise _wrong(text)
    low, high, width = start[0], end * UNITS.get(end_unit, 1.0) / size, by * UNITS.get(by_unit, 1.0) / size
    count = round((high - low) / width * 1e6) // 10**6 + 1
    if count < 1:
        raise InputError(f"horizon {text!r} ends before it begins; expected the nearer first; turn it round")
    if count > MOST:
        raise InputError(
            f'horizon {text!r} has {count:,} leads; expected {MOST} at most; add a step: "by 6h"'
        )
    return [(low + i * width, unit) for i in range(int(count))]


def _lead(text: str, whole: str) -> tuple[float, str]:
    found = _LEAD.fullmatch(text.lower())
    unit = WORDS.get(found[2]) if found else None
    if found is None or unit is None or not 0 < float(found[1]) <= checks.LARGEST:
        raise _wrong(whole)
    if unit == "rows" and float(found[1]) % 1:
        raise _wrong(whole)
    return float(found[1]), unit


def _wrong(text: Any) -> InputError:
    return InputError(f"horizon is {checks.short(text)}; expected {_EXPECTED}; write one of these")


def _named(seconds: float) -> str:
    """Seconds in the largest unit of which they are a whole number; hours up to two days."""
    fits = [
        unit for unit, size in UNITS.items() if seconds % size == 0 and (unit not in "dw" or seconds > 172800)
    ]
    unit = fits[-1] if fits else "s"
    return f"{seconds / UNITS[unit]:g}{unit}"

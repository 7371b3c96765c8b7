"""One cell of a table as a number, a truth value or a time; the same on every machine."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta, timezone
from datetime import time as clock_time
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from ..base.checks import LARGEST

NAN = math.nan
#: Words for a missing cell, in lower case.
EMPTY = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "<na>", "nat", "#n/a"})
#: Beside numbers a missing cell; beside words a word, as in "rain", "snow", "none".
NONE = "none"
TRUE, FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})
#: Seconds in one unit of a time that is a number.
EPOCHS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
ORDERS = ("iso", "dmy", "mdy")
#: Numbers of seconds that are a time where a column's name says so: 1973 to 2100.
PLAUSIBLE = (1e8, 4.1e9)

_THOUSANDS = re.compile(r"[-+]?\d{1,3}(\.\d{3})+(,\d+)?")
_TIME = (
    r"(?:[T\s,]\s*(?P<H>\d{1,2})[:.](?P<M>\d{2})(?:[:.](?P<S>\d{2})(?:[.,](?P<f>\d+))?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?\s*(?P<zone>Z|z|UTC|GMT|[-+]\d{2}(?::?\d{2})?)?"
)
_YEAR_FIRST = re.compile(r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})(?:[-/.](?P<d>\d{1,2}))?" + _TIME)
_COMPACT = re.compile(
    r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})(?:[T\s](?P<H>\d{2})(?P<M>\d{2})(?P<S>\d{2})?"
    r"(?P<f>(?!))?(?P<half>(?!))?)?(?P<zone>Z|[-+]\d{2}(?::?\d{2})?)?"
)
_YEAR_LAST = re.compile(r"(?P<a>\d{1,2})[-/. ](?P<b>\d{1,2})[-/. ](?P<y>\d{4}|\d{2})" + _TIME)
_NAMED = re.compile(r"(?P<d>\d{1,2})[-/. ](?P<name>[A-Za-z]{3})[a-z]*[-/., ]+(?P<y>\d{4})" + _TIME)
_NAME_FIRST = re.compile(r"(?P<name>[A-Za-z]{3})[a-z]* (?P<d>\d{1,2}),? (?P<y>\d{4})" + _TIME)
_CLOCK = re.compile(r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2})(?:[.,]\d+)?)?")
_MONTHS = dict(zip("jan feb mar apr may jun jul aug sep oct nov dec".split(), range(1, 13), strict=True))  # noqa: SIM905
_START = datetime(1970, 1, 1)


class Moment(NamedTuple):
    """A time: seconds since 1970 in UTC, and what the clock on the wall showed."""

    seconds: float
    wall: datetime


def is_missing(cell: Any, na: frozenset[str] = frozenset(), *, words: bool = False) -> bool:
    """Whether a cell is empty, NaN, or a word for that; among other `words` "none" is one of them."""
    if cell is None or cell is NAN:
        return True
    if isinstance(cell, str):
        text = cell.strip()
        return (text.lower() in EMPTY and not (words and text.lower() == NONE)) or text in na
    if isinstance(cell, (float, np.generic, datetime, Decimal)) and cell != cell:  # NaN, NaT
        return True
    return bool(na) and word(cell) in na


def number(cell: Any, decimal: str = ".") -> float:
    """A cell that is not missing as a finite number; ValueError, TypeError or OverflowError if it is none.

    >>> number("2.5"), number("2,5", ","), number(True)
    (2.5, 2.5, 1.0)
    """
    if isinstance(cell, str):
        if "_" in cell:  # Python's float takes 1_000
            raise ValueError
        if decimal == ",":
            cell = _with_point(cell)
    elif isinstance(cell, (bytes, bytearray, datetime, date, np.datetime64, timedelta, np.timedelta64)):
        raise TypeError
    value = float(cell)
    if not -LARGEST <= value <= LARGEST:
        raise OverflowError
    return value


def has_thousands(text: str) -> bool:
    """Whether a number with a decimal comma has points between thousands."""
    return bool(_THOUSANDS.fullmatch(text.strip()))


def _with_point(text: str) -> str:
    """A number with a decimal comma as Python writes it; 1.234 in such a file may be a thousand."""
    if has_thousands(text):
        raise ValueError
    return text.replace(",", ".", 1)


def is_number(cell: Any, decimal: str = ".", finite: bool = True) -> bool:
    """Whether a cell is a number that can be used; or one of any size."""
    try:
        number(cell, decimal)
    except OverflowError:
        return not finite
    except (ValueError, TypeError):
        return False
    return True


def truth(cell: Any) -> float:
    """A cell as 0 or 1; ValueError if it is neither."""
    if isinstance(cell, str):
        word = cell.strip().lower()
        if word in TRUE or word == "1":
            return 1.0
        if word in FALSE or word == "0":
            return 0.0
    elif cell in (0, 1):
        return float(cell)
    raise ValueError


def moment(cell: Any, how: str = "iso") -> Moment:
    """A cell as a time, written as `how` says; ValueError if it is none.

    Times without a zone are taken as UTC. The wall clock is that of the zone they are written with.

    >>> moment("2012-10-02 09:00:00").wall.hour, moment("31/12/2004 18.00", "dmy").seconds
    (9, 1104516000.0)
    """
    try:
        if isinstance(cell, (datetime, date, np.datetime64)):
            return _of_object(cell)
        if how in EPOCHS:
            return _of_seconds(number(cell) * EPOCHS[how])
        text = cell.strip() if isinstance(cell, str) else str(cell)
        if "%" in how:
            return _of_wall(datetime.strptime(text, how))
        return _of_text(text, how)
    except (TypeError, OverflowError, AttributeError):
        raise ValueError from None


def _of_object(cell: Any) -> Moment:
    if isinstance(cell, np.datetime64):
        return _of_seconds(float(cell.astype("datetime64[us]").astype(np.int64)) * 1e-6)
    if not isinstance(cell, datetime):
        cell = datetime(cell.year, cell.month, cell.day)
    return _of_wall(cell)


def _of_wall(wall: datetime) -> Moment:
    zone = wall.utcoffset() or timedelta()
    wall = datetime(*wall.timetuple()[:6], wall.microsecond)
    return Moment((wall - zone - _START).total_seconds(), wall)


def _of_seconds(seconds: float) -> Moment:
    return Moment(seconds, _START + timedelta(seconds=seconds))


def _of_text(text: str, how: str) -> Moment:
    found = _YEAR_FIRST.fullmatch(text) or _COMPACT.fullmatch(text)
    if found:
        return _of_parts(found, int(found["m"]), int(found["d"] or 1))
    found = _NAMED.fullmatch(text) or _NAME_FIRST.fullmatch(text)
    if found:
        month = _MONTHS.get(found["name"].lower())
        if month is None:
            raise ValueError
        return _of_parts(found, month, int(found["d"]))
    found = _YEAR_LAST.fullmatch(text)
    if not found or how not in ("dmy", "mdy"):
        raise ValueError
    a, b = int(found["a"]), int(found["b"])
    return _of_parts(found, *((b, a) if how == "dmy" else (a, b)))


def _of_parts(found: re.Match[str], month: int, day: int) -> Moment:
    year = int(found["y"])
    if len(found["y"]) == 2:
        year += 2000 if year < 70 else 1900
    hour = int(found["H"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + (12 if found["half"][0] in "pP" else 0)
    micro = int((found["f"] or "0")[:6].ljust(6, "0"))
    wall = datetime(year, month, day, hour, int(found["M"] or 0), int(found["S"] or 0), micro)
    return _of_wall(wall.replace(tzinfo=_zone(found["zone"])))


def _zone(text: str | None) -> timezone | None:
    if not text or text[0] not in "+-":
        return None
    minutes = int(text[1:3]) * 60 + int(text[3:].lstrip(":") or 0)
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def clock(cell: Any) -> float:
    """A time of day as a share of the day; ValueError if it is none."""
    text = str(cell).strip()
    found = _CLOCK.fullmatch(text)
    if not found:
        raise ValueError
    hour, minute, second = (int(part or 0) for part in found.groups())
    if hour > 24 or minute > 59 or second > 60:
        raise ValueError
    return (hour * 3600 + minute * 60 + second) / 86400


def date_order(texts: list[str]) -> str | None:
    """How times are written: "iso", "dmy" or "mdy"; "" if it cannot be told, None if none is a time.

    >>> date_order(["31/12/2004", "01/02/2005"]), date_order(["01/02/2005"]), date_order(["Rome"])
    ('dmy', '', None)
    """
    last = [found for found in map(_YEAR_LAST.fullmatch, texts) if found]
    if not last:
        return "iso" if any(_is_time(text, "iso") for text in texts) else None
    if any(int(found["a"]) > 12 for found in last):
        return "dmy"
    if any(int(found["b"]) > 12 for found in last):
        return "mdy"
    # Points between day and month are written where the day comes first.
    return "dmy" if all(found[0].count(".") >= 2 and "/" not in found[0] for found in last) else ""


def _is_time(cell: Any, how: str) -> bool:
    try:
        moment(cell, how)
    except ValueError:
        return False
    return True


def is_time(cell: Any, how: str) -> bool:
    """Whether a cell is a time that is written as `how` says; "" is day or month first."""
    return _is_time(cell, how or "dmy") or (not how and _is_time(cell, "mdy"))


def is_clock(cell: Any) -> bool:
    """Whether a cell is a time of day."""
    try:
        clock(cell)
    except ValueError:
        return False
    return isinstance(cell, clock_time) or ":" in str(cell) or str(cell).count(".") == 2


def word(cell: Any) -> str:
    """A cell as a word: whole numbers and truth values as CSV files write them.

    >>> word(" Rome "), word(3.0), word(True)
    ('Rome', '3', 'true')
    """
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    try:
        return str(cell).lower() if isinstance(cell, bool) else str(cell)
    except ValueError:  # Python prints no whole number of more than 4300 digits
        return "a number too long to be shown"

"""Numbers, times and texts as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np

from .extras import need

NONE = "–"
MOST_DECIMALS = 5
#: Control signs other than tab and line end, and those that turn the direction of writing.
_COMMANDS = dict.fromkeys(
    {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {9, 10}, "\ufffd"
)


def number(value: float | None) -> str:
    """Three significant digits, without an exponent unless very large or small.

    >>> [number(v) for v in (0.000316228, 24.16, 6193.4, 2.5e-9, None)]
    ['0.000316', '24.2', '6193', '2.50e-09', '–']
    """
    if value is None:
        return NONE
    size = abs(value)
    if size and not 1e-5 <= size < 1e7:
        return f"{value:.2e}"
    if size >= 100:
        return f"{value:.0f}"
    return np.format_float_positional(value, precision=3, fractional=False, unique=False, trim="-")


def digits(value: float | None) -> str:
    """The same for a cell below others, with the zeros at its end.

    >>> [digits(v) for v in (52, 17.04, 128, 99.96, 0.011, None)]
    ['52.0', '17.0', '128', '100', '0.0110', '–']
    """
    if value is None or not 1e-4 <= abs(value) < 100:
        return number(value)
    return f"{value:#.3g}".rstrip(".")


def trimmed(value: float) -> float:
    """A number without what rounding has left behind its twelfth digit, for documents.

    >>> trimmed(8.100000000000001), trimmed(1 / 3)
    (8.1, 0.333333333333)
    """
    return float(f"{value:.12g}")


def column(values: Sequence[float | None]) -> list[str]:
    """Numbers with the same decimals, as many as the least of them needs.

    >>> column([28.07, 5.0, None]), column([5.0, math.inf, math.nan])
    (['28.07', '5.00', '–'], ['5.00', 'inf', 'nan'])
    """
    sizes = [abs(v) for v in values if v and math.isfinite(v)]
    if not sizes:
        return [number(v) for v in values]
    decimals = max(0, 2 - math.floor(math.log10(min(sizes))))
    if decimals > MOST_DECIMALS or max(sizes) >= 1e7:
        return [NONE if v is None else f"{v:.2e}" for v in values]
    return [NONE if v is None else f"{v:.{decimals}f}" for v in values]


def percent(share: float | None) -> str:
    """A share as a whole percentage.

    >>> percent(0.618), percent(0.001), percent(1e-9)
    ('62 %', '<1 %', '0 %')
    """
    if share is None:
        return NONE
    return "<1 %" if 0.0005 <= share < 0.005 else f"{100 * share:.0f} %"


def with_unit(value: float | None, unit: str) -> str:
    """A number and its unit, if it has one."""
    return NONE if value is None else f"{number(value)} {unit}".strip()


def shorten(name: str, most: int) -> str:
    """A name of at most so many characters."""
    return name if len(name) <= most else name[: most - 1] + "…"


def plural(count: int, thing: str, things: str = "") -> str:
    """A count and what is counted.

    >>> plural(8700, "round"), plural(3, "class", "classes")
    ('8,700 rounds', '3 classes')
    """
    return f"{count:,} {thing if count == 1 else things or f'{thing}s'}"


def visible(words: str) -> str:
    """Words of a file or a message without signs that would command a terminal; each is shown as one mark.

    >>> visible("a\\x1b[31mb\\nc")
    'a�[31mb\\nc'
    """
    return words.translate(_COMMANDS)


def text(words: str, style: str = "") -> Any:
    """Text that is shown as it is; a learner's name or a log may contain [markup]."""
    return need("rich.text", "cli").Text(visible(words), style=style)


def iso(seconds: float, timespec: str = "auto") -> str | None:
    """Seconds since 1970 in ISO 8601 and UTC; None for what no calendar has.

    >>> iso(1357016400.0), iso(0.5, "milliseconds"), iso(float("nan"))
    ('2013-01-01T05:00:00Z', '1970-01-01T00:00:00.500Z', None)
    """
    try:
        found = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return found.isoformat(timespec=timespec).replace("+00:00", "Z")

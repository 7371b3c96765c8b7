"""Reading results, and writing them as Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

RESULTS = Path(__file__).parent.parent / "results"
#: Makes the text between two markers.
Maker: TypeAlias = Callable[[], str]


def read(name: str) -> Any:
    """The results of one benchmark."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def table(headings: str, rows: Iterable[Iterable[str]]) -> str:
    """Headings separated by |, then rows of cells; all but the first column stand right."""
    names = [name.strip() for name in headings.split("|")]
    lines = [names, ["---"] + ["---:"] * (len(names) - 1), *(list(row) for row in rows)]
    assert all(len(line) == len(names) for line in lines), headings
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure(value: float, digits: int = 3) -> str:
    """So many digits that count.

    >>> [figure(x) for x in (0.01234, 5.678, 34107.2)]
    ['0.0123', '5.68', '34,107']
    """
    if value == 0:
        return "0"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def spread(values: Iterable[float], digits: int) -> str:
    """Mean ± standard deviation, with so many decimals."""
    found = np.array(list(values))
    return f"{found.mean():.{digits}f} ± {found.std():.{digits}f}"


def scientific(value: float) -> str:
    """One digit and the power of ten: 1e-13."""
    mantissa, power = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(power)}"


def span(values: Iterable[float], form: str) -> str:
    """The least to the greatest; one figure where both read the same."""
    found = list(values)
    low, high = format(min(found), form), format(max(found), form)
    return low if low == high else f"{low} to {high}"

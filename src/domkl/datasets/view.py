"""How a column was seen, for people: examples, missing cells, range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import cells
from .columns import Columns

#: Characters of an example that are shown.
LONGEST_SHOWN = 24


@dataclass(frozen=True)
class ColumnView:
    """A column as it was seen: what it becomes and why."""

    name: str
    role: str  # "target", "input", "time", "learner" or "left out"
    kind: str
    examples: tuple[str, ...]
    cells: int
    missing: int
    unfit: int = 0  # cells that do not fit the kind
    low: str = ""
    high: str = ""
    note: str = ""


def view(
    name: str, whole: Sequence[Any], found: Sequence[Any], kind: str, columns: Columns, why: str
) -> ColumnView:
    """A column of this kind; `found` are its cells that are not missing."""
    role, decimal = _role(name, columns), columns.decimal or "."
    shown = "classes" if role == "target" and columns.labels else kind.split(":")[0] or "nothing"
    unfit = sum(not _fits(cell, kind, decimal) for cell in found)
    low, high = _range(whole if isinstance(whole, np.ndarray) else found, kind, decimal)
    examples = tuple(dict.fromkeys(_shown(cell) for cell in found[:50]))[:3]
    note = why or (f"written {kind[5:]}" if kind.startswith("time:") else "")
    return ColumnView(name, role, shown, examples, len(whole), _missing(whole, found), unfit, low, high, note)


def _fits(cell: Any, kind: str, decimal: str) -> bool:
    if kind == "number":
        return cells.is_number(cell, decimal)
    if kind.startswith("time:"):
        return cells.is_time(cell, kind[5:])
    return cells.is_clock(cell) if kind == "clock" else True


def _range(found: Sequence[Any], kind: str, decimal: str) -> tuple[str, str]:
    if isinstance(found, np.ndarray) and found.dtype.kind in "iuf" and kind == "number":
        low, high = np.fmin.reduce(found), np.fmax.reduce(found)
        return f"{low:g}", f"{high:g}"
    if kind == "number":
        values = [cells.number(c, decimal) for c in found if cells.is_number(c, decimal)]
        return (f"{min(values):g}", f"{max(values):g}") if values else ("", "")
    if kind.startswith("time:"):
        times = [cells.moment(c, kind[5:]).wall for c in found if cells.is_time(c, kind[5:])]
        return (str(min(times)), str(max(times))) if times else ("", "")
    return "", ""


def _role(name: str, columns: Columns) -> str:
    if name == columns.target:
        return "target"
    if name == columns.learner:
        return "learner"
    if name in columns.time:
        return "time"
    return "input" if name in columns.features else "left out"


def _missing(whole: Sequence[Any], found: Sequence[Any]) -> int:
    if isinstance(whole, np.ndarray) and whole.dtype.kind in "iufb":
        return int((whole != whole).sum())
    return len(whole) - len(found)


def _shown(cell: Any) -> str:
    text = " ".join(cells.word(cell).split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."

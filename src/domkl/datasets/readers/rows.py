"""Columns as they stand in a source, before anything is known about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...base.budget import Spent
from ..cells import is_number
from ..columns import CellError, Columns


class Fault(NamedTuple):
    """Rows that cannot be used for one reason: how many, where the first is, why, and what helps."""

    kind: str
    rows: int
    place: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return f"{rows}: {self.reason} ({self.place}); {self.remedy}"


class Faults:
    """Counts rows that cannot be used; of each kind and column the first is kept as it was."""

    def __init__(self) -> None:
        self._found: dict[object, Fault] = {}

    def note(self, key: object, kind: str, place: str, reason: str, remedy: str) -> None:
        """Count one more row."""
        old = self._found.get(key)
        new = Fault(kind, 1, place, reason, remedy) if old is None else old._replace(rows=old.rows + 1)
        self._found[key] = new

    def refuse(self, column: str, place: str, error: CellError) -> None:
        """Count a row with this cell."""
        self.note((column, error.kind), error.kind, place, error.reason, error.remedy)

    def result(self) -> tuple[Fault, ...]:
        """What was counted, the most frequent first."""
        return tuple(sorted(self._found.values(), key=lambda fault: -fault.rows))


@dataclass(frozen=True)
class Raw:
    """The columns of a source; numbers may be arrays, all else are lists of cells."""

    name: str  # for titles
    columns: dict[str, Sequence[Any]]
    lines: Sequence[int]
    unit: str = "line"  # what an editor counts; tables have rows
    faults: tuple[Fault, ...] = ()  # rows that could not be read
    problems: tuple[tuple[str, str], ...] = ()  # fact and remedy
    notes: tuple[str, ...] = ()
    format: str = ""  # for people
    found: dict[str, str] = field(default_factory=dict)  # settings that were guessed

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def refused(self) -> int:
        """Rows that could not be read."""
        return sum(fault.rows for fault in self.faults)

    def place(self, i: int) -> str:
        """Where row i is."""
        return f"{self.unit} {self.lines[i]}"


def from_rows(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Columns,
    lines: Sequence[int] | None = None,
    unit: str = "row",
    **more: Any,
) -> Raw:
    """Rows of any names, nested or not, as columns; a name that a row has not is None there."""
    faults, flat, kept = Faults(), [], []
    for i, row in enumerate(rows):
        line = i + 1 if lines is None else lines[i]
        try:
            flat.append(columns.flatten(row))
            kept.append(line)
        except CellError as error:
            faults.refuse("", f"{unit} {line}", error)
    names = dict.fromkeys(name for row in flat for name in row)
    Spent(name).table(len(flat), len(names))  # rows of other names each make as many columns
    found = {each: [row.get(each) for row in flat] for each in names}
    more["faults"] = (*more.get("faults", ()), *faults.result())
    return Raw(name, quickened(found), kept, unit, **more)


def flattened(raw: Raw, columns: Columns) -> Raw:
    """The same with objects and lists in cells as columns of their own."""
    found = raw.columns
    lists = [cells for cells in found.values() if not isinstance(cells, np.ndarray)]
    if not any(isinstance(cell, (dict, list)) for cells in lists for cell in cells):
        return raw
    rows = [dict(zip(found, row, strict=True)) for row in zip(*map(list, found.values()), strict=True)]
    return from_rows(raw.name, rows, columns, raw.lines, raw.unit, faults=raw.faults, format=raw.format)


def without(raw: Raw, na: Sequence[str]) -> Raw:
    """The same with NaN in place of numbers that are among these words; other cells are judged one by one."""
    numbers = [float(word) for word in na if is_number(word)]
    if not numbers:
        return raw
    columns = {
        name: np.where(np.isin(cells, numbers), np.nan, cells) if isinstance(cells, np.ndarray) else cells
        for name, cells in raw.columns.items()
    }
    return dataclasses.replace(raw, columns=columns)


def quickened(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Columns of finite numbers as arrays, which is quick."""
    return {name: _quick(cells) for name, cells in columns.items()}


def _quick(cells: Sequence[Any]) -> Sequence[Any]:
    kinds = set(map(type, cells))
    try:
        if kinds == {str} and "_" in "".join(cells):
            return cells
        if kinds and (kinds <= {int, float} or kinds == {str}):
            found = np.array(list(map(float, cells)))
            return cells if np.isinf(found).any() else found  # type: ignore[return-value]
    except (ValueError, OverflowError):
        pass
    return cells

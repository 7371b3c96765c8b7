"""What the columns of a table are, guessed from their cells, and all that is wrong with them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from datetime import time as clock_time
from typing import Any, TypeAlias

import numpy as np

from ..base import checks
from ..base.errors import InputError
from . import cells
from .columns import Columns

Cells: TypeAlias = "Sequence[Any]"
#: The share of a column's cells that must fit a kind; rows with the others are refused.
ENOUGH = 0.9
#: The most values of a text column that is taken for a category.
MOST_VALUES = 20
#: The most classes that an error lists.
SHOWN = 12
#: Cells of a column that are looked at where all are alike.
LOOKED_AT = 2000
_WHEN = re.compile(
    r"(^|[^a-z])(time|date|datetime|timestamp|ts|epoch|unix|when)([^a-z]|$)|(time|date|timestamp)$"
)
_COUNTER = re.compile(r"(|id|idx|index|no|nr|row|column 1|unnamed: 0)")
_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")


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


@dataclass(frozen=True)
class Guess:
    """Columns with nothing left open, how each was seen, and all that is wrong: (fact, remedy)."""

    columns: Columns
    views: tuple[ColumnView, ...]
    problems: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise for the first problem; its remedy names all others that wait."""
        if self.problems:
            fact, remedy = self.problems[0]
            more = len(self.problems) - 1
            rest = f" (and {more} more: domkl inspect shows all)" if more else ""
            raise InputError(f"{fact}; {remedy}{rest}")


def guess(table: Mapping[str, Cells], columns: Columns) -> Guess:
    """What the columns of `table` are, with all that `columns` says taken as given."""
    return _Guesser(table, columns).result()


class _Guesser:
    """One guess: collects kinds, problems and notes column by column."""

    def __init__(self, table: Mapping[str, Cells], columns: Columns) -> None:
        self.table, self.given = table, columns
        self.na = frozenset(columns.na)
        self.present = {name: self._present(found) for name, found in table.items()}
        self.decimal = columns.decimal or ("," if self._has_commas() else ".")
        self.problems: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.why: dict[str, str] = {}

    def _present(self, found: Cells) -> list[Any]:
        if isinstance(found, np.ndarray) and found.dtype.kind in "iufb":
            return list(found[found == found][:LOOKED_AT].tolist())
        return [cell for cell in found if not cells.is_missing(cell, self.na)]

    def _has_commas(self) -> bool:
        """Whether decimals are written with commas: some cells are, and none only with a point."""
        texts = [
            c.strip() for found in self.present.values() for c in found[:LOOKED_AT] if isinstance(c, str)
        ]
        return any(map(_COMMA.fullmatch, texts))

    def result(self) -> Guess:
        self._check_names()
        kinds = {name: self._kind(name) for name in self.table}
        time = self._time(kinds)
        columns = self._columns(kinds, time)
        views = tuple(self._view(name, kinds[name], columns) for name in self.table)
        if not columns.features:
            self._problem("no column is left as a feature", "drop fewer columns or add one")
        return Guess(columns, views, tuple(self.problems), tuple(self.notes))

    def _problem(self, fact: str, remedy: str) -> None:
        self.problems.append((fact, remedy))

    def _check_names(self) -> None:
        given = self.given
        named = [given.target, given.learner, *given.time, *given.drop, *given.features, *given.kinds]
        for name in dict.fromkeys([*named, *given.categories]):
            if name and name not in self.table:
                self._problem(f"no column {name!r}", checks.hint(name, self.table))

    def _kind(self, name: str) -> str:
        """A column's kind, "" if it has no value."""
        if name in self.given.kinds:
            return self._declared(name)
        if name in self.given.categories:
            return "category"
        found = self.present[name]
        if not found:
            self.why[name] = "no value"
            return ""
        return self._seen(name, found)

    def _declared(self, name: str) -> str:
        kind = self.given.kinds[name]
        if kind == "time":
            order = cells.date_order([str(cell).strip() for cell in self.present.get(name, [])])
            return (
                f"time:{self._epoch(self.present.get(name, [])) or self._unambiguous(name, order) or 'iso'}"
            )
        return kind

    def _seen(self, name: str, found: list[Any]) -> str:
        types = set(map(type, found))
        if types == {bool} or _share(found, _is_truth) == 1:
            return "boolean"
        if all(issubclass(kind, (datetime, date, np.datetime64)) for kind in types):
            return "time:iso"
        named = bool(_WHEN.search(name.lower()))
        if named and (unit := self._epoch(found)):
            return f"time:{unit}"
        if not (named and _share(found, _is_day) == 1) and self._numbers(found) >= ENOUGH:
            return self._counter(name, found)
        if all(issubclass(kind, clock_time) for kind in types) or _share(found, cells.is_clock) >= ENOUGH:
            return "clock"
        order = cells.date_order([str(cell).strip() for cell in found])
        if order is not None and _share(found, lambda cell: cells.is_time(cell, order)) >= ENOUGH:
            return f"time:{self._unambiguous(name, order) or 'iso'}"
        return self._words(found)

    def _numbers(self, found: list[Any]) -> float:
        return _share(found, lambda cell: cells.is_number(cell, self.decimal))

    def _epoch(self, found: list[Any]) -> str:
        """The unit of times that are numbers, "" if they are none."""
        if not found or not all(cells.is_number(cell) for cell in found[:LOOKED_AT]):
            return ""
        values = [cells.number(cell) for cell in found]
        low, high = cells.PLAUSIBLE
        fits = (
            unit
            for unit, size in cells.EPOCHS.items()
            if low <= min(values) * size and max(values) * size <= high
        )
        return next(fits, "")

    def _counter(self, name: str, found: list[Any]) -> str:
        """ "number", or "" for a row number, which says nothing that holds later."""
        if not _COUNTER.fullmatch(name.lower()) or len(found) < 3 or name in self.given.features:
            return "number"
        values = [cells.number(cell, self.decimal) for cell in found if cells.is_number(cell, self.decimal)]
        steps = {b - a for a, b in itertools.pairwise(values)}
        if steps != {1.0} or name == self.given.target:
            return "number"
        self.why[name] = "a row number"
        return ""

    def _unambiguous(self, name: str, order: str | None) -> str:
        if order == "" and name != self.given.target and name not in self.given.drop:
            first = str(self.present[name][0])
            self._problem(
                f"column {name!r} is {first!r}: day or month first",
                f'say it with --kind {name}=time:dmy or time:mdy (kinds.{name} = "time:dmy")',
            )
        return order or ""

    def _words(self, found: list[Any]) -> str:
        values = {str(cell).strip() for cell in found}
        return "category" if len(values) <= MOST_VALUES and 2 * len(values) <= len(found) + 2 else "text"

    def _time(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """The columns that say when: as given, else the first time, with the time of day if it is a date."""
        if self.given.time:
            return self.given.time
        taken = {self.given.target, self.given.learner}
        times = [name for name, kind in kinds.items() if kind.startswith("time") and name not in taken]
        if not times:
            return ()
        clocks = [name for name, kind in kinds.items() if kind == "clock" and name not in self.given.drop]
        is_day = _share(self.present[times[0]], _is_day) == 1
        both = is_day and len(clocks) == 1 and times[0] not in self.given.drop
        return (times[0], clocks[0]) if both else (times[0],)

    def _columns(self, kinds: dict[str, str], time: tuple[str, ...]) -> Columns:
        given = self.given
        for name in time[:1]:
            kinds[name] = kinds.get(name) or "time:iso"
        features = given.features or self._features(kinds, time)
        used = {name: kinds[name] for name in (*features, *time[:1]) if kinds.get(name)}
        categories = {name: self._values(name) for name in features if kinds.get(name) == "category"}
        return dataclasses.replace(
            given,
            features=tuple(name for name in features if name in self.table),
            time=tuple(name for name in time if name in self.table),
            kinds={name: kind for name, kind in used.items() if kind not in ("number", "category")},
            categories=categories,
            labels=self._labels(kinds),
            decimal=self.decimal,
            calendar=self._calendar(time, kinds),
        )

    def _features(self, kinds: Mapping[str, str], time: tuple[str, ...]) -> tuple[str, ...]:
        out = {self.given.target, self.given.learner, *self.given.drop, *time[1:]}
        return tuple(name for name in self.table if name not in out and kinds[name])

    def _values(self, name: str) -> tuple[str, ...]:
        return self.given.categories.get(name) or tuple(
            sorted({cells.word(cell) for cell in self.present.get(name, [])})
        )

    def _labels(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """The classes of the target, if it has some; a problem if they are not two."""
        given = self.given
        kind = kinds.get(given.target, "number")
        if given.labels or kind == "number" or not kind:
            return given.labels
        if kind.startswith(("time", "clock")):
            self._problem(f"target {given.target!r} is a time", "choose a target with numbers or classes")
            return ()
        values = tuple(sorted({cells.word(cell) for cell in self.present[given.target]}))
        if len(values) == 2 or (given.positive in values and len(values) > 2):
            return values
        shown = ", ".join(values[:SHOWN]) + (" ..." if len(values) > SHOWN else "")
        wrong = f" (not {given.positive!r})" if given.positive else ""
        remedy = "choose a target with numbers" if kind == "text" else f"choose one with --class NAME{wrong}"
        self._problem(f"target {given.target!r} has {len(values)} classes: {shown}", remedy)
        return ()

    def _calendar(self, time: tuple[str, ...], kinds: Mapping[str, str]) -> tuple[str, ...]:
        """Without the hour where all times are whole days."""
        times = [name for name, kind in kinds.items() if kind.startswith("time")]
        days = all(_share(self.present.get(name, []), _is_day) == 1 for name in times)
        if len(time) == 1 and times and days and self.given.calendar == Columns().calendar:
            return tuple(part for part in self.given.calendar if part != "hour")
        return self.given.calendar

    def _view(self, name: str, kind: str, columns: Columns) -> ColumnView:
        found, whole = self.present[name], self.table[name]
        role = _role(name, columns)
        shown = "classes" if role == "target" and columns.labels else kind.split(":")[0] or "nothing"
        unfit = sum(not self._fits(cell, kind) for cell in found)
        low, high = self._range(whole if isinstance(whole, np.ndarray) else found, kind)
        missing = _missing(whole, found, self.na)
        examples = tuple(dict.fromkeys(checks.short(str(cell)) for cell in found[:50]))[:3]
        note = self.why.get(name, "") or (f"written {kind[5:]}" if kind.startswith("time:") else "")
        return ColumnView(name, role, shown, examples, len(whole), missing, unfit, low, high, note)

    def _fits(self, cell: Any, kind: str) -> bool:
        if kind == "number":
            return cells.is_number(cell, self.decimal)
        if kind.startswith("time:"):
            return cells.is_time(cell, kind[5:])
        return cells.is_clock(cell) if kind == "clock" else True

    def _range(self, found: Cells, kind: str) -> tuple[str, str]:
        if isinstance(found, np.ndarray) and found.dtype.kind in "iuf" and kind == "number":
            return f"{np.nanmin(found):g}", f"{np.nanmax(found):g}"
        if kind == "number":
            values = [cells.number(c, self.decimal) for c in found if cells.is_number(c, self.decimal)]
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


def _missing(whole: Cells, found: list[Any], na: frozenset[str]) -> int:
    if isinstance(whole, np.ndarray) and whole.dtype.kind in "iufb":
        return int((whole != whole).sum())
    return len(whole) - len(found)


def _share(found: Sequence[Any], good: Any) -> float:
    return sum(map(bool, map(good, found))) / len(found) if found else 0.0


def _is_truth(cell: Any) -> bool:
    return isinstance(cell, bool) or (
        isinstance(cell, str) and cell.strip().lower() in cells.TRUE | cells.FALSE
    )


def _is_day(cell: Any) -> bool:
    """Whether a cell is a date without a time of day."""
    if isinstance(cell, date) and not isinstance(cell, datetime):
        return True
    if isinstance(cell, datetime):
        return (cell.hour, cell.minute, cell.second) == (0, 0, 0)
    text = str(cell).strip()
    return bool(
        re.fullmatch(r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|(19|20)\d{6}|\d{1,2}[-/. ]\w{2,9}[-/. ]\d{2,4}", text)
    )

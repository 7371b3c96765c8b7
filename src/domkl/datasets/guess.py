"""What the columns of a table are, guessed from their cells, how each was seen, and all that is wrong."""

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
from ..base.words import plural
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
    if name in columns.targets:
        return "target"
    if name == columns.learner:
        return "learner"
    if name in (*columns.time, columns.known):
        return "time"
    return "input" if name in columns.features else "left out"


def _missing(whole: Sequence[Any], found: Sequence[Any]) -> int:
    if isinstance(whole, np.ndarray) and whole.dtype.kind in "iufb":
        return int((whole != whole).sum())
    return len(whole) - len(found)


def _shown(cell: Any) -> str:
    text = " ".join(cells.word(cell).split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


#: A mark is a whole number, at most that, and further below all others than so many times their range.
HIGHEST_MARK, FAR = -9, 3.0
#: Columns that are named.
NAMED = 3


def mark_of(values: Sequence[float]) -> float | None:
    """The lowest number, if it comes again and again, far below all others.

    >>> mark_of([2.5, -200.0, 1.5, 3.0, -200.0]), mark_of([2.5, -200.0, 1.5, 100.0]), mark_of([-9.0, -9.0])
    (-200.0, None, None)
    """
    low = min(values, default=0.0)
    others = [v for v in values if v != low]
    if low > HIGHEST_MARK or low != round(low) or len(others) < 2 or len(values) - len(others) < 2:
        return None
    nearest = min(others)
    return low if nearest - low > FAR * (max(others) - nearest) else None


def mark_notes(present: Mapping[str, Sequence[Any]], decimal: str) -> list[str]:
    """What to think of columns of numbers that have such a mark, in words."""
    found: dict[float, list[str]] = {}
    for name, some in present.items():
        values = [cells.number(cell, decimal) for cell in some if cells.is_number(cell, decimal)]
        if (mark := mark_of(values)) is not None:
            found.setdefault(mark, []).append(name)
    return [_mark_words(mark, names) for mark, names in found.items()]


def _mark_words(mark: float, names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    where = ", ".join(names[:NAMED]) + more
    return f"{mark:g} in {where} is far below all other values; if it means missing, add --na={mark:g}"


Cells: TypeAlias = "Sequence[Any]"
#: The share of a column's cells that must fit a kind; rows with the others are refused.
ENOUGH = 0.9
#: A smaller share that is enough for numbers if so few words are among them.
MOST, FEW = 0.5, 2
#: The most values of a text column that is taken for a category.
MOST_VALUES = 20
#: The most classes that an error lists.
SHOWN = 12
#: Different values from which a column that rises or falls with the target cannot be by chance.
TOLD = 20
#: Kinds whose cells are words.
WORDS = ("category", "text")
#: Cells of a column that are looked at where all are alike.
LOOKED_AT = 2000
_WHEN = re.compile(
    r"(^|[^a-z])(time|date|datetime|timestamp|ts|epoch|unix|when)([^a-z]|$)|(time|date|timestamp)$"
)
_COUNTER = re.compile(r"(|id|idx|index|no|nr|row|column 1|unnamed: 0)")
_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")
_POINT = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
#: Commas as between thousands; with three decimals a number may look the same.
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


@dataclass(frozen=True)
class Guess:
    """Columns with nothing left open, how each was seen, and all that is wrong: (fact, remedy)."""

    columns: Columns
    views: tuple[ColumnView, ...]
    problems: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    time_is_given: bool = False

    def check(self, where: str = "") -> None:
        """Raise for the first problem, and say how many there are."""
        if self.problems:
            fact, remedy = self.problems[0]
            more = len(self.problems) - 1
            rest = f" (and {more} more: domkl inspect shows all)" if more else ""
            raise InputError(f"{where}: {fact}; {remedy}{rest}" if where else f"{fact}; {remedy}{rest}")


def guess(table: Mapping[str, Cells], columns: Columns, views: bool = True) -> Guess:
    """What the columns of `table` are, with all that `columns` says taken as given; how each was seen."""
    return _Guesser(table, columns).result(views)


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
        """Cells that are not missing: some from all over a long column, or all if none of these is there."""
        if isinstance(found, np.ndarray) and found.dtype.kind in "iufb":
            return list(found[found == found][:LOOKED_AT].tolist())
        step = max(1, len(found) // LOOKED_AT)
        return self._all(found[::step]) or (self._all(found) if step > 1 else [])

    def _all(self, found: Cells, words: bool = False) -> list[Any]:
        return [cell for cell in found if not cells.is_missing(cell, self.na, words=words)]

    def _distinct(self, name: str, words: bool = False) -> list[Any]:
        """Every value of a column once."""
        found = self.table.get(name, [])
        try:
            return self._all(list(set(found.tolist() if isinstance(found, np.ndarray) else found)), words)
        except TypeError:  # lists in a frame's cells
            return self._all(found, words)

    def _has_commas(self) -> bool:
        """Whether decimals are written with commas: beside 0.5, commas as in 1,234 are none."""
        texts = [
            c.strip() for found in self.present.values() for c in found[:LOOKED_AT] if isinstance(c, str)
        ]
        commas = [text for text in texts if _COMMA.fullmatch(text)]
        if not all(map(_THOUSANDS.fullmatch, commas)):
            return True
        return bool(commas) and not (any(map(_POINT.fullmatch, texts)) or self._has_fractions())

    def _has_fractions(self) -> bool:
        """Whether some column holds numbers, with decimals."""
        return any(isinstance(c, float) and c % 1 for found in self.present.values() for c in found)

    def result(self, with_views: bool) -> Guess:
        self._check_names()
        kinds = {name: self._kind(name) for name in self.table}
        time = self._time(kinds)
        columns = self._columns(kinds, time)
        numbers = {name: self.present[name] for name, kind in kinds.items() if kind == "number"}
        self.notes += mark_notes(numbers, self.decimal)
        self.notes += [
            copy_words(name, target)
            for name in columns.features
            for target in columns.targets
            if self._tells(name, target, kinds)
        ]
        views = []
        for name, whole in self.table.items() if with_views else ():
            kind = kinds[name]
            found = self.present[name] if isinstance(whole, np.ndarray) else self._all(whole, kind in WORDS)
            views.append(view(name, whole, found, kind, columns, self.why.get(name, "")))
        if not columns.features:
            self._problem("no column is left as a feature", "drop fewer columns or add one")
        return Guess(columns, tuple(views), tuple(self.problems), tuple(self.notes), bool(self.given.time))

    def _tells(self, name: str, target: str, kinds: Mapping[str, str]) -> bool:
        """Whether a column says a target in other numbers or words: its input would be the answer."""
        if (
            target not in self.table
            or name not in self.table
            or (kinds.get(name) == "number") != (kinds.get(target) == "number")
        ):
            return False
        rows = zip(self.table[name][:LOOKED_AT], self.table[target][:LOOKED_AT], strict=True)
        known = ((a, b) for a, b in rows if not any(cells.is_missing(c, self.na) for c in (a, b)))
        pairs = {(str(a), str(b)) for a, b in known}
        firsts, seconds = {a for a, _ in pairs}, {b for _, b in pairs}
        if len(pairs) < 2 or not len(pairs) == len(firsts) == len(seconds):
            return False
        if kinds[name] != "number":
            return True
        good = [pair for pair in pairs if all(cells.is_number(cell, self.decimal) for cell in pair)]
        read = sorted((cells.number(a, self.decimal), cells.number(b, self.decimal)) for a, b in good)
        order = [b for _, b in read]
        return TOLD <= len(good) == len(pairs) and order in (sorted(order), sorted(order, reverse=True))

    def _problem(self, fact: str, remedy: str) -> None:
        self.problems.append((fact, remedy))

    def _check_names(self) -> None:
        given = self.given
        named = [
            *given.targets,
            given.learner,
            given.known,
            *given.time,
            *given.drop,
            *given.features,
            *given.kinds,
        ]
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
            order = self._order(name)
            return (
                f"time:{self._epoch(self.present.get(name, [])) or self._unambiguous(name, order) or 'iso'}"
            )
        return kind

    def _seen(self, name: str, found: list[Any]) -> str:
        types = set(map(type, found))
        words = {cell.strip().lower() for cell in found if isinstance(cell, str)}
        if types <= {bool, str} and words <= cells.TRUE | cells.FALSE:
            return "boolean"
        if all(issubclass(kind, (datetime, date, np.datetime64)) for kind in types):
            return "time:iso"
        named = bool(_WHEN.search(name.lower()))
        if named and (unit := self._epoch(found)):
            return f"time:{unit}"
        if not (named and _share(found, _is_day) == 1) and self._are_numbers(found):
            return self._counter(name, found)
        if all(issubclass(kind, clock_time) for kind in types) or _share(found, cells.is_clock) >= ENOUGH:
            return "clock"
        order = self._order(name)
        if order is not None and _share(found, lambda cell: cells.is_time(cell, order)) >= ENOUGH:
            return f"time:{self._unambiguous(name, order) or 'iso'}"
        self._refuse_thousands(name)
        values, rows = self._classes(name), len(self.table[name])
        return "category" if len(values) <= MOST_VALUES and 2 * len(values) <= rows + 2 else "text"

    def _order(self, name: str) -> str | None:
        """How times are written, from some cells or, if these do not tell, from all."""
        some = cells.date_order([str(cell).strip() for cell in self.present.get(name, [])])
        return some or cells.date_order([str(cell).strip() for cell in self._distinct(name)])

    def _are_numbers(self, found: list[Any]) -> bool:
        """Whether nearly all are numbers, or most and all others are one or two words, such as "error"."""
        others = [cell for cell in found if not cells.is_number(cell, self.decimal, finite=False)]
        share = 1 - len(others) / len(found)
        return share >= ENOUGH or (share > MOST and len(set(map(str, others))) <= FEW)

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
        if steps != {1.0} or name in self.given.targets:
            return "number"
        self.why[name] = "a row number"
        return ""

    def _unambiguous(self, name: str, order: str | None) -> str:
        if order == "" and name not in (*self.given.targets, *self.given.drop):
            first = str(self.present[name][0])
            self._problem(
                f"column {name!r} is {first!r}: day or month first",
                f'say it with --kind {name}=time:dmy or time:mdy (kinds.{name} = "time:dmy")',
            )
        return order or ""

    def _refuse_thousands(self, name: str) -> None:
        """A problem where a column would be text because of commas in its numbers."""
        given, found = self.given, self.present[name]
        if name in given.drop or (given.features and name not in (*given.features, *given.targets)):
            return
        commas = [c for c in found if isinstance(c, str) and _THOUSANDS.fullmatch(c.strip())]
        if commas and len(commas) + sum(map(cells.is_number, found)) >= ENOUGH * len(found):
            remedy = f"write numbers without commas between thousands, add --decimal , or --drop {name}"
            self._problem(f"column {name!r} is {commas[0]!r}: thousands, or decimals with a comma", remedy)

    def _classes(self, name: str, words: bool = True) -> tuple[str, ...]:
        return tuple(sorted({cells.word(cell) for cell in self._distinct(name, words)}))

    def _time(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """The columns that say when: as given, else the first time, with the time of day if it is a date."""
        if self.given.time:
            return self.given.time
        taken = {*self.given.targets, self.given.learner, self.given.known}
        times = [name for name, kind in kinds.items() if kind.startswith("time") and name not in taken]
        if not times:
            return ()
        clocks = [name for name, kind in kinds.items() if kind == "clock" and name not in self.given.drop]
        is_day = _share(self.present[times[0]], _is_day) == 1
        both = is_day and len(clocks) == 1 and times[0] not in self.given.drop
        return (times[0], clocks[0]) if both else (times[0],)

    def _columns(self, kinds: dict[str, str], time: tuple[str, ...]) -> Columns:
        given = self.given
        if given.features and all(name in given.kinds or name in given.categories for name in given.features):
            return dataclasses.replace(given, decimal=self.decimal, labels=self._labels(kinds))
        for name in time[:1]:
            kinds[name] = kinds.get(name) or "time:iso"
        out = {*given.targets, given.learner, given.known, *given.drop, *time[1:]}
        features = given.features or tuple(name for name in self.table if name not in out and kinds[name])
        used = {name: kinds[name] for name in (*features, *time[:1]) if kinds.get(name)}
        named = [name for name in features if kinds.get(name) == "category"]
        categories = {name: given.categories.get(name) or self._classes(name) for name in named}
        return dataclasses.replace(
            given,
            features=tuple(name for name in features if name in self.table),
            drop=(),  # all that is not a feature
            time=tuple(name for name in time if name in self.table),
            kinds={name: kind for name, kind in used.items() if kind != "category"},
            categories=categories,
            labels=self._labels(kinds),
            decimal=self.decimal,
            calendar=self._calendar(time, kinds),
        )

    def _labels(self, kinds: Mapping[str, str]) -> tuple[str, ...]:
        """The classes of the target, if it has some; a problem if they are not two."""
        given = self.given
        for name in given.targets if given.also else ():
            if kinds.get(name, "number") != "number":
                self._problem(
                    f"target {name!r} is no number and not the only target",
                    "expected numbers; learn it by itself, or leave it out",
                )
        kind = "number" if given.also else kinds.get(given.target, "number")
        if given.labels or kind == "number" or not kind:
            return given.labels
        if kind.startswith(("time", "clock")):
            self._problem(f"target {given.target!r} is a time", "choose a target with numbers or classes")
            return ()
        values = self._classes(given.target, kind in WORDS)
        if len(values) == 2 or (given.positive in values and len(values) > 2):
            return values
        self._problem(*self._wrong_classes(values, kind))
        return ()

    def _wrong_classes(self, values: Sequence[str], kind: str) -> tuple[str, str]:
        """What is wrong with classes that are not two, and what to do."""
        given = self.given
        shown = ", ".join(values[:SHOWN]) + (" ..." if len(values) > SHOWN else "")
        wrong = f" and none is {given.positive!r}" if given.positive else ""
        fact = f"target {given.target!r} has {plural(len(values), 'class', 'classes')}: {shown}{wrong}"
        if kind == "text" or len(values) < 2:
            return f"{fact}; expected numbers or two classes", "choose another target"
        remedy = "predict one against the rest with --class NAME (positive in a file or Python)"
        return f"{fact}; expected two", remedy

    def _calendar(self, time: tuple[str, ...], kinds: Mapping[str, str]) -> tuple[str, ...]:
        """Without the hour where all times are whole days."""
        times = [name for name, kind in kinds.items() if kind.startswith("time")]
        days = all(_share(self.present.get(name, []), _is_day) == 1 for name in times)
        if len(time) == 1 and times and days and self.given.calendar == Columns().calendar:
            return tuple(part for part in self.given.calendar if part != "hour")
        return self.given.calendar


def copy_words(name: str, target: str) -> str:
    """What to think of a column that says the target in another way."""
    return (
        f"{name} rises or falls with {target} in every row, as if it were made of it; "
        f"if it is not known before {target} is, add --drop {name}"
    )


def _share(found: Sequence[Any], good: Any) -> float:
    return sum(map(bool, map(good, found))) / len(found) if found else 0.0


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

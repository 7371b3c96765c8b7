"""Rows of any cells as numbers to learn from: the same inputs, in the same order, on every device.

>>> rows = [{"when": "2024-05-01 06:00", "city": "Rome", "t": "21.5"},
...         {"when": "2024-05-01 18:00", "city": "Oslo", "t": "9"}]
>>> encoder = Encoder.fit(rows, Columns(target="t", kinds={"city": "category"}))
>>> encoder.inputs[-2:], encoder.encode(rows[0]).x[-2:], encoder.encode(rows[0]).y
(('city=Oslo', 'city=Rome'), [0.0, 1.0], 21.5)
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from ..base import checks
from ..base.budget import Spent
from ..base.checks import LARGEST
from ..base.errors import InputError
from . import cells, guess
from .cells import NAN
from .columns import CellError, Columns, is_flat, names_of

Row: TypeAlias = "Mapping[str, Any]"
#: Everything is guessed.
GUESSED = Columns()
_PLAIN = {float, int}
_TEXT = {str}


class Encoded(NamedTuple):
    """A row as numbers: inputs, label, time in seconds since 1970, and whose row it is."""

    x: list[float]
    y: float | None = None
    time: float | None = None
    learner: str | None = None


class ColumnInputs(NamedTuple):
    """One column and the inputs that are made of it."""

    name: str
    inputs: tuple[str, ...]
    encode: Callable[[Any], Sequence[float]]  # ValueError, TypeError or OverflowError if it cannot be used
    expected: str


class Encoder:
    """Turns rows into numbers as `columns` says, which must name features and kinds; `fit` guesses them.

    A feature without a kind is a number. A value that is not among a category's is none of them: all zeros.
    A missing cell is NaN; a missing category or text is all zeros, as none, where `missing` is "auto".
    """

    def __init__(self, columns: Columns) -> None:
        if not columns.features:
            raise InputError(
                "columns has no features; expected the columns to predict from; name them, or use Encoder.fit"
            )
        self.columns = columns
        self.parts = tuple(self._part(name) for name in columns.features)
        self.inputs = tuple(name for part in self.parts for name in part.inputs)
        self._na, self._comma = frozenset(columns.na), columns.decimal == ","
        self._refuses_missing = columns.missing in ("error", "drop")
        none = 0.0 if columns.missing == "auto" else NAN
        self._absent = dict.fromkeys((part.expected for part in self.parts), NAN)
        self._absent.update(dict.fromkeys(("a category", "a text"), none))
        plain = not columns.na and all(part.encode == self._number for part in self.parts)
        self._pick = itemgetter(*columns.features, columns.features[0]) if plain else None

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoder, (self.columns,)

    @property
    def d(self) -> int:
        """Number of inputs."""
        return len(self.inputs)

    @classmethod
    def fit(cls, rows: Sequence[Row], columns: Columns = GUESSED) -> Encoder:
        """An encoder for rows like these: whatever `columns` leaves open is guessed from them."""
        flat = [row if is_flat(row) else columns.flatten(row) for row in rows]
        names = names_of(flat)
        Spent("the first rows").table(len(flat), len(names))
        found = guess.guess({name: [row.get(name) for row in flat] for name in names}, columns)
        found.check()
        return cls(found.columns)

    def encode(self, row: Row) -> Encoded:
        """The row as numbers; raises `CellError` if it cannot be used. A row without a target has y None."""
        if not isinstance(row, (dict, Mapping)):  # a dict is quicker to tell
            raise CellError("not a row", f"the row is {checks.short(row)}", "expected names and values")
        if not is_flat(row):
            row = self._flat(row)
        x = self._quickly(row)
        columns = self.columns
        return Encoded(
            self._slowly(row) if x is None else x,
            self.label(row.get(columns.target)) if columns.target else None,
            self.seconds(row) if columns.time else None,
            self.learner_of(row.get(columns.learner)) if columns.learner else None,
        )

    def _flat(self, row: Row) -> Row:
        """A nested row as a flat one; an object or a list in place of a cell would count as missing."""
        flat, columns = self.columns.flatten(row), self.columns
        for name in (*columns.features, *columns.time, *columns.targets, columns.learner):
            path = f"{columns.paths.get(name, name)}."
            inside = () if name in flat else [each for each in flat if each.startswith(path)]
            if inside or (name not in flat and isinstance(row.get(name), (dict, list, tuple))):
                reason = f"column {name!r} is an object or a list, expected one value"
                remedy = f"name what is inside of it, such as {inside[0]!r}" if inside else "leave it out"
                raise CellError("nested", reason, remedy)
        return flat

    def _quickly(self, row: Row) -> list[float] | None:
        """The inputs of a row of finite numbers, None if it is any other."""
        if self._pick is None:
            return None
        try:
            found = self._pick(row)[:-1]
            kinds = set(map(type, found))
            if not (kinds <= _PLAIN or (kinds <= _TEXT and not self._comma and "_" not in "".join(found))):
                return None
            x = list(map(float, found))
        except (KeyError, ValueError, TypeError, OverflowError):
            return None
        inside = min(x) >= -LARGEST and max(x) <= LARGEST and math.isfinite(sum(x))
        return x if inside else None

    def _slowly(self, row: Row) -> list[float]:
        if not any(name in row for name in self.columns.features):
            known = ", ".join(self.columns.features[:5])
            reason = f"the row has none of the columns {known}, but {checks.short(list(row)[:5])}"
            raise CellError("no column", reason, "fix the names, or the paths of nested records")
        x: list[float] = []
        for part in self.parts:
            x += self.cell(part, self._raw(part.name, row))
        return x

    def _raw(self, name: str, row: Row) -> Any:
        """A column's cell; of a time in two columns, both together."""
        if len(self.columns.time) == 2 and name == self.columns.time[0]:
            return self.joined(*(row.get(each) for each in self.columns.time))
        return row.get(name)

    def cell(self, part: ColumnInputs, cell: Any, strict: bool = True) -> Sequence[float]:
        """The inputs that one cell becomes; NaN if it is missing, which may be refused where `strict`."""
        if cells.is_missing(cell, self._na, words=part.expected in WORDS):
            if strict and self._refuses_missing:
                raise CellError(
                    "missing", f"column {part.name!r} is empty", "fill it, or allow missing cells"
                )
            return [self._absent[part.expected]] * len(part.inputs)
        try:
            return part.encode(cell)
        except (ValueError, TypeError, OverflowError):
            raise refusal(part.name, cell, part.expected, self.columns) from None

    def label(self, cell: Any, name: str = "") -> float | None:
        """A target's cell as a number, -1 or +1 if it is a class; None if it is missing."""
        columns = self.columns
        if columns.labels and columns.target:
            text = cells.word(cell)
            if text in columns.labels:
                return 1.0 if text == columns.positive_label else -1.0
        if cells.is_missing(cell, self._na):
            return None
        if columns.labels:
            remedy = checks.hint(cells.word(cell), columns.labels)
            raise CellError("label", f"column {columns.target!r} is {checks.short(cell)}", remedy)
        try:
            return self._number(cell)[0]
        except (ValueError, TypeError, OverflowError):
            raise refusal(name or columns.target, cell, "a number", columns) from None

    def moment_of(self, cell: Any, name: str = "") -> cells.Moment | None:
        """When a row was, from its cell in the time column, or in another; None if that is missing."""
        if cells.is_missing(cell, self._na):
            return None
        name = name or self.columns.time[0]
        try:
            return cells.moment(cell, self._how(name))
        except ValueError:
            raise refusal(name, cell, "a time", self.columns) from None

    def seconds(self, row: Row) -> float | None:
        """When a flat row was, in seconds since 1970; None if its time is missing."""
        found = self.moment_of(self._raw(self.columns.time[0], row))
        return None if found is None else found.seconds

    def joined(self, day: Any, hour: Any) -> str | None:
        """Date and time of day, of two columns, as one text."""
        if cells.is_missing(day, self._na) or cells.is_missing(hour, self._na):
            return None
        return f"{str(day).strip().removesuffix(' 00:00:00')} {str(hour).strip()}"

    def learner_of(self, cell: Any) -> str:
        """Whose row it is."""
        if cells.is_missing(cell, self._na):
            reason = f"column {self.columns.learner!r}, the learner, is empty"
            raise CellError("no learner", reason, "write whose row it is")
        return cells.word(cell)

    def column_of(self, i: int) -> str:
        """The column that input i is made of."""
        return next(part.name for part in self.parts if self.inputs[i] in part.inputs)

    def _how(self, name: str) -> str:
        return self.columns.kinds.get(name, "time").partition(":")[2] or "iso"

    def _part(self, name: str) -> ColumnInputs:
        """How a column is encoded."""
        columns = self.columns
        kind = columns.kinds.get(name, "category" if name in columns.categories else "number").split(":")[0]
        if name in columns.time:
            kind = "time"
        if kind == "number":
            return ColumnInputs(name, (name,), self._number, "a number")
        if kind == "boolean":
            return ColumnInputs(name, (name,), lambda cell: (cells.truth(cell),), "true or false")
        if kind == "category":
            return self._category(name)
        if kind == "text":
            inputs = tuple(f"{name}#{i}" for i in range(columns.hashed))
            return ColumnInputs(name, inputs, lambda cell: hashed(cells.word(cell), columns.hashed), "a text")
        if kind == "clock":
            return ColumnInputs(
                name, waves(name, ["hour"]), lambda cell: wave(cells.clock(cell)), "a time of day"
            )
        how, parts = self._how(name), columns.calendar
        return ColumnInputs(
            name, waves(name, parts), lambda cell: calendar(cells.moment(cell, how), parts), "a time"
        )

    def _number(self, cell: Any) -> Sequence[float]:
        return (cells.number(cell, "," if self._comma else "."),)

    def _category(self, name: str) -> ColumnInputs:
        values = self.columns.categories.get(name, ())
        if not values:
            raise InputError(f"category {name!r} has no values; expected some in categories; list them")
        rows = {value: [float(value == each) for each in values] for value in values}
        none = [0.0] * len(values)
        inputs = tuple(f"{name}={value}" for value in values)
        return ColumnInputs(name, inputs, lambda cell: rows.get(cells.word(cell), none), "a category")


#: Kinds whose cells are words.
WORDS = ("a category", "a text")


def refusal(name: str, cell: Any, expected: str, columns: Columns) -> CellError:
    """Why a cell cannot be used, and what helps."""
    shown = checks.short(cell)
    if expected == "a number" and cells.is_number(cell, columns.decimal or ".", finite=False):
        return CellError(
            "too large", f"column {name!r} is {shown}, expected a number up to {LARGEST:g}", "fix the row"
        )
    kind = "not a time" if "time" in expected else f"not {expected}"
    return CellError(
        kind, f"column {name!r} is {shown}, expected {expected}", _remedy(name, cell, expected, columns)
    )


def _remedy(name: str, cell: Any, expected: str, columns: Columns) -> str:
    if expected == "a number" and isinstance(cell, str):
        if columns.decimal != "," and cells.is_number(cell, ","):
            return 'say --decimal , (decimal = ",")'
        if columns.decimal == "," and cells.has_thousands(cell):
            return "leave out what separates thousands"
    if expected == "a time" and cells.is_number(cell):
        return f"say its unit with --kind {name}=time:s, time:ms, time:us or time:ns (kinds.{name} = ...)"
    if "time" in expected:
        return f"say how it is written, such as --kind '{name}=time:%d/%m/%Y %H:%M' (kinds.{name} = ...)"
    return f"fix the row, leave the column out with --drop {name}, or say --na if the word means missing"


def hashed(text: str, size: int) -> list[float]:
    """The words of a text, each added to one of `size` numbers; the length of the text does not count."""
    found = [0.0] * size
    words = text.lower().split()
    for word in words:
        code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
        found[(code >> 1) % size] += 1.0 if code & 1 else -1.0
    root = math.sqrt(len(words)) or 1.0
    return [value / root for value in found]


def wave(share: float) -> tuple[float, float]:
    """Sine and cosine of a share of a whole turn."""
    return math.sin(math.tau * share), math.cos(math.tau * share)


def calendar(when: cells.Moment, parts: Sequence[str]) -> list[float]:
    """Hour, weekday and season of the clock on the wall, each as sine and cosine."""
    wall = when.wall
    day = (wall.hour * 3600 + wall.minute * 60 + wall.second) / 86400
    shares = {
        "hour": day,
        "weekday": (wall.weekday() + day) / 7,
        "season": (wall.timetuple().tm_yday - 1 + day) / 365.2425,
    }
    return [value for part in parts for value in wave(shares[part])]


def waves(name: str, parts: Sequence[str]) -> tuple[str, ...]:
    """Names of the inputs that a time becomes."""
    return tuple(f"{name}:{part}.{end}" for part in parts for end in ("sin", "cos"))

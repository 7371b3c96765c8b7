"""What the columns of a table are: one description for files, streams, Python, TOML and saved models.

    Columns(target="power", time="when", kinds={"site": "category"})

    [columns]
    target = "power"
    time = "when"
    [columns.kinds]
    site = "category"

What is left open is guessed from the first rows; `Encoder.columns` then has everything filled in.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..base import checks, toml
from ..base.errors import DataError, InputError

#: What a column can be. A time may say how it is written: "time:dmy", "time:ms", "time:%d/%m/%y %H".
KINDS = ("number", "boolean", "category", "text", "time", "clock")
#: What is done about a cell that is missing: leave it to the model, or one of the others.
MISSING = ("auto", "error", "drop", "mean")
#: What becomes of a time: sine and cosine of each.
CALENDAR = ("hour", "weekday", "season")
#: The most cells of a nested record, and how deep it may be.
MOST_CELLS, DEEPEST = 4096, 32
#: Characters of the path to a nested cell.
LONGEST_PATH = 512
#: The most inputs that a text is hashed into.
MOST_HASHED = 1024
_NESTED = {dict, list, tuple}
_NONE: Mapping[str, Any] = MappingProxyType({})


class CellError(DataError):
    """A row that cannot be used: the kind of fault, the reason, and what to do about it."""

    def __init__(self, kind: str, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.kind, self.reason, self.remedy = kind, reason, remedy


#: Heads of files of predictions, beside those of targets.
ABOUT_ROWS = ("row", "index", "time", "learner", "surprise", "alarm")


def heads_of(target: str) -> tuple[str, str, str, str]:
    """What the label, the prediction and the bounds of one of several targets are called in such files."""
    return target, f"{target}_hat", f"{target}_low", f"{target}_high"


@dataclass(frozen=True)
class Columns:
    """What each column is and what is done with it; whatever is not given is guessed from the rows.

    Parameters
    ----------
    target : the column to predict.
    features : the columns to predict from, in this order; all others by default.
    drop : columns to leave out.
    time : the column that says when, or two (date and time of day); rows are put in its order.
    learner : the column that says whose row it is.
    known : the column with the time at which the target was known; empty where it never was.
    kinds : "number", "boolean", "category", "text", "time" or "clock" (a time of day) for some columns; a
        time may say how it is written: "time:iso", "time:dmy", "time:mdy", "time:s", "time:ms", "time:us",
        "time:ns", or "time:" and a format of strptime.
    categories : the values of a category, each of which becomes an input of 0 or 1.
    labels : the classes of a target that is no number, in order.
    positive : the class that counts as +1, against all others; the second of two by default.
    paths : where a column is in a nested record, such as "sensors.0.temp".
    records : where the list of rows is in a JSON document, such as "result.rows".
    na : further words for a missing cell.
    decimal : "." or ",".
    separator : of CSV files: one character, or "space" for any white space.
    missing : "auto" leaves missing inputs to the model, "error" refuses them, "drop" leaves out their rows,
        "mean" fills them with the mean of the cells above.
    hashed : number of inputs that a text without declared categories becomes.
    calendar : what a time becomes: some of "hour", "weekday" and "season".
    also : further columns to predict, numbers like the first; one model learns all of them.
    """

    target: str = ""
    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    learner: str = ""
    known: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    positive: str = ""
    paths: Mapping[str, str] = field(default_factory=dict)
    records: str = ""
    na: tuple[str, ...] = ()
    decimal: str = ""
    separator: str = ""
    missing: str = "auto"
    hashed: int = 8
    calendar: tuple[str, ...] = CALENDAR
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._to_tuples()
        self._check_names()
        for name, kind in self.kinds.items():
            checks.one_of(f"kinds.{name}", kind.split(":")[0], KINDS)
        if self.decimal:
            checks.one_of("decimal", self.decimal, (".", ","))
        if len(self.separator) != 1 and self.separator not in ("", "space"):
            raise InputError(f"separator is {self.separator!r}; expected one character or 'space'; fix it")
        checks.one_of("missing", self.missing, MISSING)
        checks.count("hashed", self.hashed, 1, MOST_HASHED)
        for part in self.calendar:
            checks.one_of("calendar", part, CALENDAR)
        if self.positive and self.labels and self.positive not in self.labels:
            raise InputError(f"positive is {self.positive!r}; {checks.hint(self.positive, self.labels)}")

    def _to_tuples(self) -> None:
        """Lists and single names as tuples, mappings as ones that cannot be changed."""
        single = self.time
        object.__setattr__(self, "time", (single,) if isinstance(single, str) and single else tuple(single))
        for name in ("also", "features", "drop", "labels", "na", "calendar"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise InputError(f'{name} is a list of names; write {name}=["{given}"] for one')
            object.__setattr__(self, name, tuple(map(str, given)))
        categories = {name: tuple(map(str, values)) for name, values in self.categories.items()}
        for name, value in (("kinds", self.kinds), ("categories", categories), ("paths", self.paths)):
            object.__setattr__(self, name, MappingProxyType(dict(value)))

    def _check_names(self) -> None:
        """Refuse a column with two tasks."""
        for name in self.targets:
            if name in (*self.drop, self.learner, self.known, *self.time):
                raise InputError(f"target {name!r} is also dropped, a time or the learner; choose another")
        if len(set(self.targets)) < len(self.targets) or (self.also and not self.target):
            raise InputError(
                f"targets are {[self.target, *self.also]}; expected names of their own; fix them"
            )
        heads = [*ABOUT_ROWS, *(head for name in self.targets for head in heads_of(name))]
        if self.also and len({*heads}) < len(heads):
            twice = next(head for head in heads if heads.count(head) > 1)
            raise InputError(
                f"targets are {[*self.targets]}, so two columns of predictions are called {twice!r}; "
                "expected names of their own; rename a column"
            )
        if len(self.time) > 2:
            raise InputError(f"time is {list(self.time)}; expected one column, or date and time; name these")
        taken = {*self.targets, self.learner, self.known, *self.drop} - {""}
        if len(set(self.features)) < len(self.features) or taken & set(self.features):
            raise InputError(
                f"features {list(self.features)} repeat a name or hold one used elsewhere; list each once"
            )

    def __hash__(self) -> int:
        return hash(json.dumps(self.table(), sort_keys=True))  # mappings are equal in any order

    def __reduce__(self) -> tuple[Any, ...]:  # a MappingProxyType cannot be pickled
        return Columns.from_table, (self.table(),)

    def table(self) -> dict[str, Any]:
        """Whatever differs from the defaults, as TOML and JSON hold it.

        >>> Columns(target="y", categories={"city": ["Rome", "Oslo"]}).table()
        {'target': 'y', 'categories': {'city': ['Rome', 'Oslo']}}
        """
        given = ((each, getattr(self, each.name)) for each in dataclasses.fields(self))
        return {each.name: _plain(value) for each, value in given if value != _default(each)}

    @staticmethod
    def from_table(table: Mapping[str, Any], where: str = "columns") -> Columns:
        """The inverse of `table`; `where` is named in errors."""
        given = dict(table)
        if isinstance(given.get("time"), str):
            given["time"] = [given["time"]] if given["time"] else []
        return toml.section(Columns, given, where)

    @property
    def targets(self) -> tuple[str, ...]:
        """All columns to predict."""
        return (self.target, *self.also) if self.target else ()

    @property
    def positive_label(self) -> str:
        """The class that counts as +1."""
        return self.positive or (self.labels[1] if len(self.labels) > 1 else "")

    def flatten(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """A nested record as one row: columns are named as in `paths`, else by their path.

        >>> Columns(paths={"temp": "s.1.t"}).flatten({"s": [{"t": 1}, {"t": 2}], "y": 3})
        {'s.0.t': 1, 'temp': 2, 'y': 3}
        """
        names = {path: name for name, path in self.paths.items()}
        return {names.get(path, path): cell for path, cell in _leaves(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _default(each: dataclasses.Field[Any]) -> Any:
    return _NONE if each.default is dataclasses.MISSING else each.default


def _leaves(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Path and value of every leaf, in order; a record that is too large or too deep is refused."""
    found = 0
    stack: list[tuple[str, Any, int]] = [("", record, 0)]
    while stack:
        path, value, depth = stack.pop()
        if isinstance(value, (Mapping, list, tuple)):
            if depth > DEEPEST:
                raise CellError(
                    "too deep", f"the record is more than {DEEPEST} levels deep", "send a flat one"
                )
            pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
            if len(path) > LONGEST_PATH:  # which each cell inside would repeat
                reason = f"a path has more than {LONGEST_PATH} characters"
                raise CellError("too long", reason, "send shorter names")
            inner = [(f"{path}.{name}" if path else str(name), each, depth + 1) for name, each in pairs]
            if found + len(stack) + len(inner) > MOST_CELLS:
                raise CellError("too long", f"the record has more than {MOST_CELLS} cells", "send fewer")
            stack += reversed(inner)
        else:
            found += 1
            yield path, value


def is_flat(record: Mapping[str, Any]) -> bool:
    """Whether no cell is an object or a list, which is usual."""
    return _NESTED.isdisjoint(map(type, record.values()))


def names_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every column of some rows, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))

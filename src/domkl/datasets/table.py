"""The user's own tables as numbers: read, understood, put in order of time; what cannot be used is counted.

read_table("my.csv", target="power")
read_table(frame, target="power", time="when", drop=["id"])
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import checks
from ..base.budget import TABLE
from ..base.errors import DataError, InputError
from ..base.types import Array
from . import guess, readers
from .cells import Moment
from .columns import CellError, Columns
from .dataset import Dataset, Split
from .encoder import ColumnInputs, Encoder, calendar
from .guess import Guess
from .readers import Fault, Faults, Raw

#: The share of rows that are later than the row above in a log with some rows out of order.
NEARLY = 0.9
#: Names that say when a row was measured; others, such as "birth date", may be a property like any other.
_WHEN = re.compile(r"(time|date|datetime|date[ _-]?time|timestamp|time[ _-]?stamp|ts|when|day|index|_time)")


def by_time(
    times: Array | None, rows: NDArray[np.intp], given_by: Guess, columns: Columns
) -> tuple[NDArray[np.intp], Columns, tuple[str, ...]]:
    """The rows in order of time; the columns, without a time that was guessed and orders nothing; notes."""
    if times is None or not len(rows):
        return rows, columns, ()
    when = carried(times[rows])
    early = int((when[1:] < when[:-1]).sum())
    if not early:
        return rows, columns, ()
    name = columns.time[0]
    if not (
        given_by.time_is_given or len(columns.time) == 2 or _WHEN.fullmatch(name.lower()) or _nearly(when)
    ):
        note = (
            f"rows stay as they are: column {name!r} may not be their time; --time {name} puts them in order"
        )
        return rows, dataclasses.replace(columns, time=()), (note,)
    note = f"rows put in order of time by column {name!r}: {early} came before an earlier one"
    return rows[np.argsort(when, kind="stable")], columns, (note,)


def carried(times: Array) -> Array:
    """Times with the one above in place of a missing one, so that a row without stays where it is."""
    known = np.isfinite(times)
    last = np.maximum.accumulate(np.where(known, np.arange(len(times)), -1))
    return np.where(last >= 0, times[np.maximum(last, 0)], -np.inf)


def _nearly(when: Array) -> bool:
    """Whether rows are nearly in order, or the newest first."""
    before, after = when[:-1], when[1:]
    return bool((after >= before).mean() >= NEARLY or (after <= before).all())


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a user's data as numbers, in order of time where they have one.

    `dropped` rows had a missing cell or no target; `faults` says which rows were refused, and why.

    >>> import numpy as np
    >>> t = Table("log", np.ones((5, 2)), np.arange(5.0), ("a", "b"), "c", ("x", "y", "x", "y", "x"))
    >>> part = t.by_learner()
    >>> part.names, part.y.tolist(), part.left_out
    (('x', 'y'), [[0.0, 2.0], [1.0, 3.0]], 1)
    """

    name: str
    X: Array  # (N, d)
    y: Array  # (N,), of m targets (N, m); NaN where a row has none and such rows were asked for
    feature_names: tuple[str, ...]  # of the inputs, of which a column may make several
    target: str
    learners: tuple[str, ...] | None = None  # whose row it is
    dropped: int = 0
    times: Array | None = None  # (N,) seconds since 1970 in UTC, NaN where a row has none
    columns: Columns = dataclasses.field(default_factory=Columns)  # with nothing left open
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    known: Array | None = None  # (N,) when each target was known, NaN where it never was
    rows: tuple[int, ...] = ()  # where each row was in the source: its line, or row

    @property
    def refused(self) -> int:
        """Rows that could not be used."""
        return sum(fault.rows for fault in self.faults)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes of the target, if it has some: -1 and +1 in y."""
        return self.columns.labels

    def dataset(self) -> Dataset:
        """All rows as one dataset, to be split over learners."""
        return Dataset(self.name, self.X, self.y, self.feature_names, self.target, self.times, self.known)

    def by_learner(self) -> Split:
        """The rows of each learner, in order of first appearance.

        Learners with more rows than the shortest leave their last ones out.
        """
        if self.learners is None:
            raise InputError("the table has no learner column; read it with learner=, or split dataset()")
        names = tuple(dict.fromkeys(self.learners))
        if len(names) > TABLE.learners:
            raise InputError(
                f"{self.name} has rows of {len(names)} learners; expected at most {TABLE.learners}; choose "
                "another learner column, or let few learners share the rows"
            )
        number = {name: j for j, name in enumerate(names)}
        who = np.array([number[name] for name in self.learners])
        groups = [np.flatnonzero(who == j) for j in range(len(names))]
        T = min(map(len, groups))
        rows = np.stack([group[:T] for group in groups])
        times = None if self.times is None else self.times[rows]
        known = None if self.known is None else self.known[rows]
        return Split(self.X[rows], self.y[rows], names, len(who) - rows.size, times=times, known=known)


def read_table(
    source: Any,
    columns: Columns | None = None,
    *,
    query: str = "",
    max_rows: int | None = None,
    unlabelled: bool = False,
    **said: Any,
) -> Table:
    """Read a file, a frame, a query or standard input.

    Parameters
    ----------
    source
        A path (CSV with any separator, JSON lines, JSON, Parquet; .gz too), "-" for standard input,
        "sqlite:FILE" or "postgresql://..." with a query, a frame of pandas or Polars, columns in a dict, or
        rows in a list.
    columns
        What the columns are; whatever is left open is guessed from the rows.
    query
        The select of a database.
    max_rows
        Read only so many rows.
    unlabelled
        Keep rows without a target; their y is NaN.
    said
        Fields of `Columns`, such as target="y", learner="site", drop=["id"], missing="drop".
    """
    given = described(columns, said)
    if max_rows is not None:
        checks.count("max_rows", max_rows, 2)
    raw = readers.read(source, given, query, max_rows)
    if not given.target and not unlabelled:
        raise InputError(
            f"{raw.name} needs a target; expected a column to predict, one of {', '.join(raw.columns)}; "
            "add --target COLUMN (target=)"
        )
    found = understand(raw, given, unlabelled, views=False)
    found.check(raw.name)
    return encoded(raw, Encoder(found.columns), found, unlabelled)


def described(columns: Columns | None, said: dict[str, Any]) -> Columns:
    """A description with some fields changed, as keywords say."""
    fields = {each.name for each in dataclasses.fields(Columns)}
    for name in said:
        checks.one_of("keyword", name, sorted(fields))
    return dataclasses.replace(columns or Columns(), **said)


def understand(raw: Raw, given: Columns, unlabelled: bool = False, views: bool = True) -> guess.Guess:
    """What the columns of a source are; with all that is wrong. It may lack the target if `unlabelled`."""
    if raw.problems and not raw.columns:
        return guess.Guess(given, (), raw.problems)
    if not len(raw):
        empty = (f"0 usable rows of {raw.refused}, at least 2 are needed", "add rows")
        return guess.Guess(given, (), (*raw.problems, empty))
    absent = [n for n in dict.fromkeys((*given.time, *given.features)) if n not in raw.columns]
    if unlabelled and absent:
        lacks = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        wrong = (f"no column {lacks}", "expected those that the model was taught with; give another file")
        return guess.Guess(given, (), (*raw.problems, wrong))
    here = all(name in raw.columns for name in given.targets or ("",)) or not unlabelled
    seen = given if here else dataclasses.replace(given, target="", also=(), labels=(), positive="")
    found = guess.guess(raw.columns, seen, views)
    separator = raw.found.get("separator", given.separator)
    columns = dataclasses.replace(found.columns, separator=separator)
    if not here:
        same = {name: getattr(given, name) for name in ("target", "also", "labels", "positive")}
        columns = dataclasses.replace(columns, **same)
    problems = (*raw.problems, *found.problems)
    return dataclasses.replace(found, columns=columns, problems=problems, notes=(*raw.notes, *found.notes))


def encoded(raw: Raw, encoder: Encoder, found: guess.Guess, unlabelled: bool = False) -> Table:
    """The rows of a source as numbers."""
    block = _Block(raw, encoder)
    X, y, times, who = block.inputs(), block.labels(), block.times(), block.learners()
    known = block.known()
    usable = block.good.copy()
    keep = usable & (np.isfinite(y).reshape(len(y), -1).all(1) | unlabelled)
    columns = encoder.columns
    if columns.missing == "error":
        block.refuse_missing(X, usable)
    if columns.missing in ("drop", "mean"):
        keep &= np.isfinite(X).all(axis=1) if columns.missing == "drop" else True
    if columns.missing == "mean":
        X[keep] = filled(X[keep])
        keep &= np.isfinite(X).all(axis=1)
    if keep.sum() < (1 if unlabelled else 2):
        raise DataError(_too_few(raw, int(keep.sum()), block.faults.result()))
    rows = np.flatnonzero(keep)
    order, columns, note = by_time(times, rows, given_by=found, columns=columns)
    if known is not None and not columns.time:
        raise DataError(
            f"{raw.name} has no time column; expected one beside {columns.known!r}, which says when targets "
            "were known; name it with --time"
        )
    return Table(
        raw.name,
        X[order],
        y[order],
        encoder.inputs,
        ", ".join(columns.targets),
        None if who is None else tuple(who[i] for i in order),
        int((usable & ~keep).sum()),
        None if times is None or not columns.time else times[order],
        columns,
        (*raw.faults, *block.faults.result()),
        (*found.notes, *note),
        None if known is None else known[order],
        tuple(raw.lines[i] for i in order),
    )


def times_of(raw: Raw, encoder: Encoder) -> Array | None:
    """When each row of a source was, NaN where that is missing or unusable; None if no column says when."""
    return _Block(raw, encoder).times()


def _too_few(raw: Raw, kept: int, faults: Sequence[Fault]) -> str:
    total = len(raw) + raw.refused
    worst = next(iter((*faults, *raw.faults)), None)
    why = f" ({worst.reason}, {worst.place})" if worst else ""
    remedy = worst.remedy if worst else "add rows"
    return f"{raw.name}: {kept} usable rows of {total}{why}, at least 2 are needed; {remedy}"


class _Block:
    """Encodes whole columns; `good` marks the rows whose cells could all be used."""

    def __init__(self, raw: Raw, encoder: Encoder) -> None:
        self.raw, self.encoder, self.columns = raw, encoder, encoder.columns
        self.good: NDArray[np.bool_] = np.ones(len(raw), dtype=bool)
        self.faults = Faults()

    def inputs(self) -> Array:
        """(N, d), NaN where a cell is missing or cannot be used."""
        blocks = [self._part(part) for part in self.encoder.parts]
        return np.concatenate(blocks, axis=1) if blocks else np.empty((len(self.raw), 0))

    def _part(self, part: ColumnInputs) -> Array:
        cells = self._cells(part.name)
        if isinstance(cells, np.ndarray) and part.expected == "a number":
            found = cells.astype(np.float64)[:, None]
            for i in np.flatnonzero(np.abs(found[:, 0]) > checks.LARGEST):
                self._one(part, i, cells[i].item())
            return found
        X = np.full((len(cells), len(part.inputs)), np.nan)
        if part.name in self.columns.time:
            for i, when in enumerate(self._moments):
                if when is not None:
                    X[i] = calendar(when, self.columns.calendar)
            return X
        known: dict[Any, Sequence[float]] = {}
        for i, cell in enumerate(cells):
            if type(cell) is str and cell in known:
                X[i] = known[cell]
                continue
            values = self._one(part, i, cell)
            if values is not None:
                X[i] = values
                if type(cell) is str:
                    known[cell] = values
        return X

    def _one(self, part: ColumnInputs, i: int, cell: Any) -> Sequence[float] | None:
        try:
            return self.encoder.cell(part, cell, strict=False)
        except CellError as error:
            self._refuse(part.name, i, error)
            return None

    def _refuse(self, column: str, i: int, error: CellError) -> None:
        if self.good[i]:  # a row with two bad cells is one row
            self.faults.refuse(column, self.raw.place(i), error)
        self.good[i] = False

    def _cells(self, name: str) -> Sequence[Any]:
        if len(self.columns.time) == 2 and name == self.columns.time[0]:
            both = (self.raw.columns[each] for each in self.columns.time)
            return [self.encoder.joined(*pair) for pair in zip(*both, strict=True)]
        return self.raw.columns.get(name, [None] * len(self.raw))

    def labels(self) -> Array:
        """(N,), of m targets (N, m); NaN where there is none."""
        found = [self._labels(name) for name in self.columns.targets]
        if len(found) > 1:
            return np.stack(found, -1)
        return found[0] if found else np.full(len(self.raw), np.nan)

    def _labels(self, name: str) -> Array:
        cells = self._cells(name)
        if (
            isinstance(cells, np.ndarray)
            and not self.columns.labels
            and np.abs(cells).max() <= checks.LARGEST
        ):
            return np.asarray(cells, dtype=np.float64)
        return np.array(self._each(name, lambda cell: self.encoder.label(cell, name), np.nan), np.float64)

    def _each(self, name: str, read: Callable[[Any], Any], blank: Any) -> list[Any]:
        """What is read from every cell of a column; `blank` where it is nothing, or the row is refused."""
        found = []
        for i, cell in enumerate(_plain(self._cells(name))):
            try:
                value = read(cell)
            except CellError as error:
                self._refuse(name, i, error)
                value = None
            found.append(blank if value is None else value)
        return found

    def times(self) -> Array | None:
        """(N,) in seconds, NaN where there is none; None if no column says when."""
        if not self.columns.time:
            return None
        return np.array([np.nan if found is None else found.seconds for found in self._moments], np.float64)

    def known(self) -> Array | None:
        """(N,) when each target was known, NaN where it never was; None if no column says so."""
        name = self.columns.known
        if not name:
            return None
        return np.array([np.nan if each is None else each.seconds for each in self._read(name)])

    @cached_property
    def _moments(self) -> list[Moment | None]:
        """When each row was."""
        return self._read(self.columns.time[0])

    def _read(self, name: str) -> list[Moment | None]:
        """The times in a column."""
        return self._each(name, lambda cell: self.encoder.moment_of(cell, name), None)

    def learners(self) -> list[str] | None:
        """Whose each row is."""
        name = self.columns.learner
        return self._each(name, self.encoder.learner_of, "") if name else None

    def refuse_missing(self, X: Array, usable: NDArray[np.bool_]) -> None:
        """Raise at the first missing cell."""
        bad = np.argwhere(~np.isfinite(X) & usable[:, None])
        if len(bad):
            i, j = (int(v) for v in bad[0])
            name = self.encoder.column_of(j)
            raise DataError(
                f"{self.raw.name}, {self.raw.place(i)}, column {name!r}: the cell is missing, expected a "
                'value; fill it, or leave missing cells to the model with --missing auto (missing="auto")'
            )


def _plain(cells: Sequence[Any]) -> Sequence[Any]:
    """Python's numbers in place of NumPy's, which are slow one by one."""
    return cells.tolist() if isinstance(cells, np.ndarray) else cells


def filled(V: Array) -> Array:
    """Missing cells as the mean of the cells above, which are the past; NaN where there is none above."""
    good = np.isfinite(V)
    totals, counts = np.cumsum(np.where(good, V, 0.0), axis=0), np.cumsum(good, axis=0)
    means = np.divide(totals, counts, out=np.full_like(V, np.nan), where=counts > 0)
    return np.where(good, V, means)

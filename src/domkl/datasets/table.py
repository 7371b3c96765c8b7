"""The user's own tables, CSV or Parquet.

A mistake in a file is reported with file, line, column and value.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.extras import need
from ..base.types import Array
from .base import Dataset, Split
from .files import read_bytes

POLICIES = ("error", "drop", "mean")
EMPTY = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a user's file, in its order; `dropped` rows had missing cells.

    >>> import numpy as np
    >>> t = Table("log", np.ones((5, 2)), np.arange(5.0), ("a", "b"), "c", ("x", "y", "x", "y", "x"))
    >>> part = t.by_learner()
    >>> part.names, part.y.tolist(), part.left_out
    (('x', 'y'), [[0.0, 2.0], [1.0, 3.0]], 1)
    """

    name: str
    X: Array  # (N, d)
    y: Array  # (N,)
    feature_names: tuple[str, ...]
    target: str
    learners: tuple[str, ...] | None = None  # whose row it is
    dropped: int = 0

    def dataset(self) -> Dataset:
        """All rows as one dataset, to be split over learners."""
        return Dataset(self.name, self.X, self.y, self.feature_names, self.target)

    def by_learner(self) -> Split:
        """The rows of each learner, in order of first appearance.

        Learners with more rows than the shortest leave their last ones out.
        """
        if self.learners is None:
            raise InputError(
                "the table has no learner column; read it with learner_column=, or split dataset()"
            )
        names = tuple(dict.fromkeys(self.learners))
        number = {name: j for j, name in enumerate(names)}
        who = np.array([number[name] for name in self.learners])
        groups = [np.flatnonzero(who == j) for j in range(len(names))]
        T = min(map(len, groups))
        rows = np.stack([group[:T] for group in groups])
        return Split(self.X[rows], self.y[rows], names, len(who) - rows.size)


@dataclass(frozen=True)
class _Raw:
    """Columns as they stand in the file."""

    path: Path
    columns: dict[str, Sequence[Any]]
    lines: Sequence[int]
    unit: str = "line"  # what an editor counts; Parquet has rows

    def at(self, i: int, column: str) -> str:
        return f"{self.path}, {self.unit} {self.lines[i]}, column {column!r}"


def read_table(
    path: str | os.PathLike[str],
    target: str,
    learner_column: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: str = "error",
    max_rows: int | None = None,
) -> Table:
    """Read a CSV (comma, semicolon or tab; .gz too) or Parquet file with a header.

    Parameters
    ----------
    target
        The column to predict.
    learner_column
        The column that says whose row it is; its values may be text.
    features
        The columns to predict from, in this order; all others if left out.
    drop
        Columns to leave out.
    missing
        What to do about empty, NaN and infinite cells: "error" refuses them, "drop"
        leaves out their rows, "mean" fills a feature with the mean of its column's
        cells above, and leaves out rows without a target and rows above a column's
        first value.
    max_rows
        Read only so many rows.
    """
    checks.one_of("missing", missing, POLICIES)
    if max_rows is not None:
        checks.count("max_rows", max_rows, 2)
    file = Path(path)
    raw = _parquet(file, max_rows) if file.suffix.lower() == ".parquet" else _csv(file, max_rows)
    names = _features(raw, target, learner_column, features, drop)
    V = np.column_stack([_numbers(raw, name, target) for name in (*names, target)])
    who = None if learner_column is None else _learners(raw, learner_column)
    if missing == "error":
        _refuse(raw, V, (*names, target), who, learner_column)
    keep = _keep(V, who, missing)
    if missing == "mean":
        _refuse_empty(V[keep], names, file)
        V[keep] = _filled(V[keep])
        keep &= np.isfinite(V).all(axis=1)
    if keep.sum() < 2:
        raise DataError(f"{file}: {keep.sum()} usable rows of {len(keep)}, at least 2 are needed; add rows")
    V = V[keep]
    kept = None if who is None else tuple(w for w, k in zip(who, keep, strict=True) if k)
    return Table(file.name, V[:, :-1], V[:, -1], names, target, kept, int((~keep).sum()))


def _csv(path: Path, max_rows: int | None) -> _Raw:
    """The cells of a CSV file as text."""
    text = _decode(path)
    rows = _rows(path, text)
    _, head = next(rows, (0, []))
    names = _header(path, head)
    body = list(islice(rows, max_rows))
    for line, row in body:
        if len(row) != len(names):
            raise DataError(
                f"{path}, line {line}: {len(row)} fields, expected {len(names)} as in the header; "
                "correct the line (text with a separator in it needs quotes)"
            )
    columns = zip(*(row for _, row in body), strict=True) if body else [()] * len(names)
    return _Raw(path, dict(zip(names, columns, strict=True)), [line for line, _ in body])


def _decode(path: Path) -> str:
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text; save the file as UTF-8"
        ) from None


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not blank."""
    top = next((line for line in io.StringIO(text) if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=top.count))
    line = 1
    try:
        for row in reader:
            if row:
                yield line, [cell.strip() for cell in row]
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {line}: not CSV ({error}); export the table again") from None


def _header(path: Path, head: Sequence[str]) -> list[str]:
    if not any(head):
        raise DataError(f"{path}: the file is empty; expected a line with column names and rows below")
    for i, name in enumerate(head):
        if not name:
            raise DataError(f"{path}, line 1: column {i + 1} has no name; name every column in the header")
        if name in head[:i]:
            raise DataError(f"{path}, line 1: column {name!r} is there twice; give every column its own name")
    return list(head)


def _parquet(path: Path, max_rows: int | None) -> _Raw:
    """The columns of a Parquet file."""
    arrow, parquet = need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")
    try:
        table = parquet.ParquetFile(path).read()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path") from None
    except (arrow.ArrowException, OSError) as error:
        fact = str(error).splitlines()[0]
        raise DataError(f"{path}: not a Parquet file ({fact}); export the table again") from None
    if max_rows is not None:
        table = table.slice(0, max_rows)
    names = _header(path, table.column_names)
    columns = {name: _cells(table.column(i)) for i, name in enumerate(names)}
    return _Raw(path, columns, range(1, table.num_rows + 1), "row")


def _cells(column: Any) -> Sequence[Any]:
    """Numbers as an array, which is quick; anything else as Python objects."""
    values = column.to_numpy()
    return values if values.dtype.kind in "iuf" else column.to_pylist()  # type: ignore[no-any-return]


def _features(
    raw: _Raw, target: str, learner: str | None, features: Sequence[str] | None, drop: Iterable[str]
) -> tuple[str, ...]:
    """The names of the feature columns, all given names checked."""
    if isinstance(drop, str) or isinstance(features, str):
        raise InputError('features and drop are lists of names; write drop=["NAME"] for one')
    out = {*drop, target, *([learner] if learner else [])}
    for name in (target, *([learner] if learner else []), *drop, *(features or ())):
        if name not in raw.columns:
            raise InputError(
                f"{raw.path}: no column {name!r}{_headless(raw)}; {checks.hint(name, raw.columns)}"
            )
    if target == learner or target in drop:
        raise InputError(f"target {target!r} is also the learner column or dropped; choose another")
    if features and (len(set(features)) < len(features) or out & set(features)):
        raise InputError(
            f"features {list(features)} repeat a name or hold one used elsewhere; list each once"
        )
    if features is not None and not features:
        raise InputError("features names no column; expected one or more; leave it out to take all others")
    names = tuple(features or (name for name in raw.columns if name not in out))
    if not names:
        raise InputError(f"{raw.path}: no column is left as a feature; drop fewer or add one")
    return names


def _headless(raw: _Raw) -> str:
    """A hint for files whose first line is data."""
    try:
        [float(name) for name in raw.columns]
    except ValueError:
        return ""
    return " (the first line holds numbers; it must name the columns)"


def _number(cell: Any) -> float:
    """A cell's value, NaN if it is missing; ValueError or TypeError if it is no number."""
    if cell is None or (isinstance(cell, str) and cell.lower() in EMPTY):
        return float("nan")
    if isinstance(cell, str) and "_" in cell:  # Python's float takes 1_000
        raise ValueError
    return float(cell)


def _quick(cells: Sequence[Any]) -> Array | None:
    """A column without gaps and mistakes as numbers, else None."""
    if isinstance(cells, np.ndarray):
        return cells.astype(np.float64)
    try:
        return None if "_" in "".join(cells) else np.array(list(map(float, cells)))
    except (TypeError, ValueError):
        return None


def _numbers(raw: _Raw, name: str, target: str) -> Array:
    """A column as numbers."""
    cells = raw.columns[name]
    quick = _quick(cells)
    if quick is not None:
        return quick
    values = np.empty(len(cells))
    for i, cell in enumerate(cells):
        try:
            values[i] = _number(cell)
        except (TypeError, ValueError):
            remedy = _remedy(str(cell), name, name == target)
            raise DataError(f"{raw.at(i, name)}: {str(cell)!r} is not a number; {remedy}") from None
    return values


def _remedy(cell: str, name: str, target: bool) -> str:
    """What to do about a cell that is no number."""
    if re.fullmatch(r"[-+]?\d+,\d+", cell):
        return "write decimals with a point"
    if target:
        return "correct it or choose a target with numbers"
    return f"correct it or leave the column out with --drop {name} (drop=[{name!r}])"


def _learners(raw: _Raw, name: str) -> list[str]:
    """The learner of every row, "" where it is missing."""
    return ["" if cell is None else str(cell) for cell in raw.columns[name]]


def _refuse(
    raw: _Raw, V: Array, names: Sequence[str], who: Sequence[str] | None, learner: str | None
) -> None:
    """Raise at the first missing cell."""
    remedy = 'fill it, or leave such rows out with --missing drop (missing="drop")'
    bad = np.argwhere(~np.isfinite(V))
    if len(bad):
        i, j = (int(v) for v in bad[0])
        cell = raw.columns[names[j]][i]
        raise DataError(f"{raw.at(i, names[j])}: {_show(cell)}, expected a finite number; {remedy}")
    if who is not None and learner is not None and "" in who:
        raise DataError(f"{raw.at(who.index(''), learner)}: the cell is empty, expected a name; {remedy}")


def _show(cell: Any) -> str:
    return "the cell is empty" if cell is None or cell == "" else f"the value is {str(cell)!r}"


def _keep(V: Array, who: Sequence[str] | None, missing: str) -> NDArray[np.bool_]:
    """Rows that stay."""
    needed = V[:, -1:] if missing == "mean" else V
    keep = np.asarray(np.isfinite(needed).all(axis=1))
    return keep if who is None else keep & np.array([name != "" for name in who], dtype=bool)


def _refuse_empty(V: Array, names: Sequence[str], path: Path) -> None:
    """Raise if a feature has no value at all."""
    known = np.isfinite(V).any(axis=0)
    if len(V) and not known.all():
        name = names[int(np.argmin(known))]
        raise DataError(
            f"{path}, column {name!r}: no value at all, so no mean; leave it out with --drop {name}"
        )


def _filled(V: Array) -> Array:
    """Missing cells as the mean of the cells above, which are the past; NaN where there is none above."""
    good = np.isfinite(V)
    totals, counts = np.cumsum(np.where(good, V, 0.0), axis=0), np.cumsum(good, axis=0)
    means = np.divide(totals, counts, out=np.full_like(V, np.nan), where=counts > 0)
    return np.where(good, V, means)

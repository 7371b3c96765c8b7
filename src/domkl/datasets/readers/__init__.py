"""Every source of rows behind one function: files, frames, databases and standard input.

    read("my.csv", Columns())        CSV with any separator, JSON, JSON lines, Parquet; .gz too
    read("-", ...)                   standard input, any of these
    read("sqlite:my.db", ..., query="select ...")   or postgresql://...
    read(frame, ...)                 pandas, Polars, Arrow, columns in a dict, rows in a list

Nothing here knows what a column means; see `guess` and `encoder`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...base import budget, checks
from ...base.budget import Spent
from ...base.errors import DataError, InputError
from ...base.extras import need
from ...base.places import near_file
from ..columns import Columns
from . import queries
from .rows import Fault, Faults, Raw, flattened, from_rows, quickened, without

GZIP = b"\x1f\x8b"
#: Bytes that any packed file may have, and how many times its size larger ones may.
MOST_UNZIPPED, RATIO = 2**28, 100


def unzipped(data: bytes) -> bytes:
    """What gzip has packed; far more than any table packs to so little is refused."""
    most = min(budget.TABLE.bytes, max(MOST_UNZIPPED, RATIO * len(data)))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise gzip.BadGzipFile(f"more than {most} bytes from {len(data)}; gunzip it first if that is right")
    return found


def read_bytes(path: Path) -> bytes:
    """The file's bytes, gunzipped if its name ends in .gz."""
    try:
        if path.is_char_device():
            raise DataError(f"{path}: a device, which has no end; expected a file; choose one")
        data = budget.read(path)
        return unzipped(data) if path.suffix.lower() == ".gz" else data
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; {near_file(path) or 'check the path'}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); get it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path and its rights") from None


SEPARATORS = (",", ";", "\t", "|", "space")
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", "space": "white space"}
#: Lines that are looked at to find the separator.
LOOKED_AT = 50
#: What a share of lines counts that white space divides: names and times may have spaces in them.
SPACES = 0.5
#: Characters of a cell, at most.
LONGEST = 2**20


def read_csv(name: str, text: str, columns: Columns, max_rows: int | None = None) -> Raw:
    """A table with a header."""
    mark = columns.separator or separator(text)
    rows = _rows(text, mark)
    spent = Spent(name)
    _, head = next(rows, (0, []))
    spent.row(len(head))
    if not any(head):
        problem = ("the file is empty", "expected a line with column names and rows below")
        return Raw(name, {}, [], problems=(problem,), format="CSV")
    names, notes = _names(head)
    faults, body = Faults(), []
    for line, row in islice(rows, max_rows):
        spent.row(len(row))
        if len(row) == len(names):
            body.append((line, row))
        else:
            reason = f"{len(row)} fields, expected {len(names)} as in the header"
            if row == [_BROKEN]:
                reason = f"a cell has more than {LONGEST} characters or the line is no text"
            remedy = "correct the line (text with a separator in it needs quotes)"
            faults.note("", "wrong length", f"line {line}", reason, remedy)
    cells = zip(*(row for _, row in body), strict=True) if body else [()] * len(names)
    return Raw(
        name,
        quickened(dict(zip(names, map(list, cells), strict=True))),
        [line for line, _ in body],
        faults=faults.result(),
        problems=_headless(names),
        notes=notes,
        format=f"CSV, separator {NAMES.get(mark, repr(mark))}",
        found={"separator": mark},
    )


def _names(head: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """A name of its own for every column, and what had to be done for that."""
    names: dict[str, None] = {}
    notes = []
    for i, given in enumerate(head, 1):
        name = first = given or f"column {i}"
        while name in names:
            name = f"{name} ({i})"
        if name != first:
            notes.append(f"column {given!r} is there twice, the second is called {name!r}")
        names[name] = None
    return list(names), tuple(notes)


def _headless(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """A problem where the first line is data."""
    try:
        [float(name) for name in names]
    except ValueError:
        return ()
    return (("the first line holds numbers", "write a line with the names of the columns above it"),)


def separator(text: str) -> str:
    """What separates the cells: what gives most lines as many cells as the first, and then most cells.

    >>> separator("a;b\\n1,5;2,5\\n"), separator("a b  c\\n1 2 3\\n")
    (';', 'space')
    """
    top = "".join(islice(io.StringIO(text), LOOKED_AT))
    scores = {mark: _score(top, mark) for mark in SEPARATORS}
    best = max(SEPARATORS, key=lambda mark: scores[mark])
    return best if scores[best][1] else ","


def _score(text: str, mark: str) -> tuple[float, int]:
    """The share of lines with as many cells as the first, 0 for less than two cells; and how many cells."""
    widths = [len(row) for _, row in _rows(text, mark)]
    if not widths or widths[0] < 2:
        return 0.0, 0
    if len(widths) > 2:
        widths.pop()  # may be cut
    share = sum(width == widths[0] for width in widths) / len(widths)
    return share * (SPACES if mark == "space" else 1.0), widths[0]


_BROKEN = "\0"


def _rows(text: str, mark: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every line that is not blank."""
    if mark == "space":
        text, mark = "\n".join(" ".join(line.split()) for line in text.splitlines()), " "
    csv.field_size_limit(max(LONGEST, csv.field_size_limit()))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            row = [_BROKEN]
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield line, cells
        line = reader.line_num + 1


EXAMPLE = '{"a": 1.5, "y": 3}'
_BAD = (ValueError, RecursionError)


def read_json(name: str, text: str, columns: Columns, max_rows: int | None = None) -> Raw:
    """Rows from JSON lines, or from a document; `columns.records` is the path of its list."""
    if not text.strip():
        return Raw(name, {}, [], problems=(("the file is empty", "expected JSON"),), format="JSON")
    if _is_lines(text):
        return read_lines(name, text, columns, max_rows)
    try:
        whole = json.loads(text)
    except _BAD as error:
        problem = (f"not JSON: {checks.short(str(error))}", f"write one object a line, such as {EXAMPLE}")
        return Raw(name, {}, [], problems=(problem,), format="JSON")
    return _document(name, whole, columns, max_rows)


def _is_lines(text: str) -> bool:
    """Whether the first line that is not blank is an object, and not the only one."""
    first, _, rest = text.lstrip().partition("\n")
    try:
        return isinstance(json.loads(first), dict) and bool(rest.strip())
    except _BAD:
        return first.lstrip().startswith("{") and "\n{" in rest.replace("\n ", "")  # a bad first line


def read_lines(name: str, text: str, columns: Columns, max_rows: int | None) -> Raw:
    """Rows from JSON lines, also from a single one."""
    faults, spent = Faults(), Spent(name)
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for line, each in enumerate(text.split("\n"), 1):
        if not each.strip():
            continue
        if max_rows is not None and len(rows) >= max_rows:
            break
        try:
            row = json.loads(each)
        except _BAD as error:
            reason = f"not JSON: {checks.short(str(error))}"
            faults.note("json", "not JSON", f"line {line}", reason, f"write {EXAMPLE}")
            continue
        if isinstance(row, dict):
            spent.row(len(row))
            rows.append(row)
            lines.append(line)
        else:
            reason = f"{checks.short(row)} is no object"
            faults.note("object", "not a row", f"line {line}", reason, f"write {EXAMPLE}")
    return from_rows(name, rows, columns, lines, "line", faults=faults.result(), format="JSON lines")


def _document(name: str, whole: Any, columns: Columns, max_rows: int | None) -> Raw:
    """The rows of a document: a list of objects or lists, or an object of columns."""
    found, path = _records(whole, columns.records)
    more: dict[str, Any] = {"format": f"JSON, rows at {path!r}" if path else "JSON"}
    if isinstance(found, Mapping) and _is_columns(found):
        cells = {str(key): list(value)[:max_rows] for key, value in found.items()}
        count = len(next(iter(cells.values())))
        Spent(name).table(count, len(cells))
        return Raw(name, quickened(cells), range(1, count + 1), "row", **more)
    if not isinstance(found, list):
        fact = f"no list of rows at {path!r}" if path else "no list of rows"
        remedy = f'say where it is: records = "..." (expected a list of objects such as {EXAMPLE})'
        return Raw(name, {}, [], problems=((fact, remedy),), **more)
    faults, rows, numbers = Faults(), [], []
    for i, row in enumerate(found[:max_rows], 1):
        if isinstance(row, list):
            row = {f"column {j}": cell for j, cell in enumerate(row, 1)}
        if isinstance(row, dict):
            rows.append(row)
            numbers.append(i)
        else:
            faults.note("", "not a row", f"row {i}", f"{checks.short(row)} is no object", f"write {EXAMPLE}")
    return from_rows(name, rows, columns, numbers, faults=faults.result(), **more)


def _records(whole: Any, path: str) -> tuple[Any, str]:
    """What is at a path; without one, the list of objects nearest to the top."""
    if path:
        for part in path.split("."):
            if isinstance(whole, list):
                whole = whole[int(part)] if part.isdigit() and int(part) < len(whole) else None
            else:
                whole = whole.get(part) if isinstance(whole, dict) else None
        return whole, path
    place: list[str] = []
    while isinstance(whole, dict) and not _is_columns(whole):
        inner = [key for key, value in whole.items() if _holds_rows(value)]
        if not inner and len(whole) != 1:
            break
        place.append(str(inner[0] if inner else next(iter(whole))))
        whole = whole[place[-1]]
    return whole, ".".join(place)


def _holds_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, (dict, list)) for row in value)


def _is_columns(value: Mapping[Any, Any]) -> bool:
    """Whether an object holds columns: lists of cells, all as long."""
    lists = [each for each in value.values() if isinstance(each, list) and not _holds_rows(each)]
    return bool(lists) and len(lists) == len(value) and len({len(each) for each in lists}) == 1


def read_frame(frame: Any, columns: Columns, max_rows: int | None = None) -> Raw:
    """A table that is in memory already."""
    kind = type(frame).__module__.split(".")[0]
    if kind == "pandas" and hasattr(frame, "columns"):
        return _columns("frame", _pandas(frame), max_rows, "a pandas frame")
    if kind == "polars":
        whole = frame.collect() if hasattr(frame, "collect") else frame
        return _columns("frame", {s.name: _cells(s) for s in whole.get_columns()}, max_rows, "a Polars frame")
    if kind == "pyarrow":
        return _arrow("table", frame, max_rows, "an Arrow table")
    if isinstance(frame, Mapping):
        return _columns("table", {str(k): _listed(v) for k, v in frame.items()}, max_rows, "columns")
    if isinstance(frame, Sequence) and all(isinstance(row, Mapping) for row in frame):
        return from_rows("rows", frame[:max_rows], columns, format="rows")
    raise InputError(
        f"the data are {checks.short(frame)}; expected a file, a frame of pandas or Polars, columns in a "
        "dict or rows in a list; pass one of these"
    )


def _columns(name: str, found: Mapping[str, Sequence[Any]], max_rows: int | None, what: str) -> Raw:
    lengths = {len(cells) for cells in found.values()}
    if len(lengths) > 1:
        raise InputError(f"columns have {sorted(lengths)} cells; expected as many in each; fix the lengths")
    cut = {each: cells[:max_rows] for each, cells in found.items()}
    count = len(next(iter(cut.values()), ()))
    return Raw(name, cut, range(1, count + 1), "row", format=what)


def _pandas(frame: Any) -> dict[str, Sequence[Any]]:
    """A frame's columns, and its index where that says something."""
    index = frame.index
    whole = index.name is not None or type(index).__name__ == "DatetimeIndex"
    first = {str(index.name or "time"): list(index)} if whole else {}
    return {**first, **{str(name): _cells(frame[name]) for name in frame.columns}}


def _cells(series: Any) -> Sequence[Any]:
    """Numbers as an array, which is quick; anything else as Python objects."""
    values = series.to_numpy()
    if values.dtype.kind in "iuf":
        return values  # type: ignore[no-any-return]
    return list(series) if values.dtype.kind != "O" or not hasattr(series, "to_list") else series.to_list()


def _listed(cells: Any) -> Sequence[Any]:
    if isinstance(cells, str) or not hasattr(cells, "__len__"):
        raise InputError(f"a column is {checks.short(cells)}; expected a list of cells; pass one for each")
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf" and cells.ndim == 1:
        return cells  # type: ignore[return-value]
    return cells.tolist() if isinstance(cells, np.ndarray) and cells.dtype.kind != "M" else list(cells)


#: Rows of a Parquet file that are unpacked at once.
PARQUET_ROWS = 2**12


def parquet(name: str, data: bytes, max_rows: int | None = None) -> Raw:
    """The columns of a Parquet file."""
    arrow, reader = need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")
    spent, batches, left = Spent(name), [], max_rows
    try:
        schema = reader.ParquetFile(io.BytesIO(data)).schema
        leaves = (schema.column(i) for i in range(len(schema)))
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        file = reader.ParquetFile(io.BytesIO(data), read_dictionary=texts)  # each text once, until counted
        for batch in file.iter_batches(PARQUET_ROWS):  # a few bytes may stand for a million equal cells
            cells = [leaf for column in batch.columns for leaf in _leaves(column)]
            spent.table(batch.num_rows, max(len(cells), sum(map(len, cells)) // max(1, batch.num_rows)))
            spent.size(sum(map(_unpacked, cells)))
            batches.append(batch if left is None else batch.slice(0, left))
            left = None if left is None else left - batch.num_rows
            if left is not None and left <= 0:
                break
        whole = arrow.Table.from_batches(batches, batches[0].schema if batches else file.schema_arrow)
        return _arrow(name, whole, None, "Parquet")
    except (arrow.ArrowException, OSError, UnicodeError) as error:
        fact = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"{name}: not a Parquet file ({fact}); export the table again") from None


def _leaves(cells: Any) -> list[Any]:
    """The arrays of plain cells in one of Arrow's, whose lists and objects become columns."""
    arrow = need("pyarrow", "parquet")
    if isinstance(cells, arrow.StructArray):
        return [leaf for part in cells.flatten() for leaf in _leaves(part)]
    if isinstance(cells, arrow.ListArray | arrow.LargeListArray | arrow.FixedSizeListArray):
        return _leaves(cells.flatten())
    return [cells]


def _unpacked(cells: Any) -> int:
    """Bytes of plain cells, where a text counts as often as it is there."""
    arrow, compute = need("pyarrow", "parquet"), need("pyarrow.compute", "parquet")
    if not isinstance(cells, arrow.DictionaryArray):
        return int(cells.nbytes)
    try:
        sizes = compute.binary_length(cells.dictionary)
    except arrow.ArrowNotImplementedError:  # no texts
        return int(cells.indices.nbytes)
    return compute.sum(sizes.take(cells.indices)).as_py() or 0


def _arrow(name: str, table: Any, max_rows: int | None, what: str) -> Raw:
    while any(str(kind).startswith("struct") for kind in table.schema.types):
        table = table.flatten()
    cut = table if max_rows is None else table.slice(0, max_rows)
    names = dict.fromkeys(cut.column_names)
    if len(names) < len(cut.column_names):
        raise DataError(f"{name}: two columns have one name; give every column its own")
    types, found = need("pyarrow", "parquet").types, {}
    for each in names:  # numbers as an array, where nothing is missing; anything else as Python objects
        column = cut.column(each)
        is_number = types.is_integer(column.type) or types.is_floating(column.type)
        found[each] = column.to_numpy() if is_number and not column.null_count else _objects(column)
    return Raw(name, found, range(1, cut.num_rows + 1), "row", format=what)


def _objects(column: Any) -> Sequence[Any]:
    """Python objects; what is none, such as the year 30000, as a text, so that it costs its row alone."""
    if str(column.type).startswith("timestamp[ns"):  # finer than Python has
        whole = need("pyarrow", "parquet").timestamp("us", column.type.tz)
        column = column.cast(whole, safe=False)
    if str(column.type).startswith("dictionary"):
        column = column.cast(column.type.value_type)
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        return [_object(each) for each in column]


def _object(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return bytes(error.object).decode("utf-8", "replace")
    except (OverflowError, ValueError):
        return f"{scalar.value} {scalar.type}"


__all__ = ["Fault", "Faults", "Raw", "read"]

#: What reads a text, by the end of the file's name; what is in it tells where the name does not.
READERS = {
    ".json": read_json,
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".csv": read_csv,
    ".tsv": read_csv,
}
STDIN = "standard input"


def read(source: Any, columns: Columns, query: str = "", max_rows: int | None = None) -> Raw:
    """The columns of a source, as they are; numbers that stand for a missing cell are NaN."""
    return without(_read(source, columns, query, max_rows), columns.na)


def _read(source: Any, columns: Columns, query: str, max_rows: int | None) -> Raw:
    if not isinstance(source, (str, os.PathLike)):
        _no_query(query)
        return flattened(read_frame(source, columns, max_rows), columns)
    if isinstance(source, str) and queries.is_database(source):
        return flattened(queries.read(source, query, max_rows), columns)
    _no_query(query)
    if source == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("standard input is a terminal; expected rows from a pipe or file; add < FILE")
        return _bytes(STDIN, Spent(STDIN).whole(sys.stdin.buffer), "", columns, max_rows)
    path = Path(source)
    suffixes = [end.lower() for end in path.suffixes if end.lower() != ".gz"]
    return _bytes(str(path), read_bytes(path), suffixes[-1] if suffixes else "", columns, max_rows)


def is_json(source: str) -> bool:
    """Whether a file's name says that it holds JSON."""
    return READERS.get(Path(source).suffix.lower()) is read_json


def is_stored(source: str) -> bool:
    """Whether a source is a Parquet file or a database, which `stored` reads."""
    return queries.is_database(source) or source.lower().endswith((".parquet", ".parquet.gz"))


def stored(source: str, query: str = "", max_rows: int | None = None) -> Raw:
    """A Parquet file or the rows of a query, with objects and lists in their cells left as they are."""
    if queries.is_database(source):
        return queries.read(source, query, max_rows)
    return parquet(source, read_bytes(Path(source)), max_rows)


def _no_query(query: str) -> None:
    if query:
        raise InputError(
            "query is given without a database; expected sqlite:FILE or postgresql://; leave it out"
        )


def _bytes(name: str, data: bytes, end: str, columns: Columns, max_rows: int | None) -> Raw:
    """A file's content, which says more than its name."""
    if data[:2] == GZIP:
        try:
            data = unzipped(data)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{name}: not a whole gzip file ({error}); get it again") from None
    if data[:4] == b"PAR1" or end == ".parquet":
        return flattened(parquet(name, data, max_rows), columns)
    if data[:4] == b"PK\x03\x04" or end == ".xlsx":
        raise DataError(f"{name}: an Excel or zip file; expected text or Parquet; save the sheet as CSV")
    if data[:16] == b"SQLite format 3\0":
        raise DataError(f"{name}: a SQLite database; expected --data sqlite:{name}; write it so")
    text, notes = _decoded(name, data)
    likely = read_json if text.lstrip()[:1] in ("{", "[") else read_csv
    raw = READERS.get(end, likely)(name, text, columns, max_rows)
    return raw if not notes else Raw(**{**vars(raw), "notes": (*notes, *raw.notes)})


def _decoded(name: str, data: bytes) -> tuple[str, tuple[str, ...]]:
    """Text in UTF-8, in UTF-16 if it says so, else as Windows writes it, which is noted."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace"), ("read as UTF-16",)
    try:
        return data.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise DataError(
                f"{name}: not a text file; expected CSV, JSON or Parquet; export it again"
            ) from None
        line = data.count(b"\n", 0, error.start) + 1
        note = f"line {line} is not UTF-8 text, so the file was read as Windows-1252; save it as UTF-8 if not"
        return data.decode("cp1252", "replace"), (note,)

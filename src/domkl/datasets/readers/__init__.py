"""Every source of rows behind one function: files, frames, databases and standard input.

    read("my.csv", Columns())        CSV with any separator, JSON, JSON lines, Parquet; .gz too
    read("-", ...)                   standard input, any of these
    read("sqlite:my.db", ..., query="select ...")   or postgresql://...
    read(frame, ...)                 pandas, Polars, Arrow, columns in a dict, rows in a list

Nothing here knows what a column means; see `guess` and `encoder`.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path
from typing import Any

from ...base.errors import DataError, InputError
from ..columns import Columns
from ..files import read_bytes, unzipped
from . import delimited, frames, queries, records
from .raw import Fault, Faults, Raw, flattened, without

__all__ = ["Fault", "Faults", "Raw", "read"]

JSON = (".json", ".jsonl", ".ndjson")
STDIN = "standard input"


def read(source: Any, columns: Columns, query: str = "", max_rows: int | None = None) -> Raw:
    """The columns of a source, as they are; numbers that stand for a missing cell are NaN."""
    return without(_read(source, columns, query, max_rows), columns.na)


def _read(source: Any, columns: Columns, query: str, max_rows: int | None) -> Raw:
    if not isinstance(source, (str, os.PathLike)):
        _no_query(query)
        return flattened(frames.read(source, columns, max_rows), columns)
    if isinstance(source, str) and queries.is_database(source):
        return flattened(queries.read(source, query, max_rows), columns)
    _no_query(query)
    if source == "-":
        return _bytes(STDIN, _stdin(), "", columns, max_rows)
    path = Path(source)
    suffixes = [end.lower() for end in path.suffixes if end.lower() != ".gz"]
    return _bytes(str(path), read_bytes(path), suffixes[-1] if suffixes else "", columns, max_rows)


def is_stored(source: str) -> bool:
    """Whether a source is a Parquet file or a database, which `stored` reads."""
    return queries.is_database(source) or source.lower().endswith((".parquet", ".parquet.gz"))


def stored(source: str, query: str = "", max_rows: int | None = None) -> Raw:
    """A Parquet file or the rows of a query, with objects and lists in their cells left as they are."""
    if queries.is_database(source):
        return queries.read(source, query, max_rows)
    return frames.parquet(source, read_bytes(Path(source)), max_rows)


def _no_query(query: str) -> None:
    if query:
        raise InputError(
            "query is given without a database; expected sqlite:FILE or postgresql://; leave it out"
        )


def _stdin() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("standard input is a terminal; expected rows from a pipe or file; add < FILE")
    return sys.stdin.buffer.read()


def _bytes(name: str, data: bytes, end: str, columns: Columns, max_rows: int | None) -> Raw:
    """A file's content, which says more than its name."""
    if data[:2] == b"\x1f\x8b":
        data = _unzipped(name, data)
    if data[:4] == b"PAR1" or end == ".parquet":
        return flattened(frames.parquet(name, data, max_rows), columns)
    if data[:4] == b"PK\x03\x04" or end == ".xlsx":
        raise DataError(f"{name}: an Excel or zip file; expected text or Parquet; save the sheet as CSV")
    if data[:16] == b"SQLite format 3\0":
        raise DataError(f"{name}: a SQLite database; expected --data sqlite:{name}; write it so")
    text, notes = _decoded(name, data)
    is_json = end in JSON or (end not in (".csv", ".tsv") and text.lstrip()[:1] in ("{", "["))
    raw = (records if is_json else delimited).read(name, text, columns, max_rows)
    return raw if not notes else Raw(**{**vars(raw), "notes": (*notes, *raw.notes)})


def _unzipped(name: str, data: bytes) -> bytes:
    try:
        return unzipped(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name}: not a whole gzip file ({error}); get it again") from None


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

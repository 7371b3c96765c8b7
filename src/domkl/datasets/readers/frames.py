"""Tables in memory: of pandas, Polars and Arrow, columns in a dict, or rows in a list; and Parquet files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base import checks
from ...base.errors import DataError, InputError
from ...base.extras import need
from ..columns import Columns
from .raw import Raw, from_rows


def read(frame: Any, columns: Columns, max_rows: int | None = None) -> Raw:
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


def parquet(name: str, data: bytes, max_rows: int | None = None) -> Raw:
    """The columns of a Parquet file."""
    arrow, reader = need("pyarrow", "parquet"), need("pyarrow.parquet", "parquet")
    try:
        return _arrow(name, reader.ParquetFile(io.BytesIO(data)).read(), max_rows, "Parquet")
    except (arrow.ArrowException, OSError, UnicodeError) as error:
        fact = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"{name}: not a Parquet file ({fact}); export the table again") from None


def _arrow(name: str, table: Any, max_rows: int | None, what: str) -> Raw:
    while any(str(kind).startswith("struct") for kind in table.schema.types):
        table = table.flatten()
    cut = table if max_rows is None else table.slice(0, max_rows)
    names = dict.fromkeys(cut.column_names)
    if len(names) < len(cut.column_names):
        raise DataError(f"{name}: two columns have one name; give every column its own")
    found = {each: _arrow_cells(cut.column(each)) for each in names}
    return Raw(name, found, range(1, cut.num_rows + 1), "row", format=what)


def _arrow_cells(column: Any) -> Sequence[Any]:
    """Numbers as an array, where nothing is missing; anything else as Python objects."""
    types = need("pyarrow", "parquet").types
    is_number = types.is_integer(column.type) or types.is_floating(column.type)
    return column.to_numpy() if is_number and not column.null_count else _objects(column)


def _objects(column: Any) -> Sequence[Any]:
    """Python objects; what is none, such as the year 30000, as a text, so that it costs its row alone."""
    if str(column.type).startswith("timestamp[ns"):  # finer than Python has
        whole = need("pyarrow", "parquet").timestamp("us", column.type.tz)
        column = column.cast(whole, safe=False)
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

"""JSON: one object a line, or one document that holds a list of objects somewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...base import checks
from ..columns import Columns
from .raw import Faults, Raw, from_rows, quickened

EXAMPLE = '{"a": 1.5, "y": 3}'
_BAD = (ValueError, RecursionError)


def read(name: str, text: str, columns: Columns, max_rows: int | None = None) -> Raw:
    """Rows from JSON lines, or from a document; `columns.records` is the path of its list."""
    if not text.strip():
        return Raw(name, {}, [], problems=(("the file is empty", "expected JSON"),), format="JSON")
    if _is_lines(text):
        return _lines(name, text, columns, max_rows)
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


def _lines(name: str, text: str, columns: Columns, max_rows: int | None) -> Raw:
    faults = Faults()
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
            whole = _inside(whole, part)
        return whole, path
    place: list[str] = []
    while isinstance(whole, dict) and not _is_columns(whole):
        inner = [key for key, value in whole.items() if _holds_rows(value)]
        if not inner and len(whole) != 1:
            break
        place.append(str(inner[0] if inner else next(iter(whole))))
        whole = whole[place[-1]]
    return whole, ".".join(place)


def _inside(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    return None


def _holds_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, (dict, list)) for row in value)


def _is_columns(value: Mapping[Any, Any]) -> bool:
    """Whether an object holds columns: lists of cells, all as long."""
    lists = [each for each in value.values() if isinstance(each, list) and not _holds_rows(each)]
    return bool(lists) and len(lists) == len(value) and len({len(each) for each in lists}) == 1

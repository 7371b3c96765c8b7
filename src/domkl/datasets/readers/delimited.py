"""CSV and its kin: any separator, found by looking; rows of another length are refused and counted."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice

from ..columns import Columns
from .raw import Faults, Raw, quickened

SEPARATORS = (",", ";", "\t", "|", "space")
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", "space": "white space"}
#: Lines that are looked at to find the separator.
LOOKED_AT = 50
#: What a share of lines counts that white space divides: names and times may have spaces in them.
SPACES = 0.5
#: Characters of a cell, at most.
LONGEST = 2**20


def read(name: str, text: str, columns: Columns, max_rows: int | None = None) -> Raw:
    """A table with a header."""
    mark = columns.separator or separator(text)
    rows = _rows(text, mark)
    _, head = next(rows, (0, []))
    if not any(head):
        return _empty(name)
    names, notes = _names(head)
    faults, body = Faults(), []
    for line, row in islice(rows, max_rows):
        if len(row) == len(names):
            body.append((line, row))
        else:
            faults.note("", "wrong length", f"line {line}", _length(row, len(names)), _LENGTH_REMEDY)
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


_LENGTH_REMEDY = "correct the line (text with a separator in it needs quotes)"


def _length(row: Sequence[str], expected: int) -> str:
    if row == [_BROKEN]:
        return f"a cell has more than {LONGEST} characters or the line is no text"
    return f"{len(row)} fields, expected {expected} as in the header"


def _empty(name: str) -> Raw:
    problem = ("the file is empty", "expected a line with column names and rows below")
    return Raw(name, {}, [], problems=(problem,), format="CSV")


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

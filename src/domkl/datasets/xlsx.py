"""Air quality's Excel sheet as CSV, with the standard library only."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import date, timedelta
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

from ..base.errors import DataError

NS = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def to_csv(data: bytes) -> bytes:
    """The first sheet: ISO date, HH:MM:SS, then numbers as Python prints them."""
    try:
        with ZipFile(io.BytesIO(data)) as book:
            head, *rows = (row for row in _cells(book) if any(row))
        whole = head.index("NMHC(GT)")  # the one column of integers
        lines = [head, *([_date(r[0]), _time(r[1]), *_values(r, whole)] for r in rows)]
    except (BadZipFile, LookupError, ValueError, ElementTree.ParseError) as error:
        raise DataError(f"the Excel sheet cannot be read ({error}); get it again") from None
    return "".join(",".join(line) + "\n" for line in lines).encode()


def _cells(book: ZipFile) -> Iterator[list[str]]:
    """The rows of the first sheet as text."""
    shared: list[str] = []
    if "xl/sharedStrings.xml" in book.namelist():
        strings = ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
        shared = ["".join(t.text or "" for t in item.iter(NS + "t")) for item in strings]
    for row in ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml")).iter(NS + "row"):
        yield [_cell(cell, shared) for cell in row]


def _cell(cell: ElementTree.Element, shared: list[str]) -> str:
    value = cell.findtext(NS + "v") or "".join(t.text or "" for t in cell.iter(NS + "t"))
    return shared[int(value)] if cell.get("t") == "s" else value


def _date(serial: str) -> str:
    # Excel counts days from here, its belief in 29 February 1900 included.
    return (date(1899, 12, 30) + timedelta(days=int(float(serial)))).isoformat()


def _time(fraction: str) -> str:
    seconds = round(float(fraction) % 1 * 86400)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _values(row: list[str], whole: int) -> list[str]:
    return [str(int(float(v))) if i == whole else repr(float(v)) for i, v in enumerate(row[2:], 2)]

"""Parsers of JSON and CSV lines; a line that cannot be used raises `RowRefused` with the reason."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from ..base.errors import DataError, Error
from ..base.extras import need
from .config import StreamSection
from .files import LONGEST, Tail

#: A row of JSON lines, for those who wrote another.
EXAMPLE = '{"x": [1.5, 2], "y": 3}'
#: Bytes of an id, which may be kept until its label comes.
LONGEST_ID = 256
#: A number with a decimal comma.
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+(e[-+]?\d+)?\s*$", re.IGNORECASE)


class Row(NamedTuple):
    """A parsed line, not yet validated or scaled."""

    x: Sequence[float] | None
    y: float | None
    id: str | None = None


class RowRefused(Exception):
    """A row that cannot be used: the kind of error, its details, and what to do about it."""

    def __init__(self, kind: str, reason: str, remedy: str = "fix the row") -> None:
        super().__init__(kind, reason)
        self.kind, self.reason, self.remedy = kind, reason, remedy


def fault_of(error: Exception) -> RowRefused:
    """The refusal of a row that could be read, but not predicted or learnt."""
    if isinstance(error, RowRefused):
        return error
    if isinstance(error, Error):  # of domkl: fact; expectation; remedy
        reason, _, remedy = str(error).rpartition("; ")
        return RowRefused("sample", reason, remedy)
    return RowRefused("sample", repr(error))


class JsonRows:
    """Lines of JSON: {"x": [..] or {"column": ..}, "y": .., "id": ".."}"""

    def __init__(self, columns: Sequence[str], missing: bool = False) -> None:
        self.columns, self.missing = columns, missing
        self.decode, self.errors = _decoder()

    def __call__(self, line: bytes) -> Row:
        if len(line) > LONGEST:
            raise _too_long()
        try:
            said = self.decode(line)
        except self.errors as error:
            raise RowRefused("not a reading", str(error), _json_remedy(str(error))) from None
        x = self._named(said.x) if isinstance(said.x, dict) else said.x
        if x is not None and None in x:  # whether missing values are allowed is checked later
            x = [math.nan if value is None else value for value in x]
        return Row(x, said.y, None if said.id is None else _id(said.id))

    def _named(self, x: dict[str, Any]) -> list[Any]:
        if not self.columns:
            remedy = f"write [stream] columns = {json.dumps(list(x)[:20])}"
            raise RowRefused("no column", "x has names but [stream] columns lists none", remedy)
        if self.missing and self._lacks(x):
            return [x.get(name) for name in self.columns]
        try:
            return [x[name] for name in self.columns]
        except KeyError as error:
            remedy = "fix the names in [stream] columns, or set missing = true where inputs may be absent"
            raise RowRefused("no column", f"x has no {error.args[0]!r}", remedy) from None

    def _lacks(self, x: dict[str, Any]) -> bool:
        """Whether inputs are missing, rather than under other names."""
        return x.keys() <= set(self.columns) and len(x) > 0


@lru_cache
def _decoder() -> tuple[Callable[[bytes], Any], tuple[type[Exception], ...]]:
    msgspec = need("msgspec", "agent")
    fields = [
        ("x", list[float | None] | dict[str, float | None] | None, None),
        ("y", float | None, None),
        ("id", str | int | None, None),
    ]
    kind = msgspec.defstruct("Said", fields)
    return msgspec.json.Decoder(kind).decode, (msgspec.MsgspecError, UnicodeError, RecursionError)


def _id(said: str | int) -> str:
    id = str(said)
    if len(id.encode()) > LONGEST_ID:
        raise RowRefused("too long", f"the id has more than {LONGEST_ID} bytes", "use shorter ids")
    return id


def _json_remedy(error: str) -> str:
    if "got `str`" in error:
        return "write numbers without quotes, and decimals with a point"
    return f"write one JSON object a line, such as {EXAMPLE}"


def _too_long() -> RowRefused:
    return RowRefused("too long", f"the line has more than {LONGEST} bytes", "write a row on each line")


class CsvRows:
    """Lines of a table with a header; comma, semicolon or tab, whichever the header has most of."""

    def __init__(self, section: StreamSection, inputs: int) -> None:
        self.section, self.inputs = section, inputs
        self.names = section.columns  # or else those of the first file, for all later ones
        self.opened = 0
        self._broken = ""  # what is wrong with a later file's header
        self._width, self._comma = 0, ","

    def begin(self, header: bytes, tail: Tail) -> None:
        """Read a file's header. An unusable first header is an error; a later one costs that file's rows."""
        first, self.opened = not self.opened, tail.opened
        self._broken = ""
        try:
            self._read_header(header)
        except RowRefused as fault:
            if first:
                raise DataError(f"{tail.path}, header: {fault.reason}; fix the file or [stream]") from None
            self._broken = fault.reason

    def _read_header(self, line: bytes) -> None:
        text = _text(line).lstrip("\ufeff")
        self._comma = max(",;\t", key=text.count)
        names = [name.strip() for name in self._cells(text)]
        columns = self.names or tuple(name for name in names if name != self.section.target)
        for name in (*columns, self.section.target):
            if names.count(name) != 1:
                raise RowRefused("no column", f"there are {names.count(name)} columns {name!r}, expected one")
        if len(columns) != self.inputs:
            raise RowRefused("wrong length", f"there are {len(columns)} inputs, expected {self.inputs}")
        self._width, self.names = len(names), columns
        self._pick = itemgetter(*(names.index(name) for name in (*columns, self.section.target)))

    def __call__(self, line: bytes) -> Row:
        if self._broken:
            raise RowRefused("no column", f"the header is unusable: {self._broken}")
        cells = self._cells(_text(line))
        if len(cells) != self._width:
            remedy = "write decimals with a point, and as many cells as the header has"
            reason = f"the row has {len(cells)} cells, expected {self._width}"
            raise RowRefused("wrong length", reason, remedy)
        *x, y = self._pick(cells)
        try:
            if b"_" in line:  # float() would accept it as a separator
                raise ValueError
            return Row(list(map(float, x)), float(y) if y else None)
        except ValueError:
            return self._slowly(x, y)

    def _slowly(self, x: Sequence[str], y: str) -> Row:
        """The same row, cell by cell, so that the error can name the column."""
        missing = self.section.missing
        numbers = [
            math.nan if missing and not cell.strip() else _number(name, cell)
            for name, cell in zip(self.names, x, strict=True)
        ]
        return Row(numbers, _number(self.section.target, y) if y.strip() else None)

    def _cells(self, text: str) -> list[str]:
        if '"' not in text:
            return text.split(self._comma)
        try:
            return next(csv.reader([text], delimiter=self._comma, strict=True))
        except csv.Error as error:
            raise RowRefused("not a row", str(error)) from None


def _text(line: bytes) -> str:
    if len(line) > LONGEST:
        raise _too_long()
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError:
        raise RowRefused("not a row", "the line is not UTF-8 text") from None


def _number(name: str, cell: str) -> float:
    try:
        return float("no" if "_" in cell else cell)
    except ValueError:
        shown = f"{cell[:40]!r}" if cell.strip() else "empty"
        reason = f"column {name!r} is {shown}, expected a number"
        raise RowRefused("not a number", reason, _number_remedy(cell)) from None


def _number_remedy(cell: str) -> str:
    if DECIMAL_COMMA.match(cell):
        return f"write decimals with a point: {cell.strip()[:40].replace(',', '.')}"
    if not cell.strip():
        return "write a number, or set [stream] missing = true where inputs may be empty"
    return "write numbers, or name the numeric columns in [stream] columns"

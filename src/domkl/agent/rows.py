"""Parsers of JSON and CSV lines; a line that cannot be used raises `RowRefused` with the reason."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from ..base.errors import DataError
from ..base.extras import need
from .config import StreamSection
from .files import LONGEST, Tail


class Row(NamedTuple):
    """A parsed line, not yet validated or scaled."""

    x: Sequence[float] | None
    y: float | None
    id: str | None = None


class RowRefused(Exception):
    """A row that cannot be used: the kind of error, and its details."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind, self.reason = kind, reason


class JsonRows:
    """{"x": [..] or {"column": ..}, "y": .., "id": ".."}"""

    def __init__(self, columns: Sequence[str], missing: bool = False) -> None:
        self.columns, self.missing = columns, missing
        self.decode, self.errors = _decoder()

    def __call__(self, line: bytes) -> Row:
        if len(line) > LONGEST:
            raise _too_long()
        try:
            said = self.decode(line)
        except self.errors as error:
            raise RowRefused("not a reading", str(error)) from None
        x = self._named(said.x) if isinstance(said.x, dict) else said.x
        if x is not None and None in x:  # whether missing values are allowed is checked later
            x = [math.nan if value is None else value for value in x]
        return Row(x, said.y, None if said.id is None else str(said.id))

    def _named(self, x: dict[str, Any]) -> list[Any]:
        if not self.columns:
            raise RowRefused("no column", "x has names but [stream] columns lists none")
        if self.missing and self._lacks(x):
            return [x.get(name) for name in self.columns]
        try:
            return [x[name] for name in self.columns]
        except KeyError as error:
            raise RowRefused("no column", f"x has no {error.args[0]!r}") from None

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


def _too_long() -> RowRefused:
    return RowRefused("too long", f"the line has more than {LONGEST} bytes")


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
            raise RowRefused("wrong length", f"the row has {len(cells)} cells, expected {self._width}")
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
        raise RowRefused("not a number", f"column {name!r} is {shown}, expected a number") from None

"""Parsers of JSON and CSV lines and of messages; what cannot be used raises `RowRefused` with the reason."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ..base.errors import Error
from ..base.extras import need
from ..datasets.columns import CellError
from ..datasets.encoder import Encoder
from .absent import Absent
from .files import LONGEST

#: A row of JSON lines, for those who wrote another.
EXAMPLE = '{"x": [1.5, 2], "y": 3}'
#: Bytes of an id, which may be kept until its label comes.
LONGEST_ID = 256


class Row(NamedTuple):
    """A parsed line, not yet validated or scaled."""

    x: list[float] | None
    y: float | None
    id: str | None = None
    time: float | None = None  # seconds since 1970


#: What is no reading, and nothing to complain about either: a header, a part of a reading, another's row.
PASSED = Row(None, None, "passed")


class RowRefused(Exception):
    """A row that cannot be used: the kind of error, its details, and what to do about it."""

    def __init__(self, kind: str, reason: str, remedy: str = "fix the row") -> None:
        super().__init__(kind, reason)
        self.kind, self.reason, self.remedy = kind, reason, remedy


def fault_of(error: Exception) -> RowRefused:
    """The refusal of a row that could not be read, predicted or learnt."""
    if isinstance(error, RowRefused):
        return error
    if isinstance(error, CellError):
        remedy = re.sub(r"--([a-z]+)", r"[columns] \1", error.remedy)  # an agent's file, not an option
        return RowRefused(error.kind, error.reason, remedy)
    if isinstance(error, Error):  # of domkl: fact; expectation; remedy
        reason, _, remedy = str(error).rpartition("; ")
        return RowRefused("sample", reason, remedy)
    return RowRefused("sample", repr(error))


def encoded(encoder: Encoder, row: Mapping[str, Any], learner: str, id: str | None = None) -> Row:
    """A row of named cells as numbers; one of another learner is passed."""
    found = encoder.encode(row)
    if found.learner is not None and found.learner != learner:
        return PASSED
    return Row(found.x, found.y, id, found.time)


class JsonRows:
    """Lines of JSON: {"x": [..] or {"column": ..}, "y": .., "id": ".."}; with columns, of any names."""

    def __init__(self, encoder: Encoder | None, learner: str = "") -> None:
        self.encoder, self.learner = encoder, learner
        self.decode, self.errors = _decoder()
        self._absent = None if encoder is None else Absent(encoder)
        self._any = need("msgspec", "agent").json.decode

    def __call__(self, line: bytes) -> Row:
        if len(line) > LONGEST:
            raise too_long()
        if self.encoder is None:
            return self._plain(line)
        found = self.value(line)
        if not isinstance(found, dict):
            raise RowRefused("not a reading", f"the row is of type {type(found).__name__}", _json_remedy(""))
        return self._plain(line) if isinstance(found.get("x"), list) else self.row(found)

    def value(self, text: bytes) -> Any:
        """Any JSON."""
        try:
            return self._any(text)
        except self.errors as error:
            raise RowRefused("not a reading", str(error), _json_remedy(str(error))) from None

    def row(self, record: dict[str, Any]) -> Row:
        """An object of named cells, or of an x that is one; a label of an earlier x has its id alone."""
        assert self.encoder is not None
        columns = self.encoder.columns
        id = None if "id" in columns.features else record.get("id")
        named = record.get("x")
        if isinstance(named, dict) and "x" not in columns.features:
            _check_spelling(named, columns.features)
            record = named if record.get("y") is None else {**named, columns.target: record["y"]}
        elif id is not None and not columns.paths.keys() & {*columns.features} and _is_label(record, columns):
            return Row(None, self.encoder.label(record.get(columns.target, record.get("y"))), _id(id))
        found = encoded(self.encoder, record, self.learner, None if id is None else _id(id))
        if self._absent is not None and found.x is not None:
            self._absent.look(found.x, record)
        return found

    def _plain(self, line: bytes) -> Row:
        """A row whose x is a list."""
        try:
            said = self.decode(line)
        except self.errors as error:
            raise RowRefused("not a reading", str(error), _json_remedy(str(error))) from None
        x = said.x
        if isinstance(x, dict):
            remedy = f"write [columns] features = {json.dumps(list(x)[:20])}"
            raise RowRefused("no column", "x has names but [columns] features lists none", remedy)
        if x is not None and None in x:  # whether missing values are allowed is checked later
            x = [math.nan if value is None else value for value in x]
        return Row(x, said.y, None if said.id is None else _id(said.id))


def _check_spelling(named: dict[str, Any], features: tuple[str, ...]) -> None:
    """Refuse inputs under other names; those that are only absent are missing."""
    absent = [name for name in features if name not in named]
    if absent and not named.keys() <= {*features}:
        remedy = "fix the names in the row, or those in [columns] features"
        raise RowRefused("no column", f"x has no {absent[0]!r}", remedy)


def _is_label(record: dict[str, Any], columns: Any) -> bool:
    """Whether a record has no input."""
    return record.keys().isdisjoint(columns.features) and all(
        not isinstance(value, dict | list) for value in record.values()
    )


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


def _id(said: object) -> str:
    if isinstance(said, bool) or not isinstance(said, str | int):
        raise RowRefused("not a reading", "the id is neither text nor a whole number", "fix the id")
    id = str(said)
    if len(id.encode(errors="replace")) > LONGEST_ID:
        raise RowRefused("too long", f"the id has more than {LONGEST_ID} bytes", "use shorter ids")
    return id


def _json_remedy(error: str) -> str:
    if "got `str`" in error:
        return "write numbers without quotes, and decimals with a point"
    return f"write one JSON object a line, such as {EXAMPLE}"


def too_long() -> RowRefused:
    """The refusal of a line that is too long."""
    return RowRefused("too long", f"the line has more than {LONGEST} bytes", "write a row on each line")

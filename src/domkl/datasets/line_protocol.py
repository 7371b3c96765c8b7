"""InfluxDB's line protocol: one line as measurement, tags, fields and time; fields added to a line.

>>> line = parse('weather,site=north temp=21.5,rain=f,"state"="a \\\\"b\\\\"" 1700000000000000000')
>>> line.measurement, line.tags, line.fields
('weather', {'site': 'north'}, {'temp': 21.5, 'rain': False, '"state"': 'a "b"'})
>>> line.add({"temp_predicted": 21.25}).split()[-2:]
['\\\\"b\\\\"",temp_predicted=21.25', '1700000000000000000']
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from ..base.errors import DataError

Value: TypeAlias = "float | int | bool | str"
#: The largest integer, the largest unsigned one, and the largest time in nanoseconds.
INTEGER, UNSIGNED = 2**63 - 1, 2**64 - 1

_BLANK = re.compile(r"[ \t\v\f]+")
_EDGE = re.compile(r"[ \t\v\f]*")
# A backslash escapes only what would end a name; before anything else it is a backslash.
_MEASUREMENT = re.compile(r"(?:\\[, ]|\\(?![, ])|[^\\, \t\v\f\r\n])+")
_NAME = re.compile(r"(?:\\[,= ]|\\(?![,= ])|[^\\,= \t\v\f\r\n])+")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PLAIN = re.compile(r"[^, \t\v\f\r\n]+")
_INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]*))i", re.ASCII)
_WHOLE = re.compile(r"(0|[1-9][0-9]*)u", re.ASCII)
_FLOAT = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_TIME = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_TRUTH = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), False),
}


class LineError(DataError):
    """A line that is not line protocol: what was found where, and what was expected."""


@dataclass(frozen=True)
class Line:
    """A line as it came, and what it says; `end` is where its fields end, `time` is in nanoseconds."""

    text: str
    measurement: str
    tags: dict[str, str]
    fields: dict[str, Value]
    time: int | None
    end: int

    def add(self, fields: Mapping[str, Value]) -> str:
        """The same text with further fields; numbers that are not finite cannot be written: left out."""
        kept = {name: value for name, value in fields.items() if not _is_lost(value)}
        added = "".join(f",{escaped(name)}={written(value)}" for name, value in kept.items())
        return f"{self.text[: self.end]}{added}{self.text[self.end :]}"


def parse(text: str) -> Line:
    """One line, without what ends it; raises `LineError` if it is anything else."""
    start = _EDGE.match(text).end()  # type: ignore[union-attr]  # it matches anything
    name = _MEASUREMENT.match(text, start)
    if name is None or text.startswith("#", start):
        _fail(text, start, "a measurement")
    tags, at = _tags(text, name.end())
    blank = _BLANK.match(text, at)
    if blank is None:
        _fail(text, at, "a blank and fields")
    fields, end = _fields(text, blank.end())
    return Line(text, _plain(name[0], ", "), tags, fields, _time(text, end), end)


def _tags(text: str, at: int) -> tuple[dict[str, str], int]:
    tags: dict[str, str] = {}
    while text.startswith(",", at):
        name, at = _name(text, at + 1, "a tag")
        value = _NAME.match(text, at)
        if value is None:
            _fail(text, at, "a tag's value")
        if name in tags:
            _fail(text, at, f"another tag than {name!r}, which is there twice")
        tags[name], at = _plain(value[0], ",= "), value.end()
    return tags, at


def _fields(text: str, at: int) -> tuple[dict[str, Value], int]:
    fields: dict[str, Value] = {}
    while True:
        name, at = _name(text, at, "a field")
        if name in fields:
            _fail(text, at, f"another field than {name!r}, which is there twice")
        fields[name], at = _value(text, at)
        if not text.startswith(",", at):
            return fields, at
        at += 1


def _name(text: str, at: int, what: str) -> tuple[str, int]:
    """A name and where the value after its = begins."""
    name = _NAME.match(text, at)
    if name is None or not text.startswith("=", name.end()):
        _fail(text, at, what)
    return _plain(name[0], ",= "), name.end() + 1


def _value(text: str, at: int) -> tuple[Value, int]:
    """A field's value, and where it ends."""
    if quoted := _STRING.match(text, at):
        return _plain(quoted[1], '"\\'), quoted.end()
    word = _PLAIN.match(text, at)
    if word is None:
        _fail(text, at, "a value")
    value = _number(word[0])
    if value is None:
        _fail(text, at, "a number, an integer with i or u, true, false or a text in quotes")
    return value, word.end()


def _number(word: str) -> Value | None:
    """A number or truth value, None if it is neither or too large."""
    if word in _TRUTH:
        return _TRUTH[word]
    if found := _INTEGER.fullmatch(word):
        return _within(found[1], -INTEGER - 1, INTEGER)
    if found := _WHOLE.fullmatch(word):
        return _within(found[1], 0, UNSIGNED)
    if _FLOAT.fullmatch(word):
        return float(word) if math.isfinite(float(word)) else None
    return None


def _within(digits: str, low: int, high: int) -> int | None:
    """An integer of 64 bits; longer ones are not even converted."""
    value = int(digits) if len(digits) <= 20 else None
    return value if value is not None and low <= value <= high else None


def _time(text: str, at: int) -> int | None:
    """Nanoseconds after the fields, if the line has a time; nothing may follow it."""
    rest = text[at:].strip(" \t\v\f")
    if not rest and _EDGE.fullmatch(text, at):
        return None
    if _BLANK.match(text, at) is None or not _TIME.fullmatch(rest):
        _fail(text, at, "a comma and a field, a blank and the time, or the end")
    value = _within(rest, -INTEGER - 1, INTEGER)
    if value is None:
        _fail(text, at, "a time of 64 bits")
    return value


def _plain(text: str, special: str) -> str:
    """A text without the backslashes before special characters."""
    return re.sub(rf"\\([{re.escape(special)}])", r"\1", text) if "\\" in text else text


def escaped(name: str) -> str:
    """A tag or a field's name as it is written."""
    return re.sub(r"([,= ])", r"\\\1", name)


def written(value: Value) -> str:
    """A field's value as it is written.

    >>> written(True), written(3), written(2**63), written(0.5), written('a "b"')
    ('true', '3i', '9223372036854775808u', '0.5', '"a \\\\"b\\\\""')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}{'i' if value <= INTEGER else 'u'}"
    if isinstance(value, float):
        return repr(value)
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _is_lost(value: Value) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _fail(text: str, at: int, expected: str) -> NoReturn:
    found = repr(text[at : at + 20]) if at < len(text) else "the end"
    raise LineError(f"{found} at column {at + 1}; expected {expected}; write influx line protocol")

"""Rows of a stream, from JSON and CSV lines; what cannot be used is refused, counted, and kept with why.

Messages of topics are rows too, see `topics`, and so are rows of tables, see `sources`.
"""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..base import checks
from ..base.budget import TABLE
from ..base.errors import DataError, Error, InputError
from ..datasets import cells
from ..datasets.columns import CellError, Columns, is_flat
from ..datasets.encoder import Encoder
from .config import ARRIVAL, LONGEST_ROW, TOPIC, AgentConfig
from .logs import Limited, tell

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


def label_of(encoder: Encoder, row: Mapping[str, Any], learner: str) -> Row | None:
    """The label of an earlier reading: its time, the target and no input; None for any other row."""
    columns = encoder.columns
    flat = row if is_flat(row) else columns.flatten(row)
    inputs = {*columns.features} - {*columns.time, ARRIVAL, TOPIC}
    if not inputs or not all(cells.is_missing(flat.get(name), frozenset(columns.na)) for name in inputs):
        return None
    found = timed_label(encoder, flat, learner)
    return None if found is not PASSED and found.y is None else found


def timed_label(encoder: Encoder, flat: Mapping[str, Any], learner: str) -> Row:
    """The target and the time of a flat row, whatever else is in it."""
    columns = encoder.columns
    y = encoder.label(flat.get(columns.target, flat.get("y")))
    if columns.learner and encoder.learner_of(flat.get(columns.learner)) != learner:
        return PASSED
    return Row(None, y, None, encoder.seconds(flat) if columns.time else seconds_of(flat.get("time")))


def seconds_of(said: object) -> float | None:
    """When a row was that says it without a column of times: in seconds since 1970, or as ISO has it."""
    if said is None:
        return None
    try:
        return cells.moment(said, "s" if isinstance(said, int | float) else "iso").seconds
    except ValueError:
        reason = f"the time is {checks.short(said)}"
        raise RowRefused("not a time", reason, "write seconds since 1970, or 2026-11-19T08:00:00Z") from None


def encoded(encoder: Encoder, row: Mapping[str, Any], learner: str, id: str | None = None) -> Row:
    """A row of named cells as numbers; one of another learner is passed."""
    found = encoder.encode(row)
    if found.learner is not None and found.learner != learner:
        return PASSED
    return Row(found.x, found.y, id, found.time)


class JsonRows:
    """Lines of JSON: {"x": [..] or {"column": ..}, "y": .., "id": ".."}; with columns, of any names."""

    def __init__(self, encoder: Encoder | None, learner: str = "", by_time: bool = False) -> None:
        self.encoder, self.learner, self._by_time = encoder, learner, by_time
        self._absent = None if encoder is None else Absent(encoder.columns)

    def __call__(self, line: bytes) -> Row:
        if len(line) > LONGEST_ROW:
            raise too_long()
        if self.encoder is None:
            return self._plain(line)
        found = self.value(line)
        if not isinstance(found, dict):
            raise RowRefused("not a reading", f"the row is of type {type(found).__name__}", _json_remedy(""))
        return self._plain(line) if isinstance(found.get("x"), list) else self.row(found)

    def value(self, text: bytes) -> Any:
        try:
            return msgspec.json.decode(text)
        except UNREADABLE as error:
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
        elif id is None and self._by_time and (label := label_of(self.encoder, record, self.learner)):
            return label
        found = encoded(self.encoder, record, self.learner, None if id is None else _id(id))
        if self._absent is not None and found.x is not None:
            self._absent.look(record)
        return found

    def _plain(self, line: bytes) -> Row:
        """A row whose x is a list."""
        try:
            said = _SAID.decode(line)
        except UNREADABLE as error:
            raise RowRefused("not a reading", str(error), _json_remedy(str(error))) from None
        x = said.x
        if isinstance(x, dict):
            remedy = f"write [columns] features = {json.dumps(list(x)[:20])}"
            raise RowRefused("no column", "x has names but [columns] features lists none", remedy)
        # Whether missing values are allowed is checked later.
        values = None if x is None else [math.nan if value is None else value for value in x]
        time = seconds_of(said.time) if self._by_time else None
        return Row(values, said.y, None if said.id is None else _id(said.id), time)

    def label(self, text: bytes) -> Row:
        """A message that is a label, whatever else is in it."""
        found = self.value(text)
        if not isinstance(found, dict):
            remedy = 'send an object such as {"time": "2026-11-19T08:00:00Z", "y": 3}'
            raise RowRefused("no time", "the label has neither the time nor the id of a reading", remedy)
        row = self._label_alone(found)
        if row.y is None and row is not PASSED:
            named = "y" if self.encoder is None else self.encoder.columns.target
            raise RowRefused("no label", f"the message has no {named!r}", "send labels only on this topic")
        return row

    def _label_alone(self, found: dict[str, Any]) -> Row:
        if self.encoder is None:
            said = {key: value for key, value in found.items() if key in ("y", "id", "time")}
            return self._plain(msgspec.json.encode(said))
        columns = self.encoder.columns
        flat = found if is_flat(found) else columns.flatten(found)
        id = None if "id" in columns.features else found.get("id")
        if id is None:
            return timed_label(self.encoder, flat, self.learner)
        return Row(None, self.encoder.label(flat.get(columns.target, flat.get("y"))), _id(id))


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


class _Said(msgspec.Struct):
    """A row as JSON has it, without names."""

    x: list[float | None] | dict[str, float | None] | None = None
    y: float | None = None
    id: str | int | None = None
    time: Any = None


_SAID = msgspec.json.Decoder(_Said)
#: What is wrong with JSON.
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


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
    return RowRefused("too long", f"the line has more than {LONGEST_ROW} bytes", "write a row on each line")


LOG = logging.getLogger(__name__)
#: Readings after which an input that none of them had is reported, and which names of a reading are shown.
FIRST_READINGS, MOST_SHOWN, LONGEST_NAME = 20, 20, 80


class Absent:
    """Looks at the first readings, and warns once of the columns that none of them had."""

    def __init__(self, columns: Columns) -> None:
        self._columns, self._seen, self._left = columns, 0, dict.fromkeys(columns.features)

    def look(self, record: Mapping[str, Any]) -> None:
        """Note which columns a reading has."""
        if not self._left:
            return
        names = record if is_flat(record) else self._columns.flatten(record)
        self._left = {name: None for name in self._left if cells.is_missing(names.get(name))}
        self._seen += 1
        if self._left and self._seen >= FIRST_READINGS:
            paths = self._columns.paths
            where = [f"{name} ({paths[name]})" if name in paths else name for name in self._left]
            has = [str(name)[:LONGEST_NAME] for name in list(names)[:MOST_SHOWN]]
            remedy = "fix [columns] features or paths, or leave it out"
            about = {"columns": where, "readings": self._seen, "has": has, "remedy": remedy}
            tell(LOG, logging.WARNING, "input never came", **about)
            self._left = {}


#: Separators that are looked for, in this order.
SEPARATORS = ",;\t|"
#: With commas, wider rows are believed after so many right ones: before, they may be decimals with commas.
ENOUGH = 10


class CsvRows:
    """Rows below a header. A new header in their midst is followed; cells beyond the header are ignored.

    Parameters
    ----------
    encoder : None for all columns but the target as numbers, as the first header names them.
    inputs : how many inputs there must be.
    """

    def __init__(
        self,
        encoder: Encoder | None,
        columns: Columns,
        target: str,
        inputs: int,
        learner: str = "",
        by_time: bool = False,
    ) -> None:
        self.encoder, self.columns, self.target, self.inputs = encoder, columns, target, inputs
        self._by_time = by_time
        self.learner, self.opened = learner, 0
        self._broken = ""  # what is wrong with a later file's header
        self._names: list[str] = []
        self._separator, self._good, self._is_wider = ",", 0, False
        self._pick: Callable[[list[str]], tuple[str, ...]] | None = None

    def begin(self, header: bytes, opened: int, path: Path) -> None:
        """Read a file's header. An unusable first header is an error; a later one costs that file's rows."""
        first, self.opened = not self.opened, opened
        self._broken, self._good, self._is_wider = "", 0, False
        try:
            self._read_header(header)
        except RowRefused as fault:
            if first:
                raise DataError(f"{path}, header: {fault.reason}; fix the file or [columns]") from None
            self._broken = fault.reason

    def _read_header(self, line: bytes) -> None:
        text = text_of(line).lstrip("\ufeff")
        separator, names = header_of(text, self.columns, self._needed())
        encoder = self.encoder or self._of_numbers(names)
        for name in (*encoder.columns.features, *encoder.columns.time, self.target):
            if names.count(name) != 1:
                raise RowRefused("no column", f"there are {names.count(name)} columns {name!r}, expected one")
        if encoder.d != self.inputs:
            raise RowRefused("wrong length", f"there are {encoder.d} inputs, expected {self.inputs}")
        self.encoder, self._names, self._separator = encoder, names, separator
        self._pick = self._quick(encoder, names)

    def _needed(self) -> tuple[str, ...]:
        return (self.target,) if self.encoder is None else (*self.encoder.columns.features, self.target)

    def _of_numbers(self, names: list[str]) -> Encoder:
        """All columns but the target as numbers."""
        columns = self.columns
        out = {self.target, columns.learner, *columns.drop, *columns.time}
        features = tuple(name for name in names if name not in out)
        try:
            found = {**columns.table(), "features": list(features), "target": self.target}
            return Encoder(Columns.from_table(found))
        except InputError as error:
            raise RowRefused("no column", str(error)) from None

    def _quick(self, encoder: Encoder, names: list[str]) -> Callable[[list[str]], tuple[str, ...]] | None:
        """Picks the inputs and the target of a row where all are plain numbers, which is usual."""
        columns = encoder.columns
        plain = encoder.inputs == columns.features and not (
            columns.kinds or columns.labels or columns.learner
        )
        if not plain or columns.time or columns.na or columns.decimal == "," or self.target not in names:
            return None
        return itemgetter(*(names.index(name) for name in (*columns.features, self.target)))

    def is_header(self, line: bytes) -> bool:
        """Whether a line names the columns again, perhaps with new ones; if so it is followed."""
        if not self._names or self.target.encode() not in line or len(line) > LONGEST_ROW:
            return False
        try:
            names = header_of(text_of(line).lstrip("\ufeff"), self.columns, self._needed())[1]
            if not {*self._needed()} <= {*names}:
                return False
            known = {*self._names}
            self._read_header(line)
        except RowRefused:
            return False
        self._broken, self._is_wider = "", False
        if new := [name for name in names if name not in known]:
            self._tell(new)
        return True

    def _tell(self, new: Sequence[str]) -> None:
        fact = "new columns are ignored; name them in [columns] features to use them from the next start on"
        tell(LOG, logging.WARNING, fact, columns=", ".join(new)[:200])

    def __call__(self, line: bytes) -> Row:
        if self.is_header(line):
            return PASSED
        if self._broken:
            raise RowRefused("no column", f"the header is unusable: {self._broken}")
        found = cells_of(text_of(line), self._separator)
        if len(found) != len(self._names):
            self._check_width(len(found))
        row = self._quickly(found, line) or self._named(found)
        self._good += 1
        return row

    def _check_width(self, width: int) -> None:
        """Accept rows with more cells than the header where they cannot be decimals with commas."""
        expected = len(self._names)
        if width > expected and self._good >= (ENOUGH if self._separator == "," else 1):
            if not self._is_wider:
                self._tell([f"column {i + 1}" for i in range(expected, min(width, expected + 10))])
            self._is_wider = True
        if width < expected or not self._is_wider:
            remedy = "write decimals with a point, and as many cells as the header has"
            reason = f"the row has {width} cells, expected {expected}"
            raise RowRefused("wrong length", reason, remedy)

    def _quickly(self, found: list[str], line: bytes) -> Row | None:
        """A row of finite numbers; None for any other, also with "_", which float() accepts."""
        if self._pick is None or b"_" in line:
            return None
        *x, y = self._pick(found)
        try:
            row = Row(list(map(float, x)), float(y) if y else None)
        except ValueError:
            return None
        return row if row.x is not None and math.isfinite(sum(row.x)) else None

    def _named(self, found: list[str]) -> Row:
        assert self.encoder is not None
        row = dict(zip(self._names, found, strict=False))
        label = label_of(self.encoder, row, self.learner) if self._by_time else None
        return label or encoded(self.encoder, row, self.learner)


def header_of(text: str, columns: Columns, needed: Sequence[str]) -> tuple[str, list[str]]:
    """The separator and the names of a header: the one that gives most of the needed names, then most."""
    given = " " if columns.separator == "space" else columns.separator
    found, fault = [], RowRefused("not a row", "the header is empty")
    for separator in given or SEPARATORS:
        try:
            names = [name.strip() for name in cells_of(text, separator)]
        except RowRefused as error:
            fault = error
            continue
        if len(names) > TABLE.columns:
            reason = f"the header has {len(names)} columns, expected at most {TABLE.columns}"
            raise RowRefused("too long", reason, "leave some out")
        known = sum(name in names for name in needed)
        found.append(((known, len(names)), separator, names))
    if not found:
        raise fault
    _, separator, names = max(found, key=itemgetter(0))
    return separator, names


def cells_of(text: str, separator: str) -> list[str]:
    """The cells of a line; a blank as separator is any white space."""
    if separator == " ":
        return text.split()
    if '"' not in text:
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error as error:
        raise RowRefused("not a row", str(error)) from None


def text_of(line: bytes) -> str:
    if len(line) > LONGEST_ROW:
        raise too_long()
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError:
        raise RowRefused("not a row", "the line is not UTF-8 text") from None


#: Bytes of the dead-letter file; a full one is renamed to FILE.1, and the one that was there is dropped.
MOST_LETTER_BYTES = 5_000_000
#: Characters of a row that are kept.
MOST_CHARACTERS = 10_000
#: Reasons that a summary names.
TOP = 3


class RefusedRows(Counter[str]):
    """Refused rows by reason, beside how many were used; each is logged now and then, and written down."""

    def __init__(self, letters: DeadLetters | None = None, *, is_logged: bool = True) -> None:
        super().__init__()
        self.used = 0
        self.letters = letters or DeadLetters("")
        self.first: RowRefused | None = None
        self._examples: dict[str, str] = {}
        self._limited = Limited(LOG) if is_logged else None

    def note(self, fault: RowRefused, index: int, line: int | None, row: object) -> None:
        """A row that cannot be used: its number in the stream, its line in the source, and what it was."""
        place = f"row {index}" if line is None else f"line {line}"
        self[fault.kind] += 1
        self.first = self.first or RowRefused(fault.kind, f"{place}: {fault.reason}", fault.remedy)
        self._examples.setdefault(fault.kind, f"{place}: {fault.reason}")
        if self._limited is not None:
            self._limited.warn(fault.kind, "row refused", index=index, line=line, reason=fault.reason)
        about = {"index": index, "line": line, "kind": fault.kind, "reason": fault.reason}
        self.letters.write({**about, "remedy": fault.remedy, "row": _row_text(row)})

    @property
    def read(self) -> int:
        """How many rows came, used or refused."""
        return self.used + self.total()

    def note_used(self) -> None:
        """One more row that was of use."""
        self.used += 1

    def close(self) -> None:
        """Close the file of refused rows."""
        self.letters.close()

    def refuse_useless(self, fact: str) -> None:
        """Raise DataError with that fact where rows came and none was of use, as with a wrong format."""
        if not self.used and self.first is not None:
            kind, reason, remedy = self.first.kind, self.first.reason, self.first.remedy
            raise DataError(f"{fact}; the first is {kind}: {reason}; {remedy}")

    def top(self) -> list[str]:
        """The most frequent reasons, with an example of each."""
        most = self.most_common(TOP)
        return [f"{count} {kind}, first {self._examples[kind][:200]}" for kind, count in most]


class DeadLetters:
    """Refused rows as JSON lines; a file that cannot be written costs the record, which is counted."""

    def __init__(self, place: str) -> None:
        self.place, self.lost = place, 0
        self._file: int | None = None
        self._size, self._torn = 0, False
        self._limited = Limited(LOG)

    def write(self, record: dict[str, Any]) -> None:
        """Append a record; nothing is raised."""
        if not self.place:
            return
        try:
            self._append(msgspec.json.encode(record) + b"\n")
        except OSError as error:
            self.lost += 1
            self._limited.warn("dead letter", "dead letter lost", path=self.place, reason=error.strerror)

    def _append(self, line: bytes) -> None:
        if self._file is None:
            self._open()
        elif self._size + len(line) > MOST_LETTER_BYTES:
            self.close()
            os.replace(self.place, f"{self.place}.1")
            self._open()
        assert self._file is not None
        whole = b"\n" + line if self._torn else line  # a record that was cut short must not spoil this one
        written = os.write(self._file, whole)
        self._size, self._torn = self._size + written, written < len(whole)
        if self._torn:
            raise OSError(0, "there was room for a part of it only")

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)  # a pipe may be full
        self._file = os.open(self.place, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def letters_of(config: AgentConfig) -> DeadLetters:
    """Where an agent's refused rows go: as its file says, or else beside its checkpoints, if it has any."""
    given, directory = config.stream.dead_letters, config.checkpoint.directory
    if given is None and directory is not None:
        return DeadLetters(str(Path(directory) / "refused.jsonl"))
    return DeadLetters(given or "")


def _row_text(row: object) -> str:
    """A row as it came, or the beginning of a long one."""
    if isinstance(row, bytes):
        return row[:MOST_CHARACTERS].decode(errors="backslashreplace")
    return str(row)[:MOST_CHARACTERS]

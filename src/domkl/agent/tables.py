"""Lines of a CSV file of any dialect; columns may be added while it is written."""

from __future__ import annotations

import csv
import logging
import math
from collections.abc import Callable, Sequence
from operator import itemgetter

from ..base.errors import DataError, InputError
from ..datasets.columns import Columns
from ..datasets.encoder import Encoder
from .files import LONGEST, Tail
from .logs import tell
from .rows import PASSED, Row, RowRefused, encoded, too_long

LOG = logging.getLogger(__name__)
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
        self, encoder: Encoder | None, columns: Columns, target: str, inputs: int, learner: str = ""
    ) -> None:
        self.encoder, self.columns, self.target, self.inputs = encoder, columns, target, inputs
        self.learner, self.opened = learner, 0
        self._broken = ""  # what is wrong with a later file's header
        self._names: list[str] = []
        self._separator, self._good, self._is_wider = ",", 0, False
        self._pick: Callable[[list[str]], tuple[str, ...]] | None = None

    def begin(self, header: bytes, tail: Tail) -> None:
        """Read a file's header. An unusable first header is an error; a later one costs that file's rows."""
        first, self.opened = not self.opened, tail.opened
        self._broken, self._good, self._is_wider = "", 0, False
        try:
            self._read_header(header)
        except RowRefused as fault:
            if first:
                raise DataError(f"{tail.path}, header: {fault.reason}; fix the file or [columns]") from None
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
        if not self._names or self.target.encode() not in line or len(line) > LONGEST:
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
        cells = cells_of(text_of(line), self._separator)
        if len(cells) != len(self._names):
            self._check_width(len(cells))
        row = self._quickly(cells, line) or self._named(cells)
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

    def _quickly(self, cells: list[str], line: bytes) -> Row | None:
        """A row of finite numbers; None for any other, also with "_", which float() accepts."""
        if self._pick is None or b"_" in line:
            return None
        *x, y = self._pick(cells)
        try:
            row = Row(list(map(float, x)), float(y) if y else None)
        except ValueError:
            return None
        return row if row.x is not None and math.isfinite(sum(row.x)) else None

    def _named(self, cells: list[str]) -> Row:
        assert self.encoder is not None
        return encoded(self.encoder, dict(zip(self._names, cells, strict=False)), self.learner)


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
    """A line as text."""
    if len(line) > LONGEST:
        raise too_long()
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError:
        raise RowRefused("not a row", "the line is not UTF-8 text") from None

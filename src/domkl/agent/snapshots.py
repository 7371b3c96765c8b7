"""Rows of a Parquet file or of a query: read as a whole, in order of time; followed by reading them again.

Where reading stands is known by time, if rows have one: what is later than the last row is new, whatever was
deleted before it, so a query may give the last day alone. Without a time it is known by the number of rows
and the last one of them; where that is another, the table was replaced and is read from its top.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import stat
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import checks
from ..base.errors import DataError, Error
from ..base.types import Array
from ..datasets import readers
from ..datasets.columns import CellError, is_flat
from ..datasets.encoder import Encoder
from ..datasets.ordering import carried
from ..datasets.readers import Raw, queries
from .attempts import Attempts
from .files import Numbered
from .logs import tell
from .rows import Row, RowRefused, encoded
from .sections import StreamSection

LOG = logging.getLogger(__name__)
#: Rows that are handed out at once.
BATCH = 256
#: Seconds between two looks: at least, at most, and times as long as reading took.
LEAST, MOST, TIMES = 1.0, 60.0, 10.0
#: Seconds that a followed row may be ahead of this clock: one that is far ahead would make all others late; a
#: day, since clocks on walls differ by so much.
AHEAD = 86_400.0
#: Seconds after which a file's time of change tells whether it has changed since.
SETTLED = 2.0


class Place(NamedTuple):
    """Where reading stands in a table, between two rows."""

    rows: int = 0  # rows before it
    same: int = 0  # of these, those with the time of the last one
    mark: str = ""  # that time or, without times, a digest of the last row


class Batch(NamedTuple):
    """Rows that were handed out: where they began, in which table; of late ones there is none."""

    place: Place
    table: _Table | None
    first: int = 0  # the number of the first reading


class Late(dict[str, Any]):
    """A row that came after later ones."""


class TableRows:
    """Parses rows of named cells."""

    def __init__(self, encoder: Encoder, learner: str = "") -> None:
        self.encoder, self.learner = encoder, learner

    def __call__(self, row: Mapping[str, Any]) -> Row:
        if isinstance(row, Late):
            reason = f"the row is of {self.encoder.columns.time[0]} before that of rows already learnt"
            raise RowRefused("late", reason, "write rows in order of time")
        return encoded(self.encoder, row, self.learner)


class Snapshots:
    """Rows that have not been read yet; with `follow` for ever.

    A followed source that cannot be read is tried again; `reading.fault` explains it meanwhile. `known` is
    the place of an earlier process.
    """

    def __init__(
        self, section: StreamSection, encoder: Encoder, known: Place | None = None, most: int | None = None
    ) -> None:
        self.encoder, self.follow, self.most = encoder, section.follow, most
        self.source, self.query, self.shown = str(section.path), section.query, section.shown
        self.reading = Attempts(f"readings cannot be read from {self.shown}")
        self.pause = LEAST
        self._known, self._place = known, known or Place()  # the place after the last batch
        self._batch = self._current = Batch(self._place, None)  # the last, and the one that is being used
        self._table: _Table | None = None  # the last one that was read
        self._stamp: object = None
        self._held = 0  # rows that wait since they are ahead of the clock

    def read(self) -> Numbered[Mapping[str, Any]] | None:
        """The next rows; none if there are none yet, None at the end. Blocks: not for the event loop."""
        if self._table is not None and self._place.rows < len(self._table):
            return self._next(self._table)
        if self._table is not None and not self.follow:
            return None
        try:
            return self._look()
        except (Error, OSError) as error:
            if not self.follow:
                raise
            self.reading.fail(str(error))
            return []

    def close(self) -> None:
        """Nothing is open between two looks."""

    def _look(self) -> Numbered[Mapping[str, Any]]:
        """Read the table again, if it may have changed."""
        stamp = _stamp(self.source)
        if stamp is not None and stamp == self._stamp and not self._held:
            return []
        start = time.monotonic()
        table = _Table(readers.stored(self.source, self.query, self.most), self.encoder)
        if self.follow:
            self._hold_back(table)
        late = self._find(table)
        self._table, self._stamp = table, stamp
        self.pause = min(MOST, max(LEAST, TIMES * (time.monotonic() - start)))
        self.reading.succeed()
        return late or self._next(table)

    def _hold_back(self, table: _Table) -> None:
        """Leave rows that are far ahead of this clock until their time has come, or was corrected."""
        held = table.cut(time.time() + AHEAD)
        if held > self._held:
            fact = "rows are more than a day ahead of this clock, and wait; fix their time, or the clock"
            tell(LOG, logging.WARNING, fact, source=self.shown, rows=held)
        self._held = held

    def _find(self, table: _Table) -> Numbered[Mapping[str, Any]]:
        """Move to where reading stands in this table; the rows that came late."""
        place, before = self._place, self._table
        rows = table.after(place)
        if rows is None:
            fact = "other rows than before, reading from the top; name [columns] time to find the new ones"
            tell(LOG, logging.WARNING, fact, source=self.shown)
            rows, place = 0, Place()
        elif before is None and table.times is not None and rows > place.rows:
            fact = "rows came late while the agent was away, and are not learnt"
            tell(LOG, logging.WARNING, fact, source=self.shown, rows=rows - place.rows)
        self._place = place._replace(rows=rows)
        self._batch = Batch(self._place, None)
        return [] if before is None else table.late(before, rows)

    def _next(self, table: _Table) -> Numbered[Mapping[str, Any]]:
        self._batch = Batch(self._place, table)
        start, end = self._place.rows, min(self._place.rows + BATCH, len(table))
        if end > start:
            self._place = table.place(end)
        return table.rows(start, end)

    def begin(self, index: int, wanted: int) -> int:
        """Use the batch; the number of its first reading, of which `wanted` is the first to hand out."""
        first = index if self._known is None else max(index, wanted)
        self._current = self._batch._replace(first=first)
        return first

    def origin_at(self, readings: int) -> Place:
        """The place after so many readings."""
        place, table, first = self._current
        if table is None or readings <= first:
            return place
        return table.place(place.rows + readings - first)


class _Table:
    """A table in order of time."""

    def __init__(self, raw: Raw, encoder: Encoder) -> None:
        self._raw, self._encoder = raw, encoder
        _refuse_absent(raw, encoder)
        self._cells = {n: c.tolist() if isinstance(c, np.ndarray) else c for n, c in raw.columns.items()}
        order, self.times = self._in_order()
        self._order: Sequence[int] = order.tolist()

    def __len__(self) -> int:
        return len(self._order)

    def _in_order(self) -> tuple[NDArray[np.intp], Array | None]:
        if not self._encoder.columns.time:
            return np.arange(len(self._raw)), None
        times = carried(np.array([self._time(i) for i in range(len(self._raw))]))
        order = np.argsort(times, kind="stable")
        return order, times[order]

    def cut(self, last: float) -> int:
        """Leave out rows that are later; how many these are."""
        count = len(self)
        if self.times is not None:
            kept = int(np.searchsorted(self.times, last, "right"))
            self._order, self.times = self._order[:kept], self.times[:kept]
        return count - len(self)

    def _row(self, i: int) -> dict[str, Any]:
        return {name: cells[i] for name, cells in self._cells.items()}

    def _time(self, i: int) -> float:
        """NaN where there is none, or none that can be read."""
        try:
            row = self._row(i)
            found = self._encoder.seconds(row if is_flat(row) else self._encoder.columns.flatten(row))
        except CellError:
            return math.nan
        return math.nan if found is None else found

    def rows(self, start: int, end: int) -> Numbered[Mapping[str, Any]]:
        """Some rows, with their number in the source."""
        return [(self._raw.lines[i], self._row(i)) for i in self._order[start:end]]

    def place(self, end: int) -> Place:
        """The place before row `end`."""
        if self.times is None:
            return Place(end, 0, self._digest(end - 1))
        last = self.times[end - 1]
        return Place(end, end - int(np.searchsorted(self.times, last)), repr(float(last)))

    def after(self, place: Place) -> int | None:
        """How many rows there are before a place; None if that is not one of this table."""
        if not place.rows:
            return 0
        if self.times is None:
            is_there = place.rows <= len(self) and self._digest(place.rows - 1) == place.mark
            return place.rows if is_there else None
        try:
            last = float(place.mark)
        except ValueError:  # of a table without times
            return None
        start, end = (int(np.searchsorted(self.times, last, side)) for side in ("left", "right"))
        return min(start + place.same, end)

    def late(self, before: _Table, rows: int) -> Numbered[Mapping[str, Any]]:
        """Those of the first rows that were not there before."""
        if self.times is None or before.times is None:
            return []
        known, found = Counter(before.times.tolist()), list[tuple[int, Mapping[str, Any]]]()
        for i, when in zip(self._order[:rows], self.times.tolist(), strict=False):
            known[when] -= 1
            if known[when] < 0:
                found.append((self._raw.lines[i], Late(self._row(i))))
        return found

    def _digest(self, i: int) -> str:
        """Identifies a row by what is learnt from it."""
        try:
            found = self._encoder.encode(self._row(self._order[i]))
        except CellError:
            return "refused"
        numbers = [*found.x, math.nan if found.y is None else found.y]
        return hashlib.sha256(np.array(numbers, np.float64).tobytes()).hexdigest()[:16]


def _refuse_absent(raw: Raw, encoder: Encoder) -> None:
    """Refuse a table without a column that is needed; parts of nested cells are looked for in the rows."""
    columns = encoder.columns
    for name in filter(None, (*columns.features, *columns.time, columns.target, columns.learner)):
        top = columns.paths.get(name, name).split(".")[0]
        if name not in raw.columns and top not in raw.columns:
            hint = checks.hint(name, raw.columns)
            raise DataError(f"{raw.name}: no column {name!r}; {hint}, or fix [columns]")


def _stamp(source: str) -> object:
    """What changes with a file; None where nothing tells, or it has just been changed."""
    if queries.is_database(source) and not source.startswith(queries.SQLITE):
        return None
    path = Path(source.removeprefix(queries.SQLITE).removeprefix("//"))
    found = [_state(path), _state(path.with_name(f"{path.name}-wal"))]
    newest = max((each.st_mtime for each in found if each is not None), default=math.inf)
    if time.time() - newest < SETTLED:
        return None
    return [each and (each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns) for each in found]


def _state(path: Path) -> os.stat_result | None:
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path}: not a regular file; expected a file of rows; fix [stream] path")
    return found

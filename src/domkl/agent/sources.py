"""Where rows come from: standard input, files that grow or are replaced, tables, topics, Python.

A table (a Parquet file or a query) is read as a whole, in order of time, and followed by reading it again.
Where reading stands is known by time, if rows have one: what is later than the last row is new, whatever was
deleted before it, so a query may give the last day alone. Without a time it is known by the number of rows
and the last one of them; where that is another, the table was replaced and is read from its top.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import hashlib
import io
import logging
import math
import os
import queue
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base import checks
from ..base.errors import DataError, Error, MissingExtra
from ..base.types import Array
from ..datasets import readers
from ..datasets.columns import CellError, is_flat
from ..datasets.encoder import Encoder
from ..datasets.readers import Raw, queries
from ..datasets.table import carried
from .config import LONGEST_ROW, StreamSection
from .logs import Attempts, tell
from .rows import CsvRows, Row, RowRefused, encoded
from .topics import Message

CHUNK = 1 << 16  # bytes read at once: some hundred rows, a few milliseconds of work
HEAD = 1024  # bytes at a file's top that identify it; inodes are reused
LOG = logging.getLogger(__name__)

T = TypeVar("T")
Numbered: TypeAlias = "list[tuple[int, T]]"  # items with their line, as an editor counts it


class Worker:
    """A thread that makes blocking calls, one after the other.

    asyncio waits for its own pool at exit, so an idle standard input would block the exit.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], concurrent.futures.Future[Any]] | None]
        self._jobs = queue.SimpleQueue()
        threading.Thread(target=self._work, name="domkl-stream", daemon=True).start()

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call in the thread and return its result."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._jobs.put((call, done))
        return await asyncio.wrap_future(done)

    def close(self, last: Callable[[], None]) -> None:
        """End the thread after a last call; does not wait for it."""
        self._jobs.put((last, concurrent.futures.Future()))
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, done = job
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(call())
            except Exception as error:
                done.set_exception(error)


class Splitter:
    """Splits bytes into whole lines that are not blank; an unfinished line is held until its end."""

    def __init__(self) -> None:
        self.line, self.rest = 1, b""

    def feed(self, data: bytes) -> Numbered[bytes]:
        *lines, rest = (self.rest + data).split(b"\n")
        self.rest = rest[: LONGEST_ROW + 1]  # enough to see that it is too long
        found = [(n, line) for n, line in enumerate(lines, self.line) if line and not line.isspace()]
        self.line += len(lines)
        return found

    def end(self) -> Numbered[bytes]:
        """The last line, if it has no line break."""
        return self.feed(b"\n") if self.rest else []


class Origin(NamedTuple):
    """The file that a reading came from, so that a restart can find out whether it was replaced."""

    first: int  # the number of the file's first reading
    size: int  # bytes read of it
    head: str  # digest of the first of them

    @classmethod
    def of(cls, kept: Sequence[Any]) -> Origin:
        """What a checkpoint has kept; of a table, it is of no file at all."""
        return cls(*kept) if len(kept) == len(cls._fields) else cls(0, 0, "none")


class Tail:
    """Reads a file from its top; with `follow` for ever, and from the top of any file that replaces it.

    A followed file that cannot be read is tried again; `reading.fault` explains it meanwhile. Reading goes on
    where it was if the file then still begins with the same bytes. `known` describes the file of an earlier
    process; `is_known` is whether the file is still that one. `table` takes the first line of each file.
    """

    pause = 0.1  # seconds between two looks at a file that may have grown

    def __init__(
        self, path: Path, follow: bool, known: Origin | None = None, table: CsvRows | None = None
    ) -> None:
        if not follow and not path.is_file():
            raise DataError(f"{path}: no such file; expected a file of readings; check the path")
        self.path, self.follow, self.known, self._table = path, follow, known, table
        self.is_known = self._is_interrupted = False
        self.opened, self.size, self.head = 0, 0, b""  # how many files; bytes of the last, and its first ones
        self.reading = Attempts("readings cannot be read", str(path))
        self._origin, self._begun = known, 0  # of the last batch, and in which file it was
        self._file: io.FileIO | None = None
        self._splitter = Splitter()

    def read(self) -> Numbered[bytes] | None:
        """The next lines; none if there are none yet, None at the end. Blocks: not for the event loop."""
        try:
            lines = self._read()
        except FileNotFoundError:
            return []  # between rotation's two steps, or not written yet
        except OSError as error:
            self._fail(error.strerror or str(error))
            return []
        self.reading.succeed()
        return lines if self._table is None else self._below_header(lines, self._table)

    def _below_header(self, lines: Numbered[bytes] | None, table: CsvRows) -> Numbered[bytes] | None:
        if lines is None and not table.opened:
            raise DataError(f"{self.path}: the file is empty; expected a line with column names; write one")
        if lines and table.opened != self.opened:
            table.begin(lines.pop(0)[1], self.opened, self.path)
        return lines

    def _fail(self, reason: str) -> None:
        if not self.follow:
            raise DataError(
                f"{self.path} cannot be read: {reason}; expected a readable file; fix the file"
            ) from None
        self.reading.fail(reason)
        if self._file is not None:
            self._is_interrupted = True
            self.close()

    def _read(self) -> Numbered[bytes] | None:
        file = self._file or self._open()
        replaced, fault = self._look(file)  # asked before reading: so the old file's end is read
        if data := file.read(CHUNK):
            self.size, self.head = self.size + len(data), self.head + data[: HEAD - len(self.head)]
            return self._splitter.feed(data)
        if fault is not None:
            raise fault
        if replaced:
            self._start_again()
        return [] if self.follow else self._splitter.end() or None

    def _open(self) -> io.FileIO:
        file = io.FileIO(self.path, "rb", opener=without_waiting)
        try:
            self._begin(file)
        except OSError:
            file.close()
            raise
        self._file = file
        return file

    def _begin(self, file: io.FileIO) -> None:
        """Go on where a fault has interrupted reading, or start at the top."""
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if not self._is_interrupted or not _is_same(file, self.size, digest(self.head)):
            self.is_known = self.known is not None and _is_same(file, self.known.size, self.known.head)
            self._splitter, self.opened, self.size, self.head = Splitter(), self.opened + 1, 0, b""
        file.seek(self.size)
        self._is_interrupted = False

    def _look(self, file: io.FileIO) -> tuple[bool, OSError | None]:
        """Whether another file has taken our file's place, or why that cannot be found out."""
        if not self.follow:
            return False, None
        try:
            now, ours = self.path.stat(), os.fstat(file.fileno())
        except FileNotFoundError:
            return False, None
        except OSError as fault:
            return False, fault
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino) or now.st_size < file.tell(), None

    def _start_again(self) -> None:
        # Half a number can look like a number: a line without a line break is not read.
        fields = {"path": str(self.path), "unfinished_bytes": len(self._splitter.rest)}
        tell(LOG, logging.INFO, "file replaced or truncated, reading from its top", **fields)
        self.close()

    def begin(self, index: int, wanted: int) -> int:
        """Use a batch; the number of its first reading, of which `wanted` is the first to hand out."""
        if not self._begun and self.known is not None:
            index = self._resumed(self.known, wanted)
        first = index if self._origin is None or self._begun != self.opened else self._origin.first
        self._begun, self._origin = self.opened, Origin(first, self.size, digest(self.head))
        return index

    def _resumed(self, known: Origin, wanted: int) -> int:
        """The number of the first reading of a file, after a restart."""
        if self.is_known:
            return min(known.first, wanted)
        place = str(self.path)
        tell(LOG, logging.WARNING, "another file since the last start, reading from its top", path=place)
        return wanted

    def origin_at(self, readings: int) -> Origin | None:
        """The file that the last readings came from, however many; None before the first."""
        return self._origin

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def digest(head: bytes) -> str:
    """Identifies a file by its first bytes."""
    return hashlib.sha256(head).hexdigest()[:16]


def _is_same(file: io.FileIO, size: int, head: str) -> bool:
    """Whether a file is one of which so many bytes, with such a head, have been read."""
    file.seek(0)
    return digest(file.read(min(HEAD, size))) == head and os.fstat(file.fileno()).st_size >= size


def without_waiting(path: str, flags: int) -> int:
    """Opens a file; a pipe does not wait for its other end, neither now nor later."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


Queue: TypeAlias = "asyncio.Queue[Message | None]"


async def later(samples: Iterable[T]) -> AsyncGenerator[T, None]:
    for sample in samples:
        yield sample


async def ones(samples: AsyncIterable[T]) -> AsyncGenerator[Numbered[T], None]:
    line = 0
    async for sample in samples:
        line += 1
        yield [(line, sample)]


async def messages(queue: Queue) -> AsyncGenerator[Numbered[Message], None]:
    """Messages of topics; None ends them."""
    count = 0
    while (message := await queue.get()) is not None:
        count += 1
        yield [(count, message)]


async def stdin(fd: int) -> AsyncGenerator[Numbered[bytes], None]:
    worker, splitter = Worker(), Splitter()
    try:
        # os.read: a daemon thread inside sys.stdin would hold its lock while the interpreter exits.
        while data := await worker.run(lambda: os.read(fd, CHUNK)):
            yield splitter.feed(data)
        yield splitter.end()
    finally:
        worker.close(lambda: None)


class Repeatable(Protocol[T]):
    """What is read again after a restart: a file or a table."""

    pause: float
    follow: bool

    def read(self) -> Numbered[T] | None: ...

    def close(self) -> None: ...


async def stored(tail: Repeatable[T], most: int = sys.maxsize) -> AsyncGenerator[Numbered[T], None]:
    """Lines of a file, and of the files that replace it; or rows of a table; no more than so many."""
    worker = Worker()
    try:
        while most > 0 and (found := await worker.run(tail.read)) is not None:
            if found:
                yield found[:most]
                most -= len(found)
            elif tail.follow:
                await asyncio.sleep(tail.pause)
    finally:
        worker.close(tail.close)


#: Rows that are handed out at once.
BATCH = 256
#: Seconds between two looks: at least, at most, and times as long as reading took.
LEAST_PAUSE, MOST_PAUSE, TIMES = 1.0, 60.0, 10.0
#: Seconds that a followed row may be ahead of this clock: one that is far ahead would make all others late; a
#: day, since clocks on walls differ by so much.
AHEAD = 86_400.0
#: Rows of one time that are told apart by what is in them; of more, by their order in the source.
MOST_SAME = 1000
#: Seconds after which a file's time of change tells whether it has changed since.
SETTLED = 2.0


class Place(NamedTuple):
    """Where reading stands in a table, between two rows."""

    rows: int = 0  # rows before it
    same: int = 0  # of these, those with the time of the last one; without times, that one alone
    mark: str = ""  # that time
    digests: tuple[str, ...] = ()  # of those rows, unless they are many

    @classmethod
    def of(cls, kept: Sequence[Any]) -> Place:
        """What a checkpoint has kept; of a file of lines, it is in no table at all."""
        return cls(*kept) if len(kept) == len(cls._fields) else cls(1, 0, "none")


class Batch(NamedTuple):
    """Rows that were handed out: of which table, from where on, and the number of the first reading."""

    table: Snapshot | None = None
    start: int = 0
    is_late: bool = False  # rows that do not count
    first: int = 0


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
        self.source, self.query, self.shown = section.path or "", section.query, section.shown
        self.reading = Attempts("readings cannot be read", self.shown)
        self.pause = LEAST_PAUSE
        self._known, self._held = known, 0  # rows that wait since they are ahead of the clock
        self._table: Snapshot | None = None  # the last one that was read, and how much of it was handed out
        self._at = 0
        self._stamp: object = None
        self._batch = self._current = Batch()  # the last, and the one that is being used

    def read(self) -> Numbered[Mapping[str, Any]] | None:
        """The next rows; none if there are none yet, None at the end. Blocks: not for the event loop."""
        if self._table is not None and self._at < len(self._table):
            return self._next(self._table)
        if self._table is not None and not self.follow:
            return None
        try:
            return self._look()
        except (Error, OSError, ValueError, ArithmeticError, MemoryError) as error:
            if not self.follow or isinstance(error, MissingExtra):
                raise
            self.reading.fail(str(error) or type(error).__name__)
            return []

    def close(self) -> None:
        """Nothing is open between two looks."""

    def _look(self) -> Numbered[Mapping[str, Any]]:
        """Read the table again, if it may have changed."""
        stamp = _stamp(self.source)
        if stamp is not None and stamp == self._stamp and not self._held:
            return []
        start = time.monotonic()
        table = Snapshot(readers.stored(self.source, self.query, self.most), self.encoder)
        if self.follow:
            self._hold_back(table)
        late = self._find(table)
        self._table, self._stamp = table, stamp
        self.pause = min(MOST_PAUSE, max(LEAST_PAUSE, TIMES * (time.monotonic() - start)))
        self.reading.succeed()
        return late or self._next(table)

    def _hold_back(self, table: Snapshot) -> None:
        """Leave rows that are far ahead of this clock until their time has come, or was corrected."""
        held = table.cut(time.time() + AHEAD)
        if held > self._held:
            fact = "rows are more than a day ahead of this clock, and wait; fix their time, or the clock"
            tell(LOG, logging.WARNING, fact, source=self.shown, rows=held)
        self._held = held

    def _find(self, table: Snapshot) -> Numbered[Mapping[str, Any]]:
        """Move to where reading stands in this table; the rows that came late."""
        before = self._table
        place = before.place(self._at) if before is not None else self._known or Place()
        if not table.start_after(place):
            fact = "other rows than before, reading from the top; name [columns] time to find the new ones"
            tell(LOG, logging.WARNING, fact, source=self.shown)
        elif before is None and table.times is not None and table.start > place.rows:
            fact = "rows came late while the agent was away, and are not learnt"
            tell(LOG, logging.WARNING, fact, source=self.shown, rows=table.start - place.rows)
        self._at = table.start
        self._batch = Batch(table, self._at, is_late=True)
        return [] if before is None else table.late(before)

    def _next(self, table: Snapshot) -> Numbered[Mapping[str, Any]]:
        self._batch = Batch(table, self._at)
        self._at = min(self._at + BATCH, len(table))
        return table.rows(self._batch.start, self._at)

    def begin(self, index: int, wanted: int) -> int:
        """Use the batch; the number of its first reading, of which `wanted` is the first to hand out."""
        first = index if self._known is None else max(index, wanted)
        self._current = self._batch._replace(first=first)
        return first

    def origin_at(self, readings: int) -> Place:
        """The place after so many readings."""
        table, start, is_late, first = self._current
        if table is None:
            return self._known or Place()
        return table.place(start if is_late else start + max(0, readings - first))


class Snapshot:
    """A whole table in order of time."""

    def __init__(self, raw: Raw, encoder: Encoder) -> None:
        self._raw, self._encoder = raw, encoder
        _refuse_absent(raw, encoder)
        self._cells = {n: c.tolist() if isinstance(c, np.ndarray) else c for n, c in raw.columns.items()}
        order, self.times = self._in_order()
        self._order: list[int] = order.tolist()
        self.start, self._before = 0, Place()  # rows that were read before, and the place after them

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
        return [(self._raw.lines[i], self._row(i)) for i in self._order[start:end]]

    def place(self, rows: int) -> Place:
        """The place after so many rows."""
        if rows <= self.start:
            return self._before._replace(rows=rows)
        if self.times is None:
            return Place(rows, 1, "", (self._digest(rows - 1),))
        last = self.times[rows - 1]
        first = int(np.searchsorted(self.times, last))
        digests = map(self._digest, range(first, rows)) if rows - first <= MOST_SAME else ()
        return Place(rows, rows - first, repr(float(last)), tuple(digests))

    def start_after(self, place: Place) -> bool:
        """Start after a place; False, and at the top, if that is not one of this table."""
        found = self._find(place) if place.rows or place.mark else 0
        self.start, self._before = (0, Place()) if found is None else (found, place)
        return found is not None

    def _find(self, place: Place) -> int | None:
        """How many rows there are before a place."""
        if self.times is None:
            is_there = 0 < place.rows <= len(self) and (self._digest(place.rows - 1),) == tuple(place.digests)
            return place.rows if is_there else None
        try:
            last = float(place.mark)
        except ValueError:  # of a table without times
            return None
        first, end = (int(np.searchsorted(self.times, last, side)) for side in ("left", "right"))
        return first + self._known_first(first, end, place)

    def _known_first(self, first: int, end: int, place: Place) -> int:
        """Put those rows of one time first that were there before; how many they are."""
        if not place.digests:  # too many to tell: they are as many as before, in the order of the source
            return min(place.same, end - first)
        left, known, new = Counter(place.digests), list[int](), list[int]()
        for i in range(first, end):
            digest = self._digest(i)
            (known if left[digest] > 0 else new).append(self._order[i])
            left[digest] -= 1
        self._order[first:end] = [*known, *new]
        return len(known)

    def late(self, before: Snapshot) -> Numbered[Mapping[str, Any]]:
        """The rows before the start that were not there before."""
        if self.times is None or before.times is None:
            return []
        known, found = Counter(before.times.tolist()), list[tuple[int, Mapping[str, Any]]]()
        for i, when in zip(self._order[: self.start], self.times.tolist(), strict=False):
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
    path = Path(queries.file_of(source))
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

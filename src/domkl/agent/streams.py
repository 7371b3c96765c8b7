"""Readings: from standard input, a file, a topic or Python, one after the other.

    stream = open_stream(config.stream, config.inputs, skip=learnt)
    async for reading in stream:
        ...

Whatever the source, a stream numbers its readings from 0. A bad row is refused, counted in `stream.refused`,
logged, and takes its number all the same: a restarted agent skips as many as it has learnt.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import hashlib
import logging
import math
import os
import queue
import threading
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .. import _checks
from .._extras import need
from .._types import Array
from ..errors import DataError, InputError
from .config import StreamSection
from .logs import Limited, tell

CHUNK = 1 << 16  # bytes read at once: some hundred rows, a few milliseconds of work
LONGEST = 1 << 20  # bytes of one row
HEAD = 1024  # bytes at a file's top that tell it from others; inodes are used again
POLL = 0.1  # seconds between two looks at a file that may have grown
LOG = logging.getLogger(__name__)

T = TypeVar("T")
Numbered: TypeAlias = "list[tuple[int, T]]"  # items with their line, as an editor counts it
Queue: TypeAlias = "asyncio.Queue[bytes | None]"


@dataclass(frozen=True, slots=True)
class Reading:
    """x and y to learn from; x alone to predict; y and the id of an earlier x, whose label it is."""

    index: int
    x: Array | None  # (d,)
    y: float | None
    id: str | None = None


class Origin(NamedTuple):
    """Which file a reading came from, so that a restart can tell whether it is still there."""

    first: int  # the number of the file's first reading
    size: int  # bytes read of it
    head: str  # digest of the first of them


class Row(NamedTuple):
    """What a line says, not yet checked for sense nor scaled."""

    x: Sequence[float] | None
    y: float | None
    id: str | None = None


class Refused(Exception):
    """A row that cannot be used: the kind of fault, and what exactly is wrong."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind, self.reason = kind, reason


class Scaling(NamedTuple):
    """Fixed bounds to 0 and 1; inputs stop there, a target may go beyond."""

    low: Array  # (d,)
    span: Array  # (d,)
    bounded: bool
    target_low: float = 0.0
    target_span: float = 1.0

    @classmethod
    def of(cls, section: StreamSection, inputs: int) -> Scaling:
        """The scaling that a configuration asks for; without bounds, none."""
        low = np.array(section.low or [0.0] * inputs)
        high = np.array(section.high or [1.0] * inputs)
        if section.target_low is None or section.target_high is None:
            return cls(low, high - low, bool(section.low))
        span = section.target_high - section.target_low
        return cls(low, high - low, bool(section.low), section.target_low, span)

    def x(self, X: Array) -> Array:
        """Inputs (n, d) to [0, 1]."""
        if not self.bounded:
            return X
        with np.errstate(over="ignore"):
            return np.clip((X - self.low) / self.span, 0.0, 1.0)

    def y(self, y: float) -> float:
        """A target as it is learnt."""
        return (y - self.target_low) / self.target_span

    def original(self, y: float) -> float:
        """A prediction in the target's own unit."""
        return y * self.target_span + self.target_low


class Stream(AsyncIterator[Reading]):
    """The readings of a source, in order.

    A wait for the next one must not be cancelled and begun anew, as `asyncio.wait_for` would: that ends the
    stream. Keep the task, and wait for it with `asyncio.wait`.

    Parameters
    ----------
    batches : what the source holds, with line numbers.
    parse : what one item says; raises `Refused`.
    skip : how many readings of the source to pass over.
    first : the number of the source's first reading.
    tail : the file that the batches come from, if it is one.
    """

    def __init__(
        self,
        batches: AsyncGenerator[Numbered[T], None],
        parse: Callable[[T], Row],
        scaling: Scaling,
        skip: int = 0,
        first: int = 0,
        tail: Tail | None = None,
    ) -> None:
        self.scaling, self.index = scaling, first
        self.origin: Origin | None = None  # of the last reading
        self.refused: Counter[str] = Counter()
        self._batches, self._parse, self._begin = batches, parse, first + _checks.count("skip", skip, 0)
        self._tail, self._opened, self._first = tail, 0, first
        self._limited = Limited(LOG)
        self._readings = self._run()

    def __anext__(self) -> Awaitable[Reading]:
        return self._readings.__anext__()

    async def aclose(self) -> None:
        """Let go of the source."""
        await self._readings.aclose()
        await self._batches.aclose()

    async def _run(self) -> AsyncGenerator[Reading, None]:
        async for batch in self._batches:
            self._note_origin()
            for reading in self._batch(batch):
                yield reading
            await asyncio.sleep(0)  # a long file must not keep the event loop to itself

    def _note_origin(self) -> None:
        if self._tail is None:
            return
        if self._opened != self._tail.opened:
            self._opened, self._first = self._tail.opened, self.index
        self.origin = Origin(self._first, self._tail.size, _digest(self._tail.head))

    def _batch(self, batch: Numbered[Any]) -> Iterator[Reading]:
        start = max(self.index, self._begin)
        fresh = batch[start - self.index :]
        self.index += len(batch)
        rows = [self._row(line, item) for line, item in fresh]
        whole = [row.x for row in rows if row is not None and row.x is not None]
        X = iter(self.scaling.x(np.array(whole, dtype=np.float64).reshape(-1, len(self.scaling.low))))
        for index, row in enumerate(rows, start):
            if row is not None:
                x = None if row.x is None else next(X)
                yield Reading(index, x, None if row.y is None else self.scaling.y(row.y), row.id)

    def _row(self, line: int, item: Any) -> Row | None:
        try:
            return self._checked(self._parse(item))
        except Refused as fault:
            self.refused[fault.kind] += 1
            self._limited.warn(fault.kind, "row refused", line=line, reason=fault.reason)
            return None

    def _checked(self, row: Row) -> Row:
        """The row itself if there is something to do with it."""
        if row.x is None and (row.y is None or row.id is None):
            raise Refused("no x", "there is neither x nor a label with the id of an earlier x")
        if row.x is not None:
            self._check_x(row.x)
        if row.y is not None and not math.isfinite(self.scaling.y(row.y)):
            raise Refused("not finite", f"y is {row.y}, expected a finite number")
        return row

    def _check_x(self, x: Sequence[float]) -> None:
        if len(x) != len(self.scaling.low):
            raise Refused("wrong length", f"x has {len(x)} numbers, expected {len(self.scaling.low)}")
        if not math.isfinite(sum(x)):  # which finite numbers can be too large for
            for i, value in enumerate(x):
                if not math.isfinite(value):
                    raise Refused("not finite", f"x[{i}] is {value}, expected a finite number")


def open_stream(
    section: StreamSection,
    inputs: int,
    skip: int = 0,
    *,
    origin: Sequence[Any] | None = None,
    messages: Queue | None = None,
    stdin: int = 0,
) -> Stream:
    """The stream that a configuration names.

    A file begins anew after a restart, so its first `skip` readings are passed over. Standard input and a
    topic are live: nothing of them is passed over, and their numbers go on from `skip`.

    Parameters
    ----------
    origin : what `Stream.origin` was at the last reading of those to skip. Without it, a file that was
        rotated since the first reading loses as many rows as its predecessors had.
    messages : for kind = "topic": the topic's payloads as they come; None ends the stream.
    stdin : the file descriptor to read for kind = "stdin".
    """
    section.check_inputs(inputs)
    scaling = Scaling.of(section, inputs)
    if section.kind == "topic":
        if messages is None:
            raise InputError("messages is None and kind is 'topic'; expected a queue; pass messages=")
        return Stream(_messages(messages), JsonRows(section.columns), scaling, first=skip)
    if section.kind == "stdin":
        return Stream(_stdin(stdin), JsonRows(section.columns), scaling, first=skip)
    tail = Tail(Path(str(section.path)), section.follow)
    first = 0 if origin is None else _first(tail.path, Origin(*origin), skip)
    if section.kind == "jsonl":
        return Stream(_lines(tail), JsonRows(section.columns), scaling, skip - first, first, tail)
    table = CsvRows(section, inputs)
    return Stream(_csv(tail, table), table, scaling, skip - first, first, tail)


def _first(path: Path, origin: Origin, skip: int) -> int:
    """The number of the first reading of a file, after a restart."""
    try:
        with path.open("rb") as file:
            same = _digest(file.read(min(HEAD, origin.size))) == origin.head
        if same and path.stat().st_size >= origin.size:
            return min(origin.first, skip)
    except OSError:
        pass  # reading it says so
    tell(LOG, logging.WARNING, "another file since the last start, reading from its top", path=str(path))
    return skip


def _digest(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()[:16]


def aiter_of(
    samples: Iterable[tuple[npt.ArrayLike, float | None]] | AsyncIterable[tuple[npt.ArrayLike, float | None]],
    inputs: int,
    skip: int = 0,
) -> Stream:
    """Any iterable of (x, y), asynchronous or not, as a stream; y may be None.

    The agent stands still while a synchronous one computes its next sample: let a slow one be asynchronous.

    >>> async def main():
    ...     return [(r.index, r.x.tolist(), r.y) async for r in aiter_of([([1, 2], 3), ([4, 5], None)], 2)]
    >>> asyncio.run(main())
    [(0, [1.0, 2.0], 3.0), (1, [4.0, 5.0], None)]
    """
    pairs = samples if isinstance(samples, AsyncIterable) else _later(samples)
    return Stream(_ones(pairs), _pair, Scaling.of(StreamSection(), inputs), skip)


async def _later(samples: Iterable[T]) -> AsyncGenerator[T, None]:
    for sample in samples:
        yield sample


async def _ones(samples: AsyncIterable[T]) -> AsyncGenerator[Numbered[T], None]:
    line = 0
    async for sample in samples:
        line += 1
        yield [(line, sample)]


def _pair(sample: Any) -> Row:
    try:
        x, y = sample
        return Row(np.asarray(x, dtype=np.float64).reshape(-1).tolist(), None if y is None else float(y))
    except (TypeError, ValueError):
        raise Refused("not numbers", "expected (x, y) of numbers") from None


async def _messages(messages: Queue) -> AsyncGenerator[Numbered[bytes], None]:
    count = 0
    while (message := await messages.get()) is not None:
        count += 1
        yield [(count, message)]


async def _stdin(fd: int) -> AsyncGenerator[Numbered[bytes], None]:
    worker, splitter = Worker(), Splitter()
    try:
        # os.read: a daemon thread inside sys.stdin would hold its lock while the interpreter exits.
        while data := await worker.run(lambda: os.read(fd, CHUNK)):
            yield splitter.feed(data)
        yield splitter.end()
    finally:
        worker.close()


async def _lines(tail: Tail) -> AsyncGenerator[Numbered[bytes], None]:
    """The lines of a file, and of those that take its place."""
    worker = Worker()
    try:
        while (lines := await worker.run(tail.read)) is not None:
            if lines:
                yield lines
            elif tail.follow:
                await asyncio.sleep(POLL)
    finally:
        worker.close(tail.close)


async def _csv(tail: Tail, table: CsvRows) -> AsyncGenerator[Numbered[bytes], None]:
    """The rows below a file's header."""
    lines = _lines(tail)
    try:
        async for batch in lines:
            if tail.opened != table.opened:
                table.begin(batch.pop(0)[1], tail)
            yield batch
        if not table.opened:
            raise DataError(f"{tail.path}: the file is empty; expected a line with column names; write one")
    finally:
        await lines.aclose()


class Worker:
    """A thread that makes blocking calls, one after the other.

    asyncio's own pool is waited for at the end, so that a silent standard input would hold up the exit.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="domkl-stream", daemon=True).start()

    async def run(self, call: Callable[[], T]) -> T:
        """The result of a call, made in the thread."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((call, future))
        return await future

    def close(self, last: Callable[[], None] | None = None) -> None:
        """End the thread after a last call; does not wait for it."""
        if last is not None:
            self._jobs.put((last, None))
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future = job
            result, error = _outcome(call)
            if future is not None:
                _hand_over(future, result, error)


def _outcome(call: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return call(), None
    except Exception as error:
        return None, error


def _hand_over(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    def settle() -> None:
        if future.done():  # cancelled meanwhile
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
        future.get_loop().call_soon_threadsafe(settle)


class Splitter:
    """Bytes to whole lines that are not blank; what has no end yet waits for it."""

    def __init__(self) -> None:
        self.line, self.rest = 1, b""

    def feed(self, data: bytes) -> Numbered[bytes]:
        *lines, rest = (self.rest + data).split(b"\n")
        self.rest = rest[: LONGEST + 1]  # enough to know that it is too long
        found = [(n, line) for n, line in enumerate(lines, self.line) if line and not line.isspace()]
        self.line += len(lines)
        return found

    def end(self) -> Numbered[bytes]:
        """The last line, if nothing ended it."""
        return self.feed(b"\n") if self.rest else []


class Tail:
    """A file read from its top; with `follow` for ever, and from the top of whatever takes its place."""

    def __init__(self, path: Path, follow: bool) -> None:
        if not follow and not path.is_file():
            raise DataError(f"{path}: no such file; expected a file of readings; check the path")
        self.path, self.follow = path, follow
        self.opened, self.size, self.head = 0, 0, b""  # how many files; bytes of the last, and its first ones
        self._file: IO[bytes] | None = None
        self._splitter = Splitter()

    def read(self) -> Numbered[bytes] | None:
        """The next lines; none if there are none yet, None at the end. Blocks: not for the event loop."""
        try:
            return self._read()
        except FileNotFoundError:
            return []  # between rotation's two steps, or not written yet
        except OSError as error:
            raise DataError(
                f"{self.path} cannot be read: {error.strerror}; expected a file; mend it"
            ) from None

    def _read(self) -> Numbered[bytes] | None:
        file = self._file or self._open()
        replaced = self.follow and self._replaced(file)  # asked before reading: so the old file's end is read
        if data := file.read(CHUNK):
            self.size, self.head = self.size + len(data), self.head + data[: HEAD - len(self.head)]
            return self._splitter.feed(data)
        if replaced:
            self._start_again()
        return [] if self.follow else self._splitter.end() or None

    def _open(self) -> IO[bytes]:
        self._file = self.path.open("rb", buffering=0)
        self._splitter, self.opened, self.size, self.head = Splitter(), self.opened + 1, 0, b""
        return self._file

    def _replaced(self, file: IO[bytes]) -> bool:
        try:
            now, ours = self.path.stat(), os.fstat(file.fileno())
        except FileNotFoundError:
            return False
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino) or now.st_size < file.tell()

    def _start_again(self) -> None:
        # Half a number can look like a number: a line that nothing ended is not read.
        fields = {"path": str(self.path), "unfinished_bytes": len(self._splitter.rest)}
        tell(LOG, logging.INFO, "file replaced or truncated, reading from its top", **fields)
        self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class JsonRows:
    """{"x": [..] or {"column": ..}, "y": .., "id": ".."}"""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = columns
        self.decode, self.errors = _decoder()

    def __call__(self, line: bytes) -> Row:
        if len(line) > LONGEST:
            raise _too_long()
        try:
            said = self.decode(line)
        except self.errors as error:
            raise Refused("not a reading", str(error)) from None
        x = self._named(said.x) if isinstance(said.x, dict) else said.x
        return Row(x, said.y, None if said.id is None else str(said.id))

    def _named(self, x: dict[str, float]) -> list[float]:
        if not self.columns:
            raise Refused("no column", "x has names but [stream] columns lists none")
        try:
            return [x[name] for name in self.columns]
        except KeyError as error:
            raise Refused("no column", f"x has no {error.args[0]!r}") from None


@lru_cache
def _decoder() -> tuple[Callable[[bytes], Any], tuple[type[Exception], ...]]:
    msgspec = need("msgspec", "agent")
    fields = [
        ("x", list[float] | dict[str, float] | None, None),
        ("y", float | None, None),
        ("id", str | int | None, None),
    ]
    kind = msgspec.defstruct("Said", fields)
    return msgspec.json.Decoder(kind).decode, (msgspec.MsgspecError, UnicodeError, RecursionError)


def _too_long() -> Refused:
    return Refused("too long", f"the line has more than {LONGEST} bytes")


class CsvRows:
    """Lines of a table with a header; comma, semicolon or tab, whichever the header has most of."""

    def __init__(self, section: StreamSection, inputs: int) -> None:
        self.section, self.inputs = section, inputs
        self.names = section.columns  # or else those of the first file, for all that follow
        self.opened = 0
        self._broken = ""  # what is wrong with a later file's header
        self._width, self._comma = 0, ","

    def begin(self, header: bytes, tail: Tail) -> None:
        """Read a file's header. The first must be right; a later one that is not costs that file's rows."""
        first, self.opened = not self.opened, tail.opened
        self._broken = ""
        try:
            self._read_header(header)
        except Refused as fault:
            if first:
                raise DataError(f"{tail.path}, header: {fault.reason}; mend the file or [stream]") from None
            self._broken = fault.reason

    def _read_header(self, line: bytes) -> None:
        text = _text(line).lstrip("\ufeff")
        self._comma = max(",;\t", key=text.count)
        names = [name.strip() for name in self._cells(text)]
        columns = self.names or tuple(name for name in names if name != self.section.target)
        for name in (*columns, self.section.target):
            if names.count(name) != 1:
                raise Refused("no column", f"there are {names.count(name)} columns {name!r}, expected one")
        if len(columns) != self.inputs:
            raise Refused("wrong length", f"there are {len(columns)} inputs, expected {self.inputs}")
        self._width, self.names = len(names), columns
        self._pick = itemgetter(*(names.index(name) for name in (*columns, self.section.target)))

    def __call__(self, line: bytes) -> Row:
        if self._broken:
            raise Refused("no column", f"the header is unusable: {self._broken}")
        cells = self._cells(_text(line))
        if len(cells) != self._width:
            raise Refused("wrong length", f"there are {len(cells)} cells, expected {self._width}")
        *x, y = self._pick(cells)
        try:
            if b"_" in line:  # which Python's float takes for nothing
                raise ValueError
            return Row(list(map(float, x)), float(y) if y else None)
        except ValueError:
            return self._slowly(x, y)

    def _slowly(self, x: Sequence[str], y: str) -> Row:
        """The same row, cell by cell, so that the bad one is known."""
        numbers = [_number(name, cell) for name, cell in zip(self.names, x, strict=True)]
        return Row(numbers, _number(self.section.target, y) if y.strip() else None)

    def _cells(self, text: str) -> list[str]:
        if '"' not in text:
            return text.split(self._comma)
        try:
            return next(csv.reader([text], delimiter=self._comma, strict=True))
        except csv.Error as error:
            raise Refused("not a row", str(error)) from None


def _text(line: bytes) -> str:
    if len(line) > LONGEST:
        raise _too_long()
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError:
        raise Refused("not a row", "the line is not UTF-8 text") from None


def _number(name: str, cell: str) -> float:
    try:
        return float("no" if "_" in cell else cell)
    except ValueError:
        shown = f"{cell[:40]!r}" if cell.strip() else "empty"
        raise Refused("not a number", f"column {name!r} is {shown}, expected a number") from None

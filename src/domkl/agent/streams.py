"""Streams of readings: from standard input, a file, a topic or Python.

    stream = open_stream(config.stream, config.inputs, skip=learnt)
    async for reading in stream:
        ...

Whatever the source, a stream numbers its readings from 0. A bad row is refused, counted in `stream.refused`,
and logged; it takes a number too, so that a restarted agent skips as many as it has learnt.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array
from .config import StreamSection
from .files import CHUNK, Numbered, Origin, Splitter, T, Tail, Worker, digest
from .logs import tell
from .refusals import RefusedRows
from .rows import EXAMPLE, CsvRows, JsonRows, Row, RowRefused
from .scaling import Scaling

POLL = 0.1  # seconds between two looks at a file that may have grown
LOG = logging.getLogger(__name__)

Queue: TypeAlias = "asyncio.Queue[bytes | None]"


@dataclass(frozen=True, slots=True)
class Reading:
    """x and y to learn from; x alone to predict; y and the id of an earlier x, whose label it is."""

    index: int
    x: Array | None  # (d,)
    y: float | None
    id: str | None = None
    source: tuple[int, Any] | None = field(default=None, compare=False, repr=False)  # line, row as it came


class Stream(AsyncIterator[Reading]):
    """The readings of a source, in order.

    A wait for the next one must not be cancelled and started again, as `asyncio.wait_for` would: that ends
    the stream. Hold the task, and wait for it with `asyncio.wait`.

    Parameters
    ----------
    batches : items of the source, with line numbers.
    parse : converts one item to a `Row`; raises `RowRefused`.
    skip : number of readings of the source to skip.
    first : the number of the source's first reading.
    tail : the file that the batches come from, if it is one.
    refused : takes the rows that cannot be used; public, and may be replaced.
    """

    def __init__(
        self,
        batches: AsyncGenerator[Numbered[T], None],
        parse: Callable[[T], Row],
        scaling: Scaling,
        skip: int = 0,
        first: int = 0,
        tail: Tail | None = None,
        refused: RefusedRows | None = None,
    ) -> None:
        self.scaling, self.index = scaling, first
        self.origin: Origin | None = None  # of the last reading
        self.refused = RefusedRows() if refused is None else refused
        self._batches, self._parse, self._begin = batches, parse, first + checks.count("skip", skip, 0)
        self._tail, self._opened, self._first = tail, 0, first
        self._parsed: Iterator[Reading] = iter(())
        self._readings = self._run()

    def __anext__(self) -> Awaitable[Reading]:
        return self._readings.__anext__()

    def ready(self) -> Reading | None:
        """The next reading if it is there already, else None."""
        return next(self._parsed, None)

    @property
    def fault(self) -> str:
        """Why the source cannot be read at the moment, or ""."""
        return "" if self._tail is None else self._tail.reading.fault

    async def aclose(self) -> None:
        """Close the source."""
        await self._readings.aclose()
        await self._batches.aclose()

    async def _run(self) -> AsyncGenerator[Reading, None]:
        async for batch in self._batches:
            self._note_origin()
            self._parsed = self._batch(batch)
            for reading in self._parsed:
                yield reading
            await asyncio.sleep(0)  # a long file must not block the event loop

    def _note_origin(self) -> None:
        if self._tail is None:
            return
        if not self._opened and self._tail.known is not None:
            self.index = self._resumed(self._tail, self._tail.known)
        if self._opened != self._tail.opened:
            self._opened, self._first = self._tail.opened, self.index
        self.origin = Origin(self._first, self._tail.size, digest(self._tail.head))

    def _resumed(self, tail: Tail, known: Origin) -> int:
        """The number of the first reading of a file, after a restart."""
        if tail.is_known:
            return min(known.first, self._begin)
        place = str(tail.path)
        tell(LOG, logging.WARNING, "another file since the last start, reading from its top", path=place)
        return self._begin

    def _batch(self, batch: Numbered[Any]) -> Iterator[Reading]:
        start = max(self.index, self._begin)
        fresh = batch[start - self.index :]
        self.index += len(batch)
        rows = [self._row(index, *each) for index, each in enumerate(fresh, start)]
        whole = [row.x for row in rows if row is not None and row.x is not None]
        X = iter(self.scaling.x(np.array(whole, dtype=np.float64).reshape(-1, len(self.scaling.low))))
        for index, (row, source) in enumerate(zip(rows, fresh, strict=True), start):
            if row is not None:
                x = None if row.x is None else next(X)
                y = None if row.y is None else self.scaling.y(row.y)
                yield Reading(index, x, y, row.id, source)

    def _row(self, index: int, line: int, item: Any) -> Row | None:
        try:
            return self._checked(self._parse(item))
        except RowRefused as fault:
            self.refused.note(fault, index, line, item)
        except Exception as error:  # whatever a row brings must not end the stream
            self.refused.note(RowRefused("not a row", repr(error)), index, line, item)
        return None

    def _checked(self, row: Row) -> Row:
        """The row itself if it can be predicted or learnt."""
        if row.x is None and (row.y is None or row.id is None):
            reason = "the row has neither x nor a label with the id of an earlier x"
            raise RowRefused("no x", reason, f"put the inputs under x, such as {EXAMPLE}")
        if row.x is not None:
            self._check_x(row.x)
        if row.y is not None and not math.isfinite(self.scaling.y(row.y)):
            raise RowRefused("not finite", f"y is {row.y}, expected a finite number", "leave such rows out")
        return row

    def _check_x(self, x: Sequence[float]) -> None:
        if len(x) != len(self.scaling.low):
            reason = f"x has {len(x)} values, expected {len(self.scaling.low)}"
            raise RowRefused("wrong length", reason, "fix the row, or inputs in the configuration")
        if not math.isfinite(sum(x)):  # a sum of finite values may overflow, too
            for i, value in enumerate(x):
                if not (math.isfinite(value) or (self.scaling.missing and math.isnan(value))):
                    remedy = "leave such rows out, or set [stream] missing = true and leave the value out"
                    raise RowRefused("not finite", f"x[{i}] is {value}, expected a finite number", remedy)


def open_stream(
    section: StreamSection,
    inputs: int,
    skip: int = 0,
    *,
    origin: Sequence[Any] | None = None,
    messages: Queue | None = None,
    stdin: int = 0,
    refused: RefusedRows | None = None,
    most: int | None = None,
) -> Stream:
    """The stream of a configuration.

    A file is read from its top after a restart, so its first `skip` readings are skipped. Standard input and
    a topic are live: nothing of them is skipped, and their numbers continue from `skip`.

    Parameters
    ----------
    origin : `Stream.origin` at the last reading of those to skip. Without it, a file that was rotated since
        the first reading loses as many rows as its predecessors had.
    messages : for kind = "topic": a queue of the topic's payloads; None ends the stream.
    stdin : the file descriptor to read for kind = "stdin".
    refused : takes the rows that cannot be used.
    most : rows of a file after which the stream ends.
    """
    section.check_inputs(inputs)
    scaling = Scaling.of(section, inputs)
    live = scaling, 0, skip, None, refused
    if section.kind == "topic":
        if messages is None:
            raise InputError("messages is None and kind is 'topic'; expected a queue; pass messages=")
        return Stream(_messages(messages), JsonRows(section.columns, section.missing), *live)
    if section.kind == "stdin":
        return Stream(_stdin(stdin), JsonRows(section.columns, section.missing), *live)
    tail = Tail(Path(str(section.path)), section.follow, None if origin is None else Origin(*origin))
    how = scaling, skip, 0, tail, refused
    if section.kind == "jsonl":
        return Stream(_at_most(most, _lines(tail)), JsonRows(section.columns, section.missing), *how)
    table = CsvRows(section, inputs)
    return Stream(_at_most(most, _csv(tail, table)), table, *how)


def aiter_of(
    samples: Iterable[tuple[npt.ArrayLike, float | None]] | AsyncIterable[tuple[npt.ArrayLike, float | None]],
    inputs: int,
    skip: int = 0,
) -> Stream:
    """Any iterable of (x, y), asynchronous or not, as a stream; y may be None.

    A synchronous one blocks the agent while it computes its next sample: make a slow one asynchronous.

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
        raise RowRefused("not numbers", "expected (x, y) of numbers") from None


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
    """Lines of a file, and of the files that replace it."""
    worker = Worker()
    try:
        while (lines := await worker.run(tail.read)) is not None:
            if lines:
                yield lines
            elif tail.follow:
                await asyncio.sleep(POLL)
    finally:
        worker.close(tail.close)


async def _at_most(
    most: int | None, batches: AsyncGenerator[Numbered[T], None]
) -> AsyncGenerator[Numbered[T], None]:
    """The first rows of a source, all of them by default."""
    try:
        async for batch in batches:
            yield batch[:most]
            most = None if most is None else most - len(batch)
            if most is not None and most <= 0:
                return
    finally:
        await batches.aclose()


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

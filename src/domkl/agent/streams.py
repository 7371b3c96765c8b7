"""Streams of readings: from standard input, a file, a topic or Python.

    stream = open_stream(config.stream, config.inputs, skip=learnt, columns=config.columns)
    async for reading in stream:
        ...

Whatever the source, a stream numbers its readings from 0. A bad row is refused, counted in `stream.refused`,
and logged; it takes a number too, so that a restarted agent skips as many as it has learnt.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..base.words import trimmed
from ..datasets.columns import CellError, Columns
from ..datasets.encoder import Encoder
from . import sources
from .config import STORED, TABLES, TARGET, WITHIN, AgentConfig, StreamSection
from .rows import EXAMPLE, PASSED, CsvRows, JsonRows, RefusedRows, Row, RowRefused, fault_of
from .sources import Numbered, Origin, Place, Snapshots, T, TableRows, Tail
from .topics import JoinedRows, LabelRows, Message, TopicRows


class Scaling(NamedTuple):
    """Scaling by fixed bounds to [0, 1]; inputs are clipped, a target may lie outside."""

    low: Array  # (d,)
    span: Array  # (d,)
    bounded: bool
    target_low: float = 0.0
    target_span: float = 1.0
    missing: bool = False  # whether inputs may be missing

    @classmethod
    def of(cls, section: StreamSection, inputs: int, missing: bool = False) -> Scaling:
        """The scaling of a configuration; without bounds, none."""
        low = np.array(section.low or [0.0] * inputs)
        high = np.array(section.high or [1.0] * inputs)
        bounds = low, high - low, bool(section.low)
        if section.target_low is None or section.target_high is None:
            return cls(*bounds, missing=missing)
        return cls(*bounds, section.target_low, section.target_high - section.target_low, missing)

    def x(self, X: Array) -> Array:
        """Inputs (n, d) to [0, 1]."""
        if not self.bounded:
            return X
        with np.errstate(over="ignore"):
            return np.clip((X - self.low) / self.span, 0.0, 1.0)

    def y(self, y: float) -> float:
        """A target in the unit that is learnt."""
        return (y - self.target_low) / self.target_span

    def checked(self, row: Row) -> Row:
        """The row itself if it can be predicted or learnt."""
        if row.x is None and (row.y is None or (row.id is None and row.time is None)):
            reason = "the row has neither x nor a label with the id of an earlier x"
            remedy = f"put the inputs under x, such as {EXAMPLE}, or name them in [columns] features"
            raise RowRefused("no x", reason, remedy)
        if row.x is not None:
            self._check_x(row.x)
        if row.y is not None and not math.isfinite(self.y(row.y)):
            raise RowRefused("not finite", f"y is {row.y}, expected a finite number", "leave such rows out")
        return row

    def _check_x(self, x: Sequence[float]) -> None:
        if len(x) != len(self.low):
            reason = f"x has {len(x)} values, expected {len(self.low)}"
            raise RowRefused("wrong length", reason, "fix the row, or inputs in the configuration")
        if not math.isfinite(sum(x)):  # a sum of finite values may overflow, too
            for i, value in enumerate(x):
                if not (math.isfinite(value) or (self.missing and math.isnan(value))):
                    remedy = "leave such rows out; only kind = auto with [columns] missing = auto takes them"
                    raise RowRefused("not finite", f"x[{i}] is {value}, expected a finite number", remedy)

    def original(self, y: float) -> float:
        """A prediction in the target's own unit; what was scaled has no more digits than tell something.

        >>> scaling = Scaling(np.zeros(0), np.ones(0), False, -12.0, 50.0)
        >>> scaling.y(8.1) * 50 - 12, scaling.original(scaling.y(8.1))
        (8.100000000000001, 8.1)
        """
        is_scaled = (self.target_low, self.target_span) != (0.0, 1.0)
        return trimmed(y * self.target_span + self.target_low) if is_scaled else y


@dataclass(frozen=True, slots=True)
class Reading:
    """x and y to learn from; x alone to predict; y and the id of an earlier x, whose label it is."""

    index: int
    x: Array | None  # (d,)
    y: float | None
    id: str | None = None
    source: tuple[int, Any] | None = field(default=None, compare=False, repr=False)  # line, row as it came
    time: float | None = None  # seconds since 1970
    arrived: float | None = field(default=None, compare=False)  # when it came here, in seconds since 1970


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
    tail : the file, or table, that the batches come from, if it is one.
    refused : takes the rows that cannot be used; see `refuse_to`.
    """

    def __init__(
        self,
        batches: AsyncGenerator[Numbered[T], None],
        parse: Callable[[T], Row],
        scaling: Scaling,
        skip: int = 0,
        first: int = 0,
        tail: Tail | Snapshots | None = None,
        refused: RefusedRows | None = None,
    ) -> None:
        self.scaling, self.index = scaling, first
        self.refused = RefusedRows() if refused is None else refused
        self._batches, self._parse, self._begin = batches, parse, first + checks.count("skip", skip, 0)
        self._tail = tail
        self._parsed: Iterator[Reading] = iter(())
        self._left, self._arrived = 0, 0.0  # of the rows that came last: how many wait, and when they came
        self._readings = self._run()

    def refuse_to(self, refused: RefusedRows) -> None:
        """Give rows that cannot be used to another from now on."""
        self.refused = refused

    def __anext__(self) -> Awaitable[Reading]:
        return self._readings.__anext__()

    def ready(self) -> Reading | None:
        """The next reading if it is there already, else None."""
        return next(self._parsed, None)

    @property
    def backlog(self) -> tuple[int, float]:
        """How many of the rows that came last wait, and when they came, in seconds since 1970."""
        return self._left, self._arrived

    @property
    def fault(self) -> str:
        """Why the source cannot be read at the moment, or ""."""
        return "" if self._tail is None else self._tail.reading.fault

    def origin_at(self, readings: int) -> Origin | Place | None:
        """Where the source stands after so many readings, all of which were handed out; None if nowhere."""
        return None if self._tail is None else self._tail.origin_at(readings)

    async def aclose(self) -> None:
        await self._readings.aclose()
        await self._batches.aclose()

    async def _run(self) -> AsyncGenerator[Reading, None]:
        async for batch in self._batches:
            if self._tail is not None:
                self.index = self._tail.begin(self.index, self._begin)
            self._parsed = self._batch(batch)
            for reading in self._parsed:
                yield reading
            await asyncio.sleep(0)  # a long file must not block the event loop

    def _batch(self, batch: Numbered[Any]) -> Iterator[Reading]:
        start = max(self.index, self._begin)
        seen, fresh = batch[: start - self.index], batch[start - self.index :]
        if isinstance(self._parse, CsvRows):
            for _, item in seen:  # perhaps a header of the rows that follow
                self._parse.is_header(item)
        self.index = start if fresh else self.index + len(batch)
        rows = [found for each in fresh if (found := self._numbered(each)) is not None]
        item = batch[0][1] if batch else None
        self._left, self._arrived = len(rows), item.at if isinstance(item, Message) else time.time()
        whole = [row.x for _, row, _ in rows if row.x is not None]
        X = iter(self.scaling.x(np.array(whole, dtype=np.float64).reshape(-1, len(self.scaling.low))))
        for index, row, source in rows:
            x = None if row.x is None else next(X)
            y = None if row.y is None else self.scaling.y(row.y)
            self._left -= 1
            yield Reading(index, x, y, row.id, source, row.time, self._arrived)

    def _numbered(self, source: tuple[int, Any]) -> tuple[int, Row, tuple[int, Any]] | None:
        """A row with its number. Every line of a file takes one; of what is live, what is a reading."""
        index, row = self.index, self._row(self.index, *source)
        self.index += row is not PASSED or self._tail is not None
        return None if row is None or row is PASSED else (index, row, source)

    def _row(self, index: int, line: int, item: Any) -> Row | None:
        try:
            row = self._parse(item)
            return row if row is PASSED else self.scaling.checked(row)
        except (RowRefused, CellError) as fault:
            self.refused.note(fault_of(fault), index, line, item)
        except Exception as error:  # whatever a row brings must not end the stream
            self.refused.note(RowRefused("not a row", repr(error)), index, line, item)
        return None


def open_stream(
    section: StreamSection,
    inputs: int,
    skip: int = 0,
    *,
    columns: Columns | None = None,
    missing: bool = False,
    learner: str = "",
    origin: Sequence[Any] | None = None,
    messages: sources.Queue | None = None,
    stdin: int = 0,
    refused: RefusedRows | None = None,
    most: int | None = None,
) -> Stream:
    """The stream of a configuration.

    A file is read from its top after a restart, so its first `skip` readings are skipped. Standard input and
    a topic are live: nothing of them is skipped, and their numbers continue from `skip`.

    Parameters
    ----------
    columns : what the columns are; without features, x is a list, or all columns of a table but the target.
    missing : whether inputs may be missing.
    learner : whose rows are read, where a column says whose they are.
    origin : `Stream.origin_at(skip)`. Without it, a file that was rotated since the first reading loses as
        many rows as its predecessors had.
    messages : for kind = "topic": a queue of messages; None ends the stream.
    stdin : the file descriptor to read for kind = "stdin".
    refused : takes the rows that cannot be used.
    most : rows of a file after which the stream ends.
    """
    section.check_inputs(inputs)
    scaling = Scaling.of(section, inputs, missing)
    columns, encoder = encoding_of(columns or Columns(), missing)
    live, by_time = (scaling, 0, skip, None, refused), section.labels == "time"
    if section.kind == "topic":
        if messages is None:
            raise InputError("messages is None and kind is 'topic'; expected a queue; pass messages=")
        return Stream(sources.messages(messages), _of_topics(section, encoder, learner), *live)
    if section.kind == "stdin":
        return Stream(sources.stdin(stdin), JsonRows(encoder, learner, by_time), *live)
    if section.kind in TABLES:
        if encoder is None:
            remedy = "expected the columns to predict from; name them"
            raise InputError(f"[columns] features is not given; {remedy}")
        rows = Snapshots(section, encoder, None if origin is None else Place.of(origin), most)
        return Stream(sources.stored(rows), TableRows(encoder, learner), scaling, skip, 0, rows, refused)
    table = None
    if section.kind == "csv":
        table = CsvRows(encoder, columns, columns.target, inputs, learner, by_time)
    known = None if origin is None else Origin.of(origin)
    tail = Tail(Path(section.path or ""), section.follow, known, table)
    lines = sources.stored(tail) if most is None else sources.stored(tail, most)
    return Stream(lines, table or JsonRows(encoder, learner, by_time), scaling, skip, 0, tail, refused)


def encoding_of(columns: Columns, missing: bool) -> tuple[Columns, Encoder | None]:
    """The columns with a target, and their encoder, if they name inputs."""
    refuses = {} if missing or columns.missing != "auto" else {"missing": "error"}  # with the column's name
    columns = dataclasses.replace(columns, target=columns.target or TARGET, **refuses)  # type: ignore[arg-type]
    return columns, Encoder(columns) if columns.features else None


def stream_of(config: AgentConfig, skip: int = 0, *, follow: bool | None = None, **more: Any) -> Stream:
    """The stream of an agent whose columns are complete; `more` is as in `open_stream`."""
    section = config.stream if follow is None else dataclasses.replace(config.stream, follow=follow)
    about = {"columns": config.columns, "missing": config.takes_missing, "learner": config.name}
    return open_stream(section, config.inputs, skip, **about, **more)  # type: ignore[arg-type]


def _of_topics(section: StreamSection, encoder: Encoder | None, learner: str) -> Callable[[Message], Row]:
    by_time = section.labels == "time"
    if section.label_topic is not None:
        readings = _of_topics(dataclasses.replace(section, label_topic=None, labels="id"), encoder, learner)
        return LabelRows(section.label_topic, JsonRows(encoder, learner, by_time), readings)
    if not section.topics:
        return TopicRows(encoder, learner, section.patterns, by_time=by_time)
    if encoder is None:
        raise InputError(
            "[stream] topics is given without [columns] features; expected the columns to join; name them"
        )
    return JoinedRows(encoder, section.trigger, section.within or WITHIN, learner, section.topics)


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
    pairs = samples if isinstance(samples, AsyncIterable) else sources.later(samples)
    return Stream(sources.ones(pairs), _pair, Scaling.of(StreamSection(), inputs), skip)


def _pair(sample: Any) -> Row:
    try:
        x, y = sample
        return Row(np.asarray(x, dtype=np.float64).reshape(-1).tolist(), None if y is None else float(y))
    except (TypeError, ValueError):
        raise RowRefused("not numbers", "expected (x, y) of numbers") from None


#: Rows that are looked at.
FIRST_ROWS = 20


def preview(config: AgentConfig) -> RefusedRows | None:
    """Count which of the first rows can be used; None where there is no file or database to look into.

    Raises DataError if none can.
    """
    section = config.stream
    is_there = section.kind == "database" or Path(section.path or "").is_file()
    if section.kind not in STORED or not is_there:
        return None
    found = asyncio.run(_look(config))
    found.refuse_useless(f"{section.shown}: none of the first {found.read} rows can be used")
    return found


async def _look(config: AgentConfig) -> RefusedRows:
    found = RefusedRows(is_logged=False)  # the caller reports them
    stream = stream_of(config, follow=False, refused=found, most=FIRST_ROWS)
    async for _ in stream:
        found.note_used()
    return found

"""Predictions as JSON: lines to standard output or a file, messages to a topic, posts to a web address."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import select
import stat
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from ..base.times import iso
from ..learning.conformal import Errors
from ..watch import Feed
from .alarming import ReadingAlarms
from .config import OutputSection
from .logs import Attempts, tell
from .posting import Poster
from .sources import without_waiting
from .streams import Reading, Scaling
from .topics import Topics

LOG = logging.getLogger(__name__)
#: Seconds after which a line is flushed at the latest.
DELAY = 0.02
#: Bytes that are written at once, and those that wait at most while the place cannot be written.
FULL, MOST = 8192, 2**20
#: Bytes that a place that can be written takes without waiting: `PIPE_BUF` of Linux.
AT_ONCE = 4096
#: Seconds that a reader is waited for, while it reads and when we end.
PATIENCE, LAST_PATIENCE = 0.1, 2.0

Out = Callable[[dict[str, Any]], None]


class Lines:
    """Writes JSON lines to a file that is opened with the first; "-" is standard output, "" nowhere.

    A place that cannot be written is tried again with every flush. Meanwhile lines wait, up to `MOST` bytes;
    further ones are lost and counted. Only a closed pipe at standard output is an error: its reader has gone.
    A reader of a pipe that is slow slows us down; one that reads nothing for `PATIENCE` does not.
    With `starts_over`, what is in the file already is dropped.
    """

    def __init__(self, place: str, starts_over: bool = False) -> None:
        self.place, self.lost, self._starts_over = place, 0, starts_over
        shown = "standard output" if place == "-" else place
        self.writing = Attempts(f"predictions cannot be written to {shown}")
        self._file: io.RawIOBase | BinaryIO | None = None
        self._waiting = bytearray()
        self._flushed_at = 0.0

    def write(self, record: dict[str, Any]) -> None:
        """Write a line."""
        if not self.place:
            return
        line = msgspec.json.encode(record) + b"\n"
        if self.writing.fault and len(self._waiting) + len(line) > MOST:
            self.lost += 1
        else:
            self._waiting += line
        if len(self._waiting) >= FULL or time.monotonic() - self._flushed_at > DELAY:
            self.flush()

    def flush(self) -> None:
        """Write all lines so far, or record why that failed."""
        self._flush(0.0 if self.writing.fault else PATIENCE, PATIENCE)

    def _flush(self, first: float, total: float) -> None:
        if not self._waiting:
            return
        try:
            self._write_waiting(first, time.monotonic() + total)
        except OSError as error:
            if self.place == "-" and isinstance(error, BrokenPipeError):
                raise
            self.writing.fail(error.strerror or str(error))
        else:
            self.writing.succeed()
        self._flushed_at = time.monotonic()

    def _write_waiting(self, patience: float, end: float) -> None:
        """Write until `end`, if the place takes something within `patience` seconds."""
        if self._file is None:
            self._file, self._starts_over = _opened(self.place, self._starts_over), False
        while self._waiting:
            count = self._file.write(self._waiting[:AT_ONCE]) if _is_free(self._file, patience) else None
            if count is None:
                raise BlockingIOError("its reader is slow")
            del self._waiting[:count]
            patience = max(0.0, end - time.monotonic())
        self._file.flush()

    def close(self) -> None:
        """Close the file, but not standard output; lines that still wait are lost."""
        self._flush(LAST_PATIENCE, LAST_PATIENCE)
        if self._waiting:
            self.lost += self._waiting.count(b"\n")
            tell(LOG, logging.ERROR, "predictions lost", lines=self.lost, reason=self.writing.fault)
        if self._file is not None and self.place != "-":
            self._file.close()


def _opened(place: str, starts_over: bool) -> io.RawIOBase | BinaryIO:
    """Where lines go; a file is emptied, or continued on a new line if a full disk has cut its last one."""
    if place == "-":
        sys.stdout.flush()
        return getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    file = io.FileIO(place, "ab", opener=without_waiting)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        try:
            if starts_over:
                file.truncate(0)
            elif _is_cut(place):
                file.write(b"\n")
        except OSError:
            file.close()
            raise
    return file


def _is_free(file: io.RawIOBase | BinaryIO, patience: float) -> bool:
    """Whether a place takes `AT_ONCE` bytes without waiting, within so many seconds.

    Standard output is shared with other processes, so it cannot be made non-blocking.
    """
    try:
        return bool(select.select([], [file], [], patience)[1])
    except (OSError, ValueError):  # not a file of the system, or of one that cannot tell
        return True


def _is_cut(place: str) -> bool:
    with contextlib.suppress(OSError), open(place, "rb") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    return False


class Predictions:
    """Writes each prediction in the target's unit to `out` (by default a line), a topic and a web address.

    `errors` are those of earlier predictions, from which bounds follow if the settings ask for them.
    With `starts_over` all predictions are made again, so that a file's former ones are dropped.
    """

    def __init__(
        self,
        section: OutputSection,
        scaling: Scaling,
        target: str,
        topics: Topics,
        out: Out | None,
        errors: Errors,
        alarms: ReadingAlarms,
        starts_over: bool = False,
    ) -> None:
        self.lines, self.poster = Lines(section.predictions, starts_over), Poster(section.url)
        self._scaling, self._target, self._topics = scaling, target, topics
        self._out, self._coverage, self._errors = out or self.lines.write, section.coverage, errors
        self._alarms = alarms
        self.feed: Feed | None = None  # of the live page, which gets each prediction and each label

    def write(self, reading: Reading, round: int, y_hat: float) -> None:
        """Write the prediction of a reading."""
        self._send(self._record(reading, round, y_hat))

    def write_label(self, reading: Reading, round: int, y_hat: float) -> None:
        """Write what is thought of a label that comes after its prediction, where alarms are on."""
        if self._alarms.are_on:
            self._send(self._record(reading, round, y_hat))

    def _send(self, record: dict[str, Any]) -> None:
        self._out(record)
        self._topics.publish(record)
        self.poster.write(record)
        if self.feed is not None:
            self.feed.sample({"learner": self.feed.own, **record})

    def _record(self, reading: Reading, round: int, y_hat: float) -> dict[str, Any]:
        record: dict[str, Any] = {"index": reading.index, "round": round}
        if reading.time is not None:
            record["time"] = iso(reading.time, "milliseconds")
        record |= {"target": self._target, **self.described(y_hat)}
        if reading.y is not None:
            record["y"] = self._scaling.original(reading.y)
            record |= self._alarms.judge(reading.index, round, y_hat, reading.y)
        if reading.id is not None:
            record["id"] = reading.id
        return record

    def label(self, reading: Reading) -> None:
        """Show a label that was learnt on the live page."""
        if self.feed is not None and reading.y is not None:
            key = reading.index if reading.id is None else reading.id
            self.feed.truth(str(self.feed.own), key, self._scaling.original(reading.y))

    def described(self, y_hat: float) -> dict[str, Any]:
        """A prediction in the label's unit, with bounds if there shall be some."""
        bounds = {} if self._coverage is None else self._bounds(y_hat, self._coverage)
        return {"y_hat": self._scaling.original(y_hat), **bounds}

    def _bounds(self, y_hat: float, coverage: float) -> dict[str, float | None]:
        """Bounds that hold y in `coverage` of all cases; null while too few errors are known."""
        wide = float(self._errors.width(coverage)[0])
        if not math.isfinite(wide):
            return {"low": None, "high": None}
        return {
            "low": self._scaling.original(y_hat - wide),
            "high": self._scaling.original(y_hat + wide),
        }

    @property
    def lost(self) -> int:
        """Predictions that could not be written or sent."""
        return self.lines.lost + self.poster.lost

    @property
    def faults(self) -> tuple[str, ...]:
        """Why predictions cannot be written or sent at the moment."""
        return self.lines.writing.fault, self.poster.sending.fault

    def close(self) -> None:
        """Write what waits, for a moment."""
        self.poster.close()
        self.lines.close()

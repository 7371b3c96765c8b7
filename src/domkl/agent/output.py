"""Predictions as JSON: lines to standard output or a file, messages to a topic, posts to a web address."""

from __future__ import annotations

import contextlib
import http.client
import io
import logging
import math
import mmap
import os
import queue
import select
import ssl
import stat
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import msgspec

from ..base.errors import DataError
from ..base.secret import Secret, plain
from ..base.words import iso, trimmed
from ..learning.alarms import Alarms
from ..learning.conformal import Errors
from ..watch import Feed
from .ahead import Ahead, Forecast
from .config import OutputSection
from .labels import Awaited
from .logs import Attempts, tell
from .sources import without_waiting
from .streams import Reading, Scaling
from .topics import Topics

LOG = logging.getLogger(__name__)


class ReadingAlarms:
    """Judges readings whose label is known, where there is a rate; counts alarms, and logs each."""

    def __init__(self, rate: float | None) -> None:
        self._alarms = None if rate is None else Alarms(rate)
        self.count = 0

    @property
    def are_on(self) -> bool:
        """Whether readings are judged."""
        return self._alarms is not None

    def judge(self, index: int, round: int, y_hat: float, y: float) -> dict[str, Any]:
        """What a record says of a reading, both numbers as they are learnt; nothing where alarms are off.

        The prediction of round 0, made before any label, tells nothing.
        """
        if self._alarms is None or not round:
            return {}
        found = self._alarms.judge(y_hat, y)
        surprise, alarm = float(found.surprise[0]), bool(found.alarm[0])
        if alarm:
            self.count += 1
            tell(LOG, logging.WARNING, "alarm", index=index, round=round, surprise=surprise)
        return {"surprise": surprise, "alarm": alarm}

    def state(self) -> dict[str, Any] | None:
        """Everything it knows, by name; None where alarms are off."""
        return None if self._alarms is None else {"count": self.count, **self._alarms.state()}

    def restore(self, state: Mapping[str, Any] | None) -> None:
        """Inverse of `state`; one that was saved without alarms, or is not wanted now, changes nothing."""
        if state is not None and self._alarms is not None:
            self._alarms.restore(state)
            self.count = int(state["count"])


#: The most predictions that wait to be sent; further ones are lost and counted.
MOST_UNSENT = 1000
#: Seconds for the server to answer, and from one attempt to the next, at least and at most.
POST_PATIENCE, POST_PAUSE, LONGEST_PAUSE = 5.0, 0.2, 10.0
#: Attempts for one prediction, after which it is lost; and seconds for those that wait when the agent ends.
ATTEMPTS, LAST_POSTS = 5, 2.0
#: Answers after which the same prediction is sent again: too many requests, or the server's own trouble.
AGAIN = {408, 425, 429, *range(500, 600)}
#: Bytes of an answer that are read; it says nothing that we need.
MOST_ANSWER = 65_536


class Poster:
    """Sends each record as a POST of a JSON object; `lost` counts those that were not taken."""

    def __init__(self, url: str) -> None:
        self.url, self.lost = Secret.address(url), 0
        self.sending = Attempts("predictions cannot be sent", self.url)
        self._parts = urllib.parse.urlsplit(plain(url))
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_UNSENT)
        self._ended_at: float | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._thread: threading.Thread | None = None

    def write(self, record: dict[str, Any]) -> None:
        """Send a record soon; does not wait."""
        if not self.url:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="domkl-post", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(msgspec.json.encode(record))
        except queue.Full:
            self.lost += 1

    def close(self) -> None:
        """Send those that wait, for a moment; the rest is lost."""
        if self._thread is None:
            return
        self._ended_at = time.monotonic()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(LAST_POSTS + 0.5)
        self.lost += sum(each is not None for each in self._waiting.queue)

    def _work(self) -> None:
        while not self._is_over and (body := self._waiting.get()) is not None:
            if not self._send(body):
                self.lost += 1
        self._hang_up()

    @property
    def _is_over(self) -> bool:
        return self._ended_at is not None and time.monotonic() > self._ended_at + LAST_POSTS

    def _send(self, body: bytes) -> bool:
        """Whether the server has taken a prediction, at last."""
        pause = POST_PAUSE
        for _ in range(ATTEMPTS):
            reason, is_final = self._try(body)
            if not reason:
                self.sending.succeed()
                return True
            self.sending.fail(reason)
            if is_final or self._is_over:
                return False
            time.sleep(pause if self._ended_at is None else min(pause, POST_PAUSE))
            pause = min(2 * pause, LONGEST_PAUSE)
        return False

    def _try(self, body: bytes) -> tuple[str, bool]:
        """Why one attempt has failed, or ""; and whether another would as well."""
        try:
            connection = self._connection = self._connection or self._connect()
            target = urllib.parse.urlunsplit(("", "", self._parts.path or "/", self._parts.query, ""))
            connection.request("POST", target, body, {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                answer.read(MOST_ANSWER)
                is_kept = answer.isclosed() and not answer.will_close
                status = answer.status
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._hang_up()
            return str(getattr(error, "strerror", None) or error) or type(error).__name__, False
        if not is_kept:  # the rest of a long answer would be taken for the next
            self._hang_up()
        is_taken = 200 <= status < 300
        return ("" if is_taken else f"the server answered {status}"), status not in AGAIN

    def _connect(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=POST_PATIENCE)
        trusted = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=POST_PATIENCE, context=trusted)

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


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
    With `again`, predictions from that reading on are made again, so a file's former ones are dropped first:
    however often an agent is killed, the file has each prediction once.
    """

    def __init__(self, place: str, again: int | None = None) -> None:
        self.place, self.lost, self._again = place, 0, again
        shown = "standard output" if place == "-" else place
        self.writing = Attempts("predictions cannot be written", shown)
        self._file: io.RawIOBase | BinaryIO | None = None
        self._waiting = bytearray()
        self._flushed_at = 0.0

    def write(self, record: dict[str, Any]) -> None:
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
            self._file, self._again = _opened(self.place, self._again), None
        while self._waiting:
            count = self._file.write(self._waiting[:AT_ONCE]) if _is_free(self._file, patience) else None
            if count is None:
                raise BlockingIOError("its reader is slow")
            del self._waiting[:count]
            patience = max(0.0, end - time.monotonic())
        self._file.flush()

    def refuse_lost(self) -> None:
        """Raise DataError where a file or a pipe lacks predictions."""
        if self.lost:
            raise DataError(
                f"{self.lost} predictions are lost: {self.writing.fault or self.writing.what}; expected room "
                "for all of them; make some; the readings were learnt all the same"
            )

    def close(self) -> None:
        """Close the file, but not standard output; lines that still wait are lost."""
        self._flush(LAST_PATIENCE, LAST_PATIENCE)
        if self._waiting:
            self.lost += self._waiting.count(b"\n")
            tell(LOG, logging.ERROR, "predictions lost", lines=self.lost, reason=self.writing.fault)
        if self._file is not None and self.place != "-":
            self._file.close()


def _opened(place: str, again: int | None) -> io.RawIOBase | BinaryIO:
    """Where lines go; a file without what is made again, or continued on a new line if one is cut."""
    if place == "-":
        sys.stdout.flush()
        return getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    file = io.FileIO(place, "ab", opener=without_waiting)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        try:
            if again is not None:
                file.truncate(_end_of(place, again))
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


def _end_of(place: str, again: int) -> int:
    """Bytes from a file's top to the predictions of that reading and later ones, which are its last lines."""
    if not again or not os.path.getsize(place):
        return 0
    with open(place, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        end = text.rfind(b"\n") + 1  # what is behind it was cut
        while end:
            start = text.rfind(b"\n", 0, end - 1) + 1
            if _index_of(text[start:end]) < again:
                return end
            end = start
    return 0


def _index_of(line: bytes) -> int:
    """The reading that a line is about; -1 where it is cut, or none of ours."""
    try:
        index = msgspec.json.decode(line)["index"]
    except (msgspec.MsgspecError, LookupError, TypeError, UnicodeError):
        return -1
    return index if isinstance(index, int) else -1


def _is_cut(place: str) -> bool:
    with contextlib.suppress(OSError), open(place, "rb") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    return False


class Predictions:
    """Writes each prediction in the target's unit to `out` (by default a line), a topic and a web address.

    `errors` are those of earlier predictions, from which bounds follow if the settings ask for them.
    `again`: the first reading whose prediction may have been written before, and is made again.
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
        again: int | None = None,
    ) -> None:
        self.lines, self.poster = Lines(section.predictions, again), Poster(section.url)
        self._scaling, self._target, self._topics = scaling, target, topics
        self._out, self._coverage, self._errors = out or self.lines.write, section.coverage, errors
        self._alarms = alarms
        self.feed: Feed | None = None

    def show_on(self, feed: Feed) -> None:
        """Show each prediction and each label on a live page."""
        self.feed = feed

    def write(self, reading: Reading, round: int, y_hat: float) -> None:
        """Write the prediction of a reading."""
        self._send(self._record(reading, round, y_hat))

    def write_label(self, reading: Reading, round: int, waited: Awaited) -> None:
        """Show a label that comes after its prediction; where alarms are on, write what is thought of it."""
        if self._alarms.are_on:
            of = {} if reading.id is not None else {"label_of": waited.index}
            self._send({**self._record(reading, round, waited.y_hat), **of})
        if reading.y is not None:
            self.label(waited.index if reading.id is None else reading.id, reading.y)

    def write_ahead(self, reading: Reading, round: int, found: Forecast, ahead: Ahead) -> None:
        """Write the forecast of each lead; what is said beside the curve is of the nearest one."""
        record: dict[str, Any] = {"index": reading.index, "round": round}
        if reading.time is not None:
            record["time"] = iso(reading.time, "milliseconds")
        curve = self._curve(reading, found, ahead)
        nearest: dict[str, Any] = {
            key: curve[0][key] for key in ("lead", "y_hat", "low", "high") if key in curve[0]
        }
        record |= {"target": self._target, **nearest, "forecast": curve}
        if reading.y is not None and not found.absurd:
            record["now"] = self._scaling.original(reading.y)
        self._send(record)
        if self.feed is not None:
            own = str(self.feed.own)
            for index, y in found.told:
                self.feed.truth(own, index, self._scaling.original(y))
            errors = (abs(self._scaling.target_span) * each for each in ahead.device.scores.roots())
            when = record.get("time", reading.index)
            self.feed.forecast(own, when, record.get("now"), curve, *(each.tolist() for each in errors))

    def _curve(self, reading: Reading, found: Forecast, ahead: Ahead) -> list[dict[str, Any]]:
        leads = ahead.horizon
        curve = [
            {"lead": name, "y_hat": self._trimmed(y)} for name, y in zip(leads.names, found.y, strict=True)
        ]
        if reading.time is not None and not leads.rows:
            for point, seconds in zip(curve, leads.leads, strict=True):
                point["time"] = iso(reading.time + seconds, "seconds")
        if self._coverage is not None:
            for point, *bounds in zip(curve, *ahead.bounds(self._coverage), strict=True):
                known = [self._trimmed(each) if math.isfinite(each) else None for each in bounds]
                point["low"], point["high"] = known
        return curve

    def _trimmed(self, y: float) -> float:
        return trimmed(self._scaling.original(float(y)))

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

    def label(self, key: int | str, y: float) -> None:
        """Show the label of a prediction, which its id or its index tells, on the live page."""
        if self.feed is not None:
            self.feed.truth(str(self.feed.own), key, self._scaling.original(y))

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

    def flush(self) -> None:
        """Write all lines so far, or record why that failed."""
        self.lines.flush()

    @property
    def lost(self) -> int:
        """Predictions that could not be written or sent."""
        return self.lines.lost + self.poster.lost

    @property
    def faults(self) -> tuple[str, ...]:
        """Why predictions cannot be written or sent at the moment."""
        return self.lines.writing.fault, self.poster.sending.fault

    def close(self) -> None:
        self.poster.close()
        self.lines.close()

"""Predictions as JSON lines: to standard output, a file or a topic."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from ..learning.conformal import Errors
from .config import OutputSection
from .post import Post
from .scaling import Scaling
from .streams import Reading

#: Seconds after which a line is flushed at the latest.
DELAY = 0.02

Out = Callable[[dict[str, Any]], None]


class Lines:
    """Writes JSON lines to a file that is opened with the first; "-" is standard output, "" nowhere."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._file: BinaryIO | None = sys.stdout.buffer if place == "-" else None
        self._flushed_at = 0.0

    def write(self, record: dict[str, Any]) -> None:
        """Write a line."""
        if not self.place:
            return
        if self._file is None:
            self._file = open(self.place, "ab")  # noqa: SIM115  closed by close()
        self._file.write(msgspec.json.encode(record) + b"\n")
        if time.monotonic() - self._flushed_at > DELAY:
            self.flush()

    def flush(self) -> None:
        """Flush what is written so far."""
        if self._file is not None:
            self._file.flush()
            self._flushed_at = time.monotonic()

    def close(self) -> None:
        """Close the file, but not standard output."""
        self.flush()
        if self._file is not None and self.place != "-":
            self._file.close()


class Predictions:
    """Writes each prediction in the labels' unit to `out` (by default a line) and, if published, a topic.

    `errors` are those of earlier predictions, from which bounds follow if the settings ask for them.
    """

    def __init__(
        self, section: OutputSection, scaling: Scaling, post: Post, out: Out | None, errors: Errors
    ) -> None:
        self.lines, self._scaling, self._post = Lines(section.predictions), scaling, post
        self._out, self._is_published = out or self.lines.write, section.publish
        self._coverage, self._errors = section.coverage, errors

    def write(self, reading: Reading, round: int, y_hat: float) -> None:
        """Write the prediction of a reading."""
        record: dict[str, Any]
        record = {"index": reading.index, "round": round, "y_hat": self._scaling.original(y_hat)}
        if reading.y is not None:
            record["y"] = self._scaling.original(reading.y)
        if reading.id is not None:
            record["id"] = reading.id
        if self._coverage is not None:
            record |= self._bounds(y_hat, self._coverage)
        self._out(record)
        if self._is_published:
            self._post.publish_json("prediction", record)

    def _bounds(self, y_hat: float, coverage: float) -> dict[str, float | None]:
        """Bounds that hold y in `coverage` of all cases; null while too few errors are known."""
        wide = float(self._errors.width(coverage)[0])
        if not math.isfinite(wide):
            return {"low": None, "high": None}
        return {
            "low": self._scaling.original(y_hat - wide),
            "high": self._scaling.original(y_hat + wide),
        }

"""Where predictions go: standard output, or a file that grows."""

from __future__ import annotations

import sys
import time
from typing import Any, BinaryIO

import msgspec

#: A line is visible to whoever reads along after at most so many seconds.
DELAY = 0.02


class Lines:
    """JSON lines on a place that is opened with the first of them: "-" is standard output, "" is nowhere."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._file: BinaryIO | None = sys.stdout.buffer if place == "-" else None
        self._flushed_at = 0.0

    def write(self, said: dict[str, Any]) -> None:
        """One more line."""
        if not self.place:
            return
        if self._file is None:
            self._file = open(self.place, "ab")  # noqa: SIM115  closed by close()
        self._file.write(msgspec.json.encode(said) + b"\n")
        if time.monotonic() - self._flushed_at > DELAY:
            self.flush()

    def flush(self) -> None:
        """Let readers see what is written so far."""
        if self._file is not None:
            self._file.flush()
            self._flushed_at = time.monotonic()

    def close(self) -> None:
        """Let go of the file; standard output is not ours to close."""
        self.flush()
        if self._file is not None and self.place != "-":
            self._file.close()

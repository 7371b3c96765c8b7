"""Where predictions go: standard output, or a file that grows."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO


class Lines:
    """JSON lines on a place that is opened with the first of them: "-" is standard output, "" is nowhere."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._file: TextIO | None = sys.stdout if place == "-" else None

    def write(self, said: dict[str, Any]) -> None:
        """One more line, visible at once to whoever reads along."""
        if not self.place:
            return
        if self._file is None:
            self._file = open(self.place, "a", encoding="utf-8")  # noqa: SIM115  closed by close()
        self._file.write(json.dumps(said) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Let go of the file; standard output is not ours to close."""
        if self._file is not None and self.place != "-":
            self._file.close()

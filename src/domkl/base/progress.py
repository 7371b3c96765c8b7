"""Progress where there is no terminal: a line on standard error every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

#: Seconds until the first line, and between two.
FIRST, EVERY = 2.0, 5.0


class ProgressLines:
    """Call it with (done, total); total is 0 or None where it is not known.

    >>> now = iter([0.0, 1.0, 4.0])
    >>> lines = ProgressLines("run", write=print, clock=lambda: next(now))
    >>> lines(1, 100)
    >>> lines(50, 100)
    domkl: run: 50 of 100 (50 %), about 4 s left
    """

    def __init__(
        self,
        what: str,
        write: Callable[[str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what, self.write, self.clock = what, write or _to_stderr, clock
        self.start = clock()
        self.due = self.start + FIRST

    def __call__(self, done: int, total: int | None) -> None:
        now = self.clock()
        if now >= self.due:
            self.due = now + EVERY
            self.write(f"domkl: {self.what}: {self._words(done, total, now - self.start)}")

    def _words(self, done: int, total: int | None, passed: float) -> str:
        if not total:
            return f"{done:,} done"
        left = f", about {passed * (total - done) / done:.0f} s left" if 0 < done < total else ""
        return f"{done:,} of {total:,} ({100 * done // total} %){left}"


def _to_stderr(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)

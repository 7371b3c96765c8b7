"""How far a run is: a bar in a terminal or a notebook, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

#: Seconds until the first line of progress, and between two.
FIRST_LINE, LINE_EVERY = 2.0, 5.0
#: Seconds between two looks of a bar, and its cells.
BAR_EVERY, CELLS = 0.2, 30


class ProgressLines:
    """A line on standard error every few seconds; called with (done, total or 0 or None).

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
        self.due = self.start + FIRST_LINE

    def __call__(self, done: int, total: int | None) -> None:
        now = self.clock()
        if now >= self.due:
            self.due = now + LINE_EVERY
            self.write(f"domkl: {self.what}: {words(done, total, now - self.start)}")


class ProgressBar:
    """One line that is written again, in a terminal or a notebook; called as `ProgressLines`.

    >>> now = iter([0.0, 1.0, 2.0])
    >>> bar = ProgressBar(print, clock=lambda: next(now))
    >>> bar(50, 100)
    ███████████████░░░░░░░░░░░░░░░ 50 of 100 (50 %), about 1 s left
    >>> bar(100, 100)
    ██████████████████████████████ 100 of 100 (100 %)
    """

    def __init__(self, show: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self.show, self.clock = show, clock
        self.start = self.due = clock()

    def __call__(self, done: int, total: int | None) -> None:
        now = self.clock()
        if now < self.due and done != total:
            return
        self.due = now + BAR_EVERY
        full = CELLS * done // total if total else 0
        bar = "█" * full + "░" * (CELLS - full) + " " if total else ""
        self.show(bar + words(done, total, now - self.start))


def words(done: int, total: int | None, passed: float) -> str:
    """How much is done, and how long the rest will take."""
    if not total:
        return f"{done:,} done"
    left = f", about {passed * (total - done) / done:.0f} s left" if 0 < done < total else ""
    return f"{done:,} of {total:,} ({100 * done // total} %){left}"


def watcher(what: str) -> Callable[[int, int | None], None]:
    """What suits the place where this runs."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and hasattr(shell, "kernel"):
        return ProgressBar(_in_notebook())
    if sys.stderr is not None and sys.stderr.isatty():
        return ProgressBar(_in_terminal)
    return ProgressLines(what)


def _in_terminal(line: str) -> None:
    end = "\n" if " (100 %)" in line else ""
    print(f"\r\x1b[2K{line}", end=end, file=sys.stderr, flush=True)


def _in_notebook() -> Callable[[str], object]:
    """Show lines in the output of one cell, each in the place of the one before."""
    from IPython.display import display

    shown: Any = None

    def show(line: str) -> None:
        nonlocal shown
        plain = {"text/plain": line}
        if shown is None:
            shown = display(plain, raw=True, display_id=True)
        else:
            shown.update(plain, raw=True)

    return show


def _to_stderr(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)

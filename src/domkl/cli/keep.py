"""Work that is not lost: a place to write is tried first, and Ctrl-C ends a run with what was done."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..base import paths
from ..base.errors import InputError
from ..simulator.results import STOP


def check_folder(folder: str | Path, option: str = "--out") -> None:
    """Refuse a directory that cannot be written into, before any work; it is left as it was."""
    with _refusing(folder, option, "a directory to write into"):
        made = _make(Path(folder))
        try:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".domkl-"):
                pass
        finally:
            for each in made:
                each.rmdir()


def check_file(path: str | Path, option: str) -> None:
    """Refuse a file that cannot be written, before any work."""
    with _refusing(path, option, "a file to write"):
        if Path(path).is_dir():
            raise IsADirectoryError(21, "it is a directory")
        paths.refuse_device(path)
        check_folder(Path(path).parent, option)


@contextlib.contextmanager
def _refusing(place: str | Path, option: str, expected: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{option} {place} cannot be written: {error.strerror or error}; expected {expected}; "
            "choose another"
        ) from None


def _make(folder: Path) -> list[Path]:
    """Make a directory and those above it; returns those that were not there, the deepest first."""
    missing = []
    each = folder
    while not each.exists():
        missing.append(each)
        each = each.parent
    made: list[Path] = []
    try:
        for each in reversed(missing):
            each.mkdir()
            made.insert(0, each)
        if not folder.is_dir():
            raise NotADirectoryError(20, "it is a file")
    except OSError:
        for each in made:
            each.rmdir()
        raise
    return made


class Interrupt:
    """Whether Ctrl-C was pressed; a second time it ends the command at once."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def after(self, progress: Callable[[int, int], object]) -> Callable[[int, int], object]:
        """A progress function that also ends the run when it was asked to."""

        def call(done: int, total: int) -> object:
            progress(done, total)
            return STOP if self.asked else None

        return call


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Inside, Ctrl-C is noted instead of raised; signals are handled in the main thread alone."""
    noted = Interrupt()
    if threading.current_thread() is not threading.main_thread() or os.name != "posix":
        yield noted
        return
    before = signal.signal(signal.SIGINT, noted)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)

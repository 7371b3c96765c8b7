"""Output: results on standard output, progress on standard error, tables and files in their places.

A place to write is tried before any work, and Ctrl-C ends a run with what was done.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..base import places
from ..base.errors import InputError
from ..base.extras import need
from ..base.words import NONE, number, visible
from ..lab.results import write_whole
from ..lab.sheet import FORMATS, Sheet, format_of, whole, written
from ..simulator import ProgressLines
from ..simulator.results import STOP
from ..watch.access import finite

#: How wide to print where there is no terminal to ask.
WIDTH = 120


def console() -> Any:
    """A console for results that people read."""
    rich = need("rich.console", "cli")
    made = rich.Console(highlight=False)
    made = made if made.is_terminal else rich.Console(width=WIDTH, highlight=False)
    made.push_render_hook(_Cleaning())
    return made


def sheet(made: Sheet) -> None:
    """Print a table; as Markdown where rich is not installed, as on a device."""
    if importlib.util.find_spec("rich") is None:
        print(written(made, "markdown"), end="")
    else:
        console().print(made)


def width() -> int:
    """How many characters a line of results has."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else WIDTH


class _Cleaning:
    """What a console does with lines before it prints them; cells of tables are made by `text`."""

    def process_renderables(self, lines: list[Any]) -> list[Any]:
        for line in lines:
            if hasattr(line, "plain"):
                line.plain = visible(line.plain)
        return lines


def count(value: int | None) -> str:
    """A whole number with commas; a dash where it is not known."""
    return NONE if value is None else f"{value:,}"


def size(value: float | None) -> str:
    """Bytes as people read them.

    >>> [size(value) for value in (512, 20_480, 3.25e6, None)]
    ['512 B', '20.5 kB', '3.25 MB', '–']
    """
    if value is None:
        return NONE
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{number(value)} {unit}"
        value /= 1000
    return f"{number(value)} GB"


def notes(lines: Iterable[str]) -> None:
    """Print remarks below a table."""
    for line in lines:
        console().print(f"  {line}", soft_wrap=True, markup=False)


def written_files(files: Mapping[str, Path]) -> None:
    """Print where files are, by what they hold."""
    for name, path in files.items():
        console().print(f"{name}: {path}", soft_wrap=True, markup=False)


def document(value: dict[str, Any]) -> None:
    """Print results for programs: one JSON document; what is not finite becomes null."""
    print(json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def progress(what: str, *, in_bytes: bool = False) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error, lines where that is no terminal; call what it yields with (done, total)."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield ProgressLines(what)
        return
    rich = need("rich.progress", "cli")
    errors = need("rich.console", "cli").Console(stderr=True)
    columns = [rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TaskProgressColumn()]
    columns += [rich.DownloadColumn()] if in_bytes else [rich.MofNCompleteColumn()]
    columns += [rich.TimeRemainingColumn()]
    with rich.Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield _sparingly(lambda done, total: bar.update(task, completed=done, total=total))


def _sparingly(update: Callable[[int, int | None], object]) -> Callable[[int, int | None], None]:
    """Pass on about two hundred calls: a bar must not cost more than what it shows."""
    last = -1

    def call(done: int, total: int | None) -> None:
        nonlocal last
        step = done if total is None else done * 200 // max(total, 1)
        if step != last:
            last = step
            update(done, total)

    return call


def add_table_options(add: Callable[..., Any]) -> None:
    """Declare --format and --out."""
    text = "print the table in this form instead"
    add("--format", choices=list(FORMATS), help=f"{text}: {', '.join(FORMATS)}")
    add(
        "--out",
        metavar="PLACE",
        help="also write the table to a file that ends in .csv, .md or .tex, or a bar figure and all three "
        "to a directory",
    )


def check_form(args: argparse.Namespace) -> None:
    """Refuse two forms of one output."""
    if args.json and args.format is not None:
        raise InputError("--json and --format are both given; expected one of the two; leave one out")


def check_place(args: argparse.Namespace) -> None:
    """Refuse a place that cannot be written, before anything is run."""
    if args.out is None:
        return
    if Path(args.out).suffix:
        format_of(args.out)
        check_file(args.out, "--out")
    else:
        check_folder(args.out)


def write_tables(
    args: argparse.Namespace, sheets: Sequence[Sheet], draw: Callable[[Path], Path] | None = None
) -> list[Path]:
    """The tables in the place of --out."""
    if args.out is None:
        return []
    place = Path(args.out)
    if place.suffix:
        write_whole(place, whole(sheets, format_of(place)).encode())
        return [place]
    files = [place / f"{args.command}{end}" for end in FORMATS.values()]
    for path, how in zip(files, FORMATS, strict=True):
        write_whole(path, whole(sheets, how).encode())
    return files if draw is None else [draw(place / f"{args.command}.png"), *files]


def print_tables(args: argparse.Namespace, sheets: Sequence[Sheet]) -> None:
    """Print the tables in the form of --format, and write those of --out."""
    sys.stdout.write(whole(sheets, args.format))
    write_tables(args, sheets)


def check_folder(folder: str | Path, option: str = "--out") -> None:
    """Refuse a directory that cannot be made, or written into, before any work; nothing is made yet."""
    with _refusing(folder, option, "a directory to write into"):
        place = Path(folder)
        there = next(each for each in (place, *place.absolute().parents) if each.exists())
        if not there.is_dir():
            raise NotADirectoryError(20, "it is a file")
        with tempfile.NamedTemporaryFile(dir=there, prefix=".domkl-"):
            pass


def check_file(path: str | Path, option: str) -> None:
    """Refuse a file that cannot be written, before any work."""
    with _refusing(path, option, "a file to write"):
        if Path(path).is_dir():
            raise IsADirectoryError(21, "it is a directory")
        places.refuse_device(path)
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

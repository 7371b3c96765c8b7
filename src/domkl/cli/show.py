"""Output: progress on standard error, results on standard output."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..base.extras import need
from ..base.progress import ProgressLines
from ..base.sheet import Sheet, lines, plain, without_bold
from ..base.words import NONE, number, text, visible
from ..watch.access import finite

__all__ = ["console", "count", "document", "progress", "sheet", "size", "text", "visible", "width"]

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
    """Print a table; in plain text where rich is not installed, as on a device."""
    if importlib.util.find_spec("rich") is None:
        print(plain(lines(without_bold(made), width())), end="")
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

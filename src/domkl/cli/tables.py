"""Tables of results: in the terminal, and as CSV, Markdown or LaTeX by --format and --out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.sheet import Sheet
from ..lab import latex
from ..lab.latex import FORMATS
from ..lab.results import write_whole
from . import keep


def add_to(add: Callable[..., Any]) -> None:
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


def check(args: argparse.Namespace) -> None:
    """Refuse a place that cannot be written, before anything is run."""
    if args.out is None:
        return
    if Path(args.out).suffix:
        latex.format_of(args.out)
        keep.check_file(args.out, "--out")
    else:
        keep.check_folder(args.out)


def write(
    args: argparse.Namespace, sheets: Sequence[Sheet], draw: Callable[[Path], Path] | None = None
) -> list[Path]:
    """The tables in the place of --out."""
    if args.out is None:
        return []
    place = Path(args.out)
    if place.suffix:
        write_whole(place, latex.whole(sheets, latex.format_of(place)).encode())
        return [place]
    files = [place / f"{args.command}{end}" for end in FORMATS.values()]
    for path, how in zip(files, FORMATS, strict=True):
        write_whole(path, latex.whole(sheets, how).encode())
    return files if draw is None else [draw(place / f"{args.command}.png"), *files]


def show(args: argparse.Namespace, sheets: Sequence[Sheet]) -> None:
    """Print the tables in the form of --format, and write those of --out."""
    sys.stdout.write(latex.whole(sheets, args.format))
    write(args, sheets)

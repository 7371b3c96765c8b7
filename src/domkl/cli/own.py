"""A table of the user's own: the options that say which file, which columns, and how rows are divided."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import datasets
from ..base.errors import InputError
from ..datasets.base import SPLITS
from ..lab import trial
from ..lab.experiment import Experiment
from ..lab.trial import Source

HOW = "interleaved"
SCALES = (
    "A file of your own is not scaled for model auto, which scales by itself; for the paper's learners it is "
    "scaled by the range of its first 100 rounds, and later inputs are clipped to that range."
)


def add_to(add: Callable[..., Any]) -> None:
    """Declare the options that every command with --data has."""
    add("--data", metavar="FILE", help="a CSV or Parquet file of your own, rows in order of time")
    add("--target", metavar="COLUMN", help="what to predict, in --data")
    add("--drop", metavar="A,B", help="columns to leave out, in --data")
    add(
        "--missing",
        metavar="HOW",
        help="cells without a number, in --data: error (default), drop the row, or mean of the cells above",
    )


def add_split(add: Callable[..., Any]) -> None:
    """Declare --split."""
    add(
        "--split",
        metavar="HOW",
        help=f"how rows are divided: {', '.join(SPLITS)} (default: {HOW} for --data)",
    )


def read(args: argparse.Namespace, chosen: Experiment, learners: int | None) -> Source:
    """The file of --data as streams."""
    if args.target is None:
        raise InputError(f"{args.data} needs a target; expected a column to predict; add --target COLUMN")
    table = datasets.read_table(
        args.data,
        args.target,
        getattr(args, "learner_column", None),
        names(getattr(args, "features", None)),
        names(args.drop) or (),
        "error" if args.missing is None else args.missing,
    )
    return trial.from_table(chosen, table, Path(args.data).name, learners, args.rounds, args.split or HOW)


def need_data(args: argparse.Namespace, *options: str) -> None:
    """Refuse options that say something about a file where none is given."""
    for option in options:
        if getattr(args, option) is not None:
            flag = f"--{option.replace('_', '-')}"
            raise InputError(f"{flag} is for a file of your own; expected --data FILE with it; add --data")


def names(text: str | None) -> tuple[str, ...] | None:
    """Columns that are given as one text, with commas between."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())

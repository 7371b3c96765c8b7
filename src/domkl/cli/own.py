"""Data of the user's own: the options that say where they are, what columns are, and how rows are divided."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..datasets import readers
from ..datasets.base import SPLITS
from ..datasets.columns import KINDS, Columns
from ..datasets.readers import queries
from ..lab.experiment import Experiment
from ..lab.trial import Source, titled

HOW = "interleaved"
SCALES = (
    "Data of your own are not scaled for model auto, which scales by itself; for the paper's learners they "
    "are scaled by the range of their first 100 rounds, and later inputs are clipped to that range."
)
#: Options that say what the columns are, and the field of `Columns` that each sets.
FIELDS = {
    "target": "target",
    "features": "features",
    "drop": "drop",
    "time": "time",
    "learner_column": "learner",
    "kind": "kinds",
    "path": "paths",
    "one_class": "positive",
    "na": "na",
    "decimal": "decimal",
    "separator": "separator",
    "records": "records",
    "missing": "missing",
}
LISTS = ("features", "drop", "time", "na")
PAIRS = ("kind", "path")


def add_to(add: Callable[..., Any]) -> None:
    """Declare the options that every command with --data has."""
    add(
        "--data",
        metavar="SOURCE",
        help="data of your own: a CSV, JSON, JSON lines or Parquet file (.gz too), - for standard input, "
        "sqlite:FILE or postgresql://...",
    )
    add_columns(add)
    add("--learners", type=int, metavar="J", help="how many learners share the rows (default: one)")
    add(
        "--split",
        metavar="HOW",
        help=f"how rows are divided: {', '.join(SPLITS)} (default: {HOW} for --data)",
    )
    add("--check", action="store_true", help="only show what each column becomes and all that is wrong")


def add_columns(add: Callable[..., Any]) -> None:
    """Declare the options that say what is in --data."""
    add("--query", metavar="SELECT", help="rows of a database to read (default: its only table)")
    add("--target", metavar="COLUMN", help="what to predict, in --data")
    add("--features", metavar="A,B", help="columns to predict from, in --data (default: all others)")
    add("--drop", metavar="A,B", help="columns to leave out, in --data")
    add("--time", metavar="COLUMN", help="when a row was, or two columns: date,time (default: guessed)")
    add("--learner-column", metavar="COLUMN", help="which learner a row belongs to, in --data")
    add(
        "--kind",
        metavar="COLUMN=KIND",
        action="append",
        help=f"what a column is: {', '.join(KINDS)}; time:dmy, time:mdy, time:ms or time:%%d/%%m/%%y say how "
        "a time is written (default: guessed)",
    )
    add("--path", metavar="COLUMN=PATH", action="append", help="where a column is in nested JSON: a.0.b")
    add("--records", metavar="PATH", help="where the rows are in a JSON document")
    add(
        "--class",
        dest="one_class",
        metavar="NAME",
        help="predict this class of the target against all others",
    )
    add("--na", metavar="A,B", help="further words for a missing cell")
    add("--decimal", metavar="MARK", help="decimal mark of numbers: . or , (default: guessed)")
    add("--separator", metavar="MARK", help="of CSV cells: one character, or space (default: guessed)")
    add(
        "--missing",
        metavar="HOW",
        help="missing inputs: auto (default) leaves them to the model; error, drop the row, or mean of the "
        "cells above",
    )


def settle(args: argparse.Namespace, chosen: Experiment) -> Experiment:
    """The experiment with the data, columns and learners that the options name."""
    if args.data is None and not chosen.data.path:
        need_data(args, *FIELDS, "query", "learners")
    chosen = dataclasses.replace(chosen, columns=columns(args, chosen.columns))
    if args.data is not None:
        split = args.split or HOW
        data = dataclasses.replace(chosen.data, path=args.data, query=args.query or "", split=split)
        chosen = dataclasses.replace(
            chosen, data=data, learners=args.learners, name=title_of(args.data), title=""
        )
    elif args.learners is not None:
        chosen = dataclasses.replace(chosen, learners=args.learners)
    _check_divided(chosen, args)
    return titled(chosen)


def _check_divided(chosen: Experiment, args: argparse.Namespace) -> None:
    for option in ("learners", "split"):
        if chosen.columns.learner and getattr(args, option) is not None:
            raise InputError(
                f"--{option} divides rows that --learner-column divides already; expected one of the two; "
                "leave one out"
            )


def check_loss(args: argparse.Namespace, source: Source) -> None:
    """Refuse a loss for numbers where the target has classes."""
    labels = source.columns is not None and source.columns.labels
    if labels and args.loss not in (None, "logistic"):
        raise InputError(
            f"--loss is {args.loss} and the target has classes; expected logistic; leave --loss out"
        )


def closing(source: Source) -> str:
    """How many rows were refused, for the last line."""
    count = sum(fault.rows for fault in source.faults)
    rows = "1 row" if count == 1 else f"{count} rows"
    return f"{rows} refused, {source.split.y.size} used; the notes above say why"


def title_of(source: str) -> str:
    """What people call a source; never an address, which may hold a password."""
    if source == "-":
        return readers.STDIN
    return queries.name_of(source) if queries.is_database(source) else Path(source).name


def columns(args: argparse.Namespace, given: Columns) -> Columns:
    """What the options say about columns, over what was given before."""
    said: dict[str, Any] = {}
    for option, name in FIELDS.items():
        value = getattr(args, option, None)
        if value is not None:
            said[name] = (
                pairs(option, value) if option in PAIRS else names(value) if option in LISTS else value
            )
    if said.get("features") == ():
        raise InputError("features names no column; expected one or more; leave it out to take all others")
    return dataclasses.replace(given, **said) if said else given


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """COLUMN=VALUE options as a table."""
    for text in given:
        if "=" not in text:
            raise InputError(f"--{option} is {text!r}; expected COLUMN=VALUE; write one = between the two")
    return dict(text.rsplit("=", 1) for text in given)


def need_data(args: argparse.Namespace, *options: str) -> None:
    """Refuse options that say something about a file where none is given."""
    for option in options:
        if getattr(args, option, None) is not None:
            flag = "class" if option == "one_class" else option.replace("_", "-")
            raise InputError(f"--{flag} is for a file of your own; expected --data FILE with it; add --data")


def names(text: str | None) -> tuple[str, ...] | None:
    """Columns that are given as one text, with commas between."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())

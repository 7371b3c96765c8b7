"""`domkl compare`: one stream, one table: networks of domkl beside other online learners."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.words import number
from ..exchange import graph
from ..lab import compare, experiment, trial
from ..lab.compare import ComparisonRow, figure
from ..lab.experiment import Experiment
from ..lab.trial import Source
from ..learning import losses
from . import inspect, own, show

LEARNERS = 5  # that share a --dataset which does not say
TEXT = "error, time and traffic of domkl and other online learners on one stream"


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = f"{TEXT[0].upper()}{TEXT[1:]}. {own.SCALES}"
    command = commands.add_parser("compare", help=TEXT, description=text)
    add = command.add_argument
    add("--dataset", metavar="NAME", help="one that `domkl data` lists (default: the shipped stations)")
    own.add_to(add)
    add("--graph", default="ring", help=f"{', '.join(graph.SHAPES)} or paper1 .. paper4 (default: ring)")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    add("--seed", type=int, default=0, metavar="N", help="of everything that is drawn (default: 0)")
    add("--out", metavar="DIR", help="also write a bar figure to DIR/compare.png")
    add("--json", action="store_true", help="one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Let everyone learn, then show."""
    chosen = _chosen(args)
    if args.check:
        inspect.check(chosen, args.json)
        return
    source = trial.prepare(chosen, args.rounds)
    network = trial.network(args.graph, source.split.names)
    with show.progress(f"comparing on {source.name}") as bar:
        rows = compare.table(source, network, args.seed, lambda i, n, name: _report(bar, i, n, name))
    files = [] if args.out is None else [_picture(rows, source, args.out)]
    if args.json:
        show.document(_document(source, args.graph, rows, files))
    else:
        _show(source, args.graph, rows, files)


def _report(bar: Any, done: int, total: int, name: str) -> None:
    bar(done, total)
    if not sys.stderr.isatty():
        print(f"domkl: {done + 1} of {total}: {name}", file=sys.stderr)


def _chosen(args: argparse.Namespace) -> Experiment:
    """The data and learners that the options name."""
    chosen = experiment.load("three-stations")
    if args.split is not None:
        chosen = dataclasses.replace(chosen, data=dataclasses.replace(chosen.data, split=args.split))
    if args.data is not None:
        if args.dataset is not None:
            raise InputError("--data and --dataset are both given; expected one of the two; leave one out")
        return own.settle(args, chosen)
    own.need_data(args, *own.FIELDS, "query")
    if args.dataset in (None, "stations"):
        if args.learners not in (None, 3):
            raise InputError(f"--learners is {args.learners} for the stations; expected 3; leave it out")
        return chosen
    data = dataclasses.replace(chosen.data, names=(args.dataset,))
    J = LEARNERS if args.learners is None else args.learners
    return dataclasses.replace(chosen, data=data, learners=J)


def _picture(rows: list[ComparisonRow], source: Source, folder: str) -> Path:
    Path(folder).mkdir(parents=True, exist_ok=True)
    return figure.write(rows, source.name, source.unit, Path(folder) / "compare.png")


def _document(source: Source, network: str, rows: list[ComparisonRow], files: list[Path]) -> dict[str, Any]:
    J, T, d = source.split.X.shape
    what = {"data": source.name, "unit": source.unit, "learners": J, "rounds": T, "features": d}
    found = {"rows": compare.document(rows), "files": [str(f) for f in files]}
    return {**what, "graph": network, **found, "notes": _notes(source)}


def _notes(source: Source) -> list[str]:
    """How rows were divided and scaled."""
    return list(trial.scaled(source, losses.squared()).notes)


def _show(source: Source, network: str, rows: list[ComparisonRow], files: list[Path]) -> None:
    J, T, d = source.split.X.shape
    title = f"{source.name}: {J} learners, {network}, {T} rounds, {d} features"
    unit = f", {source.unit}" if source.unit else ""
    table = show.table(title, "", "sees", "MSE", f"RMSE{unit}", "alone", "us a sample", "bytes sent", left=2)
    for row in rows:
        if row.mse is not None:
            figures = (row.mse, row.rmse, row.alone_rmse, row.us_per_sample, row.bytes_sent)
            table.add_row(row.name, row.sees, *map(number, figures))
    console = show.console()
    console.print(table)
    console.print("alone: RMSE of a network's learners, had each its own samples only")
    console.print("us: of CPU time; bytes: by a learner in a round, to all its neighbours or to the centre")
    for row in rows:
        if row.reason:
            console.print(f"  left out: {row.name}: {row.reason}", soft_wrap=True, markup=False)
    for note in _notes(source):
        console.print(f"  {note}", soft_wrap=True, markup=False)
    for path in files:
        console.print(f"Figure: {path}", soft_wrap=True)

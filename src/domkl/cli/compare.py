"""`domkl compare`: one stream, one table: networks of domkl beside other online learners."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from functools import partial
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.extras import need
from ..base.words import plural
from ..exchange import graph
from ..lab import compare, experiment, trial
from ..lab.compare import ComparisonRow
from ..lab.experiment import Experiment
from ..lab.sheet import Sheet
from ..lab.trial import Source
from ..learning import losses
from . import declare, inspect, options, show

LEARNERS = 5  # that share a --dataset which does not say
TEXT = "error, time and traffic of domkl and other online learners on one stream"


def add_to(commands: Any) -> None:
    """Declare the command."""
    add = declare(commands, "compare", TEXT, run, options.SCALES)
    text = "a TOML file whose data, learners and graph to take; not its models"
    add("experiment", nargs="?", metavar="EXPERIMENT", help=text)
    add("--dataset", metavar="NAME", help="one that `domkl data` lists (default: the shipped stations)")
    options.add_data(add)
    add("--graph", help=f"{', '.join(graph.SHAPES)} or paper1 .. paper4 (default: the file's, else ring)")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    add("--seed", type=int, default=0, metavar="N", help="of everything that is drawn (default: 0)")
    text = (
        "also compare this estimator of River or scikit-learn, as in mine:Model(depth=3); it sees inputs and "
    )
    text += "target scaled to about 0 .. 1 (repeatable)"
    add("--add", action="append", default=[], metavar="MODULE:CLASS", help=text)
    text = "runs with other seeds, for mean and spread (default: 1)"
    add("--trials", type=int, default=1, metavar="N", help=text)
    show.add_table_options(add)


def run(args: argparse.Namespace) -> None:
    """Let everyone learn, then show."""
    show.check_form(args)
    chosen = _chosen(args)
    if args.check:
        inspect.check(chosen, args.json)
        return
    source = trial.prepare(chosen, args.rounds)
    args.graph = args.graph or ("ring" if args.experiment is None else chosen.graphs[0])
    network = trial.network(args.graph, source.split.names)
    contenders = [compare.added_contender(text) for text in args.add]
    show.check_place(args)
    if not args.json:
        need("rich.console", "cli")  # before minutes of work, not after
    with show.progress(f"comparing on {source.name}") as bar:
        report = partial(_report, bar)
        rows = compare.table(source, network, args.seed, report, contenders, args.trials)
    sheet = compare.sheet(rows, _title(source, args.graph), source.unit)
    if args.json:
        show.document(
            _document(source, args.graph, rows, show.write_tables(args, [sheet], _drawn(rows, source)))
        )
    elif args.format is not None:
        show.print_tables(args, [sheet])
    else:
        _show(source, rows, sheet)
        for path in show.write_tables(args, [sheet], _drawn(rows, source)):
            show.console().print(f"Written: {path}", soft_wrap=True)


def _drawn(rows: list[ComparisonRow], source: Source) -> Any:
    """What draws the bar figure to a path."""
    return lambda path: compare.draw(rows, source.name, source.unit, path)


def _report(bar: Any, done: int, total: int, name: str) -> None:
    bar(done, total)
    if not sys.stderr.isatty():
        print(f"domkl: {done + 1} of {total}: {name}", file=sys.stderr)


def _chosen(args: argparse.Namespace) -> Experiment:
    """The data and learners that the options name."""
    if args.dataset is not None and (args.data or args.experiment):
        other = "an experiment" if args.data is None else "--data"
        raise InputError(f"{other} and --dataset are both given; expected one of the two; leave one out")
    chosen = experiment.load(args.experiment or "three-stations")
    if args.split is not None:
        chosen = dataclasses.replace(chosen, data=dataclasses.replace(chosen.data, split=args.split))
    if args.data is not None or args.experiment is not None:
        return options.settle(args, chosen)
    options.need_data(args, *options.FIELDS, "query")
    if args.dataset in (None, "stations"):
        if args.learners not in (None, 3):
            raise InputError(f"--learners is {args.learners} for the stations; expected 3; leave it out")
        return chosen
    data = dataclasses.replace(chosen.data, names=(args.dataset,))
    J = LEARNERS if args.learners is None else args.learners
    return dataclasses.replace(chosen, data=data, learners=J)


def _document(source: Source, network: str, rows: list[ComparisonRow], files: list[Path]) -> dict[str, Any]:
    J, T, d = source.split.X.shape
    what = {"data": source.name, "unit": source.unit, "learners": J, "rounds": T, "features": d}
    found = {"rows": compare.document(rows), "files": [str(f) for f in files]}
    return {**what, "graph": network, **found, "notes": _notes(source)}


def _notes(source: Source) -> list[str]:
    """How rows were divided and scaled, and which were left out."""
    classes = source.columns is not None and source.columns.labels
    signs = ["classes count as the numbers -1 and +1"] if classes else []
    return [*trial.scaled(source, losses.squared()).notes, *signs, *trial.unused(source)]


def _title(source: Source, network: str) -> str:
    J, T, d = source.split.X.shape
    return f"{source.name}: {plural(J, 'learner')}, {network}, {plural(T, 'round')}, {plural(d, 'input')}"


def _show(source: Source, rows: list[ComparisonRow], sheet: Sheet) -> None:
    show.sheet(sheet)
    console = show.console()
    if (trials := max(row.trials for row in rows)) > 1:
        console.print(f"means of {trials} trials, ± standard deviation")
    absent: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            absent.setdefault(row.reason, []).append(row.name)
    for reason, names in absent.items():
        console.print(f"  left out: {reason} ({', '.join(names)})", soft_wrap=True, markup=False)
    for note in _notes(source):
        console.print(f"  {note}", soft_wrap=True, markup=False)

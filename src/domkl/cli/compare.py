"""`domkl compare`: one stream, one table: networks of domkl beside other online learners."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
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
from ..lab.trial import Source
from ..learning import losses
from ..learning.horizon import horizon as as_horizon
from . import ahead, declare, inspect, options, show

LEARNERS = 5  # that share a --dataset which does not say
TEXT = "error, time and traffic of domkl and other online learners on one stream"


def add_to(commands: Any) -> None:
    """Declare the command."""
    add = declare(commands, "compare", TEXT, run, options.SCALES)
    text = "a TOML file whose data, learners and graph to take; not its models"
    add("experiment", nargs="?", metavar="EXPERIMENT", help=text)
    add("--dataset", metavar="NAME", help="one that `domkl data` lists (default: the shipped stations)")
    options.add_data(add)
    options.add_horizon(add, limits=False)
    add("--graph", help=f"{', '.join(graph.SHAPES)} or paper1 .. paper4 (default: the file's, else ring)")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    add("--seed", type=int, default=0, metavar="N", help="of everything that is drawn (default: 0)")
    text = (
        "also compare this estimator of River or scikit-learn, as in mine:Model(depth=3); it sees inputs and "
    )
    text += "target scaled to about 0 .. 1 (repeatable)"
    add("--add", action="append", default=[], metavar="MODULE:CLASS", help=text)
    text = "runs with other seeds, for mean and spread (default: 1)"
    add("--trials", type=int, metavar="N", help=text)
    show.add_table_options(add)


def run(args: argparse.Namespace) -> None:
    """Let everyone learn, then show."""
    show.check_form(args)
    options.refuse_without(args)
    if args.horizon is not None:
        _forecasts(args)
        return
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
    trials = 1 if args.trials is None else args.trials
    with show.progress(f"comparing on {source.name}") as bar:
        report = partial(_report, bar)
        tables = compare.tables(source, network, args.seed, report, contenders, trials)
    titles = [_title(source, args.graph)]
    if len(tables) > 1:
        titles = [f"{titles[0]}: {name}" for name in source.targets]
    sheets = [compare.sheet(*pair, source.unit) for pair in zip(tables, titles, strict=True)]
    if args.format is not None:
        show.print_tables(args, sheets)
        return
    files = show.write_tables(args, sheets, _drawn(tables[0], source))
    if args.json:
        show.document(_document(source, args.graph, tables, files))
        return
    for sheet in sheets:
        show.sheet(sheet)
    if trials > 1:
        show.console().print(f"means of {trials} trials, ± standard deviation")
    _tell(tables[0], _notes(source), files)


def _forecasts(args: argparse.Namespace) -> None:
    """The same for forecasts, lead by lead."""
    options.refuse_beside_horizon(args, "dataset", "learners", "split", "trials", "check")
    horizon, chosen = as_horizon(args.horizon), ahead.experiment_of(args)
    series = ahead.series_of(args, args.data, chosen, horizon)
    graph = ahead.graph_of(args, series, chosen)
    contenders = [compare.added_contender(text) for text in args.add]
    show.check_place(args)
    if not args.json:
        need("rich.console", "cli")
    with show.progress(f"comparing on {series.table.name}") as bar:
        rows = compare.forecast_table(series, horizon, graph, args.seed, partial(_report, bar), contenders)
    who = f"{plural(graph.J, 'learner')}, {plural(series.rounds, 'reading')} each"
    title = f"{series.table.name}: {series.table.target} ahead, typical error (RMSE), {who}"
    sheet = compare.forecast_sheet(rows, horizon, title)
    if args.format is not None:
        show.print_tables(args, [sheet])
        return
    files = show.write_tables(args, [sheet])
    if args.json:
        about = {"data": series.table.name, "target": series.table.target, "learners": graph.J}
        more = {"rounds": series.rounds, "leads": list(horizon.names), "notes": list(series.notes)}
        places = [str(path) for path in files]
        show.document({**about, **more, "rows": [row._asdict() for row in rows], "files": places})
        return
    show.sheet(sheet)
    _tell(rows, series.notes, files)


def _tell(rows: Sequence[Any], notes: Sequence[str], files: Sequence[Path]) -> None:
    """Who is left out and why, notes, and where files are."""
    console = show.console()
    absent: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            absent.setdefault(row.reason, []).append(row.name)
    for reason, names in absent.items():
        console.print(f"  left out: {reason} ({', '.join(names)})", soft_wrap=True, markup=False)
    show.notes(notes)
    for path in files:
        console.print(f"Written: {path}", soft_wrap=True)


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
        return options.settle(args, chosen, several=True)
    options.need_data(args, *options.FIELDS, "query")
    if args.dataset in (None, "stations"):
        if args.learners not in (None, 3):
            raise InputError(f"--learners is {args.learners} for the stations; expected 3; leave it out")
        return chosen
    data = dataclasses.replace(chosen.data, names=(args.dataset,))
    J = LEARNERS if args.learners is None else args.learners
    return dataclasses.replace(chosen, data=data, learners=J)


def _document(
    source: Source, network: str, tables: list[list[ComparisonRow]], files: list[Path]
) -> dict[str, Any]:
    J, T, d = source.split.X.shape
    what = {"data": source.name, "unit": source.unit, "learners": J, "rounds": T, "features": d}
    rows = [[dataclasses.asdict(row) for row in each] for each in tables]
    several = [{"target": name, "rows": each} for name, each in zip(source.targets, rows, strict=False)]
    found = {"rows": rows[0]} if len(rows) == 1 else {"targets": several}
    return {**what, "graph": network, **found, "files": [str(f) for f in files], "notes": _notes(source)}


def _notes(source: Source) -> list[str]:
    """How rows were divided and scaled, and which were left out."""
    classes = source.columns is not None and source.columns.labels
    signs = ["classes count as the numbers -1 and +1"] if classes else []
    return [*trial.scaled(source.parts()[0], losses.squared()).notes, *signs, *trial.unused(source)]


def _title(source: Source, network: str) -> str:
    J, T, d = source.split.X.shape
    return f"{source.name}: {plural(J, 'learner')}, {network}, {plural(T, 'round')}, {plural(d, 'input')}"

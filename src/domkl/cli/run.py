"""`domkl run`: a network learns, and people see how well."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from ..base.errors import InputError
from ..exchange import graph
from ..lab import experiment, report, trial
from ..lab.experiment import Experiment
from ..lab.trial import Source
from ..learning.settings import Auto
from . import inspect, models, own, show

DEFAULT = "three-stations"
WITHOUT_OPTIONS = "Without options, three real weather stations forecast their temperature."


def add_to(commands: Any) -> None:
    """Declare the command."""
    command = commands.add_parser(
        "run",
        help="let a network learn; without options, three real weather stations",
        description=f"Let a network learn. {WITHOUT_OPTIONS} {own.SCALES}",
    )
    add = command.add_argument
    add("experiment", nargs="?", default=DEFAULT, help="a TOML file, or the name of a shipped one")
    own.add_to(add)
    add("--horizon", type=int, metavar="HOURS", help="hours ahead to forecast, for the shipped stations")
    add("--graph", help=f"{', '.join(graph.SHAPES)}, paper1 .. paper4, or links: EWR-JFK,JFK-LGA")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    models.add_to(add)
    add("--out", default="domkl-report", metavar="DIR", help="where the report goes (default: %(default)s)")
    add("--no-report", action="store_true", help="write no files")
    add("--json", action="store_true", help="one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Learn, print, and write the report."""
    chosen = own.settle(args, _settings(args, experiment.load(args.experiment)))
    if args.check:
        inspect.check(chosen, args.json)
        return
    source = _source(args, chosen)
    own.check_loss(args, source)
    chosen, source = trial.suited(chosen, source)
    chosen = dataclasses.replace(chosen, graphs=(args.graph or chosen.graphs[0],))
    with show.progress(f"{len(source.split.names)} learners, {source.name}") as bar:
        outcome = trial.carry_out(chosen, source, bar)
    files = [] if args.no_report else report.write(outcome, args.out)
    if args.json:
        show.document({**report.document(outcome), "files": [str(path) for path in files]})
        return
    console = show.console()
    console.print(report.summary(outcome))
    if files:
        console.print(f"\nReport with pictures: {files[0]}", soft_wrap=True)
    if source.faults:
        console.print(own.closing(source), soft_wrap=True, markup=False)


def _settings(args: argparse.Namespace, chosen: Experiment) -> Experiment:
    """The experiment with the options' values in place of its own."""
    if args.data is not None and args.experiment == DEFAULT and isinstance(chosen.model, Auto):
        chosen = dataclasses.replace(chosen, model=Auto())  # the file's size was chosen for the stations
    given = {name: getattr(args, name) for name in ("horizon", "split") if getattr(args, name) is not None}
    chosen = dataclasses.replace(chosen, data=dataclasses.replace(chosen.data, **given))
    return models.choose(args, chosen)


def _source(args: argparse.Namespace, chosen: Experiment) -> Source:
    is_own = bool(chosen.data.path)
    if args.horizon is not None and (is_own or chosen.data.names[0] != "stations"):
        raise InputError("--horizon is for the shipped stations; expected no other data; leave it out")
    return trial.prepare(chosen, args.rounds)

"""`domkl run`: a network learns, and people see how well."""

from __future__ import annotations

import argparse
import dataclasses
from collections import defaultdict
from pathlib import Path
from typing import Any

from .. import datasets
from ..base.errors import InputError
from ..exchange import graph
from ..lab import experiment, report, trial
from ..lab.experiment import Experiment
from ..lab.trial import Source
from . import show

WITHOUT_OPTIONS = (
    "Without options, three real weather stations forecast their temperature, with nothing to tune; an "
    "option that sets kernels, rates or the local step chooses --preset own."
)
#: Options that replace one setting of the experiment: option, section, field, type.
SETTINGS: tuple[tuple[str, str, str, type], ...] = (
    ("horizon", "data", "horizon", int),
    ("split", "data", "split", str),
    ("kernels", "kernels", "family", str),
    ("D", "kernels", "D", int),
    ("seed", "kernels", "seed", int),
    ("kappa", "rates", "kappa", float),
    ("kappa-g", "rates", "kappa_g", float),
    ("rho", "rates", "rho", float),
    ("eta", "rates", "eta", float),
    ("eta-g", "rates", "eta_g", float),
    ("size", "auto", "size", int),
    ("loss", "learning", "loss", str),
    ("reg", "learning", "reg", float),
    ("delta", "learning", "delta", float),
    ("hedge", "learning", "hedge", str),
    ("step", "learning", "step", str),
    ("memory", "learning", "memory", float),
)
#: The settings that every preset has, by option.
COMMON = ("horizon", "split", "seed", "size", "loss")
HELP = {
    "horizon": "hours ahead to forecast, for the shipped stations",
    "split": "how rows are divided over learners: blocks, random, interleaved",
    "kernels": "gaussian, laplacian or cauchy",
    "D": "random features for each kernel",
    "seed": "of the kernels' frequencies; the same at every learner",
    "kappa": "rho = eta = kappa sqrt(T)",
    "kappa-g": "eta_g = kappa_g sqrt(T)",
    "rho": "pull towards the neighbours",
    "eta": "pull towards the last estimate",
    "eta-g": "temperature of Hedge",
    "size": "numbers that a learner of preset auto has",
    "loss": "squared, ridge, huber or logistic",
    "reg": "ridge penalty",
    "delta": "where the Huber loss becomes straight",
    "hedge": "neighbours, messages (on trees) or local",
    "step": "first (the paper's) or newton (keeps every past loss)",
    "memory": "about how many past samples count, with --step newton (default: all)",
}


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "let a network learn; without options, three real weather stations"
    command = commands.add_parser("run", help=text, description="Let a network learn. " + WITHOUT_OPTIONS)
    add = command.add_argument
    add("experiment", nargs="?", default="three-stations", help="a TOML file, or the name of a shipped one")
    add("--data", metavar="FILE", help="a CSV or Parquet file of your own, rows in order of time")
    add("--target", metavar="COLUMN", help="what to predict, in --data")
    add("--learner-column", metavar="COLUMN", help="whose row it is, in --data")
    add("--features", metavar="A,B", help="columns to predict from (default: all others)")
    add("--drop", metavar="A,B", help="columns to leave out")
    add(
        "--missing",
        metavar="HOW",
        help="what to do about cells without a number, in --data: error (default), drop or mean",
    )
    add("--learners", type=int, metavar="J", help="how many learners share --data without a learner column")
    add("--graph", help=f"{', '.join(graph.SHAPES)}, paper1 .. paper4, or links: EWR-JFK,JFK-LGA")
    add(
        "--preset",
        choices=experiment.PRESETS,
        help="auto: nothing to tune; own: kernels and rates of the experiment and the options; "
        "paper: all as printed (default: the experiment's)",
    )
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    for option, _, _, kind in SETTINGS:
        add(f"--{option}", type=kind, metavar=option.upper().replace("-", "_"), help=HELP[option])
    add("--out", default="domkl-report", metavar="DIR", help="where the report goes (default: %(default)s)")
    add("--no-report", action="store_true", help="write no files")
    add("--json", action="store_true", help="one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Learn, print, and write the report."""
    chosen = _settings(args, experiment.load(args.experiment))
    source = _source(args, chosen)
    title = chosen.title if args.data is None else f"{source.name}: predicting {args.target}"
    chosen = dataclasses.replace(chosen, title=title, graphs=(args.graph or chosen.graphs[0],))
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


def _settings(args: argparse.Namespace, chosen: Experiment) -> Experiment:
    """The experiment with the options' values in place of its own."""
    if args.data is not None:  # the file's size was chosen for the file's data
        chosen = dataclasses.replace(chosen, auto=experiment.AutoSpec())
    chosen = chosen.with_preset(_preset(args, chosen))
    for section, changes in _changes(args).items():
        changed = dataclasses.replace(getattr(chosen, section), **changes)
        chosen = dataclasses.replace(chosen, **{section: changed})
    return chosen


def _preset(args: argparse.Namespace, chosen: Experiment) -> str:
    """The one asked for, else "own" where an option sets what only that has, else the experiment's."""
    own = [option for option, *_ in SETTINGS if option not in COMMON and _given(args, option) is not None]
    preset: str = args.preset or ("own" if own else chosen.preset)
    if own and preset != "own":
        raise InputError(
            f"--{own[0]} is given with --preset {preset}; expected none, it sets all; leave one out"
        )
    if args.size is not None and preset != "auto":
        raise InputError(f"--size is for preset auto, not {preset}; expected --D with it; leave one out")
    return preset


def _given(args: argparse.Namespace, option: str) -> Any:
    return getattr(args, option.replace("-", "_"))


def _changes(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Each section's fields that options replace."""
    changes: dict[str, dict[str, Any]] = defaultdict(dict)
    for option, section, name, _ in SETTINGS:
        value = _given(args, option)
        if value is not None:
            changes[section][name] = value
    if args.loss is not None:
        changes["learning"].setdefault("delta", None)  # the file's belonged to the file's loss
    return changes


def _source(args: argparse.Namespace, chosen: Experiment) -> Source:
    if args.horizon is not None and (args.data is not None or chosen.data.names[0] != "stations"):
        raise InputError("--horizon is for the shipped stations; expected no other data; leave it out")
    if args.data is not None:
        return _from_file(args, chosen)
    need_data(args, "target", "learner_column", "features", "drop", "learners", "missing")
    return trial.prepare(chosen, args.rounds)


def _from_file(args: argparse.Namespace, chosen: Experiment) -> Source:
    if args.target is None:
        raise InputError(f"{args.data} needs a target; expected a column to predict; add --target COLUMN")
    for option in ("learners", "split"):
        if args.learner_column is not None and getattr(args, option) is not None:
            raise InputError(
                f"--{option} divides rows that --learner-column divides already; expected one of the two; "
                "leave one out"
            )
    table = datasets.read_table(
        args.data,
        args.target,
        args.learner_column,
        names(args.features),
        names(args.drop) or (),
        "error" if args.missing is None else args.missing,
    )
    name = Path(args.data).name
    return trial.from_table(chosen, table, name, args.learners, args.rounds)


def need_data(args: argparse.Namespace, *options: str) -> None:
    """Refuse options that say something about a file where none is given."""
    for option in options:
        if getattr(args, option) is not None:
            flag = f"--{option.replace('_', '-')}"
            raise InputError(f"{flag} is for a file of your own; expected --data FILE with it; add --data")


def names(text: str | None) -> tuple[str, ...] | None:
    """Columns that are given as one text, with commas between."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())

"""`domkl run`: a network learns, and people see how well."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.extras import need
from ..base.words import plural
from ..exchange import graph
from ..lab import experiment, report, results, trial
from ..lab.experiment import Experiment
from ..lab.trial import Outcome, Source
from ..learning.alarms import check_rate
from ..models.settings import Auto
from . import ahead, declare, fleet, inspect, live, options, show

DEFAULT = "three-stations"
#: What a report is made with.
REPORT = ("jinja2", "matplotlib")
PREDICTIONS, MODEL = "predictions.csv", "model.domkl"


#: The shipped fleet, and what may be chosen of it; any other option is about other data.
FLEET, OF_FLEET = "fleet", ("out", "json", "no_report")
#: In every namespace, and no option.
ALWAYS = ("command", "act", "experiment")


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "let a network learn; without options, ten sites that run engines to failure"
    add = declare(commands, "run", text, run, options.SCALES)
    add("experiment", nargs="?", metavar="EXPERIMENT", help="a TOML file, or the name of a shipped one")
    options.add_data(add)
    options.add_horizon(add)
    add("--graph", help=f"{', '.join(graph.SHAPES)}, paper1 .. paper4, or links: EWR-JFK,JFK-LGA")
    add("--rounds", type=int, metavar="N", help="stop after N rounds")
    options.add_model(add)
    text = "where report, predictions.csv and model.domkl go (default: %(default)s)"
    add("--out", default="domkl-report", metavar="DIR", help=text)
    add("--no-report", action="store_true", help="write no files but those that the next two name")
    add("--predictions", metavar="FILE", help="write every prediction to this CSV file instead")
    text = "judge every label, at this rate of false alarms, such as 0.001; predictions.csv shows it"
    add("--alarm-rate", type=float, metavar="R", help=text)
    add("--save", metavar="FILE", help="write the model to this file instead (model auto only)")
    text = "serve a page that shows the network while it learns (default: a free port)"
    add("--live", nargs="?", const=live.ANYWHERE, metavar="HOST:PORT", help=text)


def run(args: argparse.Namespace) -> None:
    """Learn, print, and write the report."""
    if _is_fleet(args):
        fleet.run(args)
        return
    args.experiment = args.experiment or DEFAULT
    hours = options.hours_of(args)
    if args.horizon is not None and (hours is None or ahead.experiment_of(args).data.path):
        ahead.run(args)
        return
    chosen = options.settle(args, _settings(args), several=True)
    if args.check:
        inspect.check(chosen, args.json)
        return
    source = _source(args, chosen)
    options.check_loss(args, source)
    chosen, source = trial.suited(chosen, source)
    chosen = dataclasses.replace(chosen, graphs=(args.graph or chosen.graphs[0],))
    _check_places(args, chosen)
    what = f"{plural(len(source.split.names), 'learner')}, {source.name}"
    page = live.of_run(args.live, chosen, source) if args.live else contextlib.nullcontext()
    with page as watch:
        with show.interruptible() as stopped:
            with show.progress(what) as bar:
                outcome = trial.carry_out(chosen, source, stopped.after(bar), watch)
            (_answer if args.json else _print)(args, outcome)
        if stopped.asked:
            raise KeyboardInterrupt


def _check_places(args: argparse.Namespace, chosen: Experiment) -> None:
    """Refuse what could not be shown or written at the end, before anything is learnt."""
    for module in [*([] if args.json else ["rich.console"]), *([] if args.no_report else REPORT)]:
        need(module, "cli")
    if args.alarm_rate is not None:
        check_rate(args.alarm_rate)
        if chosen.model.loss_function.classifies:
            raise InputError("--alarm-rate is for numbers; expected no classes; leave it out")
    if len(chosen.columns.targets) > 1:
        _check_several(args, chosen)
    if args.save is not None and not chosen.model.can_go_on:
        raise InputError("--save is for model auto; expected --model auto with it; leave one out")
    if not args.no_report:
        show.check_folder(args.out)
    for option in ("predictions", "save"):
        if getattr(args, option) is not None:
            show.check_file(getattr(args, option), f"--{option}")


def _check_several(args: argparse.Namespace, chosen: Experiment) -> None:
    """Refuse what is for one target."""
    if not chosen.model.has_targets:
        raise InputError(
            "--target names several and the model is paper; expected auto for several; choose one"
        )
    for option in ("live", "alarm_rate"):
        if getattr(args, option) is not None:
            name = option.replace("_", "-")
            raise InputError(
                f"--{name} is for one target; expected one in --target; leave one of the two out"
            )


def _print(args: argparse.Namespace, outcome: Outcome) -> None:
    """Results first: what goes wrong with files must not cost them."""
    console = show.console()
    console.print(report.summary(outcome))
    if args.alarm_rate is not None:
        alarm = results.alarms(outcome, args.alarm_rate).alarm
        console.print(f"Alarms: {alarm.sum()} in {plural(alarm.size, 'reading')}")
    sys.stdout.flush()
    show.written_files(_write(args, outcome))
    if outcome.run.final is None and not args.no_report:
        console.print("Model: not saved; only model auto can be")
    if outcome.source.faults:
        console.print(options.closing(outcome.source), soft_wrap=True, markup=False)


def _answer(args: argparse.Namespace, outcome: Outcome) -> None:
    files: dict[str, Path] = {}
    try:
        files = _write(args, outcome)
    finally:
        show.document(
            {
                **report.document(outcome),
                **_alarms(args, outcome),
                "files": [str(path) for path in files.values()],
            }
        )


def _alarms(args: argparse.Namespace, outcome: Outcome) -> dict[str, Any]:
    """How many alarms each learner's labels raised, where they are asked for."""
    if args.alarm_rate is None:
        return {}
    counts = results.alarms(outcome, args.alarm_rate).alarm.sum(1).tolist()
    return {"alarms": dict(zip(map(str, outcome.split.names), counts, strict=True))}


def _write(args: argparse.Namespace, outcome: Outcome) -> dict[str, Path]:
    """Report, predictions and model; the paths by what they hold."""
    folder = Path(args.out)
    wanted = {} if args.no_report else {"predictions": folder / PREDICTIONS, "model": folder / MODEL}
    places = {**wanted, **{k: Path(v) for k, v in _named(args).items()}}
    files: dict[str, Path] = {}
    if "predictions" in places:
        judged = None if args.alarm_rate is None else results.alarms(outcome, args.alarm_rate)
        files["Predictions"] = results.write_predictions(outcome, places["predictions"], judged)
    if "model" in places and outcome.run.final is not None:
        files["Model"] = results.write_model(outcome, places["model"])
    if not args.no_report:
        files["Report"] = report.write(outcome, folder)[0]
    return files


def _named(args: argparse.Namespace) -> dict[str, str]:
    given = {"predictions": args.predictions, "model": args.save}
    return {name: path for name, path in given.items() if path is not None}


def _settings(args: argparse.Namespace) -> Experiment:
    """The experiment with the options' values in place of its own; of one's own data no file is needed."""
    if args.data is None or args.experiment != DEFAULT:
        chosen = experiment.load(args.experiment)
    elif args.model is not None:  # the paper's learner at rates that do better than the printed ones
        chosen = dataclasses.replace(experiment.load(DEFAULT), model=Auto())
    else:
        chosen = Experiment(DEFAULT)
    pairs = (("horizon", options.hours_of(args)), ("split", args.split))
    given: dict[str, Any] = {name: value for name, value in pairs if value is not None}
    chosen = dataclasses.replace(chosen, data=dataclasses.replace(chosen.data, **given))
    return options.choose_model(args, chosen)


def _source(args: argparse.Namespace, chosen: Experiment) -> Source:
    if args.horizon is not None and (chosen.data.path or chosen.data.names[0] != "stations"):
        raise InputError("--horizon is for the stations or --data FILE; expected one of them; leave it out")
    return trial.prepare(chosen, args.rounds)


def _is_fleet(args: argparse.Namespace) -> bool:
    """Whether the command was given without anything that names data, a network or a model."""
    others = [
        name
        for name, value in vars(args).items()
        if value is not None and value is not False and name not in (*OF_FLEET, *ALWAYS)
    ]
    if args.experiment == FLEET and others:
        raise InputError(
            f"--{others[0].replace('_', '-')} is given with {FLEET}; expected --out, --json or --no-report; "
            "leave it out, or name other data"
        )
    return args.experiment in (None, FLEET) and not others

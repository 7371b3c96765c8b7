"""Options that several commands share: data of the user's own, the model, and a broker's password."""

from __future__ import annotations

import argparse
import dataclasses
import getpass
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..base.errors import InputError
from ..base.secret import Secret, first_line
from ..datasets import readers
from ..datasets.columns import KINDS, Columns
from ..datasets.dataset import SPLITS
from ..datasets.readers import queries
from ..lab.experiment import Experiment
from ..lab.trial import Source, titled
from ..learning.horizon import horizon
from ..models.settings import KINDS as MODELS
from ..models.settings import Auto, KernelSpec, ModelSettings, Paper, RateSpec

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
    "known": "known",
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


def add_data(add: Callable[..., Any]) -> None:
    """Declare the options that every command with --data has."""
    text = "data of your own: a CSV, JSON, JSON lines or Parquet file (.gz too), - for standard input, "
    add("--data", metavar="SOURCE", help=f"{text}sqlite:FILE or postgresql://...")
    add_columns(add)
    add("--learners", type=int, metavar="J", help="how many learners share the rows (default: one)")
    text = f"how rows are divided: {', '.join(SPLITS)} (default: {HOW} for --data)"
    add("--split", metavar="HOW", help=text)
    add("--check", action="store_true", help="only show what each column becomes and all that is wrong")


def add_columns(add: Callable[..., Any]) -> None:
    """Declare the options that say what is in --data."""
    add("--query", metavar="SELECT", help="rows of a database to read (default: its only table)")
    add("--target", metavar="COLUMN", help="what to predict, in --data; A,B learns several in one model")
    add("--features", metavar="A,B", help="columns to predict from, in --data (default: all others)")
    add("--drop", metavar="A,B", help="columns to leave out, in --data")
    add("--time", metavar="COLUMN", help="when a row was, or two columns: date,time (default: guessed)")
    add("--known", metavar="COLUMN", help="when the target was known, where that is later than the row")
    add("--learner-column", metavar="COLUMN", help="which learner a row belongs to, in --data")
    text = f"what a column is: {', '.join(KINDS)}; time:dmy, time:mdy, time:ms or time:%%d/%%m/%%y say how "
    add("--kind", metavar="COLUMN=KIND", action="append", help=f"{text}a time is written (default: guessed)")
    add("--path", metavar="COLUMN=PATH", action="append", help="where a column is in nested JSON: a.0.b")
    add("--records", metavar="PATH", help="where the rows are in a JSON document")
    text = "predict this class of the target against all others"
    add("--class", dest="one_class", metavar="NAME", help=text)
    add("--na", metavar="A,B", help="further words for a missing cell")
    add("--decimal", metavar="MARK", help="decimal mark of numbers: . or , (default: guessed)")
    add("--separator", metavar="MARK", help="of CSV cells: one character, or space (default: guessed)")
    text = (
        "missing inputs: auto (default) leaves them to the model; error, drop the row, or mean of those above"
    )
    add("--missing", metavar="HOW", help=text)


def settle(args: argparse.Namespace, chosen: Experiment, *, several: bool = False) -> Experiment:
    """The experiment with the data, columns and learners that the options name; one target, or `several`."""
    if args.data is None and not chosen.data.path:
        need_data(args, *FIELDS, "query", "learners")
    chosen = dataclasses.replace(chosen, columns=columns(args, chosen.columns))
    if chosen.columns.also and not several:
        raise InputError(
            f"--target names {', '.join(chosen.columns.targets)}; expected one column; leave the others out"
        )
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
    if len(source.targets) > 1 and args.loss not in (None, "squared"):
        raise InputError(
            f"--loss is {args.loss} and there are several targets, which are numbers; expected squared; "
            "leave --loss out"
        )
    if labels and args.loss not in (None, "logistic"):
        raise InputError(
            f"--loss is {args.loss} and the target has classes; expected logistic; leave --loss out"
        )


def closing(source: Source) -> str:
    """How many rows were refused, for the last line."""
    count = sum(fault.rows for fault in source.faults)
    rows = "1 row" if count == 1 else f"{count} rows"
    J, T = source.split.y.shape[:2]
    return f"{rows} refused, {J * T} used; the notes above say why"


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
    if args.target is not None:
        said["target"], *said["also"] = names(args.target) or ("",)
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


def add_horizon(add: Callable[..., Any], limits: bool = True) -> None:
    """Declare the options of forecasts."""
    add(
        "--horizon",
        metavar="H",
        help='how far ahead to forecast: 1h, "24 rows", 1h,6h or 1h..24h (stations: also hours)',
    )
    add("--future", metavar="A,B", help="columns that are known ahead, such as a forecast of the weather")
    if not limits:
        return
    add("--least", type=float, metavar="Y", help="the target is never below (0 is found where it holds)")
    add("--most", type=float, metavar="Y", help="the target is never above")


def hours_of(args: argparse.Namespace) -> int | None:
    """The one horizon of the shipped stations in hours; None where a series is forecast, or nothing."""
    refuse_without(args)
    if args.horizon is None or args.data is not None:
        return None
    found = horizon(args.horizon)
    hours = [lead if found.rows else lead / 3600 for lead in found.leads]
    return int(hours[0]) if len(hours) == 1 and hours[0] % 1 == 0 else None


def refuse_without(args: argparse.Namespace) -> None:
    """Refuse options of forecasts where there is no horizon."""
    for name in ("future", "least", "most"):
        if args.horizon is None and getattr(args, name, None) is not None:
            raise InputError(f"--{name} is of forecasts; expected --horizon with it; add --horizon 1h")


def refuse_beside_horizon(args: argparse.Namespace, *options: str) -> None:
    """Refuse options that mean nothing where a series is forecast."""
    for option in options:
        if getattr(args, option) not in (None, False):
            name = option.replace("_", "-")
            raise InputError(f"--{name} is given with --horizon; expected one of the two; leave one out")


class Option(NamedTuple):
    """An option, and the field that it sets in each model; "" where a model has none."""

    name: str
    type: type
    help: str
    auto: str = ""
    paper: str = ""

    def of(self, args: argparse.Namespace) -> Any:
        """What was given for it, or None."""
        return getattr(args, self.name.replace("-", "_"))


OPTIONS = {
    option.name: option
    for option in (
        Option("size", int, "number of parameters", auto="size"),
        Option("seed", int, "of the random features; the same at every learner", "seed", "kernels.seed"),
        Option("loss", str, "squared or logistic; with paper also ridge or huber", "loss", "loss"),
        Option("kernels", str, "gaussian, laplacian or cauchy", paper="kernels.family"),
        Option("D", int, "random features for each kernel", paper="kernels.D"),
        Option("kappa", float, "rho = eta = kappa sqrt(T)", paper="rates.kappa"),
        Option("kappa-g", float, "eta_g = kappa_g sqrt(T)", paper="rates.kappa_g"),
        Option("rho", float, "pull towards the neighbours", paper="rates.rho"),
        Option("eta", float, "pull towards the last estimate", paper="rates.eta"),
        Option("eta-g", float, "temperature of Hedge", paper="rates.eta_g"),
        Option("reg", float, "ridge penalty", paper="reg"),
        Option("delta", float, "where the Huber loss becomes straight", paper="delta"),
        Option("hedge", str, "neighbours, messages (on trees) or local", paper="hedge"),
        Option("step", str, "first (the paper's) or newton (keeps every past loss)", paper="step"),
        Option("outliers", str, "bound: limit labels beyond belief; or keep", auto="outliers"),
    )
}


def add_model(add: Callable[..., Any], names: Iterable[str] = OPTIONS) -> None:
    """Declare --model and the options of these names."""
    text = "auto: nothing to tune; paper: the paper's learner (default: the experiment's, else auto)"
    add("--model", choices=list(MODELS), help=text)
    for option in map(OPTIONS.__getitem__, names):
        text = option.help if option.auto and option.paper else f"{option.help} ({_owner(option)} only)"
        metavar = option.name.upper().replace("-", "_")
        add(f"--{option.name}", type=option.type, metavar=metavar, help=text)


def choose_model(args: argparse.Namespace, chosen: Experiment, names: Iterable[str] = OPTIONS) -> Experiment:
    """The experiment with the model asked for, and its fields as the options say."""
    if args.model is not None:
        chosen = chosen.with_model(args.model)
    given = [OPTIONS[name] for name in names if OPTIONS[name].of(args) is not None]
    changes = {_field(option, chosen.model.kind): option.of(args) for option in given}
    return dataclasses.replace(chosen, model=_changed(chosen.model, changes))


def _owner(option: Option) -> str:
    return Auto.kind if option.auto else Paper.kind


def _field(option: Option, kind: str) -> str:
    """The field that an option sets in the model of this kind; an error if it has none."""
    found: str = getattr(option, kind)
    if not found:
        raise InputError(
            f"--{option.name} is a setting of model {_owner(option)}, and the model is {kind}; "
            f"expected --model {_owner(option)} with it; add that or leave --{option.name} out"
        )
    return found


def _changed(model: ModelSettings, changes: dict[str, Any]) -> ModelSettings:
    """The model with new values for some fields; "rates.rho" is a field of a field."""
    whole = {name: value for name, value in changes.items() if "." not in name}
    if model.has_kernels:
        if "loss" in whole:
            whole.setdefault("delta", None)  # the experiment's belonged to its own loss
        for part, default in (("kernels", KernelSpec), ("rates", RateSpec)):
            inner = {name.split(".")[1]: v for name, v in changes.items() if name.startswith(f"{part}.")}
            if inner:
                whole[part] = dataclasses.replace(getattr(model, part) or default(), **inner)
    return dataclasses.replace(model, **whole)


#: The variable that may hold it.
SECRET = "BROKER_PASSWORD"


def ask_password(user: str | None, file: str | None, broker: str) -> Secret | None:
    """The password of a user at a broker; None where there is no user."""
    if user is None:
        if file is not None:
            raise InputError("--password-file is given without --user; expected both; add --user")
        return None
    if file is not None:
        return first_line(f"--password-file {file}", file, "the password in its first line; write one")
    if SECRET in os.environ:
        return Secret(os.environ[SECRET])
    if not sys.stdin.isatty():
        raise InputError(
            f"no password of {user} is given and nobody can be asked; expected --password-file or the "
            f"variable {SECRET}; give one"
        )
    return Secret(getpass.getpass(f"Password of {user} at {broker}: "))

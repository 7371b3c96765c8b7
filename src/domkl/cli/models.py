"""Options that choose a model and set its fields: `--model`, `--size`, `--kappa` and the like."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..base.errors import InputError
from ..lab.experiment import Experiment
from ..learning.settings import KINDS, Auto, KernelSpec, ModelSettings, Paper, RateSpec


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
        Option("memory", float, "about how many past samples count, with --step newton", paper="memory"),
        Option("outliers", str, "bound: limit labels beyond belief; or keep", "outliers", "outliers"),
    )
}


def add_to(add: Callable[..., Any], names: Iterable[str] = OPTIONS) -> None:
    """Declare --model and the options of these names."""
    add(
        "--model",
        choices=list(KINDS),
        help="auto: nothing to tune; paper: the paper's learner (default: the experiment's, else auto)",
    )
    for option in map(OPTIONS.__getitem__, names):
        text = option.help if option.auto and option.paper else f"{option.help} ({_owner(option)} only)"
        metavar = option.name.upper().replace("-", "_")
        add(f"--{option.name}", type=option.type, metavar=metavar, help=text)


def choose(args: argparse.Namespace, chosen: Experiment, names: Iterable[str] = OPTIONS) -> Experiment:
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
    if isinstance(model, Paper):
        if "loss" in whole:
            whole.setdefault("delta", None)  # the experiment's belonged to its own loss
        for part, default in (("kernels", KernelSpec), ("rates", RateSpec)):
            inner = {name.split(".")[1]: v for name, v in changes.items() if name.startswith(f"{part}.")}
            if inner:
                whole[part] = dataclasses.replace(getattr(model, part) or default(), **inner)
    return dataclasses.replace(model, **whole)

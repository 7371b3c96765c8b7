"""An experiment carried out on one network, beside its comparators.

`prepare` and `from_table` bring the streams, `carry_out` runs them, and an `Outcome` holds everything that
tables and figures need.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import datasets
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..datasets import Split, stations
from ..exchange.graph import LONE, Graph, as_graph, build
from ..learning import conformal, kernels, losses
from ..learning.first_order import Rates
from ..learning.losses import Loss
from ..learning.settings import ModelSettings, Paper
from ..simulator import Progress, Run, Watch, simulate
from .central import omkl
from .experiment import DataSpec, Experiment, OmklSpec
from .source import Source, cut, from_table, scaled, suited, titled, unused

__all__ = [
    "Outcome",
    "Source",
    "alone",
    "carry_out",
    "centralised",
    "cut",
    "from_table",
    "learn",
    "network",
    "prepare",
    "scaled",
    "suited",
    "titled",
    "unused",
]

#: Share of labels that bounds are to hold.
COVERAGE = 0.9


@dataclass(frozen=True)
class Outcome:
    """A finished experiment on one network: everything that tables and figures need."""

    experiment: Experiment
    dataset: str
    split: Split
    graph: Graph
    rates: Rates | None  # None with model "auto", which has none
    fingerprint: str | None  # of the kernels' frequencies, likewise
    run: Run
    mse_alone: Array  # (J,) of each learner with its own samples only
    central_mse: Array  # (J,) of OMKL, which sees everybody's data, on each learner's samples
    baselines: dict[str, Array]  # further mean squared errors, (J,)
    unit: str  # of sqrt(scale * MSE)
    scale: float  # what a squared error is multiplied with to be in that unit squared
    notes: tuple[str, ...]
    source: Source  # the streams as they came
    origin: float = 0.0  # what a label of 0 is in the unit
    _bounds: dict[float, tuple[Array, Array]] = dataclasses.field(default_factory=dict, repr=False)

    def in_units(self, values: Array) -> Array:
        """Labels or predictions, as the learners saw them, in the data's unit."""
        return np.asarray(self.origin + math.sqrt(self.scale) * values)

    @property
    def y(self) -> Array:
        """The labels as the loss takes them, in the data's unit. (J, T)"""
        return self.in_units(losses.labels(self.experiment.model.loss_function, self.split.y))

    @property
    def y_hat(self) -> Array:
        """The predictions in the data's unit. (J, T)"""
        return self.in_units(self.run.y_hat)

    def bounds(self, coverage: float = COVERAGE) -> tuple[Array, Array]:
        """Bounds of the predictions in the data's unit, infinite where too few errors are known. (J, T)"""
        if coverage not in self._bounds:
            self._bounds[coverage] = conformal.bounds(self.y_hat, self.y, coverage, self.split.delay)
        return self._bounds[coverage]

    @property
    def sigma2(self) -> tuple[float, ...]:
        """Each kernel's parameter, as the experiment calls it; none with model "auto". (P,)"""
        kernels = self.experiment.kernels
        return () if kernels is None else kernels.sigma2


def prepare(experiment: Experiment, rounds: int | None = None) -> Source:
    """The experiment's first dataset, divided over its learners and cut to `rounds`."""
    spec = experiment.data
    if spec.path:
        table = datasets.read_table(spec.path, experiment.columns, query=spec.query)
        return from_table(experiment, table, Path(table.name).name, None, rounds, spec.split)
    if spec.names[0] == "stations":
        return cut(_stations(experiment), rounds)
    data = datasets.load(spec.names[0], x_scale=spec.x_scale, y_scale=spec.y_scale)
    J = as_graph(experiment.graphs[0]).J if experiment.learners is None else experiment.learners
    note = "scaled with the range of the whole dataset, as the paper does"
    split = data.split(J, spec.split, experiment.seed)
    source = Source(data.name, split, notes=(note,), target=data.target, inputs=data.feature_names)
    return cut(source, rounds)


def _stations(experiment: Experiment) -> Source:
    spec, fixed = experiment.data, DataSpec()
    for name in ("x_scale", "y_scale", "split"):
        if getattr(spec, name) != getattr(fixed, name):
            raise InputError(
                f"{name} is {getattr(spec, name)!r} for the stations; expected none, as they come scaled "
                f"and divided; leave {name} out"
            )
    if experiment.learners not in (None, len(stations.AIRPORTS)):
        raise InputError(f"learners is {experiment.learners} for the stations; expected 3; leave it out")
    forecast = {"as it is now": stations.persistence(spec.horizon)}
    degrees = stations.HOT - stations.COLD
    split, target = datasets.load_stations(spec.horizon), f"temperature in {spec.horizon} hours"
    source = Source("stations", split, "°F", degrees**2, forecast, origin=stations.COLD)
    return source._replace(target=target, inputs=stations.feature_names())


def network(text: str, names: Sequence[str]) -> Graph:
    """A graph by name, or from links between learners such as "EWR-JFK,JFK-LGA"."""
    if "-" not in text:
        return dataclasses.replace(as_graph(text, len(names)), names=tuple(names))
    return build(names, [_link(link.strip(), names) for link in text.split(",")])


def _link(text: str, names: Sequence[str]) -> tuple[str, str]:
    """The two ends of a link; a name may hold a "-" itself, so each is tried as the one between the ends."""
    cuts = [(text[:i].strip(), text[i + 1 :].strip()) for i, mark in enumerate(text) if mark == "-"]
    ends = [(a, b) for a, b in cuts if a in names and b in names]
    if len(ends) == 1:
        return ends[0]
    if len(cuts) == 1:
        wrong = next(end for end in cuts[0] if end not in names)
        checks.one_of("graph link end", wrong, names)
    raise InputError(
        f"graph link {text!r} is not two learners with a - between; expected two of {', '.join(names)}; "
        "write links like A-B,B-C"
    )


def carry_out(
    experiment: Experiment, source: Source, progress: Progress | None = None, watch: Watch | None = None
) -> Outcome:
    """Run the model on the experiment's first graph, and OMKL and the baselines on the same samples.

    Beside model "auto" stands the same network with the experiment's [paper] learner.
    """
    model, paper, own = experiment.model, _paper_of(experiment), experiment.paper_model
    graph = network(experiment.graphs[0], source.split.names)
    asked, in_range = source.split.y.shape[1], scaled(source, paper.loss_function)
    run = learn(model, (source if model.takes_raw else in_range).split, graph, progress, watch)
    if run.y_hat.shape[1] < asked:
        stopped = f"stopped after {run.y_hat.shape[1]} of {asked} rounds"
        source = cut(source, run.y_hat.shape[1])._replace(notes=(*source.notes, stopped))
        in_range = scaled(source, paper.loss_function)
    seen = source if model.takes_raw else in_range
    factor = in_range.scale / seen.scale  # from the paper's scale to that of `run`
    beside = {} if model is paper else {"paper": factor * learn(paper, in_range.split, graph).mse}
    T, d = seen.split.X.shape[1:]
    return Outcome(
        experiment=experiment,
        dataset=source.name,
        split=seen.split,
        graph=graph,
        rates=None if own is None else own.rates_at(T),
        fingerprint=None if own is None else kernels.fingerprint(own.draw(d)),
        run=run,
        mse_alone=alone(model, seen.split, run),
        central_mse=factor * centralised(paper, experiment.omkl, in_range.split),
        baselines={**beside, **_guesses(seen, model.loss_function)},
        unit=source.unit,
        scale=seen.scale,
        notes=_notes(graph, in_range),
        source=source,
        origin=seen.origin,
    )


def _paper_of(experiment: Experiment) -> Paper:
    """The model if it is the paper's, else the [paper] learner, made to learn the same kind of labels."""
    model, paper = experiment.model, experiment.paper
    if experiment.paper_model is not None:
        return experiment.paper_model
    if paper.loss_function.classifies == model.loss_function.classifies:
        return paper
    return dataclasses.replace(paper, loss=model.loss, reg=None, delta=None)


def learn(
    model: ModelSettings,
    split: Split,
    graph: Graph,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Run:
    """A network of this model on these streams."""
    return simulate(
        split.X,
        split.y,
        graph,
        model=model,
        delay=split.delay,
        dtype=model.precision,
        weights_every=max(1, split.y.shape[1] // 200),
        progress=progress,
        keep_model=model.can_go_on,
        watch=watch,
    )


def alone(model: ModelSettings, split: Split, run: Run) -> Array:
    """Mean squared error of the same learners without links, each of which runs once more. (J,)

    `Run.alone`, which costs nothing, is one expert of `Auto` only, and a whole learner alone does better.
    """
    if len(run.mse) == 1:
        return run.mse
    options: Any = {"model": model, "delay": split.delay, "dtype": model.precision}
    lone = [simulate(split.X[[j]], split.y[[j]], LONE, **options) for j in range(len(run.mse))]
    return np.concatenate([found.mse for found in lone])


def centralised(paper: Paper, spec: OmklSpec, split: Split) -> Array:
    """OMKL on everybody's samples, round by round; its error on each learner's samples. (J,)"""
    J, T, d = split.X.shape
    X, y = split.X.swapaxes(0, 1).reshape(T * J, d), split.y.T.reshape(T * J)
    mu, eta_g = spec.settings(paper.rates_at(T), T * J)
    loss = paper.loss_function
    run = omkl(X, y, kernels=paper.draw(d), mu=mu, eta_g=eta_g, loss=loss, delay=split.delay * J)
    labels = losses.labels(loss, y)
    return np.asarray(((run.y_hat - labels) ** 2).reshape(T, J).mean(0))


def _guesses(source: Source, loss: Loss) -> dict[str, Array]:
    """Mean squared errors of guesses that need no learner. (J,) each"""
    y = losses.labels(loss, source.split.y)
    guesses = {"mean so far": _running_mean(y, source.split.delay), **source.baselines}
    guesses.setdefault("as it is now", _last_known(y, source.split.delay))
    return {name: ((guess - y) ** 2).mean(1) for name, guess in guesses.items()}


def _running_mean(y: Array, delay: int) -> Array:
    """The mean of each learner's labels that are known so far. (J, T)"""
    means = np.cumsum(y, axis=1) / np.arange(1, y.shape[1] + 1)
    return np.concatenate([np.zeros((len(y), delay + 1)), means], axis=1)[:, : y.shape[1]]


def _last_known(y: Array, delay: int) -> Array:
    """The last of each learner's labels that is known. (J, T)"""
    return np.concatenate([np.zeros((len(y), delay + 1)), y], axis=1)[:, : y.shape[1]]


def _notes(graph: Graph, source: Source) -> tuple[str, ...]:
    """What was inferred, divided, scaled and left out."""
    inferred = (f"network {graph.note}: the paper's figure is not in its text",) if graph.note else ()
    return (*inferred, *source.notes, *unused(source))

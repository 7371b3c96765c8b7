"""An experiment carried out on one network, beside its comparators.

`prepare` and `from_table` bring the streams, `carry_out` runs them, and an `Outcome` holds everything that
tables and figures need.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .. import datasets
from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array
from ..datasets import Split, Table, stations
from ..exchange.graph import Graph, as_graph, build
from ..learning import kernels, losses
from ..learning.first_order import Rates
from ..learning.losses import Loss
from ..simulator import Progress, Run, simulate
from .central import omkl
from .experiment import DataSpec, Experiment


@dataclass(frozen=True)
class Outcome:
    """A finished experiment on one network: everything that tables and figures need."""

    experiment: Experiment
    dataset: str
    split: Split
    graph: Graph
    rates: Rates | None  # None with preset "auto", which has none
    fingerprint: str | None  # of V, likewise
    run: Run
    central_mse: Array  # (J,) of OMKL, which sees everybody's data, on each learner's samples
    baselines: dict[str, Array]  # further mean squared errors, (J,)
    unit: str  # of sqrt(scale * MSE)
    scale: float  # what a squared error is multiplied with to be in that unit squared
    notes: tuple[str, ...]

    @property
    def sigma2(self) -> tuple[float, ...]:
        """Each kernel's parameter, as the experiment calls it; none with preset "auto". (P,)"""
        return self.experiment.kernels.sigma2 if self.rates is not None else ()


class Source(NamedTuple):
    """Streams to learn from, and what their errors mean to people."""

    name: str
    split: Split
    unit: str = ""  # of the labels, where they have one
    scale: float = 1.0  # a squared error times this is in that unit squared
    baselines: Mapping[str, Array] = MappingProxyType({})  # predictions to compare with, (J, T)
    dropped: int = 0  # rows without a number in every cell


def prepare(experiment: Experiment, rounds: int | None = None) -> Source:
    """The experiment's first dataset, divided over its learners and cut to `rounds`."""
    spec = experiment.data
    if spec.names[0] == "stations":
        return cut(_stations(experiment), rounds)
    data = datasets.load(spec.names[0], x_scale=spec.x_scale, y_scale=spec.y_scale)
    J = as_graph(experiment.graphs[0]).J if experiment.learners is None else experiment.learners
    return cut(Source(data.name, data.split(J, spec.split, experiment.kernels.seed)), rounds)


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
    return Source("stations", datasets.load_stations(spec.horizon), "°F", degrees**2, forecast)


def from_table(
    experiment: Experiment, table: Table, name: str, learners: int | None, rounds: int | None
) -> Source:
    """A user's table as streams: inputs and labels scaled to [0, 1], errors told in the label's own scale."""
    if table.learners is not None:
        if learners is not None:
            raise InputError(
                f"learners is {learners} but the table has a learner column; expected one of the two; "
                "leave one out"
            )
        _refuse_waste(table.learners, rounds)
        split = table.by_learner("minmax", "minmax")
    else:
        given = experiment.learners if learners is None else learners
        J = checks.count("learners", 3 if given is None else given)
        data = table.dataset().scaled("minmax", "minmax")
        split = data.split(J, experiment.data.split, experiment.kernels.seed)
    return cut(Source(name, split, scale=_squared_span(table), dropped=table.dropped), rounds)


def _squared_span(table: Table) -> float:
    span = float(np.ptp(table.y)) or 1.0
    if math.isinf(span * span):
        raise DataError(
            f"{table.name}, column {table.target!r}: its values span {span:g}, too much to square; "
            "expected less than 1e154; correct or remove such rows"
        )
    return span * span


def _refuse_waste(learners: Sequence[str], rounds: int | None) -> None:
    """All streams are as long as the shortest; whoever did not ask for that should not lose most rows."""
    counts = Counter(learners)
    shortest = min(counts, key=lambda name: counts[name])
    T, unused = counts[shortest], len(learners) - counts[shortest] * len(counts)
    if 2 * unused > len(learners) and (rounds is None or rounds > T):
        raise InputError(
            f"learner {shortest!r} has {T} rows, so {unused} of {len(learners)} rows would go unused; "
            "expected streams of about one length; remove that learner's rows, or take the first rows of "
            f"all with --rounds {T}"
        )


def cut(source: Source, rounds: int | None) -> Source:
    """The first `rounds` rounds."""
    if rounds is None:
        return source
    T = min(checks.count("rounds", rounds), source.split.y.shape[1])
    split = dataclasses.replace(source.split, X=source.split.X[:, :T], y=source.split.y[:, :T])
    return source._replace(split=split, baselines={k: v[:, :T] for k, v in source.baselines.items()})


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


def carry_out(experiment: Experiment, source: Source, progress: Progress | None = None) -> Outcome:
    """Run DOMKL on the experiment's first graph, and OMKL and the baselines on the same samples.

    Beside preset "auto" stands the first-order network with the experiment's kernels and rates.
    """
    split, automatic = source.split, experiment.preset == "auto"
    T, d = split.X.shape[1:]
    graph = network(experiment.graphs[0], split.names)
    V, rates, loss = experiment.kernels.draw(d), experiment.rates.at(T), experiment.learning.make_loss()
    first = _first_order(experiment, split, graph, V, rates, None if automatic else progress)
    y = losses.labels(loss, split.y)
    guesses = {"mean so far": _running_mean(y, split.delay), **source.baselines}
    baselines = {name: ((guess - y) ** 2).mean(1) for name, guess in guesses.items()}
    return Outcome(
        experiment=experiment,
        dataset=source.name,
        split=split,
        graph=graph,
        rates=None if automatic else rates,
        fingerprint=None if automatic else kernels.fingerprint(V),
        run=_automatic(experiment, split, graph, progress) if automatic else first,
        central_mse=centralised(experiment, split, V, rates, loss),
        baselines={"first-order": first.mse, **baselines} if automatic else baselines,
        unit=source.unit,
        scale=source.scale,
        notes=_notes(graph, source),
    )


def _first_order(
    experiment: Experiment, split: Split, graph: Graph, V: Array, rates: Rates, progress: Progress | None
) -> Run:
    return simulate(
        split.X,
        split.y,
        graph,
        kernels=V,
        rates=rates,
        loss=experiment.learning.make_loss(),
        hedge=experiment.learning.hedge,
        step=experiment.learning.step,
        memory=experiment.learning.memory,
        delay=split.delay,
        weights_every=max(1, split.y.shape[1] // 200),
        progress=progress,
    )


def _automatic(experiment: Experiment, split: Split, graph: Graph, progress: Progress | None) -> Run:
    return simulate(
        split.X,
        split.y,
        graph,
        preset="auto",
        seed=experiment.kernels.seed,
        size=experiment.auto.size,
        loss=experiment.learning.make_loss(),
        delay=split.delay,
        dtype=np.float32,
        progress=progress,
    )


def centralised(experiment: Experiment, split: Split, V: Array, rates: Rates, loss: Loss) -> Array:
    """OMKL on everybody's samples, round by round; its error on each learner's samples. (J,)"""
    J, T, d = split.X.shape
    X, y = split.X.swapaxes(0, 1).reshape(T * J, d), split.y.T.reshape(T * J)
    mu, eta_g = experiment.omkl.settings(rates, T * J)
    run = omkl(X, y, kernels=V, mu=mu, eta_g=eta_g, loss=loss, delay=split.delay * J)
    labels = losses.labels(loss, y)
    return np.asarray(((run.y_hat - labels) ** 2).reshape(T, J).mean(0))


def _running_mean(y: Array, delay: int) -> Array:
    """The mean of each learner's labels that are known so far. (J, T)"""
    means = np.cumsum(y, axis=1) / np.arange(1, y.shape[1] + 1)
    return np.concatenate([np.zeros((len(y), delay + 1)), means], axis=1)[:, : y.shape[1]]


def _notes(graph: Graph, source: Source) -> tuple[str, ...]:
    notes = (
        (graph.note, f"network {graph.note}: the paper's figure is not in its text"),
        (source.dropped, f"{source.dropped} rows dropped: a cell was missing"),
        (
            source.split.left_out,
            f"{source.split.left_out} rows not used, so that all streams are of one length",
        ),
    )
    return tuple(note for told, note in notes if told)

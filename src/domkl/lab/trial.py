"""An experiment carried out on one network.

`prepare` and `from_table` bring the streams of a `Source`, a user's table divided over learners so that
nothing comes from the future; `carry_out` runs them, and an `Outcome` holds what tables and figures need.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import datasets
from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array
from ..base.words import plural
from ..datasets import Columns, Split, Table, stations
from ..datasets.dataset import START
from ..datasets.readers import Fault
from ..datasets.table import filled
from ..exchange.graph import LONE, Graph, as_graph, build
from ..learning import conformal, kernels, losses, naive
from ..learning.first_order import Rates
from ..learning.losses import Loss
from ..models.settings import ModelSettings
from ..simulator import Progress, Run, Watch, simulate
from .experiment import DataSpec, Experiment

#: What is said of each way to divide a table's rows over J learners.
DIVIDED = {
    "interleaved": "rows dealt out in turn to {J} learners",
    "blocks": "rows cut into {J} blocks that learn at the same time: learners see each other's future",
    "random": "rows dealt out at random to {J} learners: learners see each other's future",
    "column": "rows divided over {J} learners by the learner column",
}
ONE = "all rows are of one learner (--learner-column says whose they are, --learners divides them)"


class Source(NamedTuple):
    """Streams to learn from, and what their errors mean to people."""

    name: str
    split: Split
    unit: str = ""  # of the labels, where they have one
    scale: float = 1.0  # a squared error times this is in that unit squared
    dropped: int = 0  # rows without a target, or with missing cells where these are not wanted
    faults: tuple[Fault, ...] = ()  # rows that were refused, and why
    target: str = ""
    inputs: tuple[str, ...] = ()  # names of the d inputs, of a user's table
    columns: Columns | None = None  # what a user's columns are, with nothing left open
    notes: tuple[str, ...] = ()  # how rows were divided and scaled
    raw: bool = False  # whether values are as in the user's file, of any size
    origin: float = 0.0  # what a label of 0 is in the unit

    @property
    def targets(self) -> tuple[str, ...]:
        """What is predicted."""
        return (self.target,) if self.columns is None else self.columns.targets

    def parts(self) -> list[Source]:
        """The same streams with each target by itself."""
        if self.split.y.ndim == 2:
            return [self]
        splits = (dataclasses.replace(self.split, y=each) for each in np.moveaxis(self.split.y, -1, 0))
        return [
            self._replace(split=each, target=name) for each, name in zip(splits, self.targets, strict=True)
        ]


def from_table(
    experiment: Experiment,
    table: Table,
    name: str,
    learners: int | None = None,
    rounds: int | None = None,
    split: str = "interleaved",
) -> Source:
    """A user's table as streams, its values as they are: by learner column, else divided as `split` says."""
    table.dataset().check_range()
    _refuse_overflow(table)
    if table.learners is None:
        given = experiment.learners if learners is None else learners
        J, how = checks.count("learners", 1 if given is None else given), split
        streams = table.dataset().split(J, how, experiment.seed)
    else:
        how, streams = "column", _by_column(table, learners, rounds)
    note = ONE if len(streams.names) == 1 and how != "column" else DIVIDED[how].format(J=len(streams.names))
    source = Source(
        name,
        streams,
        dropped=table.dropped,
        faults=table.faults,
        target=table.target,
        inputs=table.feature_names,
        columns=table.columns,
        notes=(note, *table.notes),
        raw=True,
    )
    return cut(source, rounds)


def suited(experiment: Experiment, source: Source) -> tuple[Experiment, Source]:
    """The experiment with a loss for classes where the target has them, which is noted."""
    columns, target = source.columns, source.target
    if experiment.model.loss_function.classifies:
        return experiment, source
    if columns is None or not columns.labels:
        if not source.raw or not np.isin(source.split.y, (0, 1)).all():
            return experiment, source
        note = f"target {target!r} is 0 or 1 and learnt as a number; --loss logistic learns two classes"
        return experiment, source._replace(notes=(*source.notes, note))
    others = [label for label in columns.labels if label != columns.positive_label]
    what = f"+1 is {columns.positive_label!r}, -1 is {repr(others[0]) if len(others) == 1 else 'any other'}"
    model = dataclasses.replace(experiment.model, loss="logistic")
    note = f"target {target!r} has classes, so the loss is logistic: {what}"
    return dataclasses.replace(experiment, model=model), source._replace(notes=(*source.notes, note))


def unused(source: Source) -> tuple[str, ...]:
    """Rows that were left out, and why."""
    dropped, left_out = source.dropped, source.split.left_out
    notes = (
        (dropped, f"{plural(dropped, 'row')} dropped: no target, or a missing cell"),
        *((fault, f"refused {fault}") for fault in source.faults),
        (left_out, f"{plural(left_out, 'row')} not used, so that all streams are of one length"),
    )
    return tuple(note for applies, note in notes if applies)


def titled(experiment: Experiment) -> Experiment:
    """The experiment with a title that names the user's own data, if it has none."""
    if experiment.title or not experiment.data.path:
        return experiment
    targets = ", ".join(experiment.columns.targets)
    return dataclasses.replace(experiment, title=f"{experiment.name}: predicting {targets}")


def _by_column(table: Table, learners: int | None, rounds: int | None) -> Split:
    if learners is not None:
        raise InputError(
            f"learners is {learners} but the table has a learner column; expected one of the two; "
            "leave one out"
        )
    _refuse_waste(table.learners or (), rounds)
    return table.by_learner()


def _refuse_overflow(table: Table) -> None:
    largest = float(np.nanmax(np.abs(table.y)))
    if math.isinf(largest * largest):
        raise DataError(
            f"{table.name}, column {table.target!r}: its values reach {largest:g}, too much to square; "
            "expected less than 1e154; correct or remove such rows"
        )


def scaled(source: Source, loss: Loss) -> Source:
    """The source as the paper's learners need it: of a user's table, scaled by its first rounds alone."""
    if not source.raw:
        return source
    missing = bool(np.isnan(source.split.X).any())
    whole = source.split
    if missing:  # the mean of what came before, 0 if nothing did
        X = np.stack([np.nan_to_num(filled(each)) for each in whole.X])
        whole = dataclasses.replace(whole, X=X)
    split, width = whole.scaled_by_start(target=not loss.classifies)
    what = "inputs" if loss.classifies else "inputs and target"
    rounds = min(START, split.y.shape[1])
    note = f"{what} scaled by the range of the first {rounds} rounds, later inputs clipped (auto: not scaled)"
    fill = ("missing inputs are the mean of the inputs before (auto: left missing)",) if missing else ()
    notes = (*source.notes, note, *fill)
    origin = source.origin + float(source.split.y[0, 0] - width * split.y[0, 0])
    return source._replace(split=split, scale=source.scale * width**2, notes=notes, raw=False, origin=origin)


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
    whole = source.split
    times = None if whole.times is None else whole.times[:, :T]
    known = None if whole.known is None else whole.known[:, :T]
    split = dataclasses.replace(whole, X=whole.X[:, :T], y=whole.y[:, :T], times=times, known=known)
    return source._replace(split=split)


#: Samples of a category, on average, of which a guess is made.
FEWEST = 20
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
    baselines: dict[str, Array]  # further mean squared errors, (J,)
    unit: str  # of sqrt(scale * MSE)
    scale: float  # what a squared error is multiplied with to be in that unit squared
    notes: tuple[str, ...]
    source: Source  # the streams as they came
    origin: float = 0.0  # what a label of 0 is in the unit
    place: int = 0  # which of the model's targets this is of
    _bounds: dict[float, tuple[Array, Array]] = dataclasses.field(default_factory=dict, repr=False)

    def parts(self) -> list[Outcome]:
        """One outcome for each target, as all but predictions and model are told one by one."""
        return [self._part(k, source) for k, source in enumerate(self.source.parts())]

    def _part(self, k: int, source: Source) -> Outcome:
        if source is self.source:
            return self
        run, split = self.run, dataclasses.replace(self.split, y=self.split.y[..., k])
        names = ("theta", "lam", "mse", "cv", "kernel_mse", "kernel_cv", "alone")
        found = {name: getattr(run, name)[:, k] for name in names}
        found |= {name: getattr(run, name)[..., k] for name in ("y_hat", "cv_path")}
        one = {name: mse[:, k] for name, mse in self.baselines.items()}
        title = f"{self.experiment.name}: predicting {source.target}"
        return dataclasses.replace(
            self,
            experiment=dataclasses.replace(self.experiment, title=title),
            split=split,
            run=dataclasses.replace(run, **found),
            mse_alone=self.mse_alone[:, k],
            baselines=one,
            source=source,
            place=k,
            _bounds={},
        )

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
            self._bounds[coverage] = conformal.bounds(
                self.y_hat, self.y, coverage, self.split.delays, self.split.X
            )
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
    degrees = stations.HOT - stations.COLD
    split, target = datasets.load_stations(spec.horizon), f"temperature in {spec.horizon} hours"
    source = Source("stations", split, "°F", degrees**2, origin=stations.COLD)
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
    """Run the model on the experiment's first graph, beside simple guesses of the same samples."""
    model, own = experiment.model, experiment.paper_model
    graph = network(experiment.graphs[0], source.split.names)
    asked = source.split.y.shape[1]
    seen = source if model.takes_raw else scaled(source, model.loss_function)
    run = learn(model, seen.split, graph, progress, watch)
    T, d = run.y_hat.shape[1], seen.split.X.shape[2]
    if asked > T:
        stopped = f"stopped after {T} of {asked} rounds"
        source, seen = (cut(each, T)._replace(notes=(*each.notes, stopped)) for each in (source, seen))
    guesses = np.stack([_guess(each, model.loss_function) for each in seen.parts()], -1)
    inferred = (f"network {graph.note}: the paper's figure is not in its text",) if graph.note else ()
    return Outcome(
        experiment=experiment,
        dataset=source.name,
        split=seen.split,
        graph=graph,
        rates=None if own is None else own.rates_at(T),
        fingerprint=None if own is None else kernels.fingerprint(own.draw(d)),
        run=run,
        mse_alone=alone(model, seen.split, run),
        baselines={"simple guess": guesses.reshape(run.mse.shape)},
        unit=source.unit,
        scale=seen.scale,
        notes=(*inferred, *seen.notes, *unused(seen)),
        source=source,
        origin=seen.origin,
    )


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
        delay=split.delays,
        dtype=model.precision,
        weights_every=max(1, split.y.shape[1] // 200),
        progress=progress,
        keep_model=model.can_go_on,
        watch=watch,
    )


def alone(model: ModelSettings, split: Split, run: Run) -> Array:
    """Mean squared error had each learner its own samples only. (J,)

    `Run.alone` where the model tells; else of the same learners without links, each of which runs once more.
    """
    if len(run.mse) == 1:
        return run.mse
    if len(run.alone):
        return run.alone
    options: Any = {"model": model, "delay": split.delay, "dtype": model.precision}
    lone = [simulate(split.X[[j]], split.y[[j]], LONE, **options) for j in range(len(run.mse))]
    return np.concatenate([found.mse for found in lone])


def _guess(source: Source, loss: Loss) -> Array:
    """Mean squared error of the simple guess that is best for each learner, in hindsight. (J,)"""
    split, y = source.split, losses.labels(loss, source.split.y)
    groups, best = _categories(source), []
    for j, labels in enumerate(y):
        times = None if split.times is None else split.times[j]
        late = split.delays if isinstance(split.delays, int) else split.delays[j]
        guesses = naive.simple_guesses(labels, times, late, None if groups is None else groups[j])
        best.append(min(float(((guess - labels) ** 2).mean()) for guess in guesses.values()))
    return np.array(best)


def _categories(source: Source) -> NDArray[np.int_] | None:
    """The categories of each sample as one number (J, T); None where there are none, or too many."""
    columns, (J, T, _) = source.columns, source.split.X.shape
    named = [] if columns is None else [f"{name}=" for name in columns.categories]
    places = [i for i, each in enumerate(source.inputs) if each.startswith(tuple(named))] if named else []
    if not places:
        return None
    values, groups = np.unique(source.split.X[..., places].reshape(J * T, -1), axis=0, return_inverse=True)
    return groups.reshape(J, T) if len(values) <= T / FEWEST else None

"""Streams to learn from: a user's table, divided over learners so that nothing comes from the future."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array
from ..base.words import plural
from ..datasets import Columns, Split, Table
from ..datasets.dataset import START
from ..datasets.readers import Fault
from ..datasets.table import filled
from ..learning.losses import Loss
from .experiment import Experiment

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
    baselines: Mapping[str, Array] = MappingProxyType({})  # predictions to compare with, (J, T)
    dropped: int = 0  # rows without a target, or with missing cells where these are not wanted
    faults: tuple[Fault, ...] = ()  # rows that were refused, and why
    target: str = ""
    inputs: tuple[str, ...] = ()  # names of the d inputs, of a user's table
    columns: Columns | None = None  # what a user's columns are, with nothing left open
    notes: tuple[str, ...] = ()  # how rows were divided and scaled
    raw: bool = False  # whether values are as in the user's file, of any size
    origin: float = 0.0  # what a label of 0 is in the unit


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
    labels = () if source.columns is None else source.columns.labels
    if not labels and source.raw and not experiment.model.loss_function.classifies:
        return experiment, _hinted(source)
    if not labels or experiment.model.loss_function.classifies:
        return experiment, source
    model = dataclasses.replace(experiment.model, loss="logistic")
    note = f"target {source.target!r} has classes, so the loss is logistic: {_classes(labels, source)}"
    return dataclasses.replace(experiment, model=model), source._replace(notes=(*source.notes, note))


def _hinted(source: Source) -> Source:
    """With a note where numbers may be classes."""
    if not np.isin(source.split.y, (0, 1)).all():
        return source
    note = f"target {source.target!r} is 0 or 1 and learnt as a number; --loss logistic learns two classes"
    return source._replace(notes=(*source.notes, note))


def _classes(labels: Sequence[str], source: Source) -> str:
    positive = "" if source.columns is None else source.columns.positive_label
    others = [label for label in labels if label != positive]
    return f"+1 is {positive!r}, -1 is {repr(others[0]) if len(others) == 1 else 'any other'}"


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
    return dataclasses.replace(experiment, title=f"{experiment.name}: predicting {experiment.columns.target}")


def _by_column(table: Table, learners: int | None, rounds: int | None) -> Split:
    if learners is not None:
        raise InputError(
            f"learners is {learners} but the table has a learner column; expected one of the two; "
            "leave one out"
        )
    _refuse_waste(table.learners or (), rounds)
    return table.by_learner()


def _refuse_overflow(table: Table) -> None:
    largest = float(np.abs(table.y).max())
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
    whole = dataclasses.replace(source.split, X=_filled(source.split.X)) if missing else source.split
    split, width = whole.scaled_by_start(target=not loss.classifies)
    what = "inputs" if loss.classifies else "inputs and target"
    rounds = min(START, split.y.shape[1])
    note = f"{what} scaled by the range of the first {rounds} rounds, later inputs clipped (auto: not scaled)"
    fill = ("missing inputs are the mean of the inputs before (auto: left missing)",) if missing else ()
    notes = (*source.notes, note, *fill)
    origin = source.origin + float(source.split.y[0, 0] - width * split.y[0, 0])
    return source._replace(split=split, scale=source.scale * width**2, notes=notes, raw=False, origin=origin)


def _filled(X: Array) -> Array:
    """Streams (J, T, d) with the mean of what came before in place of a missing input, 0 if nothing did."""
    return np.stack([np.nan_to_num(filled(each)) for each in X])


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
    split = dataclasses.replace(whole, X=whole.X[:, :T], y=whole.y[:, :T], times=times)
    return source._replace(split=split, baselines={k: v[:, :T] for k, v in source.baselines.items()})

"""What a run leaves behind beside its report: every prediction, and the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..base.words import iso
from ..faces.estimator import DOMKL
from ..faces.saved import About
from ..learner import files
from ..learning.alarms import Judgement, judge_all
from .sheet import as_csv
from .trial import Outcome

#: Columns of predictions.csv; the time where the data has one.
HEADS = ("learner", "index", "time", "y", "y_hat", "low", "high", "surprise", "alarm")
#: Those that are there only if alarms are asked for.
JUDGED = ("surprise", "alarm")


def write_predictions(outcome: Outcome, path: Path, judged: Judgement | None = None) -> Path:
    """Every prediction, made before its label was learnt, with bounds for 90 % of the labels, as CSV.

    `judged`: what `alarms` found, where that is to be written, too.
    """
    absent = () if _times(outcome) is not None else ("time",)
    absent = (*absent, *(() if judged is not None else JUDGED))
    return write_table(_rows(outcome, judged), tuple(head for head in HEADS if head not in absent), path)


def alarms(outcome: Outcome, rate: float) -> Judgement:
    """Which labels were not what was predicted, at this rate of false alarms."""
    return judge_all(outcome.y_hat, outcome.y, rate, outcome.split.one_delay)


def _times(outcome: Outcome) -> Any:
    return outcome.source.split.times


def _rows(outcome: Outcome, judged: Judgement | None) -> Iterator[dict[str, Any]]:
    low, high = outcome.bounds()
    y, y_hat, times = outcome.y, outcome.y_hat, _times(outcome)
    surprise, alarm = judged or (np.full(y.shape, np.nan), np.full(y.shape, np.nan))
    for t in range(y.shape[1]):
        for j, name in enumerate(outcome.split.names):
            when = "" if times is None else iso(times[j, t]) or ""
            numbers = (plain(values[j, t]) for values in (y, y_hat, low, high, surprise, alarm))
            yield dict(zip(HEADS, (name, t, when, *numbers), strict=True))


def plain(value: float) -> str:
    """A number as CSV holds it; an empty cell for none.

    >>> plain(0.1), plain(float("inf"))
    ('0.1', '')
    """
    if not math.isfinite(value):
        return ""
    return np.format_float_positional(value, precision=7, fractional=False, trim="-")


def write_table(rows: Iterator[dict[str, Any]], heads: tuple[str, ...], path: Path) -> Path:
    """Rows as CSV, in a file that is there as a whole or not at all."""
    cells = ([row[head] for head in heads] for row in rows)
    write_whole(path, as_csv([heads, *cells]).encode())
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, readable by others as any file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, content, sync=False, is_private=False)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}; expected a file to write; choose another"
        ) from None


def write_model(outcome: Outcome, path: Path) -> Path:
    """The learners as they are after the last round, with what their numbers mean."""
    source = outcome.source
    model = DOMKL.from_run(outcome.run, outcome.split.y, outcome.split.X)
    model.about = About(
        source.inputs, source.target, outcome.unit, source.columns, outcome.origin, math.sqrt(outcome.scale)
    )
    with files.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    return path

"""What a run leaves behind beside its report: every prediction, and the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..base.words import iso
from ..datasets.columns import heads_of
from ..faces.estimator import DOMKL
from ..faces.saved import About
from ..learner import files
from ..learning.alarms import Judgement, judge_all
from .sheet import as_csv
from .trial import Outcome

#: Columns of predictions.csv; the time where the data has one.
HEADS = ("learner", "index", "time")
#: And of the target; of several, each has its name in place of the y, and before low and high.
VALUES, JUDGED = ("y", "y_hat", "low", "high"), ("surprise", "alarm")


def write_predictions(outcome: Outcome, path: Path, judged: Judgement | None = None) -> Path:
    """Every prediction, made before its label was learnt, with bounds for 90 % of the labels, as CSV.

    `judged`: what `alarms` found, where that is to be written, too.
    """
    heads = HEADS if _times(outcome) is not None else HEADS[:-1]
    values = [head for name in outcome.source.targets for head in value_heads(name, outcome.source.targets)]
    more = JUDGED if judged is not None else ()
    return write_table(_rows(outcome, judged), (*heads, *values, *more), path)


def value_heads(name: str, targets: Sequence[str]) -> tuple[str, ...]:
    """The heads of a target's label, prediction and bounds; of the only target "y", "y_hat" and so on.

    >>> value_heads("load", ["load", "heat"])
    ('load', 'load_hat', 'load_low', 'load_high')
    """
    return VALUES if len(targets) == 1 else heads_of(name)


def alarms(outcome: Outcome, rate: float) -> Judgement:
    """Which labels were not what was predicted, at this rate of false alarms."""
    return judge_all(outcome.y_hat, outcome.y, rate, outcome.split.one_delay)


def _times(outcome: Outcome) -> Any:
    return outcome.source.split.times


def _rows(outcome: Outcome, judged: Judgement | None) -> Iterator[dict[str, Any]]:
    times, columns, targets = _times(outcome), dict[str, Any](), outcome.source.targets
    for part in outcome.parts():
        heads = value_heads(part.source.target, targets)
        columns |= zip(heads, (part.y, part.y_hat, *part.bounds()), strict=True)
    columns |= {} if judged is None else {"surprise": judged.surprise, "alarm": judged.alarm}
    for t in range(outcome.split.y.shape[1]):
        for j, name in enumerate(outcome.split.names):
            when = "" if times is None else iso(times[j, t]) or ""
            numbers = {head: plain(values[j, t]) for head, values in columns.items()}
            yield {**dict(zip(HEADS, (name, t, when), strict=True)), **numbers}


def plain(value: float) -> str:
    """A number as CSV holds it; an empty cell for none.

    >>> plain(0.1), plain(float("inf"))
    ('0.1', '')
    """
    if not math.isfinite(value):
        return ""
    return np.format_float_positional(value, precision=7, fractional=False, trim="-")


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same names as CSV; an empty cell where there is nothing."""
    heads = list(rows[0])
    cells = (
        [plain(v) if isinstance(v, float) else "" if v is None else v for v in row.values()] for row in rows
    )
    return as_csv([heads, *cells])


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
        source.inputs,
        ", ".join(source.targets),
        outcome.unit,
        source.columns,
        outcome.origin,
        math.sqrt(outcome.scale),
    )
    with files.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    return path

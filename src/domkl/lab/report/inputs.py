"""Which inputs matter: overall, as a mean over learners, and to the prediction of the last reading."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...base.words import number, percent, plural, with_unit
from ...faces.saved import About
from ...learning import explain
from ...learning.auto import explain as learnt
from ...learning.explain import Contributions
from ..trial import Outcome

#: Learners that are asked, the first ones, and inputs that are shown, those that matter most.
LEARNERS, MOST = 8, 30


class InputRow(NamedTuple):
    """How much one input matters."""

    name: str
    part: str
    effect: str
    trend: str
    added: str  # to the prediction of the last reading
    length: float  # of its bar, a share of the longest


class Inputs(NamedTuple):
    """The table of inputs, and what it says."""

    caption: str
    last: str  # what is predicted for the last reading, and from where the contributions start
    unit: str
    rows: list[InputRow]


def inputs(outcome: Outcome) -> Inputs | None:
    """None where the model cannot tell, or has learnt nothing: only `Auto` can."""
    final = outcome.run.final
    if final is None or not final.rows.is_scaled:
        return None
    rows, source = final.rows, outcome.source
    names, groups = About(source.inputs, columns=source.columns).groups(outcome.split.X.shape[-1])
    asked = range(min(rows.J, LEARNERS))
    models = [(learnt.function(rows, j), learnt.usual(rows, j)) for j in asked]
    found = [explain.effects(*model, names, groups) for model in models]
    effect = math.sqrt(outcome.scale) * np.mean([each.effect for each in found], 0)
    part, trend = (np.mean([getattr(each, key) for each in found], 0) for key in ("part", "trend"))
    last = explain.contributions(*models[0], outcome.split.X[0, -1], names, groups)
    sizes = np.abs(last.contribution)
    added = np.where(sizes < 1e-9 * sizes.max(), 0.0, last.contribution)  # what is only rounding is nothing
    longest = float(part.max()) or 1.0
    table = [
        InputRow(
            names[i],
            percent(float(part[i])),
            number(float(effect[i])),
            explain.direction(float(trend[i])),
            _signed(math.sqrt(outcome.scale) * float(added[i])),
            float(part[i]) / longest,
        )
        for i in np.argsort(-part, kind="stable")[:MOST]
    ]
    return Inputs(_caption(len(asked), rows.J, len(names)), _last(outcome, last), outcome.unit, table)


def _caption(asked: int, J: int, n: int) -> str:
    of = "" if J == 1 else f", mean over {'the' if asked == J else 'the first'} {plural(asked, 'learner')}"
    most = f" The {MOST} of {n} inputs that matter most are shown." if n > MOST else ""
    return (
        f"Effect: how far a prediction moves, typically, if the input takes another usual value{of}. It "
        f"tells what the model uses, not what causes the target.{most}"
    )


def _last(outcome: Outcome, last: Contributions) -> str:
    base, y_hat = (
        with_unit(float(outcome.origin + math.sqrt(outcome.scale) * value), outcome.unit)
        for value in (last.base, last.y_hat)
    )
    who = "the learner" if outcome.graph.J == 1 else f"learner {outcome.split.names[0]}"
    return (
        f"Last reading: what each input adds when {who}, as taught by the end, predicts {y_hat} for it; "
        f"{base} is the average."
    )


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else '-'}{number(abs(value))}"

"""One stream, many learners: `table` lets each of them predict, then learn, every sample in order.

Networks of domkl see a part of the data at each learner and send estimates; all others are one learner
that sees everything, so every device must send it its samples. A user's table is scaled by its first
rounds for all that do not scale by themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import checks
from ...base.errors import Error
from ...base.sheet import Sheet, least_of
from ...base.words import digits
from ...exchange.graph import Graph
from ...learning import losses
from ..trial import Source, scaled
from . import lone, networks, peers
from .contender import Contender, Missing

#: What is averaged over trials.
FIGURES = ("mse", "rmse", "us_per_sample", "bytes_sent", "mse_alone", "rmse_alone")
#: The figures of the table, in the order of its columns.
COLUMNS = ("mse", "rmse", "rmse_alone", "us_per_sample", "bytes_sent")
#: Called with how many contenders are done, of how many, and which is next.
Report = Callable[[int, int, str], object]


@dataclass(frozen=True)
class ComparisonRow:
    """A contender's figures; `reason` says why there are none."""

    name: str
    sees: str  # "a part" or "all"
    mse: float | None = None  # in the data's unit, squared
    rmse: float | None = None
    us_per_sample: float | None = None  # of CPU time
    bytes_sent: float | None = None  # by a learner in a round, all neighbours together
    mse_alone: float | None = None  # of a network's learners, had each its own samples only
    rmse_alone: float | None = None
    reason: str | None = None
    rmse_spread: float | None = None  # standard deviation over the trials; None for one
    trials: int = 1


def table(
    source: Source,
    graph: Graph,
    seed: int = 0,
    report: Report = lambda i, n, name: None,
    added: Sequence[Contender] = (),
    trials: int = 1,
) -> list[ComparisonRow]:
    """Everyone's error, time and traffic on the same samples; the best first, those left out last.

    Each of several trials has another seed, for all that is drawn; figures are then means.
    """
    in_range = scaled(source, losses.squared())
    found: dict[str, list[ComparisonRow]] = {}
    for trial in range(checks.count("--trials", trials)):
        drawn = seed + trial
        all = [*networks.contenders(graph, drawn), *lone.contenders(drawn), *peers.contenders(drawn), *added]
        for i, contender in enumerate(all):
            report(trial * len(all) + i, trials * len(all), contender.name)
            row = _row(contender, source if contender.scales else in_range)
            found.setdefault(contender.name, []).append(row)
    rows = [_mean(each) for each in found.values()]
    return sorted(rows, key=lambda row: (row.mse is None, row.mse or 0.0))


def _mean(rows: list[ComparisonRow]) -> ComparisonRow:
    """The mean of a contender's trials; without figures if one trial has none."""
    failed = next((row for row in rows if row.mse is None), None)
    if failed is not None or len(rows) == 1:
        return failed or rows[0]
    means: dict[str, Any] = {name: _mean_of([getattr(row, name) for row in rows]) for name in FIGURES}
    spread = float(np.std([row.rmse or 0.0 for row in rows], ddof=1))
    return dataclasses.replace(rows[0], **means, rmse_spread=spread, trials=len(rows))


def _mean_of(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


#: What the columns of the table are.
LEGEND = {
    "sees": "what a learner sees of the data: its own part, or all",
    "RMSE": "root of the mean squared error (MSE) of predictions made before the label",
    "alone": "the same of a network's learners, had each its own samples only",
    "CPU time": "for one sample",
    "sent": "by a learner in a round, to all its neighbours or to the centre",
    "bold": "the least of a column",
}


def sheet(rows: list[ComparisonRow], title: str, unit: str) -> Sheet:
    """The table; the least of each column in bold, unless most have it."""
    shown = [row for row in rows if row.mse is not None]
    of, squared = (f"\n{each}" if unit else "" for each in (unit, f"{unit}²"))
    heads = ("learner", "sees", f"MSE{squared}", f"RMSE{of}", f"alone{of}", "CPU time\nµs", "sent\nbytes")
    figures = [[getattr(row, name) for row in shown] for name in COLUMNS]
    best = [least_of(column) for column in figures]
    bold = {(i, 2 + j) for j, places in enumerate(best) for i in places if 2 * len(places) <= len(shown)}
    return Sheet(
        title,
        heads,
        [_cells(row) for row in shown],
        words=frozenset({0, 1}),
        bold=frozenset(bold),
        spare=(2, 1, 6, 5, 4),
        legend=LEGEND,
    )


def _cells(row: ComparisonRow) -> list[str]:
    spread = f" ± {row.rmse_spread:.1g}" if row.rmse_spread else ""  # none where nothing is drawn
    mse, rmse, *rest = (digits(getattr(row, name)) for name in COLUMNS)
    return [row.name, row.sees, mse, rmse + spread, *rest]


def document(rows: list[ComparisonRow]) -> list[dict[str, Any]]:
    """Rows as plain dictionaries."""
    return [dataclasses.asdict(row) for row in rows]


def _row(contender: Contender, source: Source) -> ComparisonRow:
    name, sees = contender.name, contender.sees
    try:
        y_hat, sent, seconds, alone = contender.run(source)
    except Missing as missing:
        return ComparisonRow(name, sees, reason=str(missing))
    except Error as error:
        return ComparisonRow(name, sees, reason=f"failed: {error}")
    mse = source.scale * float(np.mean((y_hat - source.split.y) ** 2))
    lone = None if alone is None else source.scale * float(alone.mean())
    return ComparisonRow(
        name=name,
        sees=sees,
        mse=mse,
        rmse=mse**0.5,
        us_per_sample=1e6 * seconds / source.split.y.size,
        bytes_sent=sent,
        mse_alone=lone,
        rmse_alone=None if lone is None else lone**0.5,
    )

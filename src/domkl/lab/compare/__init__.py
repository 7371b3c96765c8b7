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
from ...base.words import number
from ...exchange.graph import Graph
from ...learning import losses
from ..latex import Sheet
from ..trial import Source, scaled
from . import lone, networks, peers
from .contender import Contender, Missing

#: What is averaged over trials.
FIGURES = ("mse", "rmse", "us_per_sample", "bytes_sent", "alone_mse", "alone_rmse")
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
    alone_mse: float | None = None  # of a network's learners, had each its own samples only
    alone_rmse: float | None = None
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


def sheet(rows: list[ComparisonRow], title: str, unit: str) -> Sheet:
    """The table for files; the least error and time of each column in bold."""
    shown = [row for row in rows if row.mse is not None]
    heads = (
        "learner",
        "sees",
        "MSE",
        f"RMSE{f', {unit}' if unit else ''}",
        "alone",
        "us a sample",
        "bytes sent",
    )
    cells = [_cells(row) for row in shown]
    figures = [[row.mse for row in shown], [row.rmse for row in shown], [row.alone_rmse for row in shown]]
    figures += [[row.us_per_sample for row in shown], [row.bytes_sent for row in shown]]
    bold = {(i, 2 + j) for j, column in enumerate(figures) for i in _least(column)}
    return Sheet(title, heads, cells, left=2, bold=frozenset(bold))


def _cells(row: ComparisonRow) -> list[str]:
    spread = f" ± {number(row.rmse_spread)}" if row.rmse_spread else ""  # none where nothing is drawn
    rest = (row.alone_rmse, row.us_per_sample, row.bytes_sent)
    return [row.name, row.sees, number(row.mse), number(row.rmse) + spread, *map(number, rest)]


def _least(values: list[float | None]) -> list[int]:
    known = [value for value in values if value is not None]
    return [i for i, value in enumerate(values) if known and value == min(known)]


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
        alone_mse=lone,
        alone_rmse=None if lone is None else lone**0.5,
    )

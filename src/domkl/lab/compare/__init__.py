"""One stream, many learners: `table` lets each of them predict, then learn, every sample in order.

Networks of domkl see a part of the data at each learner and send estimates; all others are one learner
that sees everything, so every device must send it its samples. A user's table is scaled by its first
rounds for all that do not scale by themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import Error
from ...exchange.graph import Graph
from ...learning import losses
from ..trial import Source, scaled
from . import lone, networks, peers
from .contender import Contender, Missing

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


def table(
    source: Source, graph: Graph, seed: int = 0, report: Report = lambda i, n, name: None
) -> list[ComparisonRow]:
    """Everyone's error, time and traffic on the same samples; the best first, those left out last."""
    contenders = [*networks.contenders(graph, seed), *lone.contenders(seed), *peers.contenders(seed)]
    in_range = scaled(source, losses.squared())
    rows = []
    for i, contender in enumerate(contenders):
        report(i, len(contenders), contender.name)
        rows.append(_row(contender, source if contender.scales else in_range))
    return sorted(rows, key=lambda row: (row.mse is None, row.mse or 0.0))


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

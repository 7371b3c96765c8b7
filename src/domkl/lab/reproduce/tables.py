"""Mean and spread over the trials, beside the printed value."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .tasks import Rows

Place: TypeAlias = "tuple[str, str, int, str, int | None]"  # metric, dataset, network, method, learner

#: The paper's tables: which metric, regression or series, which networks.
TABLES: dict[str, tuple[str, str, tuple[int, int]]] = {
    "II": ("mse", "regression", (1, 2)),
    "III": ("mse", "regression", (3, 4)),
    "IV": ("cv", "regression", (1, 2)),
    "V": ("cv", "regression", (3, 4)),
    "VI": ("mse", "series", (1, 2)),
    "VII": ("cv", "series", (1, 2)),
    "VIII": ("mse", "series", (3, 4)),
    "IX": ("cv", "series", (3, 4)),
}


class Figure(NamedTuple):
    """One cell of one table, ours and the paper's."""

    table: str
    metric: str
    dataset: str
    network: int
    method: str
    learner: int | None
    value: float  # mean over the trials
    spread: float | None  # standard deviation over the trials; None for one trial
    trials: int
    printed: float | None
    ratio: float | None  # value / printed


def table_of(metric: str, dataset: str, network: int) -> str:
    """The number of the table that holds a figure."""
    kind = "series" if "/" in dataset else "regression"
    return next(t for t, (m, k, nets) in TABLES.items() if (m, k) == (metric, kind) and network in nets)


def summarise(rows: Rows, networks: Sequence[int]) -> list[Figure]:
    """Every cell of the tables, from the rows of all trials."""
    samples: dict[Place, list[float]] = defaultdict(list)
    for row in rows:
        for place in _places(row, networks):
            samples[place].append(row["value"])
    return [_figure(place, values) for place, values in samples.items()]


def _places(row: dict[str, Any], networks: Sequence[int]) -> Iterable[Place]:
    """OMKL knows no network: the paper prints it again for each."""
    if row["dataset"] == "regret":
        return []
    nets = networks if row["network"] == 0 else [row["network"]]
    return [(row["metric"], row["dataset"], n, row["method"], row["learner"]) for n in nets]


def _figure(place: Place, values: list[float]) -> Figure:
    metric, dataset, network = place[:3]
    mean, known = float(np.mean(values)), printed().get(place)
    return Figure(
        table_of(metric, dataset, network),
        *place,
        mean,
        float(np.std(values)) if len(values) > 1 else None,
        len(values),
        known,
        mean / known if known else None,
    )


@lru_cache(maxsize=1)
def printed() -> dict[Place, float]:
    """The paper's 800 printed figures."""
    text = resources.files("domkl.lab.reproduce").joinpath("paper_tables.csv").read_text(encoding="utf-8")
    return {_place(r): float(r["printed"]) for r in csv.DictReader(text.splitlines())}


def _place(r: dict[str, str]) -> Place:
    learner = int(r["learner"]) if r["learner"] else None
    return r["metric"], r["dataset"], int(r["network"]), r["method"], learner

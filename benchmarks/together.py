"""Does learning together pay? Networks whose members differ, each beside the same learners without links.

    python benchmarks/together.py                     what is not kept yet; writes results/together.json
    python benchmarks/together.py --only made         only the cases whose names contain this
    python benchmarks/together.py --show              what is kept, beside the bars

Seasons: Air, Traffic and Temperature on a ring of five, each with a fifth of the time. Stations: the shipped
three airports for a year, forecasts 1 and 24 hours ahead, complete graph; 6 hours are in stations.py.
Weather: 25 stations, 310 days, the next day's highest and lowest temperature, each linked with its three
nearest; DOMKL_DATA names the directory. Made: ten learners, each with four neighbours, f_j = common + a
own_j, all of them random smooth functions of the same size; and two clusters, whose members have one function
and are mixed over the graph.

"Alone" are the same learners without links, with the bits of a run of each by itself. Errors are mean squared
errors over the targets' variance, of all rounds but the first, where everybody predicts `start`; "worst" is
the largest of a single learner over its own alone. Size 400, float32. Seeds are those of the features, and of
the functions where they are made.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import networkx as nx
import numpy as np

import domkl
from domkl import datasets
from domkl.exchange.graph import Graph
from domkl.learning.auto import AutoRows

RESULTS = Path(__file__).parent / "results" / "together.json"
SIZE = 400
DEALS = {
    "weather": "random",
    "conductivity": "random",
    "air": "random",
    "traffic/5": "blocks",
    "temperature/5": "blocks",
}


class Case(NamedTuple):
    """Streams of a network."""

    X: np.ndarray  # (J, T, d)
    y: np.ndarray  # (J, T)
    graph: Any
    delay: int = 0
    seed: int = 0  # of the features


class Kind(NamedTuple):
    """Cases that differ by their seed, and what together over alone should at most be."""

    make: Callable[[int], Case]
    seeds: int
    bar: float | None = None


def stations(horizon: int, seed: int = 0) -> Case:
    split = datasets.load_stations(horizon=horizon)
    return Case(split.X, split.y, "complete", split.delay, seed)


def weather(target: str, seed: int = 0) -> Case:
    """Each station forecasts its own next day; a target that is missing is the last one seen."""
    with gzip.open(Path(os.environ["DOMKL_DATA"]) / "weather.csv.gz") as file:
        rows = list(csv.DictReader(io.StringIO(file.read().decode())))
    rows = [row for row in rows if row["station"] and row["Date"]]
    names = [name for name in rows[0] if name not in ("station", "Date", "Next_Tmax", "Next_Tmin")]
    table = np.array([[float(row[n] or "nan") for n in (*names, target)] for row in rows])
    table = table.reshape(-1, 25, table.shape[1])
    X, y = table[..., :-1], table[..., -1]
    for t in range(1, len(y)):
        y[t] = np.where(np.isnan(y[t]), y[t - 1], y[t])
    places = np.nanmean(X[..., [names.index("lat"), names.index("lon")]], 0)
    return Case(X.swapaxes(0, 1), y.T, nearest(places, 3), seed=seed)


def nearest(places: np.ndarray, k: int) -> nx.Graph:
    """Each place linked with its k nearest, and the nearest parts with each other until all are connected."""
    km = np.array([111.2, 111.2 * np.cos(np.radians(places[:, 0].mean()))])
    apart = np.linalg.norm((places[:, None] - places) * km, axis=-1)
    graph = nx.empty_graph(len(places))
    graph.add_edges_from((i, int(j)) for i, row in enumerate(apart) for j in np.argsort(row)[1 : k + 1])
    while not nx.is_connected(graph):
        part = np.isin(np.arange(len(places)), list(next(nx.connected_components(graph))))
        gaps = np.where(part[:, None] & ~part, apart, np.inf)
        graph.add_edge(*map(int, np.unravel_index(gaps.argmin(), gaps.shape)))
    return graph


def smooth(rng: np.random.Generator, d: int) -> Callable[[np.ndarray], np.ndarray]:
    """A random smooth function on the unit cube with mean 0 and variance 1, about."""
    W, b, c = rng.normal(size=(30, d)) * 2, rng.uniform(0, 2 * np.pi, 30), rng.normal(size=30)
    probe = np.cos(rng.uniform(size=(4000, d)) @ W.T + b) @ c
    return lambda x: (np.cos(x @ W.T + b) @ c - probe.mean()) / probe.std()


def made(a: float | None, seed: int, J: int = 10, T: int = 500, d: int = 4) -> Case:
    """The dial a; None for two clusters. Noise has a hundredth of the functions' variance."""
    rng = np.random.default_rng([14, seed])
    X = rng.uniform(size=(J, T, d))
    common, own = smooth(rng, d), [smooth(rng, d) for _ in range(J)]
    graph = nx.random_regular_graph(4, J, seed=seed)
    member = rng.permutation(np.arange(J) % 2)
    if a is None:
        y = np.stack([own[member[j]](X[j]) for j in range(J)])
    else:
        y = np.stack([common(X[j]) + a * own[j](X[j]) for j in range(J)])
    return Case(X, y + rng.normal(size=y.shape) * np.sqrt(0.01 * y.var()), graph, seed=seed)


def dealt(name: str, J: int, seed: int, way: str = "") -> Case:
    """A set dealt out to a ring; in blocks each has a part of the time."""
    part = datasets.load(name, x_scale="none", y_scale="minmax").split(J, way or DEALS[name], seed)
    return Case(part.X, part.y, "ring", seed=seed)


KINDS: dict[str, Kind] = {
    **{f"seasons {name}": Kind(partial(dealt, name, 5, way="blocks"), 10, 1.0)
       for name in ("air", "traffic/5", "temperature/5")},
    "stations 1 h": Kind(partial(stations, 1), 3),
    "stations 24 h": Kind(partial(stations, 24), 3, 1.0),
    "weather Tmax": Kind(partial(weather, "Next_Tmax"), 10, 1.0),
    "weather Tmin": Kind(partial(weather, "Next_Tmin"), 10, 1.0),
    "made a = 0": Kind(partial(made, 0.0), 10, 0.55),
    "made a = 1": Kind(partial(made, 1.0), 10, 0.90),
    "made a = 3": Kind(partial(made, 3.0), 10, 1.0),
    "made two clusters": Kind(partial(made, None), 10, 0.60),
}  # fmt: skip


class Lonely(AutoRows):
    """Learners who judge nobody, as they have no neighbours."""

    judges = ()


class Alone(NamedTuple):
    """Many learners without links in one run: much faster than one after the other, and the same bits."""

    settings: domkl.Auto

    def make(self, J: int, d: int, dtype: Any, m: int = 1) -> AutoRows:
        return Lonely(self.settings, d, range(J), np.zeros(J), np.zeros(J), dtype, m)


def run(case: Case, model: domkl.Auto, with_links: bool) -> domkl.Run:
    """One network, or the same learners alone."""
    J = len(case.y)
    graph = case.graph if with_links else Graph(tuple(range(J)), ((),) * J)
    given: Any = model if with_links else Alone(model)
    return domkl.simulate(case.X, case.y, graph, model=given, delay=case.delay, dtype=np.float32)


def measured(case: Case) -> dict[str, float]:
    """Errors over the variance of all targets."""
    model = domkl.Auto(size=SIZE, start=float(case.y.mean()), seed=case.seed)
    both, alone = (
        ((run(case, model, with_links).y_hat - case.y)[:, 1:] ** 2).mean(-1) / case.y.var()
        for with_links in (True, False)
    )
    found = {"together": both.mean(), "alone": alone.mean(), "worst": (both / alone).max()}
    return {name: float(f"{value:.5g}") for name, value in found.items()}


def show(kept: dict[str, dict[str, dict[str, float]]]) -> None:
    """Together over alone, geometric mean over seeds with least and greatest, beside the bar."""
    for name, rows in kept.items():
        ratios = [row["together"] / row["alone"] for row in rows.values()]
        mean, worst = np.exp(np.mean(np.log(ratios))), max(row["worst"] for row in rows.values())
        print(
            f"{name:22} {len(ratios):2} seeds, together / alone {mean:.3f} ({min(ratios):.3f} to "
            f"{max(ratios):.3f}), bar {KINDS[name].bar}, single learner at most {worst:.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="measure what is kept, too")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--seeds", type=int, default=10, help="at most so many")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    args = parser.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept = {name: kept.get(name, {}) for name in KINDS}
    for seed in range(0 if args.show else args.seeds):
        for name, kind in KINDS.items():
            if args.only in name and seed < kind.seeds and (args.again or str(seed) not in kept[name]):
                kept[name][str(seed)] = measured(kind.make(seed))
                RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
                print(name, seed, kept[name][str(seed)], flush=True)
    show({name: rows for name, rows in kept.items() if rows})


if __name__ == "__main__":
    main()

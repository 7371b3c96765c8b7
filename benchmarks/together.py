"""Does learning together pay? Networks whose members differ, each beside the same learners alone.

    python benchmarks/together.py                     what is not kept yet
    python benchmarks/together.py --only weather      only the cases whose names contain this
    python benchmarks/together.py --column before --no-alone    with an earlier version, beside the others
    python benchmarks/together.py --jobs 2            on two cores

Natural networks: the shipped stations (forecasts 1, 6 and 24 hours ahead, the complete graph of three) and
the 25 stations of Weather (310 days, the next day's highest and lowest temperature, each station linked with
its three nearest; DOMKL_DATA names the directory).
A made family, ten learners, each with four neighbours: f_j = common + a own_j, all of them random smooth
functions of the same size; and two clusters, whose members have one function and are mixed over the graph.
The five sets dealt out at random to five and to twenty, on rings, where all learners have the same function
(Traffic and Temperature are cut into blocks). Air, Traffic and Temperature as seasons: five learners on a
ring, each with a fifth of the time.

Unseen, which nobody had looked at when a constant was chosen: the public stream bike cut into seasons and
House8L dealt out to twenty, and the stations' forecasts 3 and 12 hours ahead.

"Alone" are the same learners without links. "Clusters known" links only learners with the same function, in
cliques: all of them where a = 0, and nobody where each has a part of its own. "Others cut" has the links of
the same graph between learners with the same function, and no others. "One common function" is the
column `before`, of the version before learners had own samples (commit 405489a), run with
`PYTHONPATH=that/src`. Errors are mean squared errors as part of the targets' variance,
of all rounds but the first, where everybody predicts `start`. float32. Ten seeds: of the deal and of the
features, of the made functions, and where nothing else is drawn of the features alone; the unseen rows have
one.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

import domkl
from domkl import datasets

RESULTS = Path(__file__).parent / "results" / "together.json"
DIAL = (0.0, 0.25, 1.0, 3.0)
SEEDS = 10
#: The round from which on errors are compared a second time where clusters are known.
LATER = 64
DEALS = {
    "weather": "random",
    "conductivity": "random",
    "air": "random",
    "traffic/5": "blocks",
    "temperature/5": "blocks",
}


class Case(NamedTuple):
    """Streams of a network; `known` links those that have the same function."""

    X: np.ndarray  # (J, T, d)
    y: np.ndarray  # (J, T)
    graph: Any
    delay: int = 0
    known: Any = None
    seed: int = 0  # of the features


def stations(horizon: int) -> Case:
    split = datasets.load_stations(horizon=horizon)
    return Case(split.X, split.y, "complete", split.delay)


def weather_rows() -> list[dict[str, str]]:
    path = Path(os.environ["DOMKL_DATA"]) / "weather.csv.gz"
    with gzip.open(path) as file:
        rows = list(csv.DictReader(io.StringIO(file.read().decode())))
    return [row for row in rows if row["station"] and row["Date"]]


def weather(target: str) -> Case:
    """Each station forecasts its own next day; a target that is missing is the last one seen."""
    rows = weather_rows()
    names = [name for name in rows[0] if name not in ("station", "Date", "Next_Tmax", "Next_Tmin")]
    table = np.array([[float(row[n] or "nan") for n in (*names, target)] for row in rows])
    table = table.reshape(-1, 25, table.shape[1])
    X, y = table[..., :-1], table[..., -1]
    for t in range(1, len(y)):
        y[t] = np.where(np.isnan(y[t]), y[t - 1], y[t])
    places = np.nanmean(X[..., [names.index("lat"), names.index("lon")]], 0)
    return Case(X.swapaxes(0, 1), y.T, nearest(places, 3))


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
    noise = rng.normal(size=y.shape) * np.sqrt(0.01 * y.var())
    same = member if a is None else np.zeros(J) if a == 0 else np.arange(J)
    return Case(X, y + noise, graph, known=cliques(same))


def cliques(member: np.ndarray) -> list[list[int]]:
    """The learners of each cluster."""
    return [np.flatnonzero(member == k).tolist() for k in np.unique(member)]


def dealt(name: str, J: int, seed: int) -> Case:
    part = datasets.load(name, x_scale="none", y_scale="minmax").split(J, DEALS[name], seed)
    return Case(part.X, part.y, "ring", seed=seed)


def seasons(name: str) -> Case:
    """Five learners on a ring, each with a fifth of the time."""
    part = datasets.load(name, x_scale="none", y_scale="minmax").split(5, "blocks", 0)
    return Case(part.X, part.y, "ring")


def simulated(case: Case, size: int) -> domkl.Run:
    model = domkl.Auto(size=size, start=float(case.y.mean()), seed=case.seed)
    return domkl.simulate(
        case.X, case.y, case.graph, model=model, delay=case.delay, dtype=np.float32, threads=1
    )


def errors(case: Case, size: int, first: int = 1) -> np.ndarray:
    """Mean squared error of each learner from a round on. (J,)"""
    return ((simulated(case, size).y_hat - case.y)[:, first:] ** 2).mean(-1)


def alone(case: Case, size: int) -> np.ndarray:
    one = nx.empty_graph(1)
    each = [Case(case.X[[j]], case.y[[j]], one, case.delay, seed=case.seed) for j in range(len(case.y))]
    return np.concatenate([errors(one, size) for one in each])


def with_clusters_known(case: Case, size: int) -> np.ndarray:
    """Errors where only learners with the same function are linked, all of them with each other. (J,)"""
    return in_parts(case, size, [nx.complete_graph(part) for part in case.known])


def with_others_cut(case: Case, size: int, first: int = 1) -> np.ndarray:
    """Errors where of all links those between learners with the same function are left. (J,)"""
    inside = [case.graph.subgraph(part) for part in case.known]
    parts = [graph.subgraph(part) for graph in inside for part in nx.connected_components(graph)]
    return in_parts(case, size, parts, first)


def in_parts(case: Case, size: int, parts: list[nx.Graph], first: int = 1) -> np.ndarray:
    """Errors in networks of some of the learners each. (J,)"""
    found = np.zeros(len(case.y))
    for graph in parts:
        part = sorted(graph)
        links = nx.convert_node_labels_to_integers(graph, ordering="sorted")
        found[part] = errors(Case(case.X[part], case.y[part], links, case.delay), size, first)
    return found


def stream(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a stream of the public leaderboard, in its order."""
    with np.load(Path(os.environ["DOMKL_DATA"]) / "streams" / f"{name}.npz") as found:
        return found["X"].astype(np.float64), found["y"].astype(np.float64)


def unseen_seasons(name: str) -> Case:
    """Five learners on a ring, each with a fifth of the time of a stream."""
    X, y = stream(name)
    T = len(y) // 5
    return Case(X[: 5 * T].reshape(5, T, -1), y[: 5 * T].reshape(5, T), "ring")


def unseen_deal(name: str, J: int) -> Case:
    """A stream dealt out at random, ring."""
    X, y = stream(name)
    T = len(y) // J
    order = np.random.default_rng(0).permutation(J * T).reshape(J, T)
    return Case(X[order], y[order], "ring")


def measured(case: Case, size: int, with_alone: bool) -> dict[str, float]:
    """Errors over the variance of all targets; "worst" is the largest of a single learner over alone."""
    var, began = case.y.var(), time.process_time()
    together = errors(case, size) / var
    seconds = time.process_time() - began
    found = {"together": together.mean(), "milliseconds": 1e3 * seconds / case.y.size}
    if with_alone:
        lonely = alone(case, size) / var
        found |= {"alone": lonely.mean(), "worst": (together / lonely).max()}
    if with_alone and case.known is not None and len(case.known) < len(case.y):
        found["clusters known"] = with_clusters_known(case, size).mean() / var
        found["others cut"] = with_others_cut(case, size).mean() / var
    if with_alone and case.known is not None and 1 < len(case.known) < len(case.y):
        found["later"] = errors(case, size, LATER).mean() / var
        found["others cut, later"] = with_others_cut(case, size, LATER).mean() / var
    return {name: float(f"{value:.5g}") for name, value in found.items()}


def seeded(
    name: str, size: int, seeds: int, make: Callable[[], Case]
) -> Iterator[tuple[str, int, Callable[[], Case]]]:
    """The same streams with several seeds of the features."""
    for seed in range(seeds):
        yield f"{name} seed {seed}", size, lambda seed=seed: make()._replace(seed=seed)


def measured_by_name(wanted: str, with_alone: bool) -> tuple[str, dict[str, float]]:
    """Figures of the case of this name, which another process can ask for."""
    size, make = next((size, make) for name, size, make in cases() if name == wanted)
    return wanted, measured(make(), size, with_alone)


def cases() -> Iterator[tuple[str, int, Callable[[], Case]]]:
    """Name, size and streams of every case, the quick ones first."""
    for target in ("Next_Tmax", "Next_Tmin"):
        yield from seeded(f"weather {target}", 400, SEEDS, lambda target=target: weather(target))
    for seed in range(SEEDS):
        for a in DIAL:
            yield f"made a={a:g} seed {seed}", 400, lambda a=a, seed=seed: made(a, seed)
        yield f"made two clusters seed {seed}", 400, lambda seed=seed: made(None, seed)
    for name in ("air", "traffic/5", "temperature/5"):
        yield from seeded(f"seasons {name}", 400, SEEDS, lambda name=name: seasons(name))
    for J in (5, 20):
        for name in DEALS:
            for seed in range(SEEDS):
                yield (
                    f"dealt {name} to {J} seed {seed}",
                    400,
                    lambda n=name, J=J, seed=seed: dealt(n, J, seed),
                )
    for horizon in (1, 6, 24):
        yield from seeded(f"stations {horizon} h", 400, SEEDS, lambda horizon=horizon: stations(horizon))
    yield from seeded("stations 6 h, 1700", 1700, SEEDS, lambda: stations(6))
    yield "unseen: bike, seasons", 400, lambda: unseen_seasons("bike")
    yield "unseen: House8L to 20", 400, lambda: unseen_deal("House8L", 20)
    for horizon in (3, 12):
        yield f"unseen: stations {horizon} h", 400, lambda horizon=horizon: stations(horizon)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="measure what is kept, too")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--no-alone", action="store_true", help="leave the learners alone out")
    parser.add_argument("--column", default="now", help="where to keep the figures")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept = {name: kept.get(name, {}) for name, _, _ in cases()}
    names = [name for name in kept if args.only in name and (args.again or args.column not in kept[name])]
    with ProcessPoolExecutor(args.jobs) as pool:
        found = [pool.submit(measured_by_name, name, not args.no_alone) for name in names]
        for future in as_completed(found):
            name, row = future.result()
            kept[name][args.column] = row
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
            print(name, args.column, row, flush=True)


if __name__ == "__main__":
    main()

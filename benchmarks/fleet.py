"""Ten sites run turbofan engines to failure: error on each site's second to fourth engine, in ten orders.

Beside the learners together and alone: one that sees all sites, River's adaptive random forest and LightGBM
refitted whenever engines have failed, each with own engines only and with those of all sites. All have the
same inputs and learn the same cycles. Forests are slow, and run in the first orders only. What is there
of the results is kept, and only the rest is run.

    python benchmarks/fleet.py [--orders 10] [--forests 3] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from domkl.lab import turbofan
from domkl.lab.turbofan import ENGINES, LEARNT, SITES, load_engines, run_fleet

OUT = Path(__file__).parent / "results" / "fleet.json"


def sites_of(seed: int) -> list[list[Any]]:
    order = np.random.default_rng(seed).permutation(len(load_engines()))
    return [[load_engines()[i] for i in row[:ENGINES]] for row in order.reshape(SITES, -1)]


def errors(predicted: list[list[Any]], sites: list[list[Any]]) -> list[float]:
    """Typical error on the second engine and those after it."""
    return [
        float(
            np.sqrt(
                np.mean(np.concatenate([p[k] - s[k].y for p, s in zip(predicted, sites, strict=True)]) ** 2)
            )
        )
        for k in range(1, ENGINES)
    ]


def seen_by_all(seed: int) -> list[float]:
    """One learner of the same kind for all sites, with every label of theirs."""
    sites, rng = sites_of(seed), np.random.default_rng(seed)
    network = turbofan.Network(turbofan.as_graph(turbofan.LONE, 1), turbofan.Exchange())
    model = turbofan.connected(turbofan.MODEL, sites[0][0].X.shape[1], network, np.float64)
    predicted: list[list[Any]] = [[] for _ in sites]
    for k in range(ENGINES):
        for j, site in enumerate(sites):
            predicted[j] += turbofan._predict(model, [site[k]])
        rows = [(site[k].X[t], site[k].y[t]) for site in sites for t in turbofan._spread(len(site[k].y), rng)]
        rows = [rows[i] for i in rng.permutation(len(rows))]
        earlier = [model.predict(x[None]) for x, _ in rows]
        for (x, y), before in zip(rows, earlier, strict=True):
            outgoing = model.learn(model.predict(x[None]), np.array([[y]]), before)
            model.merge(network.exchange_round(model, outgoing))
    return errors(predicted, sites)


def lightgbm(X: Any, y: Any, before: Any) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=100, min_child_samples=10, verbose=-1, n_jobs=1).fit(X, y)


class Forest:
    """River's adaptive random forest, which goes on where it was."""

    def __init__(self) -> None:
        from river import forest

        self.model = forest.ARFRegressor(seed=0)

    def learn(self, X: Any, y: Any) -> Forest:
        for row, label in zip(X, y, strict=True):
            self.model.learn_one(dict(enumerate(row.tolist())), float(label))
        return self

    def predict(self, X: Any) -> Any:
        return np.array([self.model.predict_one(dict(enumerate(row.tolist()))) for row in X])


def forest(X: Any, y: Any, before: Any) -> Any:
    new = slice(None) if before is None else slice(before.seen, None)
    made = (before or Forest()).learn(X[new], y[new])
    made.seen = len(y)
    return made


def refitted(fit: Callable[..., Any], seed: int, pooled: bool) -> list[float]:
    """A rival fitted again when the k-th engines have failed, with own ones or with those of all sites."""
    sites, rng = sites_of(seed), np.random.default_rng(seed)
    picked = [[turbofan._spread(len(each.y), rng) for each in site] for site in sites]
    predicted: list[list[Any]] = [[np.zeros(len(site[0].y))] for site in sites]
    models: dict[Any, Any] = {}
    for k in range(1, ENGINES):
        for j, site in enumerate(sites):
            who = "all" if pooled else j
            if models.get(who, (0, None))[0] < k:
                past = [(i, n) for n in range(k) for i in (range(SITES) if pooled else [j])]
                X = np.concatenate([sites[i][n].X[picked[i][n]] for i, n in past])
                y = np.concatenate([sites[i][n].y[picked[i][n]] for i, n in past])
                models[who] = k, fit(X, y, models.get(who, (0, None))[1])
            predicted[j].append(models[who][1].predict(site[k].X))
    return errors(predicted, sites)


def together(seed: int) -> dict[str, Any]:
    found, sites = run_fleet(seed=seed), sites_of(seed)
    later = range(1, ENGINES)
    made: dict[str, Any] = {name: [found.error(name, k) for k in later] for name in ("together", "alone")}
    made["ring"] = errors(turbofan._play(sites, "ring", seed), sites)
    made["one learner sees all"] = seen_by_all(seed)
    return made


def rival(name: str, fit: Callable[..., Any], seed: int) -> dict[str, Any]:
    return {f"{name}, own": refitted(fit, seed, False), f"{name}, all": refitted(fit, seed, True)}


def missing(orders: list[dict[str, Any]], forests: int) -> list[tuple[int, Callable[[int], dict[str, Any]]]]:
    jobs: list[tuple[int, Callable[[int], dict[str, Any]]]] = []
    for seed, made in enumerate(orders):
        jobs += [] if "together" in made else [(seed, together)]
        jobs += [] if "LightGBM, all" in made else [(seed, partial(rival, "LightGBM", lightgbm))]
    few = enumerate(orders[:forests])
    return jobs + [(seed, partial(rival, "ARF", forest)) for seed, made in few if "ARF, all" not in made]


def write(orders: list[dict[str, Any]]) -> None:
    names = sorted({name for each in orders for name in each})
    mean = {name: np.mean([each[name] for each in orders if name in each], axis=0).tolist() for name in names}
    whole = [each for each in orders if "together" in each]
    ratios = [float(np.mean(each["together"]) / np.mean(each["alone"])) for each in whole]
    settings = {"sites": SITES, "engines": ENGINES, "cycles learnt of a life": LEARNT}
    document = {"settings": settings, "mean": mean, "together / alone": ratios, "orders": orders}
    OUT.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--forests", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    orders = json.loads(OUT.read_text())["orders"] if OUT.exists() else []
    orders += [{} for _ in range(args.orders - len(orders))]
    with ProcessPoolExecutor(args.workers) as pool:
        jobs = {pool.submit(act, seed): seed for seed, act in missing(orders, args.forests)}
        for job in as_completed(jobs):
            orders[jobs[job]].update(job.result())
            found = {name: np.round(values, 1).tolist() for name, values in job.result().items()}
            print(jobs[job], found, flush=True)
            write(orders)


if __name__ == "__main__":
    main()

"""`domkl.Auto` on two small sets that nothing of it was chosen on, and on one that was looked at.

    python benchmarks/heldout.py

Held out: diabetes and digits as numbers (scikit-learn's, shuffled). Used while developing: Trump's approval
(River's, in its order), because of which the echo of errors was added. Targets are on [0, 1]. `Auto` is a
ring of five that send theta; beside it River's learners, which see all samples, one by one. Errors are
prequential, MSE x 1e-2, for five seeds of frequencies, forest and search; 1/3 is predicted before the first
label.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import river.datasets
import sklearn.datasets
from river import forest, linear_model, neighbors, preprocessing, utils

import domkl

RESULTS = Path(__file__).parent / "results" / "heldout.json"
START, J, SEEDS = 1 / 3, 5, 5
#: River's learners by name, for a seed. kNN searches an approximate graph, which is drawn too.
LEARNERS: dict[str, Callable[[int], Any]] = {
    "linear": lambda seed: preprocessing.StandardScaler() | linear_model.LinearRegression(),
    "ARF": lambda seed: forest.ARFRegressor(seed=seed),
    "KNN": lambda seed: (
        preprocessing.StandardScaler()
        | neighbors.KNNRegressor(
            n_neighbors=5, engine=neighbors.SWINN(dist_func=utils.math._euclidean_distance, seed=seed)
        )
    ),
}


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rows = list(river.datasets.TrumpApproval())
    found = {
        "approval": (np.array([list(x.values()) for x, _ in rows], float), np.array([y for _, y in rows]))
    }
    ill, digits = sklearn.datasets.load_diabetes(scaled=False), sklearn.datasets.load_digits()
    for name, data in (("diabetes", ill), ("digits", digits)):
        order = np.random.default_rng(0).permutation(len(data.target))
        found[name] = data.data[order], data.target[order].astype(float)
    return found


def follow(learner: Any, X: np.ndarray, y: np.ndarray, start: float = START) -> float:
    """The error of one of River's learners that sees every round's samples; predictions kept in [0, 1]."""
    total = 0.0
    for n, (x, label) in enumerate(zip(X.swapaxes(0, 1).reshape(-1, X.shape[-1]), y.T.ravel(), strict=True)):
        sample = dict(enumerate(x))
        guess = np.clip(learner.predict_one(sample), 0, 1) if n else start
        total += (guess - label) ** 2
        learner.learn_one(sample, label)
    return float(100 * total / y.size)


def ring(X: np.ndarray, y: np.ndarray, seed: int) -> float:
    run = domkl.simulate(X, y, "ring", model=domkl.Auto(start=START, seed=seed))
    return float(100 * run.mse.mean())


def main() -> None:
    kept: dict[str, dict[str, Any]] = {}
    for name, (X, y) in tables().items():
        T = len(y) // J
        X, y = X[: J * T].reshape(J, T, -1), ((y - y.min()) / np.ptp(y))[: J * T].reshape(J, T)
        kept[name] = {"rows": y.size, "inputs": X.shape[-1], "variance": float(100 * y.var())}
        kept[name]["ring"] = [ring(X, y, seed) for seed in range(SEEDS)]
        for who, make in LEARNERS.items():
            seeds = range(1 if who == "linear" else SEEDS)
            kept[name][who] = [follow(make(seed), X, y) for seed in seeds]
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
        print(name, kept[name], flush=True)


if __name__ == "__main__":
    main()

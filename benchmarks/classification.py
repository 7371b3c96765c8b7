"""How often domkl is right about classes, beside River's learners, on real streams.

    python benchmarks/classification.py               two seeds; rows that were measured are kept
    python benchmarks/classification.py --anew --seeds 5 --json

Every sample is predicted, then learnt, in the order in which the set comes; accuracy counts all of them. A
seed draws domkl's features and the forest; the order stays. River's learners and domkl's model for River see
every sample; in the ring of five, row t goes to learner t mod 5, and estimates are all that neighbours
exchange.

The streams were chosen before anything was measured: the one that River ships for two classes (Phishing), and
the first rows of two of the paper's sets with many inputs (Weather, Conductivity), with
"is the target above its median?" as the class. The median is that of the rows used, known beforehand: it only
makes the two classes equally frequent.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from river import datasets as streams
from river import forest, linear_model, neighbors, preprocessing

import domkl
from domkl import datasets
from domkl.river import MultiKernelClassifier

RESULTS = Path(__file__).parent / "results" / "classification.json"
ROWS, LEARNERS = 2500, 5


def phishing() -> tuple[np.ndarray, np.ndarray]:
    rows = [(list(x.values()), y) for x, y in streams.Phishing()]
    return np.array([x for x, _ in rows], float), np.array([y for _, y in rows], int)


def above_median(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = datasets.load(name, x_scale="none", y_scale="none")
    y = data.y[:ROWS]
    return data.X[:ROWS], (y > np.median(y)).astype(int)


STREAMS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "phishing": phishing,
    "weather, above median": lambda: above_median("weather"),
    "conductivity, above median": lambda: above_median("conductivity"),
}
#: By name: a River classifier for a seed.
MODELS: dict[str, Callable[[int], Any]] = {
    "River StandardScaler + LogisticRegression": lambda seed: (
        preprocessing.StandardScaler() | linear_model.LogisticRegression()
    ),
    "River ARFClassifier": lambda seed: forest.ARFClassifier(seed=seed),
    "River KNNClassifier": lambda seed: neighbors.KNNClassifier(),
    "River StandardScaler + KNNClassifier": lambda seed: (
        preprocessing.StandardScaler() | neighbors.KNNClassifier()
    ),
    "domkl.river Paper": lambda seed: MultiKernelClassifier(domkl.Paper(kernels=domkl.KernelSpec(seed=seed))),
    "domkl.river Auto": lambda seed: MultiKernelClassifier(domkl.Auto(seed=seed)),
}
RING = "domkl ring of five, Auto"
#: These draw nothing.
FIXED = [name for name in MODELS if "Logistic" in name or "KNN" in name]


def one_by_one(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """The share of right predictions; none before the first label is wrong."""
    right = 0
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(enumerate(row))
        right += model.predict_one(x) == label
        model.learn_one(x, label)
    return right / len(y)


def ring(X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Five learners, each with a fifth of the rows."""
    T = len(y) // LEARNERS
    Xs = X[: T * LEARNERS].reshape(T, LEARNERS, -1).swapaxes(0, 1)
    ys = y[: T * LEARNERS].reshape(T, LEARNERS).T
    model = domkl.Auto(loss="logistic", seed=seed)
    run = domkl.simulate(Xs, ys, "ring", model=model, dtype=np.float32)
    return float(np.mean(run.y_hat * (2 * ys - 1) > 0))


def measure(seeds: int, kept: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each stream, learner and seed that is not there yet."""
    known = {(row["stream"], row["learner"], row["seed"]) for row in kept}
    for stream, load in STREAMS.items():
        X, y = load()
        for name in [*MODELS, RING]:
            for seed in range(1 if name in FIXED else seeds):
                if (stream, name, seed) in known:
                    continue
                began = time.process_time()
                found = ring(X, y, seed) if name == RING else one_by_one(MODELS[name](seed), X, y)
                used = 1e6 * (time.process_time() - began) / len(y)
                row = {"stream": stream, "rows": len(y), "inputs": X.shape[1], "learner": name, "seed": seed}
                yield {**row, "accuracy": found, "us_a_sample": round(used, 1)}


def table(rows: list[dict[str, Any]]) -> str:
    """Mean accuracy in percent, and the least and greatest of the seeds."""
    shown = [stream for stream in STREAMS if any(row["stream"] == stream for row in rows)]
    lines = ["| | " + " | ".join(shown) + " |", "|---|" + "---|" * len(shown)]
    for name in [*MODELS, RING]:
        cells = []
        for stream in shown:
            found = [100 * r["accuracy"] for r in rows if (r["stream"], r["learner"]) == (stream, name)]
            span = f" ({min(found):.1f} to {max(found):.1f})" if len(found) > 1 else ""
            cells.append(f"{np.mean(found):.1f}{span}" if found else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy of classifiers on real streams.")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--anew", action="store_true", help="measure again what is there")
    parser.add_argument("--json", action="store_true", help="the rows as JSON instead of a table")
    args = parser.parse_args()
    rows = [] if args.anew or not RESULTS.exists() else json.loads(RESULTS.read_text())
    for row in measure(args.seeds, list(rows)):
        rows.append(row)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    print(json.dumps(rows) if args.json else table(rows))


if __name__ == "__main__":
    main()

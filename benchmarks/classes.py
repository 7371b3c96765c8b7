"""How often domkl is right about several classes, beside River's forest and boosting that is fitted again.

    python benchmarks/classes.py                     what is measured already is kept
    python benchmarks/classes.py --again --seeds 3 --json

Covertype (seven classes) and a made stream that drifts (four) lie in DOMKL_DATA/streams, in their own order;
the ten digits are scikit-learn's, in an order that a seed draws. Every sample is predicted, then learnt, and
accuracy counts all of them; the first rows of a stream are used. LightGBM is fitted again on all samples so
far after 250 of them, then after each 500, and predicts until the next time: nothing before the first. In the
ring of five, row t goes to learner t mod 5. The ring's devices are compared with it, to the last bit.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from river import forest
from sklearn.datasets import load_digits

import domkl
from domkl.river import MultiKernelClassifier

RESULTS = Path(__file__).parent / "results" / "classes.json"
ROWS, LEARNERS, FIRST, EVERY, SIZE = 20_000, 5, 250, 500, 1000
Stream = tuple[np.ndarray, np.ndarray]


def digits(seed: int) -> Stream:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]


def stored(name: str) -> Callable[[int], Stream]:
    def load(seed: int) -> Stream:
        found = np.load(Path(os.environ["DOMKL_DATA"]) / "streams" / f"{name}.npz")
        return found["X"][:ROWS].astype(float), np.unique(found["y"][:ROWS], return_inverse=True)[1]

    return load


STREAMS = {
    "digits": digits,
    "covertype": stored("covertype"),
    "RandomRBFDrift": stored("synth_RandomRBFDrift"),
}


def one_by_one(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """The share of right predictions."""
    right = 0
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(enumerate(row))
        right += model.predict_one(x) == label
        model.learn_one(x, label)
    return right / len(y)


def arf(X: np.ndarray, y: np.ndarray, seed: int) -> float:
    return one_by_one(forest.ARFClassifier(seed=seed), X, y)


def device(X: np.ndarray, y: np.ndarray, seed: int) -> float:
    return one_by_one(MultiKernelClassifier(domkl.Auto(size=SIZE, seed=seed)), X, y)


def boosted(X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """LightGBM, fitted again on all samples so far."""
    right = 0
    for start in [FIRST, *range(EVERY, len(y), EVERY)]:
        until = EVERY if start < EVERY else start + EVERY
        model = lightgbm.LGBMClassifier(n_jobs=1, random_state=seed, verbose=-1)
        model.fit(X[:start], y[:start])
        right += int((np.asarray(model.predict(X[start:until])) == y[start:until]).sum())
    return right / len(y)


def ring(X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Five learners, each with a fifth of the rows; the first rounds are those of five devices."""
    T, model = len(y) // LEARNERS, domkl.Auto(size=SIZE, loss="classes", seed=seed)
    Xs = X[: T * LEARNERS].reshape(T, LEARNERS, -1).swapaxes(0, 1)
    ys = y[: T * LEARNERS].reshape(T, LEARNERS).T
    run = domkl.simulate(Xs, ys, "ring", model=model)
    near, k = domkl.graph.as_graph("ring", LEARNERS).neighbours, int(y.max()) + 1
    devices = [domkl.Learner(model, near[j], name=j, inputs=X.shape[1], targets=k) for j in range(LEARNERS)]
    for t in range(100):
        updates = [one.observe(Xs[j, t], ys[j, t]) for j, one in enumerate(devices)]
        assert np.array_equal([one.step.y_hat for one in devices], run.y_hat[:, t])
        for j, one in enumerate(devices):
            for i in near[j]:
                one.receive(i, updates[i])
    return float((run.y_hat.argmax(-1) == ys).mean())


MODELS: dict[str, Callable[[np.ndarray, np.ndarray, int], float]] = {
    "River ARFClassifier": arf,
    "LightGBM, fitted again": boosted,
    "domkl, one device": device,
    "domkl, ring of five": ring,
}


def measure(seeds: int, kept: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each stream, learner and seed that is not there yet."""
    known = {(row["stream"], row["learner"], row["seed"]) for row in kept}
    for seed in range(seeds):
        for stream, load in STREAMS.items():
            X, y = load(seed)
            for name, accuracy in MODELS.items():
                if (stream, name, seed) not in known:
                    began = time.process_time()
                    row = {"stream": stream, "rows": len(y), "learner": name, "seed": seed}
                    row["accuracy"] = accuracy(X, y, seed)
                    yield {**row, "us_a_sample": round(1e6 * (time.process_time() - began) / len(y))}


def table(rows: list[dict[str, Any]]) -> str:
    """Mean accuracy in percent."""
    lines = ["| | " + " | ".join(STREAMS) + " |", "|---|" + "---|" * len(STREAMS)]
    for name in MODELS:
        found = [[r["accuracy"] for r in rows if (r["stream"], r["learner"]) == (s, name)] for s in STREAMS]
        lines.append(
            f"| {name} | " + " | ".join(f"{100 * np.mean(f):.1f}" if f else "" for f in found) + " |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy with several classes.")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="measure again what is there")
    parser.add_argument("--json", action="store_true", help="the rows as JSON instead of a table")
    args = parser.parse_args()
    rows = [] if args.again or not RESULTS.exists() else json.loads(RESULTS.read_text())
    for row in measure(args.seeds, list(rows)):
        rows.append(row)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    print(json.dumps(rows) if args.json else table(rows))


if __name__ == "__main__":
    main()

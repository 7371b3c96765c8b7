"""What labels that are wrong do to `domkl.Auto`, with `outliers="keep"` (before) and "bound" (after).

    python benchmarks/outliers.py --seeds 10           all cases; what was measured is kept
    python benchmarks/outliers.py --only one           one kind of case

Every error is over true labels, as a ratio to the same learner on the same stream without the wrong ones.
One label: over the next 100 rounds, at the learner that got it and at all five of the ring. A twentieth of
all labels: from round 100 on. A change of unit: the learner itself from 300 rounds after it, and the others
from the change on; the second figure is the learner itself over one that starts alone at the change: it has
seen as much of the new unit. Streams that are clean: "bound" over "keep".
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import accuracy
import networkx as nx
import numpy as np

import domkl
from domkl import datasets

RESULTS = Path(__file__).parent / "results" / "outliers.json"
SIZE, ROUNDS, AFTER = 200, 800, 100
STREAMS = ("made", "weather", "air", "stations")
#: Rounds in which one label is wrong: while labels are few, in the warm-up, and after it.
MOMENTS = (3, 8, 60, 600)
RANGES = (1e2, 1e6, 1e12)
WAYS = {"before": "keep", "after": "bound"}


def stream(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """X (J, T, d), y (J, T) of five learners, or of three stations."""
    if name == "made":
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(5, ROUNDS, 4))
        y = np.sin(6 * X[..., 0]) + X[..., 1] * X[..., 2] + 0.1 * rng.standard_normal(X.shape[:2])
    elif name == "rain":  # a target that is 0 but for events, whose height the inputs tell
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(5, ROUNDS, 4))
        falls = X[..., 0] > 0.9
        y = np.where(falls, 3 + 5 * X[..., 1], 0) + 0.05 * rng.standard_normal(X.shape[:2])
    elif name == "stations":
        split = datasets.load_stations()
        begin = 570 * (seed % 10)
        X, y = split.X[:, begin:], split.y[:, begin:]
    else:
        X, y = accuracy.streams(name, 5, seed)
    return X[:, :ROUNDS], y[:, :ROUNDS]


def predict(X: np.ndarray, y: np.ndarray, seed: int, outliers: str, graph: str | None = "ring") -> np.ndarray:
    model = domkl.Auto(size=SIZE, seed=seed, start=float(np.median(y)), outliers=outliers)
    with np.errstate(all="ignore"):
        linked = nx.empty_graph(len(y)) if graph is None else graph
        return domkl.simulate(X[:, : y.shape[1]], y, linked, model=model).y_hat


class Case:
    """A stream, and its clean run by either way."""

    def __init__(self, name: str, seed: int) -> None:
        self.X, self.y = stream(name, seed)
        self.seed, self.width = seed, float(np.ptp(self.y))
        self.clean = {way: self.errors(self.y, way) for way in WAYS}  # both: the cost is a ratio of them

    def errors(self, y: np.ndarray, way: str) -> np.ndarray:
        """Squared errors over the true labels (J, T) of a run that is given y."""
        return (predict(self.X, y, self.seed, WAYS[way]) - self.y[:, : y.shape[1]]) ** 2

    def one(self, way: str) -> dict[str, object]:
        """One wrong label at learner 0."""
        found: dict[str, object] = {}
        for at in MOMENTS:
            for size in RANGES:
                y = self.y[:, : at + 1 + AFTER].copy()
                y[0, at] += size * self.width
                part = slice(at + 1, at + 1 + AFTER)
                wrong, right = self.errors(y, way)[:, part], self.clean[way][:, part]
                found[f"{at} {size:g}"] = [ratio(wrong[0], right[0]), ratio(wrong, right)]
        return found

    def many(self, way: str) -> dict[str, object]:
        """A twentieth of all labels is wrong: by 1 to 100 ranges, or by 10 to 1e6."""
        rng, found = np.random.default_rng(self.seed), {}
        wrong = rng.random(self.y.shape) < 0.05
        signs, uniform = rng.choice([-1, 1], self.y.shape), rng.random(self.y.shape)
        for name, (low, high) in {"1 to 100": (0, 2), "10 to 1e6": (1, 6), "up 3": (0.5, 0.5)}.items():
            by = self.width * 10 ** (low + (high - low) * uniform)
            y = self.y + wrong * by * (np.abs(signs) if name == "up 3" else signs)
            found[name] = ratio(self.errors(y, way)[:, AFTER:], self.clean[way][:, AFTER:])
        return found

    def unit(self, way: str) -> dict[str, object]:
        """Learner 0 sends its labels in another unit from the middle on."""
        half, found = ROUNDS // 2, {}
        for name, (a, b) in {"x 1000": (0, 1000), "F to C": (-self.width / 4, 5 / 9)}.items():
            y = self.y.copy()
            y[0, half:] = a + b * y[0, half:]
            errors = (predict(self.X, y, self.seed, WAYS[way]) - y) ** 2
            late, clean = slice(half + 300, None), self.clean[way]
            fresh = (predict(self.X[:1, half:], y[:1, half:], self.seed, WAYS[way], None) - y[:1, half:]) ** 2
            found[name] = [
                ratio(errors[0, late], clean[0, late] * b**2),
                ratio(errors[0, late], fresh[0, 300:]),
                ratio(errors[1:, half:], clean[1:, half:]),
            ]
        return found

    def cost(self, way: str) -> dict[str, object]:
        """Nothing is wrong: the error of this way over that of the other."""
        return {"ratio": ratio(self.clean[way][:, 1:], self.clean["before"][:, 1:])}


def ratio(wrong: np.ndarray, right: np.ndarray) -> float:
    return float(f"{wrong.mean() / right.mean():.4g}")


KINDS: dict[str, Callable[[Case, str], dict[str, object]]] = {
    "cost": Case.cost,
    "one": Case.one,
    "many": Case.many,
    "unit": Case.unit,
}


def summary(kept: dict) -> dict[str, object]:
    """Of each kind, stream and way: the mean over seeds of every figure."""
    out: dict[str, object] = {}
    for key, seeds in kept.items():
        rows = list(seeds.values())
        out[key] = {name: np.mean([row[name] for row in rows], axis=0).round(4).tolist() for name in rows[0]}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of cases, separated by commas")
    parser.add_argument("--streams", default=",".join([*STREAMS, "rain"]))
    parser.add_argument("--ways", default=",".join(WAYS))
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text())["seeds"] if RESULTS.exists() else {}
    for seed in range(args.seeds):
        for name in args.streams.split(","):
            case = None
            for kind in args.only.split(","):
                for way in args.ways.split(","):
                    rows = kept.setdefault(f"{kind} {name} {way}", {})
                    if str(seed) not in rows:
                        case = case or Case(name, seed)
                        rows[str(seed)] = KINDS[kind](case, way)
            RESULTS.write_text(json.dumps({"summary": summary(kept), "seeds": kept}, indent=0) + "\n")
            print(name, seed, "done", file=sys.stderr, flush=True)
    for key, found in summary(kept).items():
        print(key, found)


if __name__ == "__main__":
    main()

"""What labels that are wrong, or in another unit, do to `domkl.Auto`.

    python benchmarks/outliers.py --seeds 10                what is not kept yet, in results/outliers.json
    python benchmarks/outliers.py --streams air --seeds 3   one stream

Five learners on a ring (three stations), 800 rounds, size 200. Every figure is a mean squared error over true
labels as a ratio to the same learners on the same stream with nothing wrong.

one     one wrong label at learner 0, off by 100 or 1e6 ranges, in round 3, 8, 60 or 600: over the next
        100 rounds, at that learner and over all; the bar is 1.05
many    5 % of all labels wrong, by 1 to 100 ranges, by 10 to 1e6, or all upwards by 3: from round 100 on; the
        bar is 1.2; "keep" is the same without the guard
unit    learner 0 sends labels in another unit from round 400 on: itself from 300 rounds later, in the new
        unit (1.3), over a learner that starts alone at the change, and its neighbours from the change on
        (1.02)
cost    nothing wrong: with the guard over without
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import accuracy
import networkx as nx
import numpy as np

import domkl
from domkl import datasets

RESULTS = Path(__file__).parent / "results" / "outliers.json"
STREAMS = ("made", "air", "stations")
SIZE, ROUNDS, AFTER = 200, 800, 100
MOMENTS, RANGES = (3, 8, 60, 600), (1e2, 1e6)
MANY = {"1 to 100": (0, 2), "10 to 1e6": (1, 6), "up 3": (0.5, 0.5)}  # powers of ten of the range
UNITS = {"x 1000": (0, 1000), "F to C": (-1 / 4, 5 / 9)}  # a, in ranges, and b of a + b y


def stream(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """X (J, T, d), y (J, T) of five learners, or of three stations."""
    if name == "made":
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(5, ROUNDS, 4))
        y = np.sin(6 * X[..., 0]) + X[..., 1] * X[..., 2] + 0.1 * rng.standard_normal(X.shape[:2])
    elif name == "stations":
        split = datasets.load_stations()
        X, y = (values[:, 570 * (seed % 10) :] for values in (split.X, split.y))
    else:
        X, y = accuracy.streams(name, 5, seed)
    return X[:, :ROUNDS], y[:, :ROUNDS]


class Case:
    """A stream, and its clean run."""

    def __init__(self, name: str, seed: int) -> None:
        self.X, self.y = stream(name, seed)
        self.seed, self.width, self.start = seed, float(np.ptp(self.y)), float(np.median(self.y))
        self.clean = self.errors(self.y)

    def errors(self, given: np.ndarray, true: np.ndarray | None = None, way: str = "bound") -> np.ndarray:
        """Squared errors (J, T) over true labels of a run that is given others."""
        X, true = self.X[:, : given.shape[1]], self.y[:, : given.shape[1]] if true is None else true
        model = domkl.Auto(size=SIZE, seed=self.seed, start=self.start, outliers=way)
        with np.errstate(all="ignore"):
            return (domkl.simulate(X, given, "ring", model=model).y_hat - true) ** 2

    def one(self) -> dict[str, list[float]]:
        """At the learner with the wrong label, and over all."""
        found = {}
        for at in MOMENTS:
            part = slice(at + 1, at + 1 + AFTER)
            for size in RANGES:
                y = self.y[:, : part.stop].copy()
                y[0, at] += size * self.width
                wrong, right = self.errors(y)[:, part], self.clean[:, part]
                found[f"{at} {size:g}"] = [ratio(wrong[0], right[0]), ratio(wrong, right)]
        return found

    def many(self) -> dict[str, list[float]]:
        """With the guard, and without."""
        rng, found = np.random.default_rng(self.seed), {}
        is_wrong = rng.random(self.y.shape) < 0.05
        signs, uniform = rng.choice([-1, 1], self.y.shape), rng.random(self.y.shape)
        for name, (low, high) in MANY.items():
            by = self.width * 10 ** (low + (high - low) * uniform)
            y = self.y + is_wrong * by * (1 if name == "up 3" else signs)
            runs = [self.errors(y, way=way)[:, AFTER:] for way in ("bound", "keep")]
            found[name] = [ratio(run, self.clean[:, AFTER:]) for run in runs]
        return found

    def unit(self) -> dict[str, list[float]]:
        """Itself over the clean run, itself over one that starts alone, its neighbours over the clean run."""
        half, found = ROUNDS // 2, {}
        late = slice(half + 300, None)
        for name, (a, b) in UNITS.items():
            y = self.y.copy()
            y[0, half:] = a * self.width + b * y[0, half:]
            errors = self.errors(y, y)
            model = domkl.Auto(size=SIZE, seed=self.seed, start=self.start)
            alone = domkl.simulate(self.X[:1, half:], y[:1, half:], nx.empty_graph(1), model=model)
            fresh = (alone.y_hat - y[:1, half:]) ** 2
            found[name] = [
                ratio(errors[0, late], self.clean[0, late] * b**2),
                ratio(errors[0, late], fresh[0, 300:]),
                ratio(errors[1:, half:], self.clean[1:, half:]),
            ]
        return found

    def cost(self) -> dict[str, list[float]]:
        """Clean, with the guard over without."""
        return {"clean": [ratio(self.clean[:, 1:], self.errors(self.y, way="keep")[:, 1:])]}


def ratio(wrong: np.ndarray, right: np.ndarray) -> float:
    return float(f"{wrong.mean() / right.mean():.4g}")


KINDS = {"one": Case.one, "many": Case.many, "unit": Case.unit, "cost": Case.cost}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--streams", default=",".join(STREAMS))
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed in range(args.seeds):
        for name in args.streams.split(","):
            case = None
            for kind, measure in KINDS.items():
                rows = kept.setdefault(kind, {}).setdefault(name, {})
                if str(seed) not in rows:
                    case = case or Case(name, seed)
                    rows[str(seed)] = measure(case)
                    RESULTS.write_text(json.dumps(kept) + "\n")
                    print(kind, name, seed, rows[str(seed)], flush=True)


if __name__ == "__main__":
    main()

"""What labels that are wrong, or in another unit, do to `domkl.Auto`.

    python benchmarks/outliers.py --seeds 10                what is not kept yet, in results/outliers.json
    python benchmarks/outliers.py --streams air --seeds 3   one stream

Column "before" is of commit c3137ce, "now" (the default) of what is installed.

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
from domkl.exchange.graph import Graph

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
    """A stream, and runs of it with other labels: those of one length are parts of one simulation."""

    def __init__(self, name: str, seed: int) -> None:
        self.X, self.y = stream(name, seed)
        self.seed, self.width, self.start = seed, float(np.ptp(self.y)), float(np.median(self.y))

    def errors(self, given: list[np.ndarray], true: list[np.ndarray], way: str = "bound") -> list[np.ndarray]:
        """Squared errors (J, T) over true labels, of a ring for each of the labels that are given."""
        J, T = given[0].shape
        model = domkl.Auto(size=SIZE, seed=self.seed, start=self.start, outliers=way)
        near = [sorted({(j - 1) % J, (j + 1) % J}) for j in range(J)]
        rings = [tuple(i + J * k for i in others) for k in range(len(given)) for others in near]
        graph = Graph(tuple(range(J)) * len(given), tuple(rings))
        with np.errstate(all="ignore"):
            X = np.concatenate([self.X[:, :T]] * len(given))
            run = domkl.simulate(X, np.concatenate(given), graph, model=model)
        return [(f - y) ** 2 for f, y in zip(np.split(run.y_hat, len(given)), true, strict=True)]

    def measure(self) -> dict[str, dict[str, list[float]]]:
        """All kinds of cases."""
        early, late = ([m for m in MOMENTS if (m < ROUNDS // 2) is is_early] for is_early in (True, False))
        end = early[-1] + 1 + AFTER
        ones, many, unit = self.one(late), self.many(), self.unit()
        labels = [self.y, *ones.values(), *many.values(), *unit.values()]
        clean, *found = self.errors(labels, [self.y] * (len(labels) - len(unit)) + [*unit.values()])
        keep = self.errors([self.y, *many.values()], [self.y] * (1 + len(many)), "keep")
        firsts = {name: y[:, :end] for name, y in self.one(early).items()}
        begun = self.errors([*firsts.values()], [self.y[:, :end]] * len(firsts))
        n, k = len(ones), len(ones) + len(many)
        return {
            "one": self.after_one(dict(zip([*firsts, *ones], [*begun, *found[:n]], strict=True)), clean),
            "many": {
                name: [ratio(e[:, AFTER:], clean[:, AFTER:]) for e in both]
                for name, *both in zip(many, found[n:k], keep[1:], strict=True)
            },
            "unit": self.after_unit(dict(zip(unit, found[k:], strict=True)), clean, unit),
            "cost": {"clean": [ratio(clean[:, 1:], keep[0][:, 1:])]},
        }

    def one(self, moments: list[int]) -> dict[str, np.ndarray]:
        """Labels with one that is wrong at learner 0."""
        found = {f"{at} {size:g}": self.y.copy() for at in moments for size in RANGES}
        for name, y in found.items():
            at, size = name.split()
            y[0, int(at)] += float(size) * self.width
        return found

    def after_one(self, runs: dict[str, np.ndarray], clean: np.ndarray) -> dict[str, list[float]]:
        """At the learner with the wrong label, and over all."""
        found = {}
        for name, errors in runs.items():
            at = int(name.split()[0]) + 1
            wrong, right = errors[:, at : at + AFTER], clean[:, at : at + AFTER]
            found[name] = [ratio(wrong[0], right[0]), ratio(wrong, right)]
        return found

    def many(self) -> dict[str, np.ndarray]:
        """Labels of which 5 % are wrong."""
        rng, found = np.random.default_rng(self.seed), {}
        is_wrong = rng.random(self.y.shape) < 0.05
        signs, uniform = rng.choice([-1, 1], self.y.shape), rng.random(self.y.shape)
        for name, (low, high) in MANY.items():
            by = self.width * 10 ** (low + (high - low) * uniform)
            found[name] = self.y + is_wrong * by * (1 if name == "up 3" else signs)
        return found

    def unit(self) -> dict[str, np.ndarray]:
        """Labels of which those of learner 0 have another unit from the middle on."""
        found = {name: self.y.copy() for name in UNITS}
        for (a, b), y in zip(UNITS.values(), found.values(), strict=True):
            y[0, ROUNDS // 2 :] = a * self.width + b * y[0, ROUNDS // 2 :]
        return found

    def after_unit(
        self, runs: dict[str, np.ndarray], clean: np.ndarray, labels: dict[str, np.ndarray]
    ) -> dict[str, list[float]]:
        """Itself over the clean run, itself over one that starts alone, its neighbours over the clean run."""
        half, found = ROUNDS // 2, {}
        late = slice(half + 300, None)
        model = domkl.Auto(size=SIZE, seed=self.seed, start=self.start)
        for name, errors in runs.items():
            y = labels[name][:1, half:]
            fresh = (domkl.simulate(self.X[:1, half:], y, nx.empty_graph(1), model=model).y_hat - y) ** 2
            found[name] = [
                ratio(errors[0, late], clean[0, late] * UNITS[name][1] ** 2),
                ratio(errors[0, late], fresh[0, 300:]),
                ratio(errors[1:, half:], clean[1:, half:]),
            ]
        return found


def ratio(wrong: np.ndarray, right: np.ndarray) -> float:
    return float(f"{wrong.mean() / right.mean():.4g}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--column", default="now")
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    column = kept.setdefault(args.column, {})
    for seed in range(args.seeds):
        for name in args.streams.split(","):
            if str(seed) not in column.get("one", {}).get(name, {}):
                for kind, found in Case(name, seed).measure().items():
                    column.setdefault(kind, {}).setdefault(name, {})[str(seed)] = found
                    print(kind, name, seed, found, flush=True)
                RESULTS.write_text(json.dumps(kept) + "\n")


if __name__ == "__main__":
    main()

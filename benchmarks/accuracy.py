"""How accurate `domkl.Auto` is: learners in a network, alone, and one that sees all the data.

    python benchmarks/accuracy.py --seeds 10           five learners on a ring; then the comparisons
    python benchmarks/accuracy.py --seeds 3 --json     the kept results, as JSON, on standard output too

Comparisons: the same five learners alone, and one that sees all (`--other-seeds`); twenty learners on four
graphs (`--twenty-seeds`). Learners watch for changes, as they do by default. What was measured is kept.

Inputs are raw; targets are min-max scaled, so that figures compare with others'. A seed shuffles the rows
(series: not at all) and draws the frequencies. All prediction errors are prequential, MSE x 1e-2. What is
predicted before the first label costs a known amount: figures are given for several values between 0 and the
middle of the targets' range.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import networkx as nx
import numpy as np

import domkl
from domkl import datasets

RESULTS = Path(__file__).parent / "results" / "accuracy.json"
#: Name, division of the rows, what the project wants to reach.
SETS = {
    "weather": ("random", 0.25),
    "conductivity": ("random", 1.60),
    "air": ("random", 0.125),
    "traffic/5": ("blocks", 0.65),
    "temperature/5": ("blocks", 0.050),
}
STARTS = {"0": 0.0, "1/4": 0.25, "1/3": 1 / 3, "1/2": 0.5}
TWENTY = {
    "ring": nx.cycle_graph(20),
    "4-regular": nx.random_regular_graph(4, 20, seed=1),
    "complete": nx.complete_graph(20),
    "star": nx.star_graph(19),
}


def errors(X: np.ndarray, y: np.ndarray, graph: object, seed: int) -> tuple[np.ndarray, float, float]:
    """Squared errors (J, T), x 100, parameters sent a round and neighbour, and mean consensus violation."""
    run = domkl.simulate(X, y, graph, model=domkl.Auto(seed=seed, start=0.5), dtype=np.float32)
    return 100 * (run.y_hat - y) ** 2, run.sent, float(run.cv.mean())


def alone(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    one = nx.empty_graph(1)
    return np.concatenate([errors(X[[j]], y[[j]], one, seed)[0] for j in range(len(y))])


def sees_all(X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """One learner that gets every round's samples one after the other."""
    J, T, d = X.shape
    flat = X.transpose(1, 0, 2).reshape(1, T * J, d), y.T.reshape(1, T * J)
    return errors(*flat, nx.empty_graph(1), seed)[0].reshape(T, J).T


def with_starts(found: np.ndarray, y: np.ndarray, first: int) -> dict[str, float]:
    """The mean error had the first label been met with another prediction; `first` learners met it."""
    rest = found.sum() - found[:first, 0].sum()
    return {n: float((rest + 100 * ((y[:first, 0] - s) ** 2).sum()) / y.size) for n, s in STARTS.items()}


def five(name: str, seed: int) -> dict[str, object]:
    """Five learners on a ring."""
    X, y = streams(name, 5, seed)
    began = time.process_time()
    ring, sent, cv = errors(X, y, "ring", seed)
    seconds = time.process_time() - began
    return {"ring": with_starts(ring, y, 5), "sent": sent, "cv": cv, "milliseconds": 1e3 * seconds / y.size}


def other(name: str, seed: int) -> dict[str, object]:
    """The same five alone, and one learner that sees all."""
    X, y = streams(name, 5, seed)
    return {
        "alone": with_starts(alone(X, y, seed), y, 5),
        "sees_all": with_starts(sees_all(X, y, seed), y, 1),
    }


def twenty(name: str, seed: int) -> dict[str, object]:
    """Twenty learners on each graph, alone, and one that sees all: with the first round (start 1/3), without.

    The one that sees all meets one label unprepared, a network twenty: hence both figures.
    """
    X, y = streams(name, 20, seed)
    found = {"sees_all": sees_all(X, y, seed), "alone": alone(X, y, seed)}
    found |= {graph: errors(X, y, links, seed)[0] for graph, links in TWENTY.items()}
    return {
        key: {
            "all": with_starts(e, y, 1 if key == "sees_all" else 20)["1/3"],
            "later": float(e[:, 1:].mean()),
        }
        for key, e in found.items()
    }


def streams(name: str, J: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    part = datasets.load(name, x_scale="none", y_scale="minmax").split(J, SETS[name][0], seed)
    return part.X, part.y


def show(rows: dict[str, dict[str, dict[str, float]]], key: str) -> str:
    """Mean and spread over seeds, for each start."""
    values = {start: [row[key][start] for row in rows.values()] for start in STARTS}
    return ", ".join(f"start {s}: {np.mean(v):.4f} ± {np.std(v):.4f}" for s, v in values.items())


def ratios(rows: dict[str, dict[str, dict[str, float]]], part: str) -> str:
    """Mean error as a multiple of that of the learner that sees all."""
    central = np.mean([row["sees_all"][part] for row in rows.values()])
    means = {k: np.mean([row[k][part] for row in rows.values()]) for k in ("alone", *TWENTY)}
    return f"sees all {central:.4f}; times that: " + ", ".join(
        f"{k} {v / central:.2f}" for k, v in means.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--other-seeds", type=int, default=1, help="seeds of the learners alone and of one")
    parser.add_argument("--twenty-seeds", type=int, default=1, help="seeds of the table with 20 learners")
    parser.add_argument("--sets", default=",".join(SETS), help="names, separated by commas")
    parser.add_argument("--json", action="store_true", help="print the results as JSON too")
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    plan = (
        ("five", five, args.seeds),
        ("other", other, args.other_seeds),
        ("twenty", twenty, args.twenty_seeds),
    )
    for kind, measure, seeds in plan:
        for seed in range(seeds):
            for name in args.sets.split(","):
                rows = kept.setdefault(kind, {}).setdefault(name, {})
                if str(seed) not in rows:
                    rows[str(seed)] = measure(name, seed)
                    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
                    print(kind, name, seed, rows[str(seed)], file=sys.stderr, flush=True)
    for name, rows in kept.get("five", {}).items():
        sent = np.mean([row["sent"] for row in rows.values()])
        reach = f"to reach {SETS[name][1]}, sent {sent:.0f}"
        print(f"{name:14} ring, {len(rows)} seeds, {reach}: {show(rows, 'ring')}")
    for name, rows in kept.get("other", {}).items():
        for key in ("alone", "sees_all"):
            print(f"{name:14} {key}, {len(rows)} seeds: {show(rows, key)}")
    for name, rows in kept.get("twenty", {}).items():
        for part in ("all", "later"):
            print(f"{name:14} 20 learners, {len(rows)} seeds, {part} rounds: {ratios(rows, part)}")
    if args.json:
        json.dump(kept, sys.stdout)


if __name__ == "__main__":
    main()

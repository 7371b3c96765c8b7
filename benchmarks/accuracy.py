"""How accurate preset="auto" is: learners in a network, alone, and one that sees all the data.

    python benchmarks/accuracy.py --seeds 10           five learners on a ring, then twenty on four graphs
    python benchmarks/accuracy.py --seeds 3 --json     the kept results, as JSON, on standard output too

Inputs are raw; targets are min-max scaled, so that figures compare with others'. A seed shuffles the rows
(series: not at all) and draws the frequencies. All prediction errors are prequential, MSE x 1e-2. What is
predicted before the first label costs a known amount: figures are given for 0, 1/3 and 1/2, and the tables
use 1/2, the middle of the targets' range.
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
STARTS = {"0": 0.0, "1/3": 1 / 3, "1/2": 0.5}
TWENTY = {
    "ring": nx.cycle_graph(20),
    "4-regular": nx.random_regular_graph(4, 20, seed=1),
    "complete": nx.complete_graph(20),
    "star": nx.star_graph(19),
}


def errors(X: np.ndarray, y: np.ndarray, graph: object, seed: int) -> tuple[np.ndarray, float, float]:
    """Squared errors (J, T), x 100, numbers sent a round and neighbour, and mean consensus violation."""
    run = domkl.simulate(X, y, graph, preset="auto", seed=seed, start=0.5, dtype=np.float32)
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
    """Five learners on a ring, alone, and one that sees all."""
    X, y = streams(name, 5, seed)
    began = time.process_time()
    ring, sent, cv = errors(X, y, "ring", seed)
    seconds = time.process_time() - began
    return {
        "ring": with_starts(ring, y, 5),
        "alone": with_starts(alone(X, y, seed), y, 5),
        "sees_all": with_starts(sees_all(X, y, seed), y, 1),
        "sent": sent,
        "cv": cv,
        "milliseconds": 1e3 * seconds / y.size,
    }


def twenty(name: str, seed: int) -> dict[str, object]:
    """Twenty learners on each graph against one that sees all: errors from the second round on."""
    X, y = streams(name, 20, seed)
    central = sees_all(X, y, seed)[:, 1:].mean()
    row: dict[str, object] = {"sees_all": float(central), "alone": float(alone(X, y, seed)[:, 1:].mean())}
    for graph, links in TWENTY.items():
        row[graph] = float(errors(X, y, links, seed)[0][:, 1:].mean())
    return row


def streams(name: str, J: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    part = datasets.load(name, x_scale="none", y_scale="minmax").split(J, SETS[name][0], seed)
    return part.X, part.y


def summary(rows: list[dict[str, object]]) -> str:
    """Mean and spread over seeds, in one line."""

    def show(key: str, start: str = "1/2") -> str:
        values = [row[key][start] for row in rows]  # type: ignore[index]
        return f"{np.mean(values):.4f} ± {np.std(values):.4f}"

    sent = np.mean([row["sent"] for row in rows])
    starts = ", ".join(f"start {s}: {show('ring', s)}" for s in ("0", "1/3"))
    return f"ring {show('ring')} ({starts}); alone {show('alone')}; all {show('sees_all')}; sent {sent:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--twenty-seeds", type=int, default=1, help="seeds of the table with 20 learners")
    parser.add_argument("--sets", default=",".join(SETS), help="names, separated by commas")
    parser.add_argument("--json", action="store_true", help="print the results as JSON too")
    args = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"five": {}, "twenty": {}}
    for kind, measure, seeds in (("five", five, args.seeds), ("twenty", twenty, args.twenty_seeds)):
        for seed in range(seeds):
            for name in args.sets.split(","):
                rows = kept[kind].setdefault(name, {})
                if str(seed) not in rows:
                    rows[str(seed)] = measure(name, seed)
                    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
                    print(kind, name, seed, rows[str(seed)], file=sys.stderr, flush=True)
    for name, rows in kept["five"].items():
        print(f"{name:14} {len(rows)} seeds, to reach {SETS[name][1]}: {summary(list(rows.values()))}")
    for name, rows in kept["twenty"].items():
        means = {k: np.mean([row[k] for row in rows.values()]) for k in ("alone", *TWENTY)}
        central = np.mean([row["sees_all"] for row in rows.values()])
        ratios = ", ".join(f"{k} {v / central:.2f}" for k, v in means.items())
        print(f"{name:14} 20 learners, {len(rows)} seeds, sees all {central:.4f}; times that: {ratios}")
    if args.json:
        json.dump(kept, sys.stdout)


if __name__ == "__main__":
    main()

"""A device that joins a network which has learnt for 2000 rounds: its first 100 samples.

    python benchmarks/latecomer.py                     what is not kept yet
    python benchmarks/latecomer.py --only made         only the cases whose names contain this
    python benchmarks/latecomer.py --column before     in a column of its own

Devices (`domkl.Learner`) on a ring; the last one joins between two of the others, which know of it one
round earlier and whose last updates it has when it starts, as an agent has. Kept are its mean squared error
over its first 100 samples, that of its two neighbours who predict the same samples, both over the targets'
variance, and "over", the first over the second; the aim is 1.1. "later" is the same without its first five.
Streams: Conductivity dealt out to five (DOMKL_DATA names the directory), a made function with a quarter of
its own for each (`together.made`), the shipped stations 6 hours ahead. 400 parameters, float32.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import together

import domkl

RESULTS = Path(__file__).parent / "results" / "latecomer.json"
JOINS, FIRST, SIZE, SEEDS = 2000, 100, 400, 10


def learners(graph: nx.Graph, start: float, d: int) -> list[domkl.Learner]:
    """A device for each node."""
    model, how = domkl.Auto(size=SIZE, start=start), {"inputs": d, "dtype": np.float32}
    return [domkl.Learner(model, sorted(graph[j]), name=j, **how) for j in sorted(graph)]


def go_round(members: list[domkl.Learner], x: np.ndarray, y: np.ndarray) -> list[domkl.Update]:
    """One round of all of them; returns what they sent."""
    updates = [one.observe(x[j], y[j]) for j, one in enumerate(members)]
    for one in members:
        for i in one.neighbours:
            if i < len(members):
                one.receive(i, updates[i])
        if one.waiting:
            one.close()
    return updates


def joined(members: list[domkl.Learner], updates: list[domkl.Update], start: float, d: int) -> domkl.Learner:
    """One learner more, between the first and the last; it knows their last updates, as an agent would."""
    J = len(members)
    how = {"inputs": d, "dtype": np.float32, "number": 7}
    late = domkl.Learner(domkl.Auto(size=SIZE, start=start), [0, J - 1], name=J, **how)
    domkl.introduce([*members, late])
    late.adopt([updates[0], updates[-1]])
    late.skip_to(members[0].round)
    return late


def followed(case: together.Case) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors of the latecomer (T,) and of its two neighbours (T, 2) on its samples."""
    J, _, d = case.X.shape
    start, delay = float(case.y.mean()), case.delay
    ring = nx.cycle_graph(J - 1) if J > 3 else nx.path_graph(J - 1)
    members = learners(ring, start, d)
    domkl.introduce(members)
    updates: list[domkl.Update] = []
    for t in range(JOINS):
        if t == JOINS - 1:
            for one in (members[0], members[-1]):
                one.join(J - 1, number=7)
        updates = go_round(members, case.X[:, t], case.y[:, t])
    late = joined(members, updates, start, d)
    everybody, found = [*members, late], []
    for t in range(JOINS + delay, JOINS + delay + FIRST):
        x, y = case.X[-1, t], case.y[-1, t]
        found.append([(one.predict(x) - y) ** 2 for one in (late, members[0], members[-1])])
        go_round(everybody, case.X[:, t - delay], case.y[:, t - delay])
    errors = np.array(found)
    return errors[:, 0], errors[:, 1:]


def measured(case: together.Case) -> dict[str, float]:
    late, near = followed(case)
    var = case.y.var()
    found = {
        "latecomer": late.mean() / var,
        "neighbours": near.mean() / var,
        "over": late.mean() / near.mean(),
        "later": late[5:].mean() / near[5:].mean(),
    }
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def cases() -> Iterator[tuple[str, Callable[[], together.Case]]]:
    """Name and streams of every case."""
    for seed in range(SEEDS):
        yield f"conductivity seed {seed}", lambda seed=seed: together.dealt("conductivity", 5, seed)
        yield f"made a=0.25 seed {seed}", lambda seed=seed: together.made(0.25, seed, J=5, T=JOINS + FIRST)
    yield "stations 6 h", lambda: together.stations(6)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="measure what is kept, too")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--column", default="now", help="where to keep the figures")
    args = parser.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, make in cases():
        if args.only in name and (args.again or args.column not in kept.get(name, {})):
            row = kept.setdefault(name, {})
            row[args.column] = measured(make())
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
            print(name, args.column, row[args.column], flush=True)


if __name__ == "__main__":
    main()

"""Twenty learners of the default size on four graphs: what own samples, trust and bounded labels cost.

    python benchmarks/deals.py --jobs 2                   what is not kept yet, ten seeds
    python benchmarks/deals.py --only "air star"          only the cases whose names contain this
    python benchmarks/deals.py --column before            with an earlier version, beside the others

The five sets of accuracy.py, dealt out to twenty learners who all have one function to learn: there one
common function is right, and everything else a learner does can only cost. The column `before` is of the
version before learners had own samples (commit 405489a), run with that version installed. Mean squared errors
x 100 of all rounds; what is predicted before the first label is 1/3. float32.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import accuracy

RESULTS = Path(__file__).parent / "results" / "deals.json"
SEEDS = 10


def measured(name: str, graph: str, seed: int) -> float:
    """Mean squared error of one network."""
    X, y = accuracy.streams(name, 20, seed)
    found, _, _ = accuracy.errors(X, y, accuracy.TWENTY[graph], seed)
    return float(f"{accuracy.with_starts(found, y, 20)['1/3']:.6g}")


def cases(seeds: int) -> dict[str, tuple[str, str, int]]:
    """Set, graph and seed of every case, by name; the first seed first."""
    return {
        f"{name} {graph} seed {seed}": (name, graph, seed)
        for seed in range(seeds)
        for name in accuracy.SETS
        for graph in accuracy.TWENTY
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="measure what is kept, too")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--column", default="now", help="where to keep the figures")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of the deal and of the features")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    todo = {
        name: case
        for name, case in cases(args.seeds).items()
        if args.only in name and (args.again or args.column not in kept.get(name, {}))
    }
    with ProcessPoolExecutor(args.jobs) as pool:
        found = {pool.submit(measured, *case): name for name, case in todo.items()}
        for future in as_completed(found):
            kept.setdefault(found[future], {})[args.column] = future.result()
            print(found[future], args.column, future.result(), flush=True)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()

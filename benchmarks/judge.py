"""Twenty-three streams by which `Auto` is judged, together and without links, beside an earlier version.

    python benchmarks/judge.py                          measure this version; writes results/judge.json
    python benchmarks/judge.py --column before          the same with whatever domkl is installed here
    python benchmarks/judge.py --size 200,1700 --streams weather,bike1 --no-alone

Streams are read from prototype/streams.npz beside the folder of DOMKL_DATA. Errors are the mean squared error
over the variance of the targets, over all rounds but the first, and over the last half; size 400, float32.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

RESULTS = Path(__file__).parent / "results" / "judge.json"


class Case(NamedTuple):
    """Samples X (J, T, d), targets y (J, T), an adjacency, and the rounds after which a label is known."""

    X: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]
    A: np.ndarray[Any, Any]
    delay: int = 0


def streams_file() -> Path:
    """Where the streams are."""
    return Path(os.environ["DOMKL_DATA"]).parent / "prototype" / "streams.npz"


def names() -> list[str]:
    """All streams."""
    with np.load(streams_file()) as file:
        return list(dict.fromkeys(key.rsplit(".", 1)[0] for key in file.files))


def case(name: str) -> Case:
    """One stream."""
    with np.load(streams_file()) as file:
        X, y, A, delay = (file[f"{name}.{part}"] for part in ("X", "y", "A", "delay"))
    return Case(X, y, A.astype(float), int(delay))


def score(y_hat: np.ndarray[Any, Any], y: np.ndarray[Any, Any], first: int = 1) -> float:
    """Mean squared error over variance, from a round on."""
    return float(((y_hat - y)[:, first:] ** 2).mean() / y[:, first if first > 1 else 0 :].var())


def measure(name: str, seed: int, size: int, with_alone: bool = True) -> dict[str, float]:
    """Errors together and, if wanted, without links, and microseconds of a sample."""
    import domkl

    c, found = case(name), {}
    (J, T), half = c.y.shape, c.y.shape[1] // 2
    model = domkl.Auto(size=size, seed=seed, start=float(c.y[:, 0].mean()))
    links = [(j, i) for j in range(J) for i in range(j) if c.A[j, i]]
    began = time.process_time()
    run = domkl.simulate(c.X, c.y, c.A if links else "path", model=model, delay=c.delay, dtype=np.float32)
    found["us"] = 1e6 * (time.process_time() - began) / c.y.size
    y_hat = run.y_hat.reshape(c.y.shape)
    found |= {"together": score(y_hat, c.y), "late": score(y_hat, c.y, half)}
    first = (y_hat[:, 0] - c.y[:, 0]) ** 2  # of all alike
    found["apart"] = float((np.mean(run.alone) - first.mean() / T) * T / (T - 1) / c.y.var())
    if links and with_alone:
        lone = [
            domkl.simulate(c.X[[j]], c.y[[j]], "path", model=model, delay=c.delay, dtype=np.float32).y_hat
            for j in range(J)
        ]
        found["alone"] = score(np.concatenate(lone).reshape(c.y.shape), c.y)
    return found


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--column", default="now")
    options.add_argument("--size", default="400", help="one or several, with commas")
    options.add_argument("--seeds", default="0,1,2")
    options.add_argument("--streams", default="")
    options.add_argument("--no-alone", action="store_true", help="leave the learners without links out")
    args = options.parse_args()
    chosen = args.streams.split(",") if args.streams else names()
    for size, name, seed in product(args.size.split(","), chosen, args.seeds.split(",")):
        found = measure(name, int(seed), int(size), not args.no_alone)
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        rows = kept.setdefault(f"{args.column}-{size}", {}).setdefault(name, {})
        rows[seed] = {**rows.get(seed, {}), **found}
        RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        print(size, name, seed, {key: round(value, 4) for key, value in found.items()}, flush=True)


if __name__ == "__main__":
    main()

"""CPU time of two installed versions, measured in turns in one run: the ratio of their best times.

    python benchmarks/beside.py OLD/bin/python NEW/bin/python [--turns 3] [--size 400] [--old-size 1700]

Both are interpreters of environments with domkl; an old one may be that of commit 4f0e330. Streams are those
of judge.py. Times are processor time of one thread, in microseconds a sample, the least of all turns, so that
other work on the machine counts little; each turn's ratio stands behind. Kept in results/beside.json, by case
and sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import judge
import numpy as np

import domkl

RESULTS = Path(__file__).parent / "results" / "beside.json"


def device(size: int, stream: str) -> int:
    """One device that predicts and learns sample by sample; returns how many."""
    c = judge.case(stream)
    model = domkl.DOMKL(model=domkl.Auto(size=size))
    for x, y in zip(c.X[0], c.y[0].tolist(), strict=True):
        model.predict(x)
        model.learn(x, y)
    return c.y.size


def simulated(size: int, stream: str) -> int:
    """A whole network in one process."""
    c = judge.case(stream)
    graph = c.A if len(c.y) > 1 else "path"
    domkl.simulate(c.X, c.y, graph, model=domkl.Auto(size=size), delay=c.delay, dtype=np.float32)
    return c.y.size


def paper(size: int, stream: str) -> int:
    """The paper's learner with its 17 kernels, which has no size."""
    c = judge.case(stream)
    domkl.simulate(c.X, c.y, c.A, model=domkl.Paper(), threads=1)
    return c.y.size


CASES: dict[str, tuple[Callable[[int, str], int], str]] = {
    "device, DOMKL": (device, "bike1"),
    "device, simulate": (simulated, "bike1"),
    "ring of five, simulate": (simulated, "weather"),
    "paper, ring of five": (paper, "weather"),
}


def microseconds(name: str, size: int) -> float:
    """Of a sample."""
    act, stream = CASES[name]
    began = time.process_time()
    samples = act(size, stream)
    return 1e6 * (time.process_time() - began) / samples


def asked(python: str, name: str, size: int) -> float:
    """The same in another environment."""
    command = [python, __file__, "--measure", name, "--size", str(size)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pythons", nargs="*", help="the old one and the new one")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--old-size", type=int, help="of the old version; the same by default")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(microseconds(args.measure, args.size))
        return
    compare(args)


def compare(args: argparse.Namespace) -> None:
    """Both versions in turns, case by case."""
    (old, new), old_size = args.pythons, args.old_size or args.size
    for name in (name for name in CASES if args.only in name):
        pairs = [(asked(old, name, old_size), asked(new, name, args.size)) for _ in range(args.turns)]
        before, now = (float(f"{value:.4g}") for value in np.min(pairs, 0))
        ratios = [float(f"{b / a:.3g}") for a, b in pairs]
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept.setdefault(name, {})[f"{args.size} over {old_size}"] = {
            "old": before,
            "new": now,
            "turns": ratios,
        }
        RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        text = f"{name:24} old {before:6.0f} us, new {now:6.0f} us, new / old {now / before:.2f}"
        print(text, ratios, flush=True)


if __name__ == "__main__":
    main()

"""Speeds of two installed versions, measured in turns in one run: the ratio of their best times.

    python benchmarks/beside.py OLD/bin/python NEW/bin/python [--turns 3]

Both are interpreters of environments with domkl and River; an old one may have the interface of commit
e2656d4. Times are processor time of one thread, the best of all turns, so that other work on the machine
counts little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def cases() -> dict[str, Callable[[], object]]:
    """What is timed: whole networks, devices, and the face for River."""
    import numpy as np

    import domkl

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5, 400, 10))
    y = np.sin(3 * X[..., 0]) * X[..., 1]
    V, rates = domkl.kernels.gaussian(10, 50, seed=0), domkl.Rates(0.1, 0.1, 1.0)
    is_new = hasattr(domkl, "Paper")

    def paper(engine: str, **more: Any) -> Callable[[], object]:
        given = {"kernels": V, "rates": rates, **more}
        given = {"model": domkl.Paper(**given)} if is_new else given
        return lambda: domkl.simulate(X, y, "ring", engine=engine, threads=1, **given)

    def auto(size: int) -> Callable[[], object]:
        given = {"model": domkl.Auto(size=size)} if is_new else {"preset": "auto", "size": size}
        return lambda: domkl.simulate(X, y, "ring", threads=1, **given)

    def learner(name: str, near: list[str], step: str) -> Any:
        if is_new:
            return domkl.Learner(domkl.Paper(kernels=V, rates=rates, step=step), near, name=name)
        return domkl.Learner(V, near, rates, step=step, name=name)  # type: ignore[arg-type,call-arg,misc]

    def alone() -> None:
        one = learner("a", [], "first")
        for x, label in zip(X[0], y[0], strict=True):
            one.predict(x)
            one.observe(x, float(label))

    def pair(step: str) -> None:
        a, b = learner("a", ["b"], step), learner("b", ["a"], step)
        for x, label in zip(X[0], y[0], strict=True):
            from_a, from_b = a.observe(x, float(label)), b.observe(x, float(label))
            a.receive("b", from_b)
            b.receive("a", from_a)

    def river() -> None:
        from domkl.river import MultiKernelRegressor

        model = MultiKernelRegressor(domkl.Paper()) if is_new else MultiKernelRegressor()
        for x, label in zip(X[0].tolist(), y[0].tolist(), strict=True):
            row = dict(enumerate(x))
            model.predict_one(row)
            model.learn_one(row, label)

    return {
        "paper, native": paper("native"),
        "paper, NumPy": paper("numpy"),
        "second order, native": paper("native", step="newton"),
        "auto, size 400": auto(400),
        "auto, size 1700": auto(1700),
        "a learner alone": alone,
        "two learners": lambda: pair("first"),
        "two learners, second order": lambda: pair("newton"),
        "River, paper": river,
    }


def measure() -> dict[str, float]:
    """The best of three times of each case, after one that warms up."""
    best = {}
    for name, act in cases().items():
        act()
        times = []
        for _ in range(3):
            start = time.process_time()
            act()
            times.append(time.process_time() - start)
        best[name] = min(times)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    found: dict[str, dict[str, float]] = {"old": {}, "new": {}}
    for _ in range(args.turns):
        for which, python in (("old", args.old), ("new", args.new)):
            environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "DOMKL_BESIDE": "1"}
            done = subprocess.run([python, __file__], env=environ, capture_output=True, text=True, check=True)
            for name, seconds in json.loads(done.stdout).items():
                found[which][name] = min(seconds, found[which].get(name, seconds))
    for name, seconds in found["old"].items():
        ratio = found["new"][name] / seconds
        print(f"{name:28} old {seconds:.4f} s, new {found['new'][name]:.4f} s, new / old {ratio:.2f}")


if __name__ == "__main__":
    if os.environ.get("DOMKL_BESIDE"):
        json.dump(measure(), sys.stdout)
    else:
        main()

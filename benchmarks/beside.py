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


class Cases:
    """What is timed: whole networks, devices, and the face for River; in the words of either version."""

    def __init__(self) -> None:
        import numpy as np

        import domkl

        self.domkl: Any = domkl
        self.is_new = hasattr(domkl, "Paper")
        self.X = np.random.default_rng(0).uniform(size=(5, 400, 10))
        self.y = np.sin(3 * self.X[..., 0]) * self.X[..., 1]
        self.paper: dict[str, Any] = {
            "kernels": domkl.kernels.gaussian(10, 50, seed=0),
            "rates": domkl.Rates(0.1, 0.1, 1.0),
        }

    def all(self) -> dict[str, Callable[[], object]]:
        """By name."""
        return {
            "paper, native": lambda: self.network("native"),
            "paper, NumPy": lambda: self.network("numpy"),
            "second order, native": lambda: self.network("native", step="newton"),
            "auto, size 400": lambda: self.auto(400),
            "auto, size 1700": lambda: self.auto(1700),
            "a learner alone": self.alone,
            "two learners": lambda: self.pair("first"),
            "two learners, second order": lambda: self.pair("newton"),
            "River, paper": self.river,
        }

    def network(self, engine: str, **more: Any) -> object:
        given = {**self.paper, **more}
        given = {"model": self.domkl.Paper(**given)} if self.is_new else given
        return self.domkl.simulate(self.X, self.y, "ring", engine=engine, threads=1, **given)

    def auto(self, size: int) -> object:
        given = {"model": self.domkl.Auto(size=size)} if self.is_new else {"preset": "auto", "size": size}
        return self.domkl.simulate(self.X, self.y, "ring", threads=1, **given)

    def learner(self, name: str, near: list[str], step: str) -> Any:
        if self.is_new:
            return self.domkl.Learner(self.domkl.Paper(**self.paper, step=step), near, name=name)
        V, rates = self.paper.values()
        return self.domkl.Learner(V, near, rates, step=step, name=name)

    def alone(self) -> None:
        one = self.learner("a", [], "first")
        for x, label in zip(self.X[0], self.y[0], strict=True):
            one.predict(x)
            one.observe(x, float(label))

    def pair(self, step: str) -> None:
        a, b = self.learner("a", ["b"], step), self.learner("b", ["a"], step)
        for x, label in zip(self.X[0], self.y[0], strict=True):
            from_a, from_b = a.observe(x, float(label)), b.observe(x, float(label))
            a.receive("b", from_b)
            b.receive("a", from_a)

    def river(self) -> None:
        from domkl.river import MultiKernelRegressor

        model = MultiKernelRegressor(self.domkl.Paper()) if self.is_new else MultiKernelRegressor()
        for x, label in zip(self.X[0].tolist(), self.y[0].tolist(), strict=True):
            row = dict(enumerate(x))
            model.predict_one(row)
            model.learn_one(row, label)


def measure() -> dict[str, float]:
    """The best of three times of each case, after one that warms up."""
    best = {}
    for name, act in Cases().all().items():
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

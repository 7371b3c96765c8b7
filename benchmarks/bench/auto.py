"""W5: what a round of `Auto` costs here, beside the machine's limit.

A learner with K parameters, m targets and d inputs needs in a round, whatever the program:

    Q            n = K (K + 1) / 2 numbers, read once from the cache that holds all matrices at work, and
                 (2 c + 1) n multiplications with addition: products with c columns (the features, and for
                 each target one, with neighbours two), in which a number counts for its row and its column,
                 and the term of rank one. Both go on at once: the longer one counts,
    features     2 d D multiplications and D pairs of sin and cos, D about K / 2,
    recent       k**3 / 3 + (1 + m) k**2 multiplications in float64, for its k terms: a factor of its matrix
                 and the inverse of that,
    trust        for each neighbour its predictions of the last samples: w m K multiplications,
    vectors      (9 + 3 deg) m K sums and products, from L1: moments, functions, duals.

The limit is the sum. Hedge, echo, guard and scale, of which each is a few numbers, are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from domkl.base.types import Array
from domkl.exchange.graph import named
from domkl.exchange.message import Exchange
from domkl.exchange.network import Network
from domkl.learning.auto import AutoRows
from domkl.models.settings import Auto, Means
from domkl.simulator.driver import connected

#: Rounds after which no scale is taken any more: all others are alike.
WARM = 600
LOOPS = ("fma", "sincos", "vector", "read")
#: Of the limit, in the order of tables.
PARTS = ("matrix", "features", "recent", "trust", "vectors")
#: How often each contender and each loop of W5 runs: so short that some are left alone by other work.
TURNS = 60
#: Rounds of a turn: as many as the engine's terms of rank one wait until they are subtracted.
ROUNDS = 32
#: Rounds before a turn is timed, as the caches hold what others left; loops of the limit begin alike.
AGAIN = 2


#: Called with how many trials are done, of how many.
Report: TypeAlias = Callable[[int, int], object]


class EngineRun(NamedTuple):
    """An engine, and how it computes."""

    name: str
    engine: str
    bits: int
    threads: int


class AutoShape(NamedTuple):
    """What the cost of a round depends on; learners sit on a ring."""

    J: int
    size: int
    d: int
    m: int

    @property
    def degree(self) -> int:
        """Neighbours of each learner."""
        return min(2, self.J - 1)

    def work(self) -> dict[str, float]:
        """What one learner needs in a round: numbers read, multiplications with addition and so on."""
        rows = AutoRows(Auto(size=self.size), self.d, m=self.m)
        K, D, k, m, deg = rows.features.K, rows.features.D, rows.recent.k, self.m, self.degree
        n, columns = K * (K + 1) / 2, 1 + m * (2 if deg else 1)
        return {
            "elements": n,
            "matrix": (2 * columns + 1) * n,
            "angles": 2 * self.d * D,
            "sincos": D,
            "recent": k**3 / 3 + (1 + m) * k**2,
            "trust": deg * rows.trust.window * m * K,
            "vectors": (9 + 3 * deg) * m * K,
        }

    def held(self, bits: int, threads: int) -> int:
        """Bytes of the matrices that a thread reads before it returns to the same one."""
        return int(self.work()["elements"]) * bits // 8 * -(-self.J // threads)


def limit_parts(shape: AutoShape, bits: int, rates: Mapping[str, float], fma64: float) -> dict[str, float]:
    """The least microseconds of one learner and round; rates of all threads together, per second.

    >>> rates = {"fma": 45e9, "sincos": 2.5e9, "vector": 36e9, "read": 80e9}
    >>> {name: round(us, 1) for name, us in limit_parts(DEVICE, 32, rates, 23e9).items()}
    {'matrix': 55.5, 'features': 0.5, 'recent': 1.9, 'trust': 0.0, 'vectors': 0.2}
    """
    work = shape.work()
    parts = {
        "matrix": max(work["matrix"] / rates["fma"], work["elements"] * bits / 8 / rates["read"]),
        "features": work["angles"] / rates["fma"] + work["sincos"] / rates["sincos"],
        "recent": work["recent"] / fma64,
        "trust": work["trust"] / rates["fma"],
        "vectors": work["vectors"] / rates["vector"],
    }
    return {name: 1e6 * seconds for name, seconds in parts.items()}


DEVICE, NETWORK = AutoShape(J=1, size=1000, d=12, m=1), AutoShape(J=6, size=1000, d=12, m=1)
SHAPES = {"device": DEVICE, "network": NETWORK}


def stream(shape: AutoShape, T: int) -> tuple[Array, Array]:
    """Samples (J, T, d) and targets (J, T, m) of smooth functions, with noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(shape.J, T, shape.d))
    y = np.sin(3 * X[..., :1] * np.arange(1, shape.m + 1)) + X[..., -1:]
    return X, y + 0.05 * rng.standard_normal(y.shape)


class Turns:
    """Rounds of one contender on a stream without an end; made with its first turn."""

    def __init__(self, shape: AutoShape, engine: str, bits: int, threads: int, warm: int, n: int) -> None:
        self.shape, self.n = shape, n
        # Of one thread CPU time, which leaves out that of other work; of several only the wall's tells.
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.X, self.y = stream(shape, max(warm, n))
        self.network = Network(named("ring", shape.J), Exchange())
        dtype, means = np.dtype(f"f{bits // 8}").type, Means(engine, threads)
        self.rows = connected(Auto(size=shape.size), shape.d, self.network, dtype, shape.m, means)
        self._learn(warm)

    def __call__(self) -> float:
        """Seconds of one learner and round."""
        self._learn(min(AGAIN, self.n))
        start = self.clock()
        self._learn(self.n)
        return (self.clock() - start) / (self.n * self.shape.J)

    def _learn(self, n: int) -> None:
        X, y, rows = self.X[:, :n], self.y[:, :n], self.rows
        if rows.rounds(X, y, self.network) is None:
            for t in range(n):
                rows.merge(self.network.exchange_round(rows, rows.learn(rows.predict(X[:, t]), y[:, t])))


# W5


def trials(runs: Sequence[EngineRun], isa: str | None, quick: bool) -> dict[str, Callable[[], float]]:
    """Trials of every contender, and of the loops that make its limit."""
    found: dict[str, Callable[[], float]] = {}
    warm, n, seconds = (40, 5, 0.001) if quick else (WARM, ROUNDS, 0.002)
    for key, shape in SHAPES.items():
        for run in _fitting(shape, runs):
            found[f"{key}, {run.name}"] = Turns(shape, run.engine, run.bits, run.threads, warm, n)
            if isa is not None:
                found |= _limit_trials(shape, run, isa, seconds)
    return found


def document(runs: Sequence[EngineRun], least: Mapping[str, float]) -> dict[str, Any]:
    """Rows beside their limits, from the least seconds of these trials."""
    return {
        key: {"setting": shape._asdict(), "rows": [_row(key, run, least) for run in _fitting(shape, runs)]}
        for key, shape in SHAPES.items()
    }


def _fitting(shape: AutoShape, runs: Sequence[EngineRun]) -> list[EngineRun]:
    """Threads share learners, so that one device has use for one."""
    return [run for run in runs if run.threads <= shape.J]


def _row(key: str, run: EngineRun, least: Mapping[str, float]) -> dict[str, Any]:
    shape, us = SHAPES[key], 1e6 * least[f"{key}, {run.name}"]
    row = {**run._asdict(), "us": us}
    if _loop_name(shape, run, "fma") not in least:
        return row
    rates = {loop: 1 / least[_loop_name(shape, run, loop)] for loop in LOOPS}
    parts = limit_parts(shape, run.bits, rates, 1 / least[_loop_name(shape, run, "fma64")])
    limit = sum(parts.values())
    return {**row, "limit_us": limit, "fraction": limit / us, "limit_parts_us": parts}


def _limit_trials(
    shape: AutoShape, run: EngineRun, isa: str, seconds: float
) -> dict[str, Callable[[], float]]:
    from domkl.engines._native import _engine

    def trial(loop: str, single: bool) -> Callable[[], float]:
        held = shape.held(run.bits, run.threads) if loop == "read" else 0
        more: Any = {"single": single, "threads": run.threads, "bytes": held, "seconds": seconds}
        return lambda: 1 / _engine.limit(loop, isa, **more)

    found = {_loop_name(shape, run, loop): trial(loop, run.bits == 32) for loop in LOOPS}
    return {**found, _loop_name(shape, run, "fma64"): trial("fma", single=False)}


def _loop_name(shape: AutoShape, run: EngineRun, loop: str) -> str:
    return f"W5 {loop}, {shape.J} learners, {run.name}"

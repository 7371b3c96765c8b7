"""W1: five learners on the complete graph, 17 kernels, CV included; all engines, the twin, and the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...base.types import Array
from ...exchange import graph
from ...learning import kernels
from ...learning.first_order import Rates
from ...learning.settings import Paper
from ...simulator import simulate
from . import limits, machine, timing, twin
from .limits import Limits, LimitShape
from .timing import Report, Trial

SHAPE = LimitShape(J=5, P=17, D=50, d=81, deg=4)


class W1Size(NamedTuple):
    T: int
    twin_T: int
    rounds: int  # how often each contender runs
    seconds: float  # of each loop of the limits
    megabytes: int  # of each array of the memory's loop


FULL = W1Size(T=2200, twin_T=4, rounds=9, seconds=0.008, megabytes=128)
QUICK = W1Size(T=100, twin_T=1, rounds=2, seconds=0.001, megabytes=8)


class EngineRun(NamedTuple):
    name: str
    engine: str
    bits: int
    threads: int


TWIN = EngineRun("literal twin", "twin", 64, 1)


def contenders(native: bool) -> list[EngineRun]:
    """What runs W1: the native engine by precision and threads, then NumPy."""
    counts = (1, 2) if machine.usable_cores() > 1 else (1,)
    words = {1: "one thread", 2: "two threads"}
    found = [
        EngineRun(f"native, float{bits}, {words[n]}", "native", bits, n) for bits in (64, 32) for n in counts
    ]
    return (found if native else []) + [
        EngineRun(f"NumPy, float{bits}", "numpy", bits, 1) for bits in (64, 32)
    ]


def measure(quick: bool, runs_too: bool, report: Report) -> tuple[dict[str, Any], list[Limits]]:
    """Limits and, if they are wanted, W1's runs, their trials interleaved: the document, and the limits."""
    size, isa = QUICK if quick else FULL, machine.engine()["isa"]
    runs = contenders(isa is not None)
    trials = _limit_trials(isa, runs, size) | (_run_trials(runs, size) if runs_too else {})
    least = timing.best(trials, size.rounds, report)
    found = _limits(least, runs) if isa else {}
    document: dict[str, Any] = {"limits": [one.document() for one in found.values()]}
    if runs_too:
        document["w1"] = _document(least, runs, found, size)
    return document, list(found.values())


def _document(
    least: dict[str, float], runs: list[EngineRun], found: dict[tuple[int, int], Limits], size: W1Size
) -> dict[str, Any]:
    rows = [_row(run, least[run.name], found.get((run.bits, run.threads))) for run in runs]
    if TWIN.name in least:
        rows.append(_row(TWIN, least[TWIN.name], None))
    absent = f"no {twin.PLACE.as_posix()} beside the package: run it in a checkout"
    return {
        "setting": {**SHAPE._asdict(), "T": size.T, "graph": "complete"},
        "rows": rows,
        "ratios": _ratios({row["name"]: row["us"] for row in rows}),
        "twin": "measured" if TWIN.name in least else absent,
    }


def stream(J: int, T: int, d: int, bits: int = 64) -> tuple[Array, Array]:
    """Samples and labels of a smooth function, with noise."""
    rng, dtype = np.random.default_rng(0), np.dtype(f"f{bits // 8}")
    X = rng.uniform(size=(J, T, d)).astype(dtype)
    y = np.sin(3 * X[..., 0]) * X[..., d - 1] + 0.05 * rng.standard_normal((J, T))
    return X, y.astype(dtype)


def _limit_trials(isa: str | None, runs: list[EngineRun], size: W1Size) -> dict[str, Trial]:
    found: dict[str, Trial] = {}
    for run in runs:
        if isa and run.engine == "native":
            found |= limits.trials(isa, run.bits, run.threads, size.seconds, size.megabytes)
    return found


def _limits(least: dict[str, float], runs: list[EngineRun]) -> dict[tuple[int, int], Limits]:
    pairs = [(run.bits, run.threads) for run in runs if run.engine == "native"]
    return {pair: limits.of(least, *pair) for pair in pairs}


def _run_trials(runs: list[EngineRun], size: W1Size) -> dict[str, Trial]:
    trials = {run.name: timing.timed(_call(run, size), SHAPE.J * size.T) for run in runs}
    slow = _twin_trial(size)
    return trials if slow is None else {**trials, TWIN.name: slow}


def _call(run: EngineRun, size: W1Size) -> Callable[[], object]:
    X, y = stream(SHAPE.J, size.T, SHAPE.d, run.bits)
    model = Paper(kernels=kernels.gaussian(SHAPE.d, SHAPE.D))
    options: Any = {"engine": run.engine, "threads": run.threads, "dtype": X.dtype.type}
    return lambda: simulate(X, y, "complete", model=model, **options)


def _twin_trial(size: W1Size) -> Trial | None:
    module = twin.load()
    if module is None:
        return None
    X, y = stream(SHAPE.J, size.twin_T, SHAPE.d)
    V, near = kernels.gaussian(SHAPE.d, SHAPE.D), graph.named("complete", SHAPE.J).neighbours
    rates = Rates.paper(FULL.T)
    return timing.timed(
        lambda: module.domkl(X, y, near, V, rates.rho, rates.eta, rates.eta_g), SHAPE.J * size.twin_T
    )


def _row(run: EngineRun, seconds: float, limit: Limits | None) -> dict[str, Any]:
    return {**run._asdict(), "us": 1e6 * seconds, **against(limit, SHAPE, seconds)}


def against(limit: Limits | None, shape: LimitShape, seconds: float) -> dict[str, Any]:
    """Seconds of one learner and step beside the limit for all its kernels."""
    if limit is None:
        return {}
    least = limits.bound(limit, shape)
    parts = {name: shape.P * ns / 1e3 for name, ns in least.parts.items()}
    us = shape.P * least.ns / 1e3
    return {"limit_us": us, "fraction": us / (1e6 * seconds), "bound_by": least.by, "limit_parts_us": parts}


def _ratios(us: dict[str, float]) -> dict[str, float]:
    """How many times faster the native engine is, on one thread, than what else was measured."""
    ours = us.get("native, float64, one thread")
    pairs = {
        "numpy_to_native": ("NumPy, float64", ours),
        "twin_to_native": (TWIN.name, ours),
        "float64_to_float32": ("native, float64, one thread", us.get("native, float32, one thread")),
        "one_to_two_threads": ("native, float64, one thread", us.get("native, float64, two threads")),
    }
    return {name: us[slow] / fast for name, (slow, fast) in pairs.items() if slow in us and fast}

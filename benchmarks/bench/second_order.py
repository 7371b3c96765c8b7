"""W4: the second-order step of a network, and its own limit.

One learner, one step and one kernel of K = 2D parameters need, whatever the program, of the symmetric matrix
M^-1 with its n = K (K + 1) / 2 different elements

    n       elements read, from the cache that holds all matrices at work: a loop reads as many, repeatedly,
    5 n     multiplications with addition at the measured peak: two products with a vector, in which each
            element counts for its row and its column, and the term of rank one,

and the features, as in `domkl bench`. Reading and computing go on at once: the larger of the two counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import workloads
from auto import EngineRun
from workloads import Trial

from domkl.cli.bench import engine_in_use
from domkl.learning import kernels
from domkl.learning.first_order import Rates
from domkl.models.settings import Paper
from domkl.simulator import simulate

LOOPS = ("fma", "sincos", "read")
RATES = Rates(rho=0.2, eta=0.01, eta_g=1.0)


class StepShape(NamedTuple):
    """What the cost of a step depends on."""

    J: int
    P: int
    D: int
    d: int

    @property
    def elements(self) -> int:
        """Different elements of one symmetric matrix."""
        return self.D * (2 * self.D + 1)

    def held(self) -> int:
        """How many elements a thread reads before it returns to the same element.

        Kernels meet only in Hedge: each runs through many rounds by itself, with all learners' matrices.
        """
        return self.elements * self.J


NETWORK = StepShape(J=5, P=17, D=50, d=21)


class W4Size(NamedTuple):
    T: int  # rounds of the network
    rounds: int  # how often each contender runs
    seconds: float  # of each loop of the limits


FULL = W4Size(T=100, rounds=15, seconds=0.008)
QUICK = W4Size(T=10, rounds=2, seconds=0.001)


def measure(quick: bool) -> dict[str, Any]:
    """The workload beside its limit, their trials interleaved."""
    size, isa = QUICK if quick else FULL, engine_in_use()["isa"]
    runs = workloads.contenders(isa is not None)
    trials: dict[str, Trial] = {}
    for run in runs:
        trials[run.name] = workloads.timed(_network(NETWORK, run, size), NETWORK.J * size.T)
        if isa and run.engine == "native":
            trials |= _limit_trials(NETWORK, run, isa, size.seconds)
    least = workloads.best(trials, size.rounds)
    return {"network": _document(NETWORK, runs, least)}


def _document(shape: StepShape, runs: list[EngineRun], least: dict[str, float]) -> dict[str, Any]:
    rows = [_row(shape, run, least[run.name], least) for run in runs]
    us = {row["name"]: row["us"] for row in rows}
    ours = us.get("native, float64, one thread")
    ratios = {"numpy_to_native": us["NumPy, float64"] / ours} if ours else {}
    return {"setting": shape._asdict(), "rows": rows, "ratios": ratios}


def _row(shape: StepShape, run: EngineRun, seconds: float, least: dict[str, float]) -> dict[str, Any]:
    row = {**run._asdict(), "us": 1e6 * seconds}
    if run.engine != "native":
        return row
    rates = {loop: 1 / least[_name(loop, shape, run)] for loop in LOOPS}
    parts = bound(shape, run.bits, **rates)
    by = max(parts, key=lambda name: parts[name])
    rate = rates["read"] / 1e9
    return {
        **row,
        "limit_us": parts[by],
        "fraction": parts[by] / row["us"],
        "bound_by": by,
        "limit_parts_us": parts,
        "read_GB_per_s": rate,
    }


def bound(shape: StepShape, bits: int, fma: float, sincos: float, read: float) -> dict[str, float]:
    """The least microseconds of one learner and step by computing and by reading; rates per second.

    >>> parts = bound(NETWORK, 64, fma=22e9, sincos=1e9, read=80e9)
    >>> {name: round(us, 1) for name, us in parts.items()}
    {'compute': 21.2, 'reading': 8.6}
    """
    n = shape.elements
    compute = (5 * n + shape.D * shape.d) / fma + shape.D / sincos
    return {"compute": 1e6 * shape.P * compute, "reading": 1e6 * shape.P * n * bits / 8 / read}


def _limit_trials(shape: StepShape, run: EngineRun, isa: str, seconds: float) -> dict[str, Trial]:
    from domkl.engines._native import _engine

    def trial(loop: str) -> Trial:
        held = shape.held() * run.bits // 8
        return lambda: (
            1
            / _engine.limit(
                loop, isa, single=run.bits == 32, seconds=seconds, threads=run.threads, bytes=held
            )
        )

    return {_name(loop, shape, run): trial(loop) for loop in LOOPS}


def _name(loop: str, shape: StepShape, run: EngineRun) -> str:
    """The reading loop alone depends on how much there is to read."""
    held = f", {shape.held()} elements" if loop == "read" else ""
    return f"{loop}, float{run.bits}, {run.threads} threads{held}"


def _network(shape: StepShape, run: EngineRun, size: W4Size) -> Callable[[], object]:
    X, y = workloads.stream(shape.J, size.T, shape.d, run.bits)
    model = Paper(kernels=kernels.gaussian(shape.d, shape.D), rates=RATES, step="newton")
    options: Any = {"engine": run.engine, "threads": run.threads, "dtype": X.dtype.type}
    return lambda: simulate(X, y, "ring", model=model, **options)

"""W4: the second-order step, of a network and of one device as large as model auto; and its own limit.

One learner, one step and one kernel of K = 2D parameters need, whatever the program, of the symmetric matrix
M^-1 with its n = K (K + 1) / 2 different elements

    n       elements read, from the cache that holds all matrices at work: a loop reads as many, repeatedly,
    5 n     multiplications with addition at the measured peak: two products with a vector, in which each
            element counts for its row and its column, and the term of rank one,

and the features, as in `domkl bench`. Reading and computing go on at once: the larger of the two counts.
This is the limit of a learner with neighbours: without any, P b is the last estimate plus a multiple of
P z, and 3 n would do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import workloads
from auto import EngineRun
from workloads import Trial

from domkl.base.types import Array
from domkl.cli.bench import engine_in_use
from domkl.learning import first_order, kernels, losses, second_order
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
    d: int  # 0: the features are given

    @property
    def elements(self) -> int:
        """Different elements of one symmetric matrix."""
        return self.D * (2 * self.D + 1)

    def held(self, threads: int) -> int:
        """How many elements a thread reads before it returns to the same element.

        Kernels meet only in Hedge: each runs through many rounds by itself, with all learners' matrices.
        A device takes its kernels in turn, and threads share them.
        """
        return self.elements * (self.J if self.J > 1 else -(-self.P // threads))


NETWORK = StepShape(J=5, P=17, D=50, d=21)
DEVICE = StepShape(J=1, P=2, D=425, d=0)


class W4Size(NamedTuple):
    T: int  # rounds of the network
    steps: int  # of the device
    rounds: int  # how often each contender runs
    seconds: float  # of each loop of the limits


FULL = W4Size(T=100, steps=20, rounds=15, seconds=0.008)
QUICK = W4Size(T=10, steps=2, rounds=2, seconds=0.001)


def measure(quick: bool) -> dict[str, Any]:
    """Both workloads beside their limits, their trials interleaved."""
    size, isa = QUICK if quick else FULL, engine_in_use()["isa"]
    runs = workloads.contenders(isa is not None)
    trials: dict[str, Trial] = {}
    for key, shape in (("network", NETWORK), ("device", DEVICE)):
        for run in runs:
            trials[f"{key}, {run.name}"] = _run_trial(shape, run, size)
            if isa and run.engine == "native":
                trials |= _limit_trials(shape, run, isa, size.seconds)
    least = workloads.best(trials, size.rounds)
    return {
        "network": _document(NETWORK, "network", runs, least),
        "device": _document(DEVICE, "device", runs, least),
    }


def _document(shape: StepShape, key: str, runs: list[EngineRun], least: dict[str, float]) -> dict[str, Any]:
    rows = [_row(shape, run, least[f"{key}, {run.name}"], least) for run in runs]
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
    n, features = shape.elements, shape.D if shape.d else 0
    compute = (5 * n + features * shape.d) / fma + features / sincos
    return {"compute": 1e6 * shape.P * compute, "reading": 1e6 * shape.P * n * bits / 8 / read}


def _limit_trials(shape: StepShape, run: EngineRun, isa: str, seconds: float) -> dict[str, Trial]:
    from domkl.engines._native import _engine

    def trial(loop: str) -> Trial:
        held = shape.held(run.threads) * run.bits // 8
        return lambda: (
            1
            / _engine.limit(
                loop, isa, single=run.bits == 32, seconds=seconds, threads=run.threads, bytes=held
            )
        )

    return {_name(loop, shape, run): trial(loop) for loop in LOOPS}


def _name(loop: str, shape: StepShape, run: EngineRun) -> str:
    """The reading loop alone depends on how much there is to read."""
    held = f", {shape.held(run.threads)} elements" if loop == "read" else ""
    return f"{loop}, float{run.bits}, {run.threads} threads{held}"


def _run_trial(shape: StepShape, run: EngineRun, size: W4Size) -> Trial:
    if shape.J > 1:
        return workloads.timed(_network(shape, run, size), shape.J * size.T)
    return workloads.timed(device(shape, run, size.steps), size.steps)


def _network(shape: StepShape, run: EngineRun, size: W4Size) -> Callable[[], object]:
    X, y = workloads.stream(shape.J, size.T, shape.d, run.bits)
    model = Paper(kernels=kernels.gaussian(shape.d, shape.D), rates=RATES, step="newton")
    options: Any = {"engine": run.engine, "threads": run.threads, "dtype": X.dtype.type}
    return lambda: simulate(X, y, "ring", model=model, **options)


def device(shape: StepShape, run: EngineRun, steps: int) -> Callable[[], second_order.SecondOrderState]:
    """Steps of one device without neighbours, on features that are given; it goes on where it was."""
    dtype, loss = np.dtype(f"f{run.bits // 8}"), losses.get("squared")
    pulls = second_order.SecondOrderPulls.of(np.zeros((), dtype), RATES, loss)
    state = second_order.init(shape.P, 2 * shape.D, pulls)  # in NumPy, whichever engine is timed beside
    Z, labels = _samples(shape, steps, dtype)

    def act() -> second_order.SecondOrderState:
        nonlocal state
        for z, y in zip(Z, labels, strict=True):
            f = first_order.dot(state.theta, z)
            learnt = second_order.local(state, z, f, y, pulls, loss)
            state = second_order.merge(state, learnt, np.zeros_like(learnt[0]), learnt[1], pulls, RATES.eta_g)
        return state

    return act


def _samples(shape: StepShape, count: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Features of length 1, (count, P, K), and labels."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((count, shape.P, 2 * shape.D))
    Z /= np.linalg.norm(Z, axis=-1, keepdims=True)
    return Z.astype(dtype), rng.standard_normal(count).astype(dtype)

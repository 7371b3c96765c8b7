"""W1 and W2: the paper's learner, of a network and of one device, beside what the machine can do at most.

One learner, one step and one kernel need, whatever the program:

    D d             multiplications with addition, at the measured peak,
    D               pairs of sin and cos, by the engine's own polynomials, from L1 to L1,
    (8 + 2 deg) 2D  vector operations on values in L1: eight of the update, two for each neighbour,

one after the other: that is the limit. `auto.py` has that of `Auto` (W5).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import auto
import numpy as np
from auto import EngineRun, Report

from domkl.base.types import Array, Float
from domkl.base.words import NONE, digits, plural
from domkl.cli import show
from domkl.cli.bench import engine_in_use, machine, tell_engine, usable_cores
from domkl.lab.sheet import Sheet, least_of
from domkl.learner import Learner
from domkl.learning import kernels
from domkl.learning.first_order import Rates
from domkl.models.settings import Paper
from domkl.simulator import simulate

LOOPS = ("fma", "sincos", "vector", "stored", "triad")
AGAINST = ("time\nµs", "limit\nµs", "fraction")
LEGEND = {
    "limit": "the time if the machine did these operations at the speeds measured above",
    "fraction": "of the machine's speed that is reached: limit / time",
    "bold": "the least time",
}
#: The single device of W2, in tables.
DEVICE = "domkl Learner, 17 kernels"

#: Does some work and returns how many seconds it took, for one unit of it.
Trial: TypeAlias = Callable[[], float]
#: Predicts sample number i of a stream, then learns it; returns the prediction.
Act: TypeAlias = Callable[[int], Any]


class Shape(NamedTuple):
    """What the cost of a step depends on."""

    J: int
    P: int
    D: int
    d: int
    deg: float


class Size(NamedTuple):
    """How much is measured."""

    T: int  # rounds of the network
    samples: int  # of the device
    turns: int  # of each contender; the best counts
    seconds: float  # of each loop of the limits
    turn: float  # seconds of the device's turn
    megabytes: int  # of each array of the memory's loop


class Limits(NamedTuple):
    """Work per second of all threads together."""

    bits: int
    threads: int
    fma: float
    sincos: float  # pairs
    vector: float  # elements: a sum and a product of each number that is loaded
    stored: float  # elements: load, load, FMA, store
    triad: float  # bytes

    def document(self) -> dict[str, float]:
        """As people quote them."""
        return {
            "bits": self.bits,
            "threads": self.threads,
            "fma_per_ns": self.fma / 1e9,
            "sincos_ns": 1e9 / self.sincos,
            "vector_ns": 1e9 / self.vector,
            "stored_ns": 1e9 / self.stored,
            "memory_GB_per_s": self.triad / 1e9,
        }

    def parts(self, shape: Shape) -> dict[str, float]:
        """The least microseconds of one learner and step, all kernels, by what takes them.

        >>> peak = Limits(64, 1, fma=44e9, sincos=1.33e9, vector=44e9, stored=22e9, triad=20e9)
        >>> {name: round(us, 2) for name, us in peak.parts(NETWORK).items()}
        {'fma': 1.56, 'sincos': 0.64, 'vector': 0.62}
        """
        work = {
            "fma": shape.D * shape.d / self.fma,
            "sincos": shape.D / self.sincos,
            "vector": (8 + 2 * shape.deg) * 2 * shape.D / self.vector,
        }
        return {name: 1e6 * shape.P * seconds for name, seconds in work.items()}

    def against(self, shape: Shape, seconds: float) -> dict[str, Any]:
        """Seconds of one learner and step beside the limit."""
        parts = self.parts(shape)
        us = sum(parts.values())
        return {"limit_us": us, "fraction": us / (1e6 * seconds), "limit_parts_us": parts}


NETWORK, LONE = Shape(J=5, P=17, D=50, d=81, deg=4), Shape(J=1, P=17, D=50, d=21, deg=0)
FULL = Size(T=2200, samples=20_000, turns=9, seconds=0.008, turn=0.15, megabytes=128)
QUICK = Size(T=100, samples=200, turns=2, seconds=0.001, turn=0.005, megabytes=8)


def measure(quick: bool = False, report: Report = lambda done, total: None) -> dict[str, Any]:
    """The limits, W1, W2 and W5."""
    size, engine = QUICK if quick else FULL, engine_in_use()
    runs = contenders(engine["isa"] is not None)
    trials = {} if engine["isa"] is None else limit_trials(engine["isa"], runs, size)
    trials |= {run.name: timed(_network(run, size), NETWORK.J * size.T) for run in runs}
    fast = [run for run in runs if run.engine == "native"] or runs
    least = best(trials, size.turns, report)
    turns = size.turns if quick else auto.TURNS
    least |= best(auto.trials(fast, engine["isa"], quick), turns, report)
    found = {} if engine["isa"] is None else limits_of(least, runs)
    return {
        "quick": quick,
        "machine": machine(),
        "engine": engine,
        "limits": [one.document() for one in found.values()],
        "w1": _w1_document(runs, least, found, size),
        "w2": device({}, size, found.get((64, 1))),
        "w5": auto.document(fast, least),
    }


def contenders(native: bool) -> list[EngineRun]:
    """The native engine by precision and threads, if it is there; then NumPy."""
    words = {1: "one thread", 2: "two threads"}
    counts = (1, 2) if usable_cores() > 1 else (1,)
    ours = [EngineRun(f"native, float{b}, {words[n]}", "native", b, n) for b in (64, 32) for n in counts]
    return (ours if native else []) + [EngineRun(f"NumPy, float{b}", "numpy", b, 1) for b in (64, 32)]


def _w1_document(
    runs: list[EngineRun], least: dict[str, float], found: dict[tuple[int, int], Limits], size: Size
) -> dict[str, Any]:
    rows = []
    for each in runs:
        seconds, limit = least[each.name], found.get((each.bits, each.threads))
        beside = limit.against(NETWORK, seconds) if limit and each.engine == "native" else {}
        rows.append({**each._asdict(), "us": 1e6 * seconds, **beside})
    us = {row["name"]: row["us"] for row in rows}
    ours = us.get("native, float64, one thread")
    pairs = {
        "numpy_to_native": (us.get("NumPy, float64"), ours),
        "float64_to_float32": (ours, us.get("native, float32, one thread")),
        "one_to_two_threads": (ours, us.get("native, float64, two threads")),
    }
    ratios = {name: slow / fast for name, (slow, fast) in pairs.items() if slow and fast}
    setting = {**NETWORK._asdict(), "T": size.T, "graph": "complete"}
    return {"setting": setting, "rows": rows, "ratios": ratios}


def _network(run: EngineRun, size: Size) -> Callable[[], object]:
    X, y = stream(NETWORK.J, size.T, NETWORK.d, run.bits)
    model = Paper(kernels=kernels.gaussian(NETWORK.d, NETWORK.D))
    options: Any = {"engine": run.engine, "threads": run.threads, "dtype": X.dtype.type}
    return lambda: simulate(X, y, "complete", model=model, **options)


def stream(J: int, T: int, d: int, bits: int = 64) -> tuple[Array, Array]:
    """Samples and labels of a smooth function, with noise."""
    rng, dtype = np.random.default_rng(0), np.dtype(f"f{bits // 8}")
    X = rng.uniform(size=(J, T, d)).astype(dtype)
    y = np.sin(3 * X[..., 0]) * X[..., d - 1] + 0.05 * rng.standard_normal((J, T))
    return X, y.astype(dtype)


def device(
    others: Mapping[str, Callable[[Array, Array], Act]], size: Size, limit: Limits | None = None
) -> dict[str, Any]:
    """CPU time of one sample, predicted and then learnt, one at a time from Python.

    Contenders take turns; each goes on along the stream where its turn before ended. The best turn counts,
    which for those that grow slower as they learn (trees, neighbours) is an early one.
    """
    X, y = (part[0] for part in stream(1, size.samples, LONE.d))
    acts = {DEVICE: our_device(X, y), f"{DEVICE}, float32": our_device(X, y, np.float32)}
    acts |= {name: make(X, y) for name, make in others.items()}
    least = best({name: _turn(act, size) for name, act in acts.items()}, size.turns)
    rows = [{"name": name, "us": 1e6 * s, "times_ours": s / least[DEVICE]} for name, s in least.items()]
    rows[0] |= limit.against(LONE, least[DEVICE]) if limit else {}
    return {"setting": LONE._asdict(), "rows": rows}


def our_device(X: Array, y: Array, dtype: Float = np.float64) -> Act:
    """Our learner as a single device, without neighbours."""
    model = Paper(kernels=kernels.gaussian(LONE.d, LONE.D), rates=Rates.paper(len(y)))
    learner = Learner(model, name="device", dtype=dtype)
    samples, labels = list(np.ascontiguousarray(X)), [float(label) for label in y]

    def act(i: int) -> Any:
        y_hat = learner.predict(samples[i])
        learner.observe(samples[i], labels[i])
        return y_hat

    return act


def _turn(act: Act, size: Size) -> Trial:
    """CPU seconds for a sample, over as many samples as a turn's time allows."""
    at = 0

    def trial() -> float:
        nonlocal at
        count, start = 0, time.process_time()
        while (now := time.process_time()) < start + size.turn or not count:
            for _ in range(batch):
                act(at % size.samples)
                at += 1
            count += batch
        return (now - start) / count

    first = time.process_time()
    act(at)
    # Between two looks at the clock, so many samples that looking costs nothing.
    batch = max(1, min(100, int(size.turn / 4 / max(time.process_time() - first, 1e-6))))
    return trial


def timed(call: Callable[[], object], units: float = 1.0) -> Trial:
    """A trial that measures the wall-clock time of a call, for one of `units`."""

    def trial() -> float:
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) / units

    return trial


def best(
    trials: Mapping[str, Trial], turns: int, report: Report = lambda done, total: None
) -> dict[str, float]:
    """The least seconds of each trial; they take turns, so that noise hits all alike.

    >>> seconds = iter([3.0, 1.0, 2.0])
    >>> best({"a": lambda: next(seconds)}, turns=3)
    {'a': 1.0}
    """
    least = dict.fromkeys(trials, float("inf"))
    for turn in range(turns):
        for i, (name, trial) in enumerate(trials.items()):
            least[name] = min(least[name], trial())
            report(turn * len(trials) + i + 1, turns * len(trials))
    return least


def limit_trials(isa: str, runs: Iterable[EngineRun], size: Size) -> dict[str, Trial]:
    """One trial for each loop, whose least seconds for a unit of work make `Limits`."""
    from domkl.engines._native import _engine

    def trial(loop: str, run: EngineRun) -> Trial:
        options: Any = {"single": run.bits == 32, "threads": run.threads, "bytes": size.megabytes << 20}
        return lambda: 1 / _engine.limit(loop, isa, seconds=size.seconds, **options)

    native = [run for run in runs if run.engine == "native"]
    return {_loop_name(loop, run.bits, run.threads): trial(loop, run) for run in native for loop in LOOPS}


def limits_of(least: Mapping[str, float], runs: Iterable[EngineRun]) -> dict[tuple[int, int], Limits]:
    """`Limits` by precision and threads, from what `best` has found for `limit_trials`."""
    pairs = [(run.bits, run.threads) for run in runs if run.engine == "native"]
    return {pair: Limits(*pair, *(1 / least[_loop_name(loop, *pair)] for loop in LOOPS)) for pair in pairs}


def _loop_name(loop: str, bits: int, threads: int) -> str:
    """Memory does not care what its bytes mean: one trial serves both precisions."""
    return f"{loop}, {threads} threads" if loop == "triad" else f"{loop}, float{bits}, {threads} threads"


def print_all(document: Mapping[str, Any]) -> None:
    """The engine, the limits, and a table of each part."""
    tell_engine(document)
    if document["limits"]:
        heads: tuple[str, ...] = (
            "machine",
            "FMA\n1/ns",
            "sincos\nns",
            "vector op\nns",
            "stored op\nns",
            "memory\nGB/s",
        )
        keys = ("fma_per_ns", "sincos_ns", "vector_ns", "stored_ns", "memory_GB_per_s")
        rows = [
            [f"float{row['bits']}, {plural(row['threads'], 'thread')}", *(digits(row[key]) for key in keys)]
            for row in document["limits"]
        ]
        table(f"The machine's limit, {document['engine']['isa']}", heads, rows)
    if "w1" in document:
        known = document["w1"]["rows"]
        rows = [[*against(row), f"{digits(row['us'] / known[0]['us'])}x"] for row in known]
        title = "W1: 5 learners, 17 kernels, d = 81, CV included; one learner and step"
        table(title, ("engine", *AGAINST, "times\nthe first"), rows, known)
    if "w2" in document:
        known = document["w2"]["rows"]
        rows = [[row["name"], digits(row["us"]), f"{digits(row['times_ours'])}x"] for row in known]
        heads = ("learner", "CPU time\nµs", "times\nthe first")
        table("W2: one sample from Python: predict, then learn", heads, rows, known)
    for key, what in (("device", "one device"), ("network", "a ring of 6")):
        known = document.get("w5", {}).get(key, {"rows": []})["rows"]
        if known:
            parts = [[digits(part) for part in row.get("limit_parts_us", {}).values()] for row in known]
            rows = [[*against(row), *more] for row, more in zip(known, parts, strict=True)]
            heads = ("engine", *AGAINST, *auto.PARTS) if parts[0] else ("engine", *AGAINST)
            table(f"W5: Auto, size 1000, {what}; one learner and round", heads, rows, known)


def table(
    title: str,
    heads: tuple[str, ...],
    rows: list[list[str]],
    timed: list[dict[str, Any]] | None = None,
    spare: tuple[int, ...] = (),
) -> None:
    """Print a table; the least time is bold where the rows do the same work, and what "limit" is below it."""
    bold = frozenset((i, 1) for i in least_of([row["us"] for row in timed or []]))
    known = {head.split("\n")[0] for head in heads} | ({"bold"} if bold else set())
    words = frozenset({0, *(c for c, head in enumerate(heads) if head == "bound by")})
    legend = {term: meaning for term, meaning in LEGEND.items() if term in known}
    print()
    show.sheet(Sheet(title, heads, rows, words, bold, spare, legend))


def against(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Name, time, limit and fraction of it as cells."""
    fraction = f"{row['fraction']:.2f}" if "fraction" in row else NONE
    return row["name"], digits(row["us"]), digits(row.get("limit_us")), fraction

"""`domkl bench`: how fast the engines are on this machine, beside what the machine can do at most.

One learner, one step and one kernel need, whatever the program:

    D d             multiplications with addition, at the measured peak,
    D               pairs of sin and cos, by the engine's own polynomials, from L1 to L1,
    (8 + 2 deg) 2D  vector operations on values in L1: eight of the update, two for each neighbour,

one after the other: that is the limit. `bench_auto.py` has that of `Auto` (W5), and what its sizes cost.
In a checkout, `python benchmarks/bench` adds other libraries, large networks and the second-order step.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import __version__, engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float
from ..base.words import NONE, digits, plural
from ..lab.sheet import Sheet, least_of
from ..learner import Learner
from ..learning import kernels
from ..learning.first_order import Rates
from ..models.settings import Paper
from ..simulator import simulate
from . import bench_auto, declare, show
from .bench_auto import EngineRun, Report

PARTS = ("limits", "w1", "w2", "w5", "sizes")
LOOPS = ("fma", "sincos", "vector", "stored", "triad")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
AGAINST = ("time\nµs", "limit\nµs", "fraction")
LEGEND = {
    "limit": "the time if the machine did these operations at the speeds measured above",
    "fraction": "of the machine's speed that is reached: limit / time",
    "bold": "the least time",
    "alone": "CPU time of a device without neighbours",
    "linked": "with two, from whom it takes a message each; an agent's own work comes on top",
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


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "measure the engines and the machine's limit"
    add = declare(commands, "bench", text, run)
    add("--quick", action="store_true", help="a few seconds in all; its figures mean little")
    add("--only", metavar="A,B", help=f"parts to measure, of {', '.join(PARTS)}")
    add("--inputs", metavar="D", type=int, default=12, help="of a sample, for sizes; or 12")
    add("--targets", metavar="M", type=int, default=1, help="of a sample, for sizes; or 1")
    add("--within", metavar="MS", type=float, help="recommend a size for MS a sample")
    add("--out", metavar="DIR", help="also write the figures to DIR/bench.json")


def run(args: argparse.Namespace) -> None:
    """Measure, show, and write the figures where asked."""
    named = PARTS if args.only is None else [part.strip() for part in args.only.split(",") if part.strip()]
    if not named:
        raise InputError(f"--only names no part; expected some of {', '.join(PARTS)}; name one")
    parts, folder = [checks.one_of("part", part, PARTS) for part in named], made_folder(args.out)
    if args.within is not None:
        checks.positive("within", args.within)
        parts = [*parts, "sizes"] if args.only else ["sizes"]
    print("domkl: measuring; run nothing else meanwhile", file=sys.stderr)
    with show.progress("measuring") as bar:
        document = measure(parts, quick=args.quick, report=bar, inputs=args.inputs, targets=args.targets)
    if args.within is not None:
        document["recommended"] = bench_auto.recommended(document["sizes"], 1000 * args.within)
    write(document, folder)
    if args.json:
        show.document(document)
    else:
        print_all(document)


def made_folder(name: str | None) -> Path | None:
    """The directory for the figures, made before measuring takes minutes."""
    if name is None:
        return None
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{name} cannot be made: {error.strerror}; expected a directory; choose another --out"
        ) from None
    return Path(name)


def write(document: Mapping[str, Any], folder: Path | None) -> None:
    """The figures as bench.json, if there is a folder for them."""
    if folder is not None:
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / "bench.json").write_text(text + "\n", encoding="utf-8")


def measure(
    only: Iterable[str] = PARTS,
    *,
    quick: bool = False,
    report: Report = lambda done, total: None,
    inputs: int = 12,
    targets: int = 1,
) -> dict[str, Any]:
    """The figures of these parts; the limits always, as the others need them. Sizes are measured with samples
    of so many inputs and targets."""
    wanted, size = {checks.one_of("part", part, PARTS) for part in only}, QUICK if quick else FULL
    engine = engine_in_use()
    runs = contenders(engine["isa"] is not None)
    trials = {} if engine["isa"] is None else limit_trials(engine["isa"], runs, size)
    if "w1" in wanted:
        trials |= {run.name: timed(_network(run, size), NETWORK.J * size.T) for run in runs}
    fast = [run for run in runs if run.engine == "native"] or runs
    least = best(trials, size.turns, report)
    if "w5" in wanted:
        turns = size.turns if quick else bench_auto.TURNS
        least |= best(bench_auto.trials(fast, engine["isa"], quick), turns, report)
    found = {} if engine["isa"] is None else limits_of(least, runs)
    document: dict[str, Any] = {"quick": quick, "machine": machine(), "engine": engine}
    document["limits"] = [one.document() for one in found.values()]
    if "w1" in wanted:
        document["w1"] = _w1_document(runs, least, found, size)
    if "w2" in wanted:
        document["w2"] = device({}, size, found.get((64, 1)))
    if "w5" in wanted:
        document["w5"] = bench_auto.document(fast, least)
    if "sizes" in wanted:
        document["sizes"] = bench_auto.costs(inputs, targets, quick, report)
    return document


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
    from ..engines._native import _engine

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


def machine() -> dict[str, Any]:
    """Processor, caches in bytes and versions; neither the machine's name nor its paths."""
    return {
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "load": busy(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "system": platform.system(),
        "caches": caches(),
        "python": platform.python_version(),
        "domkl": __version__,
        "numpy": np.__version__,
    }


def engine_in_use() -> dict[str, Any]:
    """Which engine `auto` takes here, and why."""
    missing = engines.available()
    if missing is not None:
        return {"in_use": "numpy", "why": missing, "isa": None, "runs": []}
    from ..engines._native import _engine

    isa = _engine.best()
    runs = [name for name in ("baseline", "avx2", "avx512") if _engine.runs(name)]
    why = f"it was built, and {isa} is the widest instruction set that this processor runs"
    return {"in_use": "native", "why": why, "isa": isa, "runs": runs}


def busy() -> float | None:
    """How many processes wanted a core in the last minute; None where the system does not tell."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def caches() -> dict[str, int]:
    """Bytes of each cache of data, as "L1", "L2", ...; empty where the system does not tell."""
    found = {}
    for entry in sorted(CACHES.glob("index*")):
        kind, level, size = (_read(entry / name) for name in ("type", "level", "size"))
        if kind in ("Data", "Unified") and size:
            found[f"L{level}"] = int(size.rstrip("KMG")) * UNITS.get(size[-1], 1)
    return found


def _processor() -> str | None:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def print_all(document: Mapping[str, Any]) -> None:
    """The engine, the limits, and a table of each part."""
    console, engine = show.console(), document["engine"]
    console.print(f"engine: {engine['in_use']}, as {engine['why']}")
    load, cores = document["machine"]["load"], document["machine"]["usable_cores"]
    if load is not None and load > cores + 1:
        console.print(
            f"{load:g} processes wanted {plural(cores, 'core')}: figures are worse than the machine's"
        )
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
        table(f"The machine's limit, {engine['isa']}", heads, rows)
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
            heads = ("engine", *AGAINST, *bench_auto.PARTS) if parts[0] else ("engine", *AGAINST)
            table(f"W5: Auto, size 1000, {what}; one learner and round", heads, rows, known)
    if "sizes" in document:
        rows = [
            [
                f"{row['size']:,}",
                digits(row["alone_us"] / 1000),
                digits(row["linked_us"] / 1000),
                digits(row["bytes"] / 1e6),
                digits(row["message_bytes"] / 1000),
            ]
            for row in document["sizes"]
        ]
        heads = ("size", "alone\nms", "linked\nms", "memory\nMB", "message\nkB")
        table("What a sample of Auto costs: to predict, then learn it", heads, rows)
    if "recommended" in document:
        size = document["recommended"]
        print(f"\nwithin that time: domkl.Auto(size={size}); give all learners of a network the same size")


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

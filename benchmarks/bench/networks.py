"""W3: large networks, each in a process of its own that measures its peak memory.

    python benchmarks/bench/networks.py NETWORK      run one, print its times and peak memory as JSON

Where the state is larger than the last cache, its bytes must also come from memory and go back: the larger
of that bound and of `domkl bench`'s counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import workloads
from workloads import Limits, Shape

from domkl import engines
from domkl.base.errors import Error
from domkl.cli.bench import caches, usable_cores
from domkl.engines import Setting
from domkl.exchange.graph import Graph, as_graph
from domkl.learning import kernels, losses
from domkl.learning.first_order import Rates
from domkl.models.settings import Paper
from domkl.simulator import simulate

#: What is taken for the last cache where the system does not tell.
LAST_CACHE = 32 << 20
Made = TypeVar("Made")

DEGREE = 6


class W3Size(NamedTuple):
    """Learners and rounds of the three networks, and how often all of it is run."""

    small: tuple[int, int]
    large: tuple[int, int]
    ring: tuple[int, int]
    rounds: int


FULL = W3Size(small=(1000, 200), large=(100_000, 5), ring=(1_000_000, 3), rounds=2)
QUICK = W3Size(small=(60, 10), large=(300, 5), ring=(1000, 3), rounds=1)


class BenchNetwork(NamedTuple):
    """What a child process runs."""

    key: str  # "small", "large", "lattice" or "ring"
    J: int
    T: int
    P: int = 17
    D: int = 50
    d: int = 21
    bits: int = 64
    threads: int = 1
    keep_state: bool = True
    repeats: int = 1

    @property
    def name(self) -> str:
        """As the table calls it."""
        kind = {"ring": "ring of ", "lattice": "lattice of "}.get(self.key, "J = ")
        words = "one thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{kind}{self.J:,}, {words}{', float32' * (self.bits == 32)}"

    @property
    def shape(self) -> Shape:
        """What its limit depends on."""
        return Shape(self.J, self.P, self.D, self.d, 2 if self.key == "ring" else DEGREE)

    @property
    def is_scattered(self) -> bool:
        """Whether neighbours lie anywhere in memory, as in a random graph."""
        return self.key in ("small", "large")


def rates_of(document: dict[str, float]) -> tuple[float, ...]:
    """The fields of `Limits` from what its `document` says."""
    keys = ("sincos_ns", "vector_ns", "stored_ns")
    per_ns = (document["fma_per_ns"], *(1 / document[key] for key in keys), document["memory_GB_per_s"])
    return (document["bits"], document["threads"], *(1e9 * rate for rate in per_ns))


def memory_bytes(network: BenchNetwork, limits: Limits, cache: int) -> float:
    """Bytes that one learner, step and kernel move between memory and the last cache.

    Of the state: theta and mu are read, the new ones written; of the data, x is read. In a scattered graph
    neighbours' rows come from memory as well, but for the part of theta that the cache holds.
    """
    size = limits.bits // 8
    row = 2 * network.D * size
    theta = network.J * row * limits.threads  # each thread is at a kernel of its own
    if 3 * theta <= cache:
        return 0.0
    absent = network.shape.deg * max(0.0, 1 - cache / theta) if network.is_scattered else 0.0
    return (4 + absent) * row + network.d * size


def against(network: BenchNetwork, limits: Limits, seconds: float, cache: int) -> dict[str, Any]:
    """Seconds of one learner and step beside the limit, and what that is bound by."""
    found = limits.against(network.shape, seconds)
    memory = 1e6 * network.P * memory_bytes(network, limits, cache) / limits.triad
    us = max(found["limit_us"], memory)
    return {
        "limit_us": us,
        "fraction": us / (1e6 * seconds),
        "bound_by": "memory" if memory > found["limit_us"] else "compute",
        "limit_parts_us": {**found["limit_parts_us"], "memory": memory},
    }


def networks(size: W3Size) -> list[BenchNetwork]:
    """A network that the cache holds, two that it does not, and a very long ring.

    Of the large ones, neighbours lie anywhere in one (a random graph), and side by side in the other.
    """
    counts = (1, 2) if usable_cores() > 1 else (1,)
    most = counts[-1]
    return [
        *(BenchNetwork("small", *size.small, threads=n, repeats=4) for n in counts),
        BenchNetwork("small", *size.small, threads=most, bits=32, repeats=4),
        *(BenchNetwork("large", *size.large, threads=n, keep_state=False) for n in counts),
        BenchNetwork("lattice", *size.large, keep_state=False),
        BenchNetwork("ring", *size.ring, P=3, D=16, threads=most, keep_state=False),
    ]


def measure(quick: bool, known: list[Limits]) -> dict[str, Any]:
    """Every network's time and memory, beside the limits of this run."""
    size = QUICK if quick else FULL
    chosen, answers = networks(size), dict[str, dict[str, Any]]()
    trials = {network.name: _trial(network, answers) for network in chosen}
    workloads.best(trials, size.rounds)
    rows = [_row(network, answers[network.name], known) for network in chosen]
    us = {row["key"]: row["rounds_us"] for row in rows if (row["bits"], row["threads"]) == (64, 1)}
    ratios = {f"{key}_to_small": us[key] / us["small"] for key in ("large", "lattice")}
    return {"rows": rows, "ratios": ratios}


def _trial(network: BenchNetwork, answers: dict[str, dict[str, Any]]) -> workloads.Trial:
    """Runs a child, and keeps the fastest one's answer."""

    def trial() -> float:
        answer = _child(network)
        kept = answers.setdefault(network.name, answer)
        if answer["seconds"] < kept["seconds"]:
            answers[network.name] = answer
        return float(answer["seconds"])

    return trial


def _row(network: BenchNetwork, answer: dict[str, Any], known: list[Limits]) -> dict[str, Any]:
    same = [one for one in known if (one.bits, one.threads) == (network.bits, network.threads)]
    cache = max(caches().values(), default=LAST_CACHE)
    beside = against(network, same[0], answer["us"] / 1e6, cache) if same else {}
    return {"name": network.name, **network._asdict(), "deg": network.shape.deg, **answer, **beside}


def _child(network: BenchNetwork) -> dict[str, Any]:
    """Run a network in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, __file__, json.dumps(network._asdict())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"signal {-done.returncode}"])[-1]
        raise Error(f"{network.name} failed: {last}; expected it to run; see whether memory was short")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def random_regular(J: int, degree: int = DEGREE, seed: int = 0) -> Any:
    """Edges of a connected random graph, nearly regular: degree/2 random rings through all. (E, 2)"""
    rng = np.random.default_rng(seed)
    rings = [rng.permutation(J) for _ in range(degree // 2)]
    pairs = np.concatenate([np.stack([ring, np.roll(ring, 1)], axis=1) for ring in rings])
    return np.unique(np.sort(pairs, axis=1), axis=0)


def peak_bytes() -> int | None:
    """Peak memory of this process in bytes; None where the system does not tell.

    On Linux a child inherits its parent's ru_maxrss, so VmHWM is read there, which starts at zero.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def run_here(network: BenchNetwork) -> dict[str, Any]:
    """Microseconds for a learner and step: all of `simulate`, and its rounds without the graph's set-up."""
    J, T, d = network.J, network.T, network.d
    before = peak_bytes()
    X, y = workloads.stream(J, T, d, network.bits)
    V = kernels.gaussian(d, network.D, sigma2=kernels.PAPER_SIGMA2[: network.P])
    graph, built = timed(lambda: _graph(network))
    options: Any = {"threads": network.threads, "keep_state": network.keep_state}
    model = Paper(kernels=V)
    once = lambda: simulate(X, y, graph, model=model, dtype=X.dtype.type, **options)  # noqa: E731
    seconds = min(timed(once)[1] for _ in range(network.repeats))
    peak = peak_bytes()
    how = engines.Algorithm(Rates.paper(T), losses.get("squared"))
    setting = Setting(V.astype(X.dtype), graph, how, keep_state=network.keep_state)
    set_up = min(timed(lambda: engines.make("auto", setting))[1] for _ in range(network.repeats))
    return {
        "seconds": seconds,
        "graph_s": built,
        "set_up_s": set_up,
        "us": 1e6 * seconds / (J * T),
        "rounds_us": 1e6 * max(seconds - set_up, 0.0) / (J * T),
        "import_bytes": before,
        "data_bytes": X.nbytes + y.nbytes,
        "peak_bytes": peak,
    }


def _graph(network: BenchNetwork) -> Graph:
    J = network.J
    if network.key == "lattice":
        return as_graph([(j, (j + step) % J) for j in range(J) for step in range(1, DEGREE // 2 + 1)], J)
    return as_graph("ring" if network.key == "ring" else random_regular(J), J)


def timed(call: Callable[[], Made]) -> tuple[Made, float]:
    start = time.perf_counter()
    made = call()
    return made, time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(run_here(BenchNetwork(**json.loads(sys.argv[1])))))

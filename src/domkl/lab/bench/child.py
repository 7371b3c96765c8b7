"""`python -m domkl.lab.bench.child NETWORK`: run one network, print its times and peak memory as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ... import engines
from ...engines import Setting
from ...exchange.graph import Graph, as_graph
from ...learning import kernels, losses
from ...learning.first_order import Rates
from ...learning.settings import Paper
from ...simulator import simulate
from . import w1
from .w3 import DEGREE, BenchNetwork

Made = TypeVar("Made")


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


def run(network: BenchNetwork) -> dict[str, Any]:
    """Microseconds for a learner and step: all of `simulate`, and its rounds without the graph's set-up."""
    J, T, d = network.J, network.T, network.d
    before = peak_bytes()
    X, y = w1.stream(J, T, d, network.bits)
    V = kernels.gaussian(d, network.D, sigma2=kernels.PAPER_SIGMA2[: network.P])
    graph, built = _timed(lambda: _graph(network))
    options: Any = {"threads": network.threads, "keep_state": network.keep_state}
    model = Paper(kernels=V)
    once = lambda: simulate(X, y, graph, model=model, dtype=X.dtype.type, **options)  # noqa: E731
    seconds = min(_timed(once)[1] for _ in range(network.repeats))
    peak = peak_bytes()
    rates, loss = Rates.paper(T), losses.get("squared")
    setting = Setting(V.astype(X.dtype), graph, rates, loss, "neighbours", 0, network.keep_state)
    set_up = min(_timed(lambda: engines.make("auto", setting))[1] for _ in range(network.repeats))
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


def _timed(call: Callable[[], Made]) -> tuple[Made, float]:
    start = time.perf_counter()
    made = call()
    return made, time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(run(BenchNetwork(**json.loads(sys.argv[1])))))

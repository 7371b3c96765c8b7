"""How the cost of a round grows with J, P, D, d and degree, and that of `Auto` with J, size, d and m.

    python benchmarks/scaling.py [--quick] [--out DIR] [--only paper,auto]

One quantity changes, the others stay as in BASE; learners sit on a ring lattice. All points take turns,
and each keeps its best. The exponent k is that of fixed + slope * x^k, fitted to relative errors: what
does not depend on x (sin and cos do not depend on d, say) is in `fixed`. Rounds of `Auto` are those of
learners on a ring after so many that no scale is taken any more, in float32.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "bench"))

import auto
import workloads

import domkl
from domkl.cli.bench import engine_in_use, machine

HERE = Path(__file__).parent
BASE = {"J": 64, "P": 8, "D": 64, "d": 32, "degree": 6}
SWEEPS = {
    "J": [32, 64, 128, 256, 512, 1024, 2048],
    "P": [2, 4, 8, 16, 32, 64],
    "D": [16, 32, 64, 128, 256, 512],
    "d": [8, 16, 32, 64, 128, 256, 512],
    "degree": [2, 4, 8, 16, 32, 60],
}
AUTO = {"J": 6, "size": 400, "d": 12, "m": 1}
AUTO_SWEEPS = {
    "J": [3, 6, 12, 24, 48, 96],
    "size": [100, 200, 400, 800, 1600],
    "d": [4, 8, 16, 32, 64, 128],
    "m": [1, 2, 4, 8, 16],
}
ROUNDS = 60  # of a point; the same for all, as setting up a network takes time in proportion to J


def lattice(J: int, degree: int) -> list[tuple[int, int]]:
    """Each learner next to the degree/2 before and the degree/2 after it."""
    return [(j, (j + k) % J) for j in range(J) for k in range(1, degree // 2 + 1)]


def trial(shape: dict[str, int], T: int) -> workloads.Trial:
    """Seconds of one of T rounds."""
    J = shape["J"]
    X, y = workloads.stream(J, T, shape["d"])
    V = domkl.kernels.gaussian(shape["d"], shape["D"], sigma2=np.logspace(-1, 1, shape["P"]).tolist())
    graph = domkl.graph.as_graph(lattice(J, shape["degree"]), J)
    model = domkl.Paper(kernels=V)
    return workloads.timed(lambda: domkl.simulate(X, y, graph, model=model, threads=1), T)


def auto_trial(shape: dict[str, int], T: int, warm: int) -> workloads.Trial:
    """Seconds of one of T rounds of `Auto`."""
    turns = auto.Turns(auto.AutoShape(**shape), "auto", 32, 1, warm, T)
    return lambda: turns() * shape["J"]


def exponent(x: list[int], seconds: list[float]) -> dict[str, float]:
    """k, fixed and slope of seconds = fixed + slope * x^k."""
    xs, ys, best = np.array(x, float), np.array(seconds), (np.inf, 1.0, 0.0, 0.0)
    for k in np.arange(0.6, 3.001, 0.01):
        columns = np.stack([np.ones_like(xs), xs**k], axis=1) / ys[:, None]
        solved = np.linalg.lstsq(columns, np.ones_like(ys), rcond=None)[0]
        if solved[0] < 0:  # no cost is below nothing
            solved = np.array([0.0, (columns[:, 1].sum()) / (columns[:, 1] ** 2).sum()])
        error = float(((columns @ solved - 1) ** 2).sum())
        best = min(best, (error, float(k), float(solved[0]), float(solved[1])))
    return {"exponent": round(best[1], 2), "fixed_us": 1e6 * best[2], "slope_us": 1e6 * best[3]}


def measure(
    base: dict[str, int], ranges: dict[str, list[int]], turns: int, make: Callable[..., workloads.Trial]
) -> list[dict[str, Any]]:
    """Each quantity's sweep; `make` gives a trial of a shape."""
    shapes = {f"{name} = {x}": base | {name: x} for name, xs in ranges.items() for x in xs}
    least = workloads.best({name: make(shape) for name, shape in shapes.items()}, turns)
    result = []
    for name, xs in ranges.items():
        seconds = [least[f"{name} = {x}"] for x in xs]
        end = float(np.log(seconds[-1] / seconds[-2]) / np.log(xs[-1] / xs[-2]))
        times = [1e6 * s for s in seconds]
        result.append({"over": name, "x": xs, "us": times, "last_slope": end, **exponent(xs, seconds)})
    return result


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few seconds; figures mean little")
    options.add_argument("--out", type=Path, default=HERE / "results", help="where scaling.json goes")
    options.add_argument(
        "--only", default="paper,auto", help="which model's sweeps; others stay as they were"
    )
    args = options.parse_args()
    turns, T, warm = (2, 3, 40) if args.quick else (7, ROUNDS, auto.WARM)
    path = args.out / "scaling.json"
    document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if "paper" in args.only:
        sweeps = measure(BASE, SWEEPS, turns, lambda shape: trial(shape, T))
        about = {"machine": machine(), "engine": engine_in_use()}
        document |= {**about, "base": BASE, "sweeps": sweeps}
    if "auto" in args.only:
        sweeps = measure(AUTO, AUTO_SWEEPS, turns, lambda shape: auto_trial(shape, T, warm))
        about = {"machine": machine(), "engine": engine_in_use()}
        document["auto"] = {**about, "base": AUTO, "sweeps": sweeps}
    args.out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")
    for sweep in (*document.get("sweeps", ()), *document.get("auto", {}).get("sweeps", ())):
        print(f"{sweep['over']:>6}: exponent {sweep['exponent']:.2f}, last slope {sweep['last_slope']:.2f}")


if __name__ == "__main__":
    main()

"""Are today's predictions those that are kept? Every model on every set, bit for bit.

    python benchmarks/same_predictions.py                 compare all cases; needs DOMKL_DATA and River
    python benchmarks/same_predictions.py --only drift    those whose names contain a word
    python benchmarks/same_predictions.py --arrays FILE   tell the largest difference from an npz, too
    python benchmarks/same_predictions.py --keep FILE     make predictions.json from such an npz, run nothing
    python benchmarks/same_predictions.py --write FILE    write today's predictions to an npz

`results/predictions.json` holds, for each case, the SHA-256 of the predictions' bytes, the first and the last
three of the first learner, and the mean squared error. A hash says that something differs, an npz by how
much. Bits are those of one kind of processor: others round differently.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import accuracy
import drift
import networkx as nx
import numpy as np

import domkl
from domkl import datasets

RESULTS = Path(__file__).parent / "results" / "predictions.json"


class Case(NamedTuple):
    """What `simulate` is called with."""

    X: np.ndarray
    y: np.ndarray
    graph: Any
    model: domkl.Auto | domkl.Paper
    options: dict[str, Any]

    def predictions(self) -> np.ndarray:
        return domkl.simulate(self.X, self.y, self.graph, model=self.model, **self.options).y_hat


def paper(name: str, step: str, engine: str) -> Case:
    """The paper's learner on one of the five sets, inputs on [0, 1]."""
    X = datasets.load(name, y_scale="minmax").split(5, accuracy.SETS[name][0], 0).X
    y = accuracy.streams(name, 5, 0)[1]
    T = min(1200, y.shape[1]) if step == "first" else 300
    V = domkl.kernels.gaussian(X.shape[-1], 20, seed=0, sigma2=[0.1, 1, 10])
    model = domkl.Paper(kernels=V, rates=domkl.Rates(0.1, 0.1, 1.0), step=step)
    return Case(X[:, :T], y[:, :T], "ring", model, {"engine": engine})


def auto(name: str, size: int, dtype: type) -> Case:
    """The learner without settings on one of the five sets, inputs raw."""
    X, y = accuracy.streams(name, 5, 0)
    return Case(X[:, :1200], y[:, :1200], "ring", domkl.Auto(size=size), {"dtype": dtype})


def stations_auto() -> Case:
    split = datasets.load_stations()
    X, y = split.X[:, :3000], split.y[:, :3000]
    return Case(X, y, "complete", domkl.Auto(size=400), {"delay": split.delay, "dtype": np.float32})


def stations_paper() -> Case:
    split = datasets.load_stations()
    V = domkl.kernels.gaussian(split.X.shape[-1], 50, seed=0)
    model = domkl.Paper(kernels=V, rates=domkl.Rates.paper(8000, 0.03, 0.01))
    return Case(split.X, split.y, "complete", model, {"delay": split.delay})


def drifting(kind: str) -> Case:
    X, y, delay = drift.stations(0) if kind == "stations" else drift.friedman(kind, 0)
    return Case(X, y, "ring", domkl.Auto(size=400, start=float(y[:, 0].mean())), {"delay": delay})


def twenty() -> Case:
    X, y = accuracy.streams("weather", 20, 0)
    return Case(X[:, :300], y[:, :300], nx.cycle_graph(20), domkl.Auto(size=400), {})


def cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    for name in accuracy.SETS:
        for engine in ("numpy", "native"):
            for step in ("first", "newton"):
                yield f"{name}/paper-{step}-{engine}", lambda n=name, s=step, e=engine: paper(n, s, e)
        yield f"{name}/auto-400", lambda n=name: auto(n, 400, np.float64)
        yield f"{name}/auto-1700-f32", lambda n=name: auto(n, 1700, np.float32)
    yield "stations/auto-400", stations_auto
    yield "stations/paper", stations_paper
    for kind in (*drift.CHANGES, "stations"):
        yield f"drift/{kind}", lambda k=kind: drifting(k)
    yield "twenty/ring", twenty


def summary(y_hat: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """What is kept of a case."""
    return {
        "sha256": hashlib.sha256(np.ascontiguousarray(y_hat).tobytes()).hexdigest(),
        "dtype": y_hat.dtype.name,
        "shape": list(y_hat.shape),
        "first": y_hat[0, :3].tolist(),
        "last": y_hat[0, -3:].tolist(),
        "mse": float(((y_hat - y) ** 2).mean()),
    }


def judged(found: dict[str, Any], kept: dict[str, Any], y_hat: np.ndarray, old: np.ndarray | None) -> str:
    """One line about a case: equal, or how far it is off."""
    if found["sha256"] == kept["sha256"]:
        return "equal"
    if found["shape"] != kept["shape"]:
        return f"shape {found['shape']}, kept {kept['shape']}"
    errors = f"mse {found['mse']:.6g}, kept {kept['mse']:.6g}"
    if old is not None:
        return f"differs by at most {np.abs(y_hat - old).max():.3g}; {errors}"
    ends = np.subtract(found["first"] + found["last"], kept["first"] + kept["last"])
    return f"differs, at the ends by {np.abs(ends).max():.3g}; {errors}"


def compare(only: str, old: dict[str, np.ndarray], write: Path | None) -> int:
    """Run the cases and print a line for each; the number of those that differ."""
    kept, differ, today = json.loads(RESULTS.read_text()), 0, {}
    for name, make in cases():
        if only not in name:
            continue
        case = make()
        y_hat = today[name] = case.predictions()
        found = summary(y_hat, case.y)
        verdict = judged(found, kept[name], y_hat, old.get(name))
        differ += verdict != "equal"
        print(f"{name:34} {verdict}", flush=True)
    if write:
        np.savez_compressed(write, **today)
    print(f"{len(today) - differ} of {len(today)} cases are equal to the bit")
    return differ


def keep(arrays: dict[str, np.ndarray]) -> None:
    """Write predictions.json from arrays."""
    kept = {name: summary(arrays[name], make().y) for name, make in cases()}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a part of the cases' names")
    parser.add_argument("--arrays", type=Path, help="kept predictions as an npz, to tell differences")
    parser.add_argument("--keep", type=Path, help="make predictions.json from this npz")
    parser.add_argument("--write", type=Path, help="write today's predictions to this npz")
    args = parser.parse_args()
    source = args.keep or args.arrays
    old = dict(np.load(source)) if source else {}
    if args.keep:
        keep(old)
        return 0
    return int(compare(args.only, old, args.write) > 0)


if __name__ == "__main__":
    sys.exit(main())

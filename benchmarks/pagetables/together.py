"""Together beside alone, the stations' year, and sizes: from together.py, stations.py and judge.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, read, table

SIZES = (100, 400, 700, 1000, 1700)
#: Size of the learner before that the sizes are compared with, and what their time was compared on.
BEFORE = 1700
TIMED = {"device": "device, simulate", "ring": "ring of five, simulate"}


def _geometric(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def networks() -> str:
    """Errors over variance together and in separate runs without links."""
    rows = []
    for name, found in read("together").items():
        both, alone = ([row[what] for row in found.values()] for what in ("together", "alone"))
        ratios = [a / b for a, b in zip(both, alone, strict=True)]
        span = f"{min(ratios):.3f} to {max(ratios):.3f}"
        cells = [f"{_geometric(both):.4f}", f"{_geometric(alone):.4f}", f"{_geometric(ratios):.3f}", span]
        rows.append([name, str(len(found)), *cells])
    return table("error / variance | seeds | together | alone | together / alone | least and greatest", rows)


def year() -> str:
    """The stations' year: mean, least and greatest over seeds, in words."""
    words = []
    for name in ("together", "alone"):
        rows = read("stations")["auto"].values()
        found = [float(np.sqrt(np.mean(np.square(row[name])))) for row in rows]
        words.append(f"{name} {np.mean(found):.2f} °F ({min(found):.2f} to {max(found):.2f})")
    return ", ".join(words)


def sizes() -> str:
    """Error and CPU time of a sample of each size over those of the learner before with 1700, seed 0."""
    kept: dict[str, Any] = read("judge")
    before, beside = kept[f"before-{BEFORE}"], read("beside")
    streams = [name for name in before if all(name in kept[f"now-{size}"] for size in SIZES)]
    rows = []
    for size in SIZES:
        found = kept[f"now-{size}"]
        error = [found[name]["0"]["together"] / before[name]["0"]["together"] for name in streams]
        pairs = [beside.get(case, {}).get(f"{size} over {BEFORE}") for case in TIMED.values()]
        times = [f"{pair['new'] / pair['old']:.2f}" if pair else "" for pair in pairs]
        cells = [f"{_geometric(error):.3f}", f"{max(error):.3f}", *times]
        rows.append([str(size), *cells, *(f"{value:.3f}" for value in error)])
    times = [f"time, {name}" for name in TIMED]
    return table(" | ".join(["size", "error", "worst", *times, *streams]), rows)


MADE: dict[str, Maker] = {"together": networks, "stations-year": year, "sizes": sizes}

"""Together beside alone, the stations' year, and sizes: from together.py, stations.py and judge.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, read, table

SIZES = (400, 1000)
#: Size of the learner before that the sizes are compared with.
BEFORE = 1700


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
    """Errors of each size over those of the learner before with `BEFORE` parameters, means over seeds."""
    kept: dict[str, Any] = read("judge")
    before = kept[f"before-{BEFORE}"]
    rows = []
    for size in SIZES:
        found, ratios = kept[f"now-{size}"], []
        for name, seeds in before.items():
            now, then = ([rows[seed]["together"] for seed in seeds] for rows in (found[name], seeds))
            ratios.append(float(np.mean(now) / np.mean(then)))
        cells = [f"{value:.3f}" for value in (_geometric(ratios), max(ratios), *ratios)]
        rows.append([str(size), *cells])
    return table(" | ".join(["size", "all", "worst", *before]), rows)


MADE: dict[str, Maker] = {"together": networks, "stations-year": year, "sizes": sizes}

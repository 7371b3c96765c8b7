"""The twenty-three streams of `judge.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, read, table

#: Streams of networks that stand on the first page, in words.
SHOWN = {
    "weather": "weather, dealt to five",
    "conductivity": "superconductors, dealt to five",
    "air": "air quality, dealt to five",
    "a0": "ten learners, one made function",
    "a1": "ten learners, half of it their own",
    "clusters": "two clusters that do not know of each other",
    "tmax25": "25 weather stations",
    "stations6": "three airports, six hours ahead",
}


def _mean(rows: dict[str, dict[str, float]], what: str) -> float:
    """Geometric mean over seeds."""
    return float(np.exp(np.mean([np.log(row[what]) for row in rows.values()])))


def _column(size: int = 400, column: str = "now") -> dict[str, Any]:
    return dict(read("judge").get(f"{column}-{size}", {}))


def together() -> str:
    """Together and alone on the streams of the first page."""
    now = _column()
    rows = []
    for name, words in SHOWN.items():
        found = now.get(name, {})
        if not found or any("alone" not in row for row in found.values()):
            continue
        both, alone = _mean(now[name], "together"), _mean(now[name], "alone")
        rows.append([words, f"{both:.3f}", f"{alone:.3f}", f"{both / alone:.2f}"])
    return table("error over variance | together | alone | together / alone", rows)


def streams() -> str:
    """All streams: beside the learner before with the same seeds, and alone."""
    now, before = _column(), _column(column="before")
    rows, ratios = [], []
    for name, found in now.items():
        both = _mean(found, "together")
        ratios.append(both / _mean({seed: before[name][seed] for seed in found}, "together"))
        cells = ["", ""]
        if all("alone" in row for row in found.values()):
            alone = _mean(found, "alone")
            cells = [f"{both / alone:.3f}", f"{_mean(found, 'apart') / alone:.3f}"]
        rows.append([name, f"{both:.4f}", f"{ratios[-1]:.3f}", *cells, str(len(found))])
    geometric = float(np.exp(np.mean(np.log(ratios))))
    rows.append(["geometric mean", "", f"{geometric:.3f}", "", "", ""])
    return table("stream | error / variance | over 4f0e330 | over alone | shown alone / alone | seeds", rows)


MADE: dict[str, Maker] = {"judge-together": together, "judge": streams}

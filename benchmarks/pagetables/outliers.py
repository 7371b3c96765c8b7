"""docs/auto.md: labels that are wrong, from outliers.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, figure, read, table

STREAMS = ("made", "stations", "air")
MANY = ("1 to 100", "10 to 1e6", "up 3")
UNITS = ("x 1000", "F to C")
OUTLIERS = {"before": '`"keep"`', "after": '`"bound"`'}


def _cell(rows: dict[str, Any], name: str) -> str:
    """The mean over seeds, and the greatest."""
    found = np.array([row[name] for row in rows.values()])
    return f"{found.mean():.3f} ({found.max():.3f})"


def _worst(rows: dict[str, Any], after: int) -> str:
    """Of the moments from a round on, the greatest mean over seeds: at the learner, and at all."""
    names = [name for name in next(iter(rows.values())) if int(name.split()[0]) >= after]
    each = np.array([[row[name] for name in names] for row in rows.values()]).mean(0).max(0)
    return ", ".join(f"{value:.3f}" for value in each)


def bounded() -> str:
    seeds = read("outliers")["seeds"]
    rows = (
        [
            name,
            str(len(seeds[f"many {name} after"])),
            *(_worst(seeds[f"one {name} after"], after) for after in (8, 60)),
            *(_cell(seeds[f"many {name} after"], kind) for kind in MANY),
            _cell(seeds[f"cost {name} after"], "ratio"),
        ]
        for name in STREAMS
    )
    headings = "stream | seeds | one label, the ninth or later | the 61st or later | 5 %: 1 to 100 ranges"
    return table(f"{headings} | 10 to 1e6 | all by +3 | nothing wrong", rows)


def kept() -> str:
    seeds = read("outliers")["seeds"]
    rows = []
    for name in STREAMS[:2]:
        one, many = (seeds[f"{kind} {name} before"]["0"] for kind in ("one", "many"))
        sizes = (one[f"600 {size}"][1] for size in ("100", "1e+06", "1e+12"))
        rows.append([name, *(f"{value:.0e}" for value in sizes), *(f"{many[kind]:.0e}" for kind in MANY)])
    headings = '`outliers="keep"` | one of 1e2 ranges | 1e6 | 1e12 | 5 %: 1 to 100 ranges | 10 to 1e6'
    return table(f"{headings} | all by +3", rows)


def unit() -> str:
    seeds = read("outliers")["seeds"]
    rows = []
    for key in (f"unit {name} {way}" for name in STREAMS for way in ("before", "after")):
        if key in seeds:
            each = [[value for kind in UNITS for value in row[kind]] for row in seeds[key].values()]
            _, name, way = key.split()
            means = (figure(value) for value in np.mean(each, 0))
            rows.append([f"{name}, {OUTLIERS[way]}", str(len(each)), *means])
    of = ("itself", "itself over a new one", "the others")
    columns = " | ".join(f"{kind}: {one}" for kind in UNITS for one in of)
    return table(f"stream | seeds | {columns}", rows)


MADE: dict[str, Maker] = {"outliers": bounded, "outliers-kept": kept, "outliers-unit": unit}

"""docs/auto.md: streams that change, from drift.py and drift_limit.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .common import Maker, read, spread, table

#: The table's name of a change: kind and round in drift.json.
CHANGES = {
    "gra, first": ("gra", "700"),
    "gra, back to the old": ("gra", "1200"),
    "gsg, first": ("gsg", "700"),
    "gsg, second": ("gsg", "1300"),
    "lea, first": ("lea", "700"),
    "lea, second": ("lea", "1200"),
    "lea, third": ("lea", "1700"),
    "stations": ("stations", "2000"),
}
#: Rounds in which a network was to be back, and rounds that were looked at.
WANTED, LOOKED = 200, 350
LOCAL = {"1": "lea, first", "2": "lea, second", "3": "lea, third"}
#: Key in drift_limit.json: the table's.
LEARNERS = {
    "unchanged": "old function kept",
    "auto_fresh": "fresh ring of Auto",
    "extra_trees": "extra trees",
    "boosted_trees": "boosted trees",
    "oracle": "oracle",
}


def _back(rounds: float) -> str:
    if math.isnan(rounds):
        return f"**not in {LOOKED}**"
    return f"{rounds:.0f}" if rounds <= WANTED else f"**{rounds:.0f}**"


def _change(title: str, summary: dict[str, Any]) -> list[str]:
    kind, at = CHANGES[title]
    row, without = summary[kind][at], summary[f"{kind} without"][at]
    unit = row["level"] if kind == "stations" else 1.0
    plain = without["level"] if kind == "stations" else 1.0
    return [
        title,
        f"{row['level'] / unit:.2f}",
        f"{row['at_once'] / unit:.1f}",
        *(f"{row[key] / unit:.2f}" for key in ("rounds_150_200", "rounds_200_250")),
        _back(row["back_to_level"]),
        f"{row['ratio_to_fresh_50_200']:.2f}",
        f"{without['level'] / plain:.2f}, {without['rounds_200_250'] / plain:.2f}",
    ]


def recovery() -> str:
    summary = read("drift")["summary"]
    headings = "change | before | at once | rounds 150-200 | 200-250 | back after | against a fresh network"
    return table(f"{headings} | without: before, 200-250", (_change(title, summary) for title in CHANGES))


def cost() -> str:
    rows = read("drift")["stationary"]
    seeds = range(len(rows["friedman"]))
    lines = ([name, *(f"{row[str(seed)]['ratio']:.3f}" for seed in seeds)] for name, row in rows.items())
    return table(f"MSE with forgetting over without | {' | '.join(f'seed {s}' for s in seeds)}", lines)


def local() -> str:
    kept = read("drift_limit")["lea"]
    rows = (
        [title, *(spread([row[key] for row in kept[change].values()], 2) for key in LEARNERS), "1.10"]
        for change, title in LOCAL.items()
    )
    return table(f"change | {' | '.join(LEARNERS.values())} | wanted of it", rows)


def _ratio(kept: dict[str, Any], name: str) -> list[str]:
    """Summed errors over those without a change, and the spread over draws of change times."""
    some, plain = (np.vstack([rows[key] for rows in kept.values()]) for key in (name, "unchanged"))
    drawn = np.random.default_rng(0).integers(0, len(some), (1000, len(some)))
    off = (some[drawn].sum(1) / plain[drawn].sum(1)).std(0)
    return [
        f"{m:.1f} ± {s:.1f}" if m >= 10 else f"{m:.2f} ± {s:.2f}"
        for m, s in zip(some.sum(0) / plain.sum(0), off, strict=True)
    ]


def stations() -> str:
    kept = read("drift_limit")["stations"]
    windows = len(next(iter(kept.values()))["changed"][0])
    rows = [["with the change", *_ratio(kept, "changed")], ["a fresh network", *_ratio(kept, "fresh")]]
    headings = " | ".join(f"{50 * k}-{50 * (k + 1)}" for k in range(windows))
    return table(f"rounds after the change | {headings}", rows)


MADE: dict[str, Maker] = {
    "drift": recovery,
    "drift-cost": cost,
    "drift-limit": local,
    "drift-stations": stations,
}

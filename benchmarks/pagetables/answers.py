"""docs/results.md and docs/answers.md: alarms and explanations, from alarms.py and explain.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, figure, read, table

RATES = ("0.01", "0.002")
FAULTS = ("spike", "stuck", "drift", "unit change")
WHO = {
    "ours": "domkl",
    "GaussianScorer": "River GaussianScorer",
    "StandardAbsoluteDeviation": "River StandardAbsoluteDeviation",
    "HalfSpaceTrees": "River HalfSpaceTrees",
}


def _rate(found: dict[str, Any]) -> str:
    return f"{found['alarms']} of {found['asked']:.0f} ({found['ratio']:.2f})"


def false_alarms() -> str:
    streams = read("alarms")["rates"]
    order = sorted(streams, key=lambda name: (not streams[name]["chosen_on"], name.startswith("made"), name))
    rows = (
        [
            name,
            f"{streams[name]['readings']:,}",
            "yes" if streams[name]["chosen_on"] else "no",
            *(_rate(streams[name][rate]) for rate in RATES),
        ]
        for name in order
    )
    return table("stream | readings | constants chosen on it | alarms at rate 0.01 | at 0.002", rows)


def within(rate: str) -> str:
    """How many streams have at most 20 % more or fewer alarms than asked for."""
    found = [each[rate]["ratio"] for each in read("alarms")["rates"].values()]
    return f"{sum(abs(ratio - 1) <= 0.2 for ratio in found)} of {len(found)}"


def _faults(who: str, fault: str, rate: str) -> str:
    rows = [stream[who][fault][rate] for stream in read("alarms")["faults"].values()]
    total, found = sum(row["faults"] for row in rows), sum(row["faults"] * row["found"] for row in rows)
    delays = [row["delay"] for row in rows if row["delay"] is not None]
    late = f", {np.median(delays):.0f} late" if delays and fault != "spike" else ""
    return f"{100 * found / total:.0f} %{late}"


def detected(rate: str) -> str:
    rows = ([name, *(_faults(who, fault, rate) for fault in FAULTS)] for who, name in WHO.items())
    return table(f"rate {rate} | " + " | ".join(FAULTS), rows)


def friedman() -> str:
    found = read("explain")
    rows = (
        [
            f"`{name}`",
            f"{row['found']} of {row['of']}",
            figure(row["least_margin"], 2),
            *(f"{100 * part:.0f} %" for part in row["part"][:5]),
            f"{100 * sum(row['part'][5:]):.1f} %",
        ]
        for name, row in found.items()
        if name != "copied"
    )
    return table("model | five found | least margin | x0 | x1 | x2 | x3 | x4 | x5 to x9", rows)


def copied() -> str:
    part = read("explain")["copied"]["part"]
    return f"x3 {100 * part[3]:.0f} %, its copy {100 * part[5]:.0f} %"


MADE: dict[str, Maker] = {
    "false-alarms": false_alarms,
    "alarms-within-0.01": lambda: within("0.01"),
    "alarms-within-0.002": lambda: within("0.002"),
    "faults-0.01": lambda: detected("0.01"),
    "faults-0.002": lambda: detected("0.002"),
    "friedman": friedman,
    "friedman-copied": copied,
}

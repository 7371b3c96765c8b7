"""docs/results.md: forecasts, classes, explanations and unequal rates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .common import Maker, figure, read, table

#: The leads that are shown, and words for the series that were not looked at while inputs were chosen.
SHOWN = (1, 6, 24)
SERIES = {
    "stations": "temperature at a station",
    "traffic": "cars on a road",
    "bike": "bicycles hired",
    "air": "carbon monoxide",
    "shop": "demand of a shop, made",
    "nitrogen": "NO₂ *",
    "oxides": "NOx *",
    "demand": "demand for electricity *",
    "first station": "a second station *",
    "third station": "a third station *",
    "machine": "a machine that runs or not, made *",
}


def _kept() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for key, value in read("forecast").items():
        name, part = key.split(": ")
        found.setdefault(name, {})[part] = value
    return {name: found[name] for name in SERIES if name in found}


def _ours(parts: dict[str, Any], key: str = "rmse") -> np.ndarray:
    """Of each seed. (seeds, 24)"""
    return np.array([parts[part][key] for part in parts if part.startswith("ours ")])


def _at(values: Any) -> np.ndarray:
    return np.array([values[lead - 1] for lead in SHOWN])


def _ratios(ours: np.ndarray, other: Any) -> str:
    return " / ".join(f"{ratio:.2f}" for ratio in ours / np.array(other))


def errors() -> str:
    """Errors, and their ratio to those of others."""
    rows = []
    for name, parts in _kept().items():
        seeds = _ours(parts)
        mean = _at(seeds.mean(0))
        naive = _at(_ours(parts, "naive").mean(0))
        others = [_ratios(mean, parts[key]) if key in parts else "" for key in ("lightgbm", "ridge")]
        classical = parts.get("classical")
        old = [
            _ratios(np.array(classical["ours"]), classical[k]) if classical else ""
            for k in ("MSTL", "AutoETS")
        ]
        shown = " / ".join(figure(value) for value in mean)
        rows.append([SERIES[name], shown, *others, _ratios(mean, naive), *old, str(len(seeds))])
    heads = "over LightGBM | over ridge | over simple guess | over MSTL | over AutoETS | seeds"
    return table(f"error at 1 / 6 / 24 h | domkl | {heads}", rows)


def one() -> str:
    """24 leads in one run beside one lead by itself."""
    rows = []
    for name, parts in _kept().items():
        pairs = [(parts[f"ours {n}"], parts[f"one {n}"]) for n in range(10) if f"one {n}" in parts]
        if pairs:
            ratio = np.mean([_at(ours["rmse"]) / np.array(each["rmse"]) for ours, each in pairs], axis=0)
            cost = np.mean([each["cost of 24 leads"] for _, each in pairs])
            rows.append([SERIES[name], *(f"{r:.3f}" for r in ratio), f"{cost:.1f}", str(len(pairs))])
    return table("24 leads over one lead | error at 1 h | 6 h | 24 h | time | seeds", rows)


def bounds() -> str:
    """The shares of labels inside, the least and the greatest of all leads."""
    rows = []
    for name, parts in _kept().items():
        cells = []
        for level in ("0.8", "0.9", "0.95"):
            shares = 100 * _ours(parts, f"inside {level}").mean(0)
            cells.append(f"{shares.min():.1f} to {shares.max():.1f}")
        states = [parts[p]["states"] for p in parts if "states" in parts[p]]
        both = 100 * np.mean(states, axis=0) if states else None
        cells.append("" if both is None else " / ".join(f"{a:.0f}, {b:.0f}" for a, b in _at(both)))
        rows.append([SERIES[name], *cells])
    return table(
        "% inside, least to most of 24 leads | 80 % | 90 % | 95 % | 90 %, in both states at 1 / 6 / 24 h",
        rows,
    )


def classes() -> str:
    """Accuracy with several classes."""
    rows = read("classes")
    streams = list(dict.fromkeys(row["stream"] for row in rows))

    def cells(learner: str) -> Iterator[str]:
        for stream in streams:
            found = [r["accuracy"] for r in rows if (r["stream"], r["learner"]) == (stream, learner)]
            yield f"{100 * np.mean(found):.1f}" if found else ""

    learners = dict.fromkeys(row["learner"] for row in rows)
    return table("% right | " + " | ".join(streams), [[name, *cells(name)] for name in learners])


def swapped() -> str:
    """Effects beside what swapping does."""
    rows = []
    for name, found in read("swap").items():
        columns = sorted(found["columns"].items(), key=lambda each: -each[1][1])[:4]
        words = ", ".join(f"{column} {figure(e)} ({figure(s)})" for column, (e, s) in columns)
        ratios = found["effect over swapped, of those that matter"]
        rows.append(
            [name, words, f"{min(ratios):.2f} to {max(ratios):.2f}", "yes" if found["same order"] else "no"]
        )
    return table("table | effect (swapped) | ratios | same order", rows)


def rates() -> str:
    """From a reading's arrival to its prediction."""
    words = {"alone": "no neighbours", "alike": "neighbours learn the same", "unlike": "one has other labels"}
    rows = [
        [words[case], f"{r['predicted']} of {r['readings']}", f"{r['p50_ms']:.1f} ms",
         f"{r['p99_ms']:.1f} ms",
         f"{r['p99_over_alone']:.2f}", f"{r['bytes_a_second'] / 1000:,.0f} kB/s"]
        for case, r in read("unequal_rates_agents").items() if case in words
    ]  # fmt: skip
    heads = "predicted | median | 99th percentile | over alone | sent"
    return table(f"8, 2 and 1/3 readings a second | {heads}", rows)


MADE: dict[str, Maker] = {
    "forecast": errors,
    "forecast-one": one,
    "forecast-bounds": bounds,
    "forecast-classes": classes,
    "forecast-swap": swapped,
    "unequal-rates": rates,
}

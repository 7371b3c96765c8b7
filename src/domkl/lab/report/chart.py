"""Prediction against truth, with bounds, as data for a chart that can be zoomed."""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any

import numpy as np

from ...base.types import Array
from ..trial import COVERAGE, Outcome
from .facts import names_of

#: The last rounds that are shown, and of how many learners.
ROUNDS, LEARNERS = 1500, 12


def data(outcome: Outcome) -> dict[str, Any]:
    """What the chart shows, ready for JSON: columns of each learner's last rounds."""
    T = outcome.y.shape[1]
    first, times = max(0, T - ROUNDS), outcome.source.split.times
    low, high = outcome.bounds()
    timed = times is not None and bool(np.isfinite(times[:LEARNERS, first:]).all())
    learners = []
    for j, name in enumerate(names_of(outcome)[:LEARNERS]):
        x = times[j, first:] if timed and times is not None else np.arange(first, T)
        columns = (x, *(values[j, first:] for values in (outcome.y, outcome.y_hat, low, high)))
        learners.append({"name": name, "columns": [_plain(column) for column in columns]})
    label = outcome.source.target or "target"
    unit = f", {outcome.unit}" if outcome.unit else ""
    return {"timed": timed, "label": f"{label}{unit}", "learners": learners}


def caption(outcome: Outcome) -> str:
    """What is shown, in words."""
    T, J = outcome.y.shape[1], outcome.graph.J
    which = "All rounds" if T <= ROUNDS else f"The last {ROUNDS:,} of {T:,} rounds"
    whose = "" if J <= LEARNERS else f", the first {LEARNERS} of {J} learners"
    return (
        f"{which}{whose}. Each prediction was made before its label was known; the band is to hold "
        f"{100 * COVERAGE:.0f} % of the labels, and held {held(outcome)}. Drag to zoom, double-click for all."
    )


def held(outcome: Outcome) -> str:
    """The share of labels that the bounds held, where there were any."""
    low, high = outcome.bounds()
    known = np.isfinite(high - low)
    if not known.any():
        return "none, as too few errors are known"
    inside = (low <= outcome.y) & (outcome.y <= high)
    return f"{100 * float(inside[known].mean()):.1f} %"


def as_script(value: dict[str, Any]) -> str:
    """JSON that can stand in a page: no text in it ends the script."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def uplot() -> tuple[str, str]:
    """uPlot's script and style."""
    folder = resources.files("domkl.watch").joinpath("static")
    script, style = (
        folder.joinpath(n).read_text(encoding="utf-8") for n in ("uPlot.iife.min.js", "uPlot.min.css")
    )
    return script.replace("</script", "<\\/script"), style


def _plain(values: Array) -> list[float | None]:
    return [
        float(f"{value:.7g}") if abs(value) < 1e7 else float(value) if math.isfinite(value) else None
        for value in values.tolist()
    ]

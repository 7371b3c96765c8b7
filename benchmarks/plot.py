"""Draw docs/images/speed.png, scaling.png and scaling-auto.png from benchmarks/results.

python benchmarks/plot.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from domkl.lab.report.figures import PALETTE, SETTINGS

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
IMAGES = HERE.parent / "docs" / "images"
OURS, LIMIT, OTHERS = PALETTE[0], PALETTE[2], "#9aa4ae"


def read(name: str) -> dict[str, Any]:
    return json.loads((HERE / "results" / name).read_text(encoding="utf-8"))


def colour(name: str) -> str:
    if "limit" in name:
        return LIMIT
    return OURS if name.startswith(("native", "domkl")) else OTHERS


def plain(value: float, _: int) -> str:
    """Numbers as people write them: mathematics in labels is off (see SETTINGS)."""
    return f"{value:,g}"


def bars(axes: Any, rows: list[tuple[str, float]], title: str) -> None:
    names, values = zip(*sorted(rows, key=lambda row: row[1]), strict=True)
    axes.barh(names, values, color=[colour(name) for name in names], height=0.7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 2, max(values) * 8)
    axes.set_title(title, x=-0.55)
    axes.xaxis.set_major_formatter(plain)
    axes.minorticks_off()
    for place, value in enumerate(values):
        axes.text(value * 1.12, place, f"{value:,.{1 if value < 100 else 0}f}", va="center", fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def speed(figures: dict[str, Any]) -> Any:
    """W1 and W2, each from the fastest to the slowest."""
    w1, w2 = figures["w1"]["rows"], figures["w2"]["rows"]
    first = [(row["name"], row["us"]) for row in w1]
    first += [(f"the limit, {row['name'].split('native, ')[1]}", row["limit_us"]) for row in w1[:1]]
    second = [(row["name"], row["us"]) for row in w2]
    drawn, (top, low) = plt.subplots(2, 1, figsize=(7.2, 5.6), height_ratios=[len(first), len(second)])
    bars(top, first, "A network of 5: µs for one learner and step, 17 kernels")
    bars(low, second, "One device from Python: µs to predict and learn one sample")
    return drawn


def scaling(figures: dict[str, Any]) -> Any:
    """One panel for each quantity: points, and the fitted law."""
    drawn, panels = plt.subplots(
        1, len(figures["sweeps"]), figsize=(2.2 * len(figures["sweeps"]), 2.8), sharey=True
    )
    for axes, sweep in zip(panels, figures["sweeps"], strict=True):
        x = np.geomspace(sweep["x"][0], sweep["x"][-1], 50)
        axes.loglog(x, sweep["fixed_us"] + sweep["slope_us"] * x ** sweep["exponent"], color=LIMIT, lw=1.2)
        axes.loglog(sweep["x"], sweep["us"], "o", color=OURS, ms=4)
        axes.set_title(f"{sweep['over']}: exponent {sweep['exponent']:.2f}", fontsize=9)
        axes.set_xlabel(sweep["over"])
        axes.minorticks_off()
        axes.set_xticks(sweep["x"][::2], [str(v) for v in sweep["x"][::2]])
    panels[0].yaxis.set_major_formatter(plain)
    panels[0].set_ylabel("µs for one round")
    return drawn


def main() -> None:
    plt.rcParams.update(SETTINGS)
    IMAGES.mkdir(parents=True, exist_ok=True)
    grown = read("scaling.json")
    pictures = {
        "speed": speed(read("bench.json")),
        "scaling": scaling(grown),
        "scaling-auto": scaling(grown["auto"]),
    }
    for name, drawn in pictures.items():
        drawn.tight_layout()
        drawn.savefig(IMAGES / f"{name}.png", dpi=150)


if __name__ == "__main__":
    main()

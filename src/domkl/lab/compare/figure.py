"""The table as bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...base.extras import need
from . import ComparisonRow

OURS, OTHERS = "#2a6f97", "#b0b0b0"


def write(rows: list[ComparisonRow], title: str, unit: str, path: Path) -> Path:
    """A bar of the error for each contender, the best on top, as a PNG."""
    shown = [row for row in rows if row.rmse is not None][::-1]
    figure = need("matplotlib.figure", "cli").Figure(
        figsize=(8, 0.8 + 0.4 * len(shown)), layout="constrained"
    )
    need("matplotlib.backends.backend_agg", "cli").FigureCanvasAgg(figure)
    _draw(figure.subplots(), shown, title, unit)
    figure.savefig(path, dpi=150)
    return path


def _draw(axes: Any, shown: list[ComparisonRow], title: str, unit: str) -> None:
    colours = [OURS if row.name.startswith("domkl") else OTHERS for row in shown]
    bars = axes.barh([row.name for row in shown], [row.rmse for row in shown], color=colours)
    axes.bar_label(bars, fmt="%.3g", padding=3)
    axes.set_xlabel(f"root mean squared error{f', {unit}' if unit else ''}")
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)

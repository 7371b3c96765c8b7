"""Names at the right edge of a figure, in place of a legend."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .style import INK, Axes

#: The least distance between two labels, as a share of the height.
GAP = 0.062


class Label(NamedTuple):
    """A name beside the value that it names."""

    at: float
    words: str
    colour: str = INK
    alpha: float = 1.0
    weight: str = "normal"


def write_labels(axes: Axes, labels: list[Label]) -> None:
    """Write labels at the right edge, moved apart where they would overlap."""
    shown = sorted((label for label in labels if np.isfinite(label.at)), key=lambda label: label.at)
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(np.clip(to_axes.transform((1, max(s.at, 1e-300)))[1], 0, 1)) for s in shown]
    for label, height in zip(shown, spread(heights), strict=True):
        style = {"color": label.colour, "alpha": label.alpha, "weight": label.weight}
        axes.text(1.02, height, label.words, transform=axes.transAxes, va="center", **style)


def spread(heights: list[float]) -> list[float]:
    """Move ascending heights apart until GAP lies between any two, around where they were.

    >>> [round(h, 3) for h in spread([0.5, 0.5, 0.9])]
    [0.469, 0.531, 0.9]
    """
    groups = [[h] for h in heights]  # each is centred at the mean of its members
    i = 0
    while i + 1 < len(groups):
        if _base(groups[i + 1]) - _top(groups[i]) < GAP - 1e-12:
            groups[i : i + 2] = [groups[i] + groups[i + 1]]
            i = max(i - 1, 0)
        else:
            i += 1
    return [_base(group) + k * GAP for group in groups for k in range(len(group))]


def _base(group: list[float]) -> float:
    return max(0.0, float(np.mean(group)) - (len(group) - 1) * GAP / 2)


def _top(group: list[float]) -> float:
    return _base(group) + (len(group) - 1) * GAP

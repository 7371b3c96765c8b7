"""The kernels' weights over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.extras import need
from ...base.types import Array
from ..trial import Outcome
from .style import INK, Axes, Drawn, blank
from .text import number, percent

#: A kernel matters if it has this much weight at the end or on average over time.
MATTERS = 0.04
#: A label fits into a band that is this high.
ROOM = 0.075


def draw(outcome: Outcome) -> Drawn:
    """Weights, averaged over the learners, stacked to 100 %."""
    rounds, weights = _path(outcome)
    chosen = _that_matter(weights)
    rest = 1 - weights[:, chosen].sum(1)
    bands = np.column_stack([weights[:, chosen], rest])
    figure, axes = blank(3.1)
    colours = _colours(len(chosen))
    axes.stackplot(rounds, bands.T, colors=[*colours, INK], linewidth=0)
    axes.collections[-1].set_alpha(0.14)  # ink, so that it follows light and dark
    _edges(axes, rounds, bands)
    words = [f"σ²={number(outcome.sigma2[p])}" for p in chosen]
    _name_bands(axes, rounds, bands, [*words, "other kernels"], colours)
    _frame(axes, rounds)
    title = _finding(outcome)
    axes.set_title(title)
    return figure, _alt(title, outcome, weights, chosen), _caption()


def _path(outcome: Outcome) -> tuple[Array, Array]:
    """Rounds (n,) and mean weights (n, P), with the end of the run as the last."""
    run = outcome.run
    path = np.nan_to_num(np.concatenate([run.q_path, run.q[None]]).mean(1))
    rounds = np.append(run.q_rounds, run.y_hat.shape[1]).astype(float)
    if len(rounds) == 1:
        return np.array([0.0, rounds[0]]), np.repeat(path, 2, axis=0)
    return rounds, path


def _that_matter(weights: Array) -> list[int]:
    matter = np.flatnonzero(np.maximum(weights.mean(0), weights[-1]) >= MATTERS)
    return [int(p) for p in matter] or [int(weights[-1].argmax())]


def _colours(n: int) -> list[Any]:
    """From viridis, which colour-blind people can order too; in the order of σ²."""
    viridis = need("matplotlib", "cli").colormaps["viridis"]
    return [viridis(share) for share in np.linspace(0.2, 0.85, n)]


def _edges(axes: Axes, rounds: Array, bands: Array) -> None:
    for edge in np.cumsum(bands, axis=1)[:, :-1].T:
        axes.plot(rounds, edge, color="white", linewidth=0.8)


def _name_bands(axes: Axes, rounds: Array, bands: Array, words: list[str], colours: list[Any]) -> None:
    """Each name where its band is highest, away from the left and right edges."""
    tops = np.cumsum(bands, axis=1)
    inside = (rounds >= 0.12 * rounds[-1]) & (rounds <= 0.88 * rounds[-1])
    off_centre = 0.1 * np.abs(rounds / rounds[-1] - 0.5)  # of equal heights, the one in the middle
    for k, name in enumerate(words):
        heights = np.where(inside, _smooth(bands[:, k]), -1.0)
        i = int((heights - off_centre).argmax())
        colour = _readable_on(colours[k]) if k < len(colours) else INK
        if heights[i] >= ROOM:
            axes.text(rounds[i], tops[i, k] - bands[i, k] / 2, name, color=colour, ha="center", va="center")
        elif bands[-1, k] >= MATTERS / 2 and k < len(colours):
            axes.text(1.015 * rounds[-1], tops[-1, k] - bands[-1, k] / 2, name, va="center", fontsize=8)


def _smooth(height: Array) -> Array:
    """The least height nearby, so that a name does not hang on a spike."""
    reach = max(1, len(height) // 20)
    padded = np.pad(height, reach, mode="edge")
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1).min(1))


def _readable_on(colour: Any) -> str:
    red, green, blue = colour[:3]
    return "#111111" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"


def _frame(axes: Axes, rounds: Array) -> None:
    ticker = need("matplotlib.ticker", "cli")
    axes.set_xlim(0, rounds[-1])
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0))
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("round")
    axes.set_ylabel("weight, mean over learners")


def _finding(outcome: Outcome) -> str:
    final = np.nan_to_num(outcome.run.q.mean(0))
    p = int(final.argmax())
    return f"Kernel σ²={number(outcome.sigma2[p])} ends with {percent(float(final[p]))} of the weight"


def _caption() -> str:
    return (
        "How much each kernel counts in the prediction, mean over the learners. All start with the same "
        f"weight; kernels that stay below {percent(MATTERS)} are drawn together as “other kernels”."
    )


def _alt(title: str, outcome: Outcome, weights: Array, chosen: list[int]) -> str:
    ends = ", ".join(f"σ²={number(outcome.sigma2[p])} {percent(float(weights[-1, p]))}" for p in chosen)
    return f"Stacked areas of the kernels' weights over time. {title}. At the end: {ends}."

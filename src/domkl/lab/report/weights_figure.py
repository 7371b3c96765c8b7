"""The weights of kernels (`Paper`) or experts (`Auto`) over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...base.extras import need
from ...base.types import Array
from ...base.words import number, percent
from ...learning.auto import EXPERT_NAMES
from ...learning.settings import Auto
from ..trial import Outcome
from .labels import Label, write_labels
from .style import INK, Axes, Drawn, blank, round_axis, set_title

#: An area is drawn by itself if it has this much weight at the end or on average over time.
MATTERS = 0.04
#: A label fits into a band that is this high.
ROOM = 0.075
#: What the experts of `Auto` predict with, in the order of `EXPERT_NAMES`.
MEANINGS = (
    "the mean of its neighbours' parameters",
    "its own samples, near the common",
    "its own samples only",
    "its own samples only, with a small ridge",
    "a small model of the last samples",
    "all others together, corrected by the last errors",
)
EXPERTS = dict(zip(EXPERT_NAMES, MEANINGS, strict=True))


class Weights(NamedTuple):
    """How the weight is divided over time, mean over learners."""

    rounds: Array  # (n,)
    shares: Array  # (n, P)
    names: list[str]  # (P,)
    what: str  # "kernel" or "expert"

    @property
    def chosen(self) -> list[int]:
        """Those with enough weight to be drawn by themselves."""
        matter = np.flatnonzero(np.maximum(self.shares.mean(0), self.shares[-1]) >= MATTERS)
        return [int(p) for p in matter] or [int(self.shares[-1].argmax())]

    @property
    def finding(self) -> str:
        """The figure's title."""
        p = int(self.shares[-1].argmax())
        words = f"Kernel {self.names[p]}" if self.what == "kernel" else f"“{self.names[p]}”"
        return f"{words} ends with {percent(float(self.shares[-1, p]))} of the weight"


def draw(outcome: Outcome) -> Drawn:
    """Weights of kernels or experts, averaged over the learners, stacked to 100 %."""
    weights = _weights(outcome)
    chosen = weights.shares[:, weights.chosen]
    bands = np.column_stack([chosen, 1 - chosen.sum(1)])
    figure, axes = blank(3.1)
    colours = _colours(chosen.shape[1])
    axes.stackplot(weights.rounds, bands.T, colors=[*colours, INK], linewidth=0)
    axes.collections[-1].set_alpha(0.14)  # ink, so that it follows light and dark
    _edges(axes, weights.rounds, bands)
    names = [weights.names[p] for p in weights.chosen]
    _frame(axes, weights.rounds)
    _name_bands(axes, weights.rounds, bands, [*names, f"other {weights.what}s"], colours)
    set_title(axes, weights.finding)
    return figure, _alt(weights), _caption(weights)


def _weights(outcome: Outcome) -> Weights:
    run = outcome.run
    if isinstance(outcome.experiment.model, Auto):
        names, what, last = list(EXPERT_NAMES), "expert", run.q_path[-1]
    else:
        numbered = [str(p + 1) for p in range(run.q.shape[1])]
        names, what, last = [f"σ²={number(s)}" for s in outcome.sigma2] or numbered, "kernel", run.q
    rounds = np.append(run.q_rounds, run.y_hat.shape[1]).astype(float)
    shares = np.nan_to_num(np.concatenate([run.q_path, last[None]]).mean(1))
    return Weights(rounds, shares, names, what)


def _colours(n: int) -> list[Any]:
    """From viridis, which colour-blind people can order too; in the order of the bands."""
    viridis = need("matplotlib", "cli").colormaps["viridis"]
    return [viridis(share) for share in np.linspace(0.2, 0.85, n)]


def _edges(axes: Axes, rounds: Array, bands: Array) -> None:
    for edge in np.cumsum(bands, axis=1)[:, :-1].T:
        axes.plot(rounds, edge, color="white", linewidth=0.8)


def _name_bands(axes: Axes, rounds: Array, bands: Array, words: list[str], colours: list[Any]) -> None:
    """Write each name into its band where there is most room, or else at the right edge."""
    tops = np.cumsum(bands, axis=1)
    bottoms = tops - bands
    inside = (rounds >= 0.12 * rounds[-1]) & (rounds <= 0.88 * rounds[-1])
    off_centre = 0.1 * np.abs(rounds / rounds[-1] - 0.5)  # of equal heights, the one in the middle
    beside = []
    for k, name in enumerate(words):
        low, high = _nearby(bottoms[:, k], np.max), _nearby(tops[:, k], np.min)
        room = np.where(inside, high - low, -1.0)
        i = int((room - off_centre).argmax())
        colour = _readable_on(colours[k]) if k < len(colours) else INK
        if room[i] >= ROOM:
            axes.text(rounds[i], (low[i] + high[i]) / 2, name, color=colour, ha="center", va="center")
        elif k < len(colours):
            beside.append(Label(float(bottoms[-1, k] + tops[-1, k]) / 2, name))
    write_labels(axes, beside)


def _nearby(heights: Array, extreme: Callable[..., Array]) -> Array:
    """The extreme height within about the width of a name."""
    reach = max(1, len(heights) // 14)
    padded = np.pad(heights, reach, mode="edge")
    return extreme(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1), axis=1)


def _readable_on(colour: Any) -> str:
    red, green, blue = colour[:3]
    return "#111111" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"


def _frame(axes: Axes, rounds: Array) -> None:
    round_axis(axes, rounds[-1])
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(need("matplotlib.ticker", "cli").PercentFormatter(1.0))
    axes.set_ylabel("weight, mean over learners")


def _caption(weights: Weights) -> str:
    few = f"those that stay below {percent(MATTERS)} are drawn together as “other {weights.what}s”."
    how = f"How much each {weights.what} counts in the prediction, mean over the learners; {few}"
    if weights.what == "kernel":
        return f"{how} All kernels start with the same weight."
    drawn = "; ".join(f"“{name}”: {EXPERTS[name]}" for name in (weights.names[p] for p in weights.chosen))
    return f"{how} {drawn}."


def _alt(weights: Weights) -> str:
    ends = ", ".join(f"{weights.names[p]} {percent(float(weights.shares[-1, p]))}" for p in weights.chosen)
    return f"Stacked areas of the {weights.what}s' weights over time. {weights.finding}. At the end: {ends}."

"""The error over time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base.extras import need
from ...base.types import Array
from ...base.words import number, plural, shorten
from ..trial import Outcome
from .facts import Measure, measure, names_of
from .labels import Label, write_labels
from .style import INK, PALETTE, Axes, Drawn, blank, grid, round_axis, set_title

#: More learners than this share one colour.
FEW = len(PALETTE)
POINTS = 500


class Curves(NamedTuple):
    """The errors of windows of rounds."""

    rounds: Array  # (n,) the last round of each window
    means: Array  # (J, n) of the measure's samples in each window
    window: int
    measure: Measure

    @property
    def errors(self) -> Array:
        """The error of each learner. (J, n)"""
        return self.measure.of(self.means)

    @property
    def together(self) -> Array:
        """The error of all learners' predictions together. (n,)"""
        return self.measure.of(self.means.mean(0))


def draw(outcome: Outcome) -> Drawn:
    """Each learner's rolling error, with the level of the whole run and of the comparators."""
    curves = rolling(outcome)
    levels = _levels(outcome) if curves.measure.root else {}
    figure, axes = blank(3.3)
    _frame(axes, outcome, curves, levels)
    labels = _references(axes, levels) + _lines(axes, outcome, curves)
    write_labels(axes, labels)
    title = _finding(curves.measure)
    set_title(axes, title)
    return figure, _alt(title, curves, outcome), _caption(curves, bool(levels))


def rolling(outcome: Outcome) -> Curves:
    """The error over the last `window` rounds, at some hundred rounds."""
    measured = measure(outcome)
    J, T = measured.samples.shape
    window = nice_window(T)
    sums = np.concatenate([np.zeros((J, 1)), np.cumsum(measured.samples, axis=1)], axis=1)
    ends = np.unique(np.linspace(window, T, POINTS).astype(int))
    means = (sums[:, ends] - sums[:, ends - window]) / window
    return Curves(ends.astype(float), means, window, measured)


def nice_window(T: int) -> int:
    """About a twentieth of all rounds, as 1, 2 or 5 times a power of ten; ten where there are few rounds.

    >>> [nice_window(T) for T in (1, 60, 300, 8700)]
    [1, 10, 10, 500]
    """
    ladder = [step * 10**k for k in range(8) for step in (1, 2, 5)]
    about = max((n for n in ladder if n <= T / 16), default=0)
    return max(about, min(10, -(-T // 3)))


def _levels(outcome: Outcome) -> dict[str, float]:
    own = {outcome.experiment.model.kind: outcome.run.mse}
    alone = {"alone": outcome.mse_alone} if outcome.graph.J > 1 else {}
    known = {**own, **alone, "OMKL": outcome.central_mse, **outcome.baselines}
    levels = {name: float(np.sqrt(outcome.scale * mse.mean())) for name, mse in known.items()}
    return {name: level for name, level in levels.items() if np.isfinite(level)}


def _frame(axes: Axes, outcome: Outcome, curves: Curves, levels: dict[str, float]) -> None:
    low, high = _limits(curves, levels)
    if low > 0:
        axes.set_yscale("log")
    axes.set_ylim(low, high)
    round_axis(axes, outcome.split.y.shape[1])
    _ticks(axes, low, high)
    grid(axes)
    axes.set_ylabel(curves.measure.axis)


def _limits(curves: Curves, levels: dict[str, float]) -> tuple[float, float]:
    """From the least to the greatest error; the first windows may lie above."""
    settled = curves.errors[:, len(curves.rounds) // 20 :]
    seen = np.concatenate([settled[np.isfinite(settled)], np.array(list(levels.values()))])
    if not seen.size or seen.max() <= 0:
        return 0.0, 1.0
    if seen.min() <= 0:
        return 0.0, float(1.1 * seen.max())
    return float(seen.min() / 1.12), float(seen.max() * 1.15)


def _ticks(axes: Axes, low: float, high: float) -> None:
    ticker = need("matplotlib.ticker", "cli")
    axes.yaxis.set_major_locator(_locator(high / low if low > 0 else 1.0))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number(value)))


def _locator(ratio: float) -> Any:
    """Ticks at 1, 2, 5, ... where the errors differ by a large factor, else evenly."""
    ticker = need("matplotlib.ticker", "cli")
    if ratio < 4:
        return ticker.MaxNLocator(5)
    return ticker.LogLocator(subs=(1, 2, 3, 5, 7) if ratio < 12 else (1, 2, 5))


def _references(axes: Axes, levels: dict[str, float]) -> list[Label]:
    for level in levels.values():
        axes.axhline(level, color=INK, alpha=0.55, linewidth=0.9, linestyle=(0, (4, 3)))
    return [Label(level, f"{name} {number(level)}", alpha=0.7) for name, level in levels.items()]


def _lines(axes: Axes, outcome: Outcome, curves: Curves) -> list[Label]:
    return (_few if outcome.graph.J <= FEW else _many)(axes, outcome, curves)


def _few(axes: Axes, outcome: Outcome, curves: Curves) -> list[Label]:
    labels = []
    for name, errors, colour in zip(names_of(outcome), curves.errors, PALETTE, strict=False):
        _line(axes, curves, errors, color=colour, linewidth=1.3)
        labels.append(Label(errors[-1], shorten(name, 14), colour, weight="bold"))
    return labels


def _many(axes: Axes, outcome: Outcome, curves: Curves) -> list[Label]:
    for errors in curves.errors:
        _line(axes, curves, errors, color=PALETTE[0], linewidth=0.6, alpha=0.25)
    _line(axes, curves, curves.together, color=PALETTE[1], linewidth=1.8)
    return [Label(curves.together[-1], f"all {outcome.graph.J}", PALETTE[1], weight="bold")]


def _line(axes: Axes, curves: Curves, errors: Array, **style: object) -> None:
    if len(curves.rounds) < 10:
        style |= {"marker": "o", "markersize": 4, "clip_on": False}
    axes.plot(curves.rounds, errors, solid_joinstyle="round", **style)


def _finding(measured: Measure) -> str:
    """The errors of the two halves of the run; single windows depend on chance."""
    middle = measured.samples.shape[1] // 2
    halves = [measured.samples[:, :middle], measured.samples[:, middle:]] if middle else [measured.samples]
    errors = [float(measured.of(half.mean())) for half in halves]
    if not np.isfinite(errors).all():
        return "Some predictions are not finite"
    name = measured.name[0].upper() + measured.name[1:]
    if len(errors) == 1:
        return f"{name} {measured.words(errors[0])} in the only round"
    return f"{name} {measured.words(errors[0])} in the first half, {measured.words(errors[1])} in the second"


def _caption(curves: Curves, compared: bool) -> str:
    what = "Root mean squared error" if curves.measure.root else "Share of wrong classes"
    dashed = "Dashed: the whole run, mean over learners, beside other methods. " if compared else ""
    window = plural(curves.window, "round")
    return f"{what} over the {window} up to each round. {dashed}The first windows may lie above the picture."


def _alt(title: str, curves: Curves, outcome: Outcome) -> str:
    ends = zip(names_of(outcome)[:FEW], curves.errors[:, -1], strict=False)
    last = ", ".join(f"{name} {curves.measure.words(error)}" for name, error in ends)
    rounds = plural(outcome.split.y.shape[1], "round")
    return f"Line chart of the error over {rounds}. {title}. In the last window: {last}."

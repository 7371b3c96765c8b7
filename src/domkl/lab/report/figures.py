"""The figures of a report: error over time, weights over time, the network; each as SVG and PNG."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...base.extras import need
from ...base.types import Array
from ...base.words import number, percent, plural, shorten
from ...exchange.graph import Graph
from ...learning.auto import EXPERT_NAMES
from ..trial import Outcome
from .facts import Measure, measure, names_of

Figure: TypeAlias = Any
Axes: TypeAlias = Any
#: A figure, its description for those who cannot see it, and its caption.
Drawn: TypeAlias = "tuple[Figure, str, str]"

INK = "#1f2328"
#: Okabe and Ito's colours, told apart by colour-blind people, without those too pale for a line on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
#: Narrow, so that a phone shows the letters large enough.
WIDTH = 4.8  # inches
LONG_TITLE = 46  # characters
#: More learners than this share one colour; curves have so many points.
FEW, POINTS = len(PALETTE), 500
#: A kernel or expert is drawn by itself if it has this much weight at the end or on average over time.
MATTERS = 0.04
#: Up to so many learners of a network are labelled with name and error, and up to so many with the name.
NAME_AND_ERROR, NAME_ONLY = 12, 36
#: From here on networkx's spring layout needs scipy.
TOO_MANY_FOR_SPRINGS = 500
SETTINGS = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.unicode_minus": False,
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "svg.fonttype": "none",
    "text.color": INK,
    # A learner may be called "a$b$".
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.color": INK,
    "xtick.labelsize": 8.0,
    "ytick.color": INK,
    "ytick.labelsize": 8.0,
}
ADAPTIVE = (
    "<style>svg{color:#1f2328;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6e9ec;background:#14181c}}</style>"
)


#: What the experts of `Auto` predict with, in the order of `EXPERT_NAMES`.
MEANINGS = (
    "the mean of its neighbours' parameters",
    "its own samples only",
    "its own samples only, with a small ridge",
    "a small model of the last samples",
    "all others together, corrected by the last errors",
)
EXPERTS = dict(zip(EXPERT_NAMES, MEANINGS, strict=True))


class Picture(NamedTuple):
    """A figure that is ready to be written, with its words."""

    name: str
    alt: str
    caption: str
    svg: str
    png: bytes

    @property
    def uri(self) -> str:
        """The SVG as a data address, for a page that needs no other file."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}"


@contextmanager
def look(name: str) -> Iterator[None]:
    """Set the style of figures while one is made; afterwards matplotlib is as it was."""
    matplotlib = need("matplotlib", "cli")
    with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": name}), warnings.catch_warnings():
        # A name in a script that the font lacks: the SVG shows it all the same, the PNG a box.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing")
        yield


def blank(height: float) -> tuple[Figure, Axes]:
    """An empty figure with one set of axes, made without pyplot, which would keep every figure."""
    figure = need("matplotlib.figure", "cli").Figure(figsize=(WIDTH, height), layout="constrained")
    need("matplotlib.backends.backend_agg", "cli").FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def set_title(axes: Axes, words: str) -> None:
    """Set a title; a long one is broken at its comma."""
    axes.set_title(words.replace(", ", ",\n") if len(words) > LONG_TITLE else words)


def round_axis(axes: Axes, last: float) -> None:
    """An x axis of rounds, from the first to the last."""
    ticker = need("matplotlib.ticker", "cli")
    axes.set_xlim(0, last)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("round")


def as_png(figure: Figure) -> bytes:
    """PNG on white paper."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=220, facecolor="white")
    return stream.getvalue()


def as_svg(figure: Figure) -> str:
    """SVG whose text and background colours follow the reader's light or dark setting."""
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    text = stream.getvalue().decode()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = text.replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans'").replace(INK, "currentColor")
    return re.sub(r"(<svg [^>]*>)", rf"\1{ADAPTIVE}", text, count=1)


def legend(axes: Axes) -> None:
    """Names right of the picture, from top to bottom as the lines or areas lie."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, handlelength=1.2, reverse=True)


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


def draw_error(outcome: Outcome) -> Drawn:
    """Each learner's rolling error, with the level of the whole run and of the comparators."""
    curves, names = rolling(outcome), names_of(outcome)
    levels = _levels(outcome) if curves.measure.root else {}
    figure, axes = blank(3.3)
    _error_axes(axes, outcome, curves, levels)
    for name, level in sorted(levels.items(), key=lambda pair: pair[1]):
        axes.axhline(level, color=INK, alpha=0.55, lw=0.9, ls=(0, (4, 3)), label=f"{name} {number(level)}")
    few = len(names) <= FEW
    marks = {"marker": "o", "markersize": 4, "clip_on": False} if len(curves.rounds) < 10 else {}
    for j, (name, errors) in enumerate(zip(names, curves.errors, strict=True)):
        style = {"color": PALETTE[j], "lw": 1.3} if few else {"color": PALETTE[0], "lw": 0.6, "alpha": 0.25}
        axes.plot(curves.rounds, errors, label=shorten(name, 14) if few else None, **style, **marks)
    if not few:
        together = curves.measure.of(curves.means.mean(0))
        axes.plot(curves.rounds, together, label=f"all {len(names)}", color=PALETTE[1], lw=1.8, **marks)
    legend(axes)
    title = _error_finding(curves.measure)
    set_title(axes, title)
    ends = zip(names[:FEW], curves.errors[:, -1], strict=False)
    last = ", ".join(f"{name} {curves.measure.words(error)}" for name, error in ends)
    rounds = plural(outcome.split.y.shape[1], "round")
    alt = f"Line chart of the error over {rounds}. {title}. In the last window: {last}."
    what = "Root mean squared error" if curves.measure.root else "Share of wrong classes"
    dashed = "Dashed: the whole run, mean over learners, beside other methods. " if levels else ""
    caption = f"{what} over the {plural(curves.window, 'round')} up to each round. {dashed}"
    return figure, alt, f"{caption}The first windows may lie above the picture."


def _levels(outcome: Outcome) -> dict[str, float]:
    own = {outcome.experiment.model.kind: outcome.run.mse}
    alone = {"alone": outcome.mse_alone} if outcome.graph.J > 1 else {}
    known = {**own, **alone, **outcome.baselines}
    levels = {name: float(np.sqrt(outcome.scale * mse.mean())) for name, mse in known.items()}
    return {name: level for name, level in levels.items() if np.isfinite(level)}


def _error_axes(axes: Axes, outcome: Outcome, curves: Curves, levels: dict[str, float]) -> None:
    """From the least to the greatest error, by factors; the first windows may lie above."""
    settled = curves.errors[:, len(curves.rounds) // 20 :]
    seen = np.concatenate([settled[np.isfinite(settled)], np.array(list(levels.values()))])
    low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 0.0)
    if low > 0:
        axes.set_yscale("log")
    axes.set_ylim(*((low / 1.12, high * 1.15) if low > 0 else (0.0, 1.1 * high or 1.0)))
    ticker = need("matplotlib.ticker", "cli")
    near = low <= 0 or high < 3 * low  # then even ticks are better than 1, 2, 5, ...
    axes.yaxis.set_major_locator(ticker.MaxNLocator(5) if near else ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number(value)))
    round_axis(axes, outcome.split.y.shape[1])
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.set_ylabel(curves.measure.axis)


def _error_finding(measured: Measure) -> str:
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


class Weights(NamedTuple):
    """How the weight is divided over time, mean over learners."""

    rounds: Array  # (n,)
    shares: Array  # (n, P)
    names: list[str]  # (P,)
    what: str  # "kernel" or "expert"

    @classmethod
    def of(cls, outcome: Outcome) -> Weights:
        """Those of an outcome whose run has kept them."""
        run, kernels = outcome.run, outcome.experiment.model.has_kernels
        last = run.q if kernels else run.q_path[-1]
        numbered = [f"σ²={number(s)}" for s in outcome.sigma2] or [str(p + 1) for p in range(last.shape[1])]
        rounds = np.append(run.q_rounds, run.y_hat.shape[1]).astype(float)
        shares = np.nan_to_num(np.concatenate([run.q_path, last[None]]).mean(1))
        return cls(rounds, shares, numbered if kernels else list(EXPERTS), "kernel" if kernels else "expert")

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


def draw_weights(outcome: Outcome) -> Drawn:
    """Weights of kernels or experts, averaged over the learners, stacked to 100 %."""
    weights = Weights.of(outcome)
    chosen, names = weights.shares[:, weights.chosen], [weights.names[p] for p in weights.chosen]
    others = f"other {weights.what}s"
    figure, axes = blank(3.1)
    # Viridis can be ordered by colour-blind people, too; the others are ink, which follows light and dark.
    viridis = need("matplotlib", "cli").colormaps["viridis"]
    colours = [*map(viridis, np.linspace(0.2, 0.85, chosen.shape[1])), INK]
    bands = np.column_stack([chosen, 1 - chosen.sum(1)])
    axes.stackplot(weights.rounds, bands.T, colors=colours, labels=[*names, others], linewidth=0)
    axes.collections[-1].set_alpha(0.14)
    round_axis(axes, weights.rounds[-1])
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(need("matplotlib.ticker", "cli").PercentFormatter(1.0))
    axes.set_ylabel("weight, mean over learners")
    legend(axes)
    set_title(axes, weights.finding)
    ends = ", ".join(f"{weights.names[p]} {percent(float(weights.shares[-1, p]))}" for p in weights.chosen)
    alt = f"Stacked areas of the {weights.what}s' weights over time. {weights.finding}. At the end: {ends}."
    few = f"those that stay below {percent(MATTERS)} are drawn together as “{others}”."
    caption = f"How much each {weights.what} counts in the prediction, mean over the learners; {few}"
    if weights.what == "kernel":
        return figure, alt, f"{caption} All kernels start with the same weight."
    return figure, alt, f"{caption} {'; '.join(f'“{name}”: {EXPERTS[name]}' for name in names)}."


def draw_graph(outcome: Outcome) -> Drawn:
    """Draw learners as dots in the colour of their error, links as lines."""
    measured, graph, names = measure(outcome), outcome.graph, names_of(outcome)
    errors, places = measured.of(measured.samples.mean(1)), layout(graph)
    figure, axes = blank(3.7)
    width, alpha = (1.4, 0.35) if graph.J <= NAME_ONLY else (0.6, 0.25)
    lines = need("matplotlib.collections", "cli").LineCollection
    links = [places[[a, b]] for a, b in graph.edges]
    axes.add_collection(lines(links, colors=INK, linewidths=width, alpha=alpha, zorder=1))
    dots = _dots(axes, places, errors)
    if graph.J <= NAME_ONLY:
        for name, place, error in zip(names, places, errors, strict=True):
            few = graph.J <= NAME_AND_ERROR
            words = f"{shorten(name, 16)}\n{measured.words(error)}" if few else shorten(name, 8)
            _beside(axes, place, words, few)
    bar = figure.colorbar(dots, ax=axes, shrink=0.75, aspect=22, pad=0.02)
    ticker = need("matplotlib.ticker", "cli")
    bar.locator = ticker.MaxNLocator(5)
    bar.formatter = ticker.FuncFormatter(lambda value, _: number(value))
    bar.update_ticks()
    bar.outline.set_visible(False)
    bar.set_label(measured.axis)
    axes.set(aspect="equal", xlim=(-1.5, 1.5), ylim=(-1.4, 1.5))
    axes.set_axis_off()
    title = _graph_finding(names, errors, measured)
    set_title(axes, title)
    learners, count = plural(graph.J, "learner"), plural(len(graph.edges), "link")
    alt = f"Drawing of the network of {learners} and {count}, coloured by error. {title}."
    caption = f"Who exchanges messages with whom, and each learner's error ({measured.name})"
    return figure, alt, f"{caption} over the whole run."


def layout(graph: Graph) -> Array:
    """A place for each learner, within the unit circle. (J, 2)"""
    angle = np.pi * (0.5 if graph.J > 2 else 1.0) - 2 * np.pi * np.arange(graph.J) / graph.J
    circle = np.column_stack([np.cos(angle), np.sin(angle)]) if graph.J > 1 else np.zeros((1, 2))
    is_round = len(set(graph.deg.tolist())) == 1 and int(graph.deg[0]) in (2, graph.J - 1)
    if graph.J <= 2 or graph.J >= TOO_MANY_FOR_SPRINGS or is_round:
        return circle
    networkx = need("networkx", "cli")
    start = {j: tuple(circle[j]) for j in range(graph.J)}
    spots = networkx.spring_layout(networkx.Graph(graph.edges), pos=start, iterations=300, seed=0)
    places = np.array([spots[j] for j in range(graph.J)])
    places -= (places.max(0) + places.min(0)) / 2
    return np.asarray(places / np.linalg.norm(places, axis=1).max())


def _dots(axes: Axes, places: Array, errors: Array) -> Any:
    """Colours from least to greatest error, at least a tenth apart: noise must not look like a difference."""
    known = errors[np.isfinite(errors)]
    low, high = 0.0, 1.0
    if known.size and known.max() > 0:
        middle = float(known.mean())
        low, high = min(float(known.min()), 0.95 * middle), max(float(known.max()), 1.05 * middle)
    return axes.scatter(
        *places.T,
        c=np.where(np.isfinite(errors), errors, high),
        s=float(np.clip(3200 / len(places), 36, 420)),
        cmap="viridis_r",
        vmin=low,
        vmax=high,
        edgecolors=INK,
        linewidths=0.8,
        zorder=2,
    )


def _beside(axes: Axes, place: Array, words: str, few: bool) -> None:
    """Write words outside the dot, away from the middle of the network."""
    far = float(np.linalg.norm(place))
    x, y = place / far if far > 0.1 else (0.0, -1.0)
    shift = (0.17 if few else 0.08) + 0.04 * abs(y)
    side = "center" if abs(x) < 0.35 else ("left" if x > 0 else "right")
    level = "center" if abs(y) < 0.35 else ("bottom" if y > 0 else "top")
    size = 8.5 if few else 7
    axes.text(place[0] + shift * x, place[1] + shift * y, words, ha=side, va=level, fontsize=size)


def _graph_finding(names: list[str], errors: Array, measured: Measure) -> str:
    if not np.isfinite(errors).all():
        return "Some errors are not finite"
    least, most = int(errors.argmin()), int(errors.argmax())
    low, high = measured.words(errors[least]), measured.words(errors[most])
    if low == high:
        return f"All errors are near {low}" if len(names) > 1 else f"The error is {low}"
    best, worst = (f"learner {n}" if n.isdigit() else shorten(n, 16) for n in (names[least], names[most]))
    return f"Lowest error: {best} ({low}), highest: {worst} ({high})"


FIGURES: dict[str, Callable[[Outcome], Drawn]] = {
    "error": draw_error,
    "weights": draw_weights,
    "graph": draw_graph,
}


def pictures(outcome: Outcome) -> list[Picture]:
    """All figures of an outcome; the weights only where the run kept them."""
    kept = len(outcome.run.q_path) > 0
    return [picture(name, outcome) for name in FIGURES if name != "weights" or kept]


def picture(name: str, outcome: Outcome) -> Picture:
    """One figure, as SVG and PNG."""
    with look(name):
        figure, alt, caption = FIGURES[name](outcome)
        return Picture(name, alt, caption, as_svg(figure), as_png(figure))

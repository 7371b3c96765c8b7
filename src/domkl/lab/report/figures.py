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
from ...learning.settings import Auto
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


def grid(axes: Axes) -> None:
    """Faint horizontal lines behind the data."""
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.7)
    axes.set_axisbelow(True)


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


def draw_error(outcome: Outcome) -> Drawn:
    """Each learner's rolling error, with the level of the whole run and of the comparators."""
    curves = rolling(outcome)
    levels = _levels(outcome) if curves.measure.root else {}
    figure, axes = blank(3.3)
    _error_frame(axes, outcome, curves, levels)
    labels = _references(axes, levels) + _lines(axes, outcome, curves)
    write_labels(axes, labels)
    title = _error_finding(curves.measure)
    set_title(axes, title)
    return figure, _error_alt(title, curves, outcome), _error_caption(curves, bool(levels))


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


def _error_frame(axes: Axes, outcome: Outcome, curves: Curves, levels: dict[str, float]) -> None:
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


def _error_caption(curves: Curves, compared: bool) -> str:
    what = "Root mean squared error" if curves.measure.root else "Share of wrong classes"
    dashed = "Dashed: the whole run, mean over learners, beside other methods. " if compared else ""
    window = plural(curves.window, "round")
    return f"{what} over the {window} up to each round. {dashed}The first windows may lie above the picture."


def _error_alt(title: str, curves: Curves, outcome: Outcome) -> str:
    ends = zip(names_of(outcome)[:FEW], curves.errors[:, -1], strict=False)
    last = ", ".join(f"{name} {curves.measure.words(error)}" for name, error in ends)
    rounds = plural(outcome.split.y.shape[1], "round")
    return f"Line chart of the error over {rounds}. {title}. In the last window: {last}."


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


def draw_weights(outcome: Outcome) -> Drawn:
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
    _weights_frame(axes, weights.rounds)
    _name_bands(axes, weights.rounds, bands, [*names, f"other {weights.what}s"], colours)
    set_title(axes, weights.finding)
    return figure, _weights_alt(weights), _weights_caption(weights)


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


def _weights_frame(axes: Axes, rounds: Array) -> None:
    round_axis(axes, rounds[-1])
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(need("matplotlib.ticker", "cli").PercentFormatter(1.0))
    axes.set_ylabel("weight, mean over learners")


def _weights_caption(weights: Weights) -> str:
    few = f"those that stay below {percent(MATTERS)} are drawn together as “other {weights.what}s”."
    how = f"How much each {weights.what} counts in the prediction, mean over the learners; {few}"
    if weights.what == "kernel":
        return f"{how} All kernels start with the same weight."
    drawn = "; ".join(f"“{name}”: {EXPERTS[name]}" for name in (weights.names[p] for p in weights.chosen))
    return f"{how} {drawn}."


def _weights_alt(weights: Weights) -> str:
    ends = ", ".join(f"{weights.names[p]} {percent(float(weights.shares[-1, p]))}" for p in weights.chosen)
    return f"Stacked areas of the {weights.what}s' weights over time. {weights.finding}. At the end: {ends}."


#: Up to so many learners are labelled with name and error, and up to so many with the name.
NAME_AND_ERROR, NAME_ONLY = 12, 36
#: From here on networkx's spring layout needs scipy.
TOO_MANY_FOR_SPRINGS = 500
BEYOND_NODE = 0.17


def draw_graph(outcome: Outcome) -> Drawn:
    """Draw learners as dots in the colour of their error, links as lines."""
    measured = measure(outcome)
    errors = measured.of(measured.samples.mean(1))
    places = layout(outcome.graph)
    figure, axes = blank(3.7)
    _links(axes, outcome.graph, places)
    dots = _dots(axes, places, errors)
    _graph_labels(axes, names_of(outcome), places, [measured.words(error) for error in errors])
    _colour_bar(figure, axes, dots, measured.axis)
    _graph_frame(axes)
    title = _graph_finding(names_of(outcome), errors, measured)
    set_title(axes, title)
    caption = (
        f"Who exchanges messages with whom, and each learner's error ({measured.name}) over the whole run."
    )
    return figure, _graph_alt(title, outcome), caption


def layout(graph: Graph) -> Array:
    """A place for each learner, within the unit circle. (J, 2)"""
    circle = _circle(graph.J)
    alike = len(set(graph.deg.tolist())) == 1
    if graph.J <= 2 or graph.J >= TOO_MANY_FOR_SPRINGS or (alike and _circular(graph)):
        return circle
    networkx = need("networkx", "cli")
    drawn = networkx.Graph(graph.edges)
    start = {j: tuple(circle[j]) for j in range(graph.J)}
    spots = networkx.spring_layout(drawn, pos=start, iterations=300, seed=0)
    return _within_circle(np.array([spots[j] for j in range(graph.J)]))


def _circular(graph: Graph) -> bool:
    """Whether a graph is a ring or complete, and so best drawn as a circle."""
    return int(graph.deg[0]) in (2, graph.J - 1)


def _circle(J: int) -> Array:
    if J == 1:
        return np.zeros((1, 2))
    angle = np.pi * (0.5 if J > 2 else 1.0) - 2 * np.pi * np.arange(J) / J
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _within_circle(places: Array) -> Array:
    middle = (places.max(0) + places.min(0)) / 2
    return np.asarray((places - middle) / np.linalg.norm(places - middle, axis=1).max())


def _links(axes: Axes, graph: Graph, places: Array) -> None:
    lines = [places[[a, b]] for a, b in graph.edges]
    width, alpha = (1.4, 0.35) if graph.J <= NAME_ONLY else (0.6, 0.25)
    collection = need("matplotlib.collections", "cli").LineCollection
    axes.add_collection(collection(lines, colors=INK, linewidths=width, alpha=alpha, zorder=1))


def _dots(axes: Axes, places: Array, errors: Array) -> Any:
    size = float(np.clip(3200 / len(places), 36, 420))
    low, high = _range(errors)
    return axes.scatter(
        *places.T,
        c=np.where(np.isfinite(errors), errors, high),
        s=size,
        cmap="viridis_r",
        vmin=low,
        vmax=high,
        edgecolors=INK,
        linewidths=0.8,
        zorder=2,
    )


def _range(errors: Array) -> tuple[float, float]:
    """From least to greatest, at least a tenth apart, so that noise does not look like a difference."""
    known = errors[np.isfinite(errors)]
    if not known.size or known.max() <= 0:
        return 0.0, 1.0
    low, high, middle = float(known.min()), float(known.max()), float(known.mean())
    return min(low, 0.95 * middle), max(high, 1.05 * middle)


def _graph_labels(axes: Axes, names: list[str], places: Array, errors: list[str]) -> None:
    J = len(names)
    if J > NAME_ONLY:
        return
    for name, place, error in zip(names, places, errors, strict=True):
        words = shorten(name, 16 if J <= NAME_AND_ERROR else 8)
        if J <= NAME_AND_ERROR:
            words += f"\n{error}"
        _beside(axes, place, words, J)


def _beside(axes: Axes, place: Array, words: str, J: int) -> None:
    """Write words outside the dot, away from the middle of the network."""
    far = float(np.linalg.norm(place))
    x, y = place / far if far > 0.1 else (0.0, -1.0)
    shift = (BEYOND_NODE if J <= NAME_AND_ERROR else 0.08) + 0.04 * abs(y)
    side = "center" if abs(x) < 0.35 else ("left" if x > 0 else "right")
    level = "center" if abs(y) < 0.35 else ("bottom" if y > 0 else "top")
    size = 8.5 if J <= NAME_AND_ERROR else 7
    axes.text(place[0] + shift * x, place[1] + shift * y, words, ha=side, va=level, fontsize=size)


def _colour_bar(figure: Figure, axes: Axes, dots: Any, label: str) -> None:
    bar = figure.colorbar(dots, ax=axes, shrink=0.75, aspect=22, pad=0.02)
    ticker = need("matplotlib.ticker", "cli")
    bar.locator = ticker.MaxNLocator(5)
    bar.formatter = ticker.FuncFormatter(lambda value, _: number(value))
    bar.update_ticks()
    bar.outline.set_visible(False)
    bar.set_label(label)


def _graph_frame(axes: Axes) -> None:
    axes.set_aspect("equal")
    axes.set_xlim(-1.5, 1.5)
    axes.set_ylim(-1.4, 1.5)
    axes.set_axis_off()


def _graph_finding(names: list[str], errors: Array, measured: Measure) -> str:
    if not np.isfinite(errors).all():
        return "Some errors are not finite"
    least, most = int(errors.argmin()), int(errors.argmax())
    low, high = measured.words(errors[least]), measured.words(errors[most])
    if low == high:
        return f"All errors are near {low}" if len(names) > 1 else f"The error is {low}"
    return f"Lowest error: {_called(names[least])} ({low}), highest: {_called(names[most])} ({high})"


def _called(name: str) -> str:
    return f"learner {name}" if name.isdigit() else shorten(name, 16)


def _graph_alt(title: str, outcome: Outcome) -> str:
    learners, links = plural(outcome.graph.J, "learner"), plural(len(outcome.graph.edges), "link")
    return f"Drawing of the network of {learners} and {links}, coloured by error. {title}."


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

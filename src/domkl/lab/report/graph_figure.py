"""The network, coloured by error."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.extras import need
from ...base.types import Array
from ...base.words import number, plural, shorten
from ...exchange.graph import Graph
from ..trial import Outcome
from .facts import Measure, measure, names_of
from .style import INK, Axes, Drawn, Figure, blank, set_title

#: Up to so many learners are labelled with name and error, and up to so many with the name.
NAME_AND_ERROR, NAME_ONLY = 12, 36
#: From here on networkx's spring layout needs scipy.
TOO_MANY_FOR_SPRINGS = 500
BEYOND_NODE = 0.17


def draw(outcome: Outcome) -> Drawn:
    """Draw learners as dots in the colour of their error, links as lines."""
    measured = measure(outcome)
    errors = measured.of(measured.samples.mean(1))
    places = layout(outcome.graph)
    figure, axes = blank(3.7)
    _links(axes, outcome.graph, places)
    dots = _dots(axes, places, errors)
    _labels(axes, names_of(outcome), places, [measured.words(error) for error in errors])
    _colour_bar(figure, axes, dots, measured.axis)
    _frame(axes)
    title = _finding(names_of(outcome), errors, measured)
    set_title(axes, title)
    caption = (
        f"Who exchanges messages with whom, and each learner's error ({measured.name}) over the whole run."
    )
    return figure, _alt(title, outcome), caption


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


def _labels(axes: Axes, names: list[str], places: Array, errors: list[str]) -> None:
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


def _frame(axes: Axes) -> None:
    axes.set_aspect("equal")
    axes.set_xlim(-1.5, 1.5)
    axes.set_ylim(-1.4, 1.5)
    axes.set_axis_off()


def _finding(names: list[str], errors: Array, measured: Measure) -> str:
    if not np.isfinite(errors).all():
        return "Some errors are not finite"
    least, most = int(errors.argmin()), int(errors.argmax())
    low, high = measured.words(errors[least]), measured.words(errors[most])
    if low == high:
        return f"All errors are near {low}" if len(names) > 1 else f"The error is {low}"
    return f"Lowest error: {_called(names[least])} ({low}), highest: {_called(names[most])} ({high})"


def _called(name: str) -> str:
    return f"learner {name}" if name.isdigit() else shorten(name, 16)


def _alt(title: str, outcome: Outcome) -> str:
    learners, links = plural(outcome.graph.J, "learner"), plural(len(outcome.graph.edges), "link")
    return f"Drawing of the network of {learners} and {links}, coloured by error. {title}."

"""All figures of a report: error over time, weights over time, the network."""

from __future__ import annotations

from collections.abc import Callable

from ..trial import Outcome
from . import error_figure, graph_figure, weights_figure
from .style import Drawn, Picture, as_png, as_svg, look

FIGURES: dict[str, Callable[[Outcome], Drawn]] = {
    "error": error_figure.draw,
    "weights": weights_figure.draw,
    "graph": graph_figure.draw,
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

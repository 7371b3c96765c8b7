"""The error over time, the kernels' weights over time where there are kernels, the network."""

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
    """All figures of an outcome."""
    return [picture(name, outcome) for name in FIGURES if name != "weights" or outcome.sigma2]


def picture(name: str, outcome: Outcome) -> Picture:
    with look(name):
        figure, alt, caption = FIGURES[name](outcome)
        return Picture(name, alt, caption, as_svg(figure), as_png(figure))

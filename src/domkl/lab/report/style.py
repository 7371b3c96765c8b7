"""How figures look, and how a figure becomes PNG and SVG."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from ...base.extras import need

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

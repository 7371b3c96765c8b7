"""Write the diagrams of docs/images as SVG: the architecture, and the walks of docs/architecture.md.

    python scripts/make_diagrams.py

Boxes have a fill of their own and all else is mid-grey, so that they can be read on light and dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
IMAGES = DOCS / "images"
FONT = "font-family='system-ui, sans-serif'"
MONO = "font-family='ui-monospace, monospace'"
GREY, INK = "#8590a0", "#1c2733"
#: Fill of a box by the room of its file.
FILLS = {
    "cli": "#e6e1f5",
    "lab": "#e6e1f5",
    "datasets": "#f6e7cf",
    "agent": "#f6e7cf",
    "simulator": "#d5e8f7",
    "learner": "#d5e8f7",
    "learning": "#d8efd9",
    "exchange": "#f9dcd6",
}
WALK = re.compile(r"<!-- walk: (\w+) -->(.*?)<!-- end walk -->", re.DOTALL)
STEP = re.compile(r"^\d+\. `([\w/.]+)`: (.*)$", re.MULTILINE)


def walks() -> dict[str, list[tuple[str, str]]]:
    """Files and what happens there, by walk, from the page."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    return {name: STEP.findall(body) for name, body in WALK.findall(page)}


def walk(steps: list[tuple[str, str]], columns: int = 3) -> str:
    """Boxes in rows that are read like text, with arrows between them."""
    wide, high, gap = 244, 78, 30
    rows = -(-len(steps) // columns)
    size = columns * (wide + gap) - gap + 4, rows * (high + gap) - gap + 4
    parts = []
    for n, (file, what) in enumerate(steps):
        row, column = divmod(n, columns)
        x, y = 2 + column * (wide + gap), 2 + row * (high + gap)
        lines = _wrapped(what.replace("`", ""), 34)
        parts.append(_box(x, y, wide, high, FILLS[file.split("/")[0]], f"{n + 1}  {file}", lines))
        if n + 1 < len(steps):
            if column + 1 < columns:
                parts.append(_arrow(x + wide, y + high / 2, x + wide + gap, y + high / 2))
            else:
                parts.append(_turn(x + wide / 2, y + high, 2 + wide / 2, y + high + gap))
    return _svg(*size, parts)


def architecture() -> str:
    """A model and an exchange between the two runners."""
    first = ["runner 1: a whole graph", "in one process, J rows"]
    second = ["runner 2: one device, one row", "and an inbox"]
    computes = ["Auto, Paper or your own", "predict, learn, merge", "over J rows"]
    combines = ["messages, rules that combine", "them, edges with duals,", "screens"]
    parts = [
        _box(4, 4, 210, 76, FILLS["simulator"], "domkl.simulate", first),
        _box(546, 4, 210, 76, FILLS["learner"], "domkl.Learner", second),
        _box(275, 104, 210, 92, FILLS["learning"], "model", computes),
        _box(275, 236, 210, 92, FILLS["exchange"], "exchange", combines),
        *(_arrow(214, 60, 275, 122), _arrow(546, 60, 485, 122)),
        *(_arrow(340, 196, 340, 236), _arrow(420, 236, 420, 196)),
        *(_text(334, 220, "parts", anchor="end"), _text(426, 220, "combined")),
        _text(380, 46, "same code, same bits", anchor="middle"),
        *_graph(),
        *_devices(),
    ]
    return _svg(760, 332, parts)


def _graph() -> list[str]:
    places = [(60, 150), (160, 150), (60, 240), (160, 240), (110, 300)]
    links = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 4), (2, 3)]
    lines = [_line(*places[a], *places[b]) for a, b in links]
    return [
        *lines,
        *(f"<circle cx='{x}' cy='{y}' r='14' fill='#d5e8f7' stroke='{GREY}'/>" for x, y in places),
    ]


def _devices() -> list[str]:
    places = [(556, 120), (672, 120), (614, 256)]
    parts = [
        _line(640, 148, 672, 148, both=True),
        _line(606, 176, 638, 256, both=True),
        _line(706, 176, 676, 256, both=True),
    ]
    for x, y in places:
        parts.append(f"<rect x='{x}' y='{y}' width='84' height='56' rx='6' fill='#f6e7cf' stroke='{GREY}'/>")
        parts += [
            _text(x + 42, y + 25, "domkl", "middle", INK),
            _text(x + 42, y + 41, "agent", "middle", INK),
        ]
    return parts


def _box(x: float, y: float, wide: float, high: float, fill: str, title: str, lines: Iterable[str]) -> str:
    parts = [f"<rect x='{x}' y='{y}' width='{wide}' height='{high}' rx='7' fill='{fill}' stroke='{GREY}'/>"]
    parts.append(
        f"<text x='{x + 11}' y='{y + 21}' {MONO} font-size='12.5' font-weight='600' fill='{INK}'>"
        f"{escape(title)}</text>"
    )
    parts += [_text(x + 11, y + 39 + 16 * n, escape(line), fill=INK) for n, line in enumerate(lines)]
    return "".join(parts)


def _text(x: float, y: float, words: str, anchor: str = "start", fill: str = GREY) -> str:
    return f"<text x='{x}' y='{y}' {FONT} font-size='12' fill='{fill}' text-anchor='{anchor}'>{words}</text>"


def _line(x: float, y: float, to_x: float, to_y: float, both: bool = False) -> str:
    ends = " marker-end='url(#tip)' marker-start='url(#tip)'" if both else ""
    return f"<line x1='{x}' y1='{y}' x2='{to_x}' y2='{to_y}' stroke='{GREY}' stroke-width='1.6'{ends}/>"


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return (
        f"<line x1='{x}' y1='{y}' x2='{to_x}' y2='{to_y}' stroke='{GREY}' stroke-width='1.6' "
        "marker-end='url(#tip)'/>"
    )


def _turn(x: float, y: float, to_x: float, to_y: float) -> str:
    """From the end of a row to the beginning of the next."""
    middle = (y + to_y) / 2
    return (
        f"<path d='M {x} {y} V {middle} H {to_x} V {to_y}' fill='none' stroke='{GREY}' stroke-width='1.6' "
        "marker-end='url(#tip)'/>"
    )


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _svg(wide: float, high: float, parts: Iterable[str]) -> str:
    tip = (
        "<defs><marker id='tip' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='7' markerHeight='7' "
        f"orient='auto-start-reverse'><path d='M 0 0 L 8 4 L 0 8 z' fill='{GREY}'/></marker></defs>"
    )
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {wide} {high}' width='{wide}' height='{high}'>"
    )
    return "\n".join([head, tip, *parts, "</svg>"]) + "\n"


def diagrams() -> dict[str, str]:
    """All of them, by file name."""
    made = {f"walk-{name}.svg": walk(steps) for name, steps in walks().items()}
    return {"architecture.svg": architecture(), **made}


if __name__ == "__main__":
    for name, text in diagrams().items():
        (IMAGES / name).write_text(text, encoding="utf-8")

"""docs/images/dial.svg: the error together over that alone, the more learners differ, from together.py.

Lines have colours of their own and all else is mid-grey, so that it can be read on light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from .common import figure, read
from .together import mean, rows_of

WIDE, HIGH = 640, 330
LEFT, RIGHT, TOP, BELOW = 52, 20, 58, 58  # of the axes
GREY = "#8590a0"
#: Name in words, column of the results and colour of each line.
LINES = (("together", "now", "#0072b2"), ("one common function", "before", "#d55e00"))
#: Cases of the results and what they are called below the axis; the last one is not part of the dial.
CASES = {f"made a={a}": f"a = {a}" for a in ("0", "0.25", "1", "3")} | {
    "made two clusters": "two clusters",
}
TICKS = [step * 10.0**power for power in range(-3, 4) for step in (1, 2, 5)]


class Point(NamedTuple):
    """One setting of the dial: error over that of the same learners alone."""

    place: int
    ratio: float


def points(kept: dict[str, Any], column: str) -> list[Point]:
    """Of every case that was measured together and alone, means over the seeds."""
    found = dict(rows_of(kept))
    made = []
    for place, case in enumerate(CASES):
        rows = [row for row in found.get(case, []) if "now" in row]
        error, alone = mean(rows, column, "together"), mean(rows, "now", "alone")
        if error is not None and alone is not None:
            made.append(Point(place, error / alone))
    return made


def svg() -> str:
    """The picture, from the results that are kept."""
    lines = {name: points(read("together"), column) for name, column, _ in LINES}
    scale = Scale([point.ratio for each in lines.values() for point in each])
    parts = [*_axes(scale), *_alone(scale)]
    for name, _, colour in LINES:
        parts += _line(lines[name], colour, scale, is_below=name == LINES[0][0])
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDE} {HIGH}' width='{WIDE}' height='{HIGH}'"
    )
    return "\n".join([f"{head} role='img' aria-label='{_alt(lines)}'>", *parts, *_legend(), "</svg>\n"])


class Scale:
    """Where ratios stand on a logarithmic axis that holds all of them and 1."""

    def __init__(self, ratios: list[float]) -> None:
        self.low, self.high = math.log(min([1.0, *ratios]) / 1.3), math.log(max([1.0, *ratios]) * 1.3)

    def y(self, ratio: float) -> float:
        """Height of a ratio in the picture."""
        share = (math.log(ratio) - self.low) / (self.high - self.low)
        return round(HIGH - BELOW - share * (HIGH - BELOW - TOP), 1)

    def ticks(self) -> list[float]:
        """Round numbers within the axis."""
        return [tick for tick in TICKS if self.low <= math.log(tick) <= self.high]


def _x(place: int) -> float:
    """Settings of the dial at equal distances, what is no part of it apart."""
    apart = 0.4 if place == len(CASES) - 1 else 0.0
    return round(LEFT + (place + 0.5 + apart) * (WIDE - LEFT - RIGHT) / (len(CASES) + 0.4), 1)


def _axes(scale: Scale) -> Iterator[str]:
    for tick in scale.ticks():
        y = scale.y(tick)
        yield (
            f"<line x1='{LEFT}' y1='{y}' x2='{WIDE - RIGHT}' y2='{y}' stroke='{GREY}' stroke-opacity='0.25'/>"
        )
        yield _text(LEFT - 8, y + 4, f"{tick:g}", "end")
    for place, name in enumerate(CASES.values()):
        yield _text(_x(place), HIGH - BELOW + 22, name, "middle")
    words = "own part of each learner's function over the common part"
    yield _text((_x(0) + _x(len(CASES) - 2)) / 2, HIGH - 12, words, "middle")
    yield _text(10, 18, "mean squared error over that of the same learners alone")


def _alone(scale: Scale) -> Iterator[str]:
    y = scale.y(1.0)
    yield (
        f"<line x1='{LEFT}' y1='{y}' x2='{WIDE - RIGHT}' y2='{y}' stroke='{GREY}' stroke-width='2' "
        "stroke-dasharray='6 4'/>"
    )


def _line(found: list[Point], colour: str, scale: Scale, is_below: bool) -> Iterator[str]:
    """A line with its values above or below the points."""
    dial = [point for point in found if point.place < len(CASES) - 1]
    path = " ".join(f"{_x(point.place)},{scale.y(point.ratio)}" for point in dial)
    yield f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2.4'/>"
    for place, ratio in found:
        x, y = _x(place), scale.y(ratio)
        yield f"<circle cx='{x}' cy='{y}' r='4.5' fill='{colour}'/>"
        words = figure(ratio, 2)
        yield (
            _text(x + 4, y + 19, words, fill=colour)
            if is_below
            else _text(x - 4, y - 9, words, "end", colour)
        )


def _legend() -> Iterator[str]:
    x = float(LEFT)
    for name, colour, dash in (
        *((name, colour, "") for name, _, colour in LINES),
        ("alone", GREY, " stroke-dasharray='6 4'"),
    ):
        yield f"<line x1='{x}' y1='36' x2='{x + 26}' y2='36' stroke='{colour}' stroke-width='2.4'{dash}/>"
        yield _text(x + 33, 40, name)
        x += 60 + 7.5 * len(name)


def _alt(lines: dict[str, list[Point]]) -> str:
    names = list(CASES.values())
    told = (
        f"{name}: {', '.join(f'{names[point.place]} {figure(point.ratio, 2)}' for point in found)}"
        for name, found in lines.items()
    )
    return f"Error over that alone. {'; '.join(told)}."


def _text(x: float, y: float, words: str, anchor: str = "start", fill: str = GREY) -> str:
    style = f"font-family='system-ui, sans-serif' font-size='13' fill='{fill}' text-anchor='{anchor}'"
    return f"<text x='{round(x, 1)}' y='{round(y, 1)}' {style}>{words}</text>"

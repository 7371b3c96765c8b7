"""Tables of texts: one style for every command, at any width, with rich or without."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from unicodedata import combining, east_asian_width

from .extras import need
from .words import visible

#: Between two columns, and between a word of a legend and its meaning.
GAP, MARGIN = 3, 2
#: Several words get so much room before a column is left out, and so much where nothing can be left out.
READABLE, LEAST = 14, 6

#: Text, and its style: "", "bold" or "italic".
Span: TypeAlias = tuple[str, str]
Line: TypeAlias = list[Span]


@dataclass(frozen=True)
class Sheet:
    """A table of texts.

    Parameters
    ----------
    title : what stands above it.
    heads : of the columns; a unit has a line of its own: "RMSE\\n°F".
    rows : their cells.
    words : columns of words, which start on the left; all others are numbers, which end on the right.
    bold : places (row, column) of the best cells.
    spare : columns that a narrow terminal does without, in this order.
    legend : what heads and marks mean; that of a column without room is left out with it.
    apart : rows that have an empty line above.
    fold : words keep so many characters before a column is left out; longer ones are folded.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: frozenset[int] = frozenset({0})
    bold: frozenset[tuple[int, int]] = frozenset()
    spare: tuple[int, ...] = ()
    legend: Mapping[str, str] = field(default_factory=dict)
    apart: frozenset[int] = frozenset()
    fold: int = 24

    def names(self) -> list[str]:
        """The heads without their units."""
        return [head.split("\n")[0] for head in self.heads]

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        Text = need("rich.text", "cli").Text
        shown = self if console.color_system else without_bold(self)
        for line in lines(shown, options.max_width):
            yield Text.assemble(*line, no_wrap=True, overflow="ignore")


def fit(sheet: Sheet, width: int) -> Sheet:
    """The table without the columns that have no room.

    >>> fit(Sheet("", ("a", "b", "c"), [["x", "12345", "1"]], spare=(1,)), width=8).heads
    ('a', 'c')
    """
    kept, least = list(range(len(sheet.heads))), _least(sheet)
    for column in sheet.spare:
        if _total(least[c] for c in kept) <= width:
            break
        kept.remove(column)
    return only(sheet, kept)


def only(sheet: Sheet, kept: Sequence[int]) -> Sheet:
    """The table with these columns alone, and what its legend says of them."""
    place = {column: k for k, column in enumerate(kept)}
    bold = frozenset((i, place[c]) for i, c in sheet.bold if c in place)
    left_out = {name for c, name in enumerate(sheet.names()) if c not in place}
    left_out |= set() if bold else {"bold"}
    return dataclasses.replace(
        sheet,
        heads=tuple(sheet.heads[c] for c in kept),
        rows=[[row[c] for c in kept] for row in sheet.rows],
        words=frozenset(place[c] for c in sheet.words if c in place),
        bold=bold,
        spare=tuple(place[c] for c in sheet.spare if c in place),
        legend={term: meaning for term, meaning in sheet.legend.items() if term not in left_out},
    )


def needs(sheet: Sheet, whole: bool = False) -> int:
    """The least width for all columns; with `whole`, for all words in one line."""
    return _total(_least(sheet, whole))


def without_bold(sheet: Sheet) -> Sheet:
    """The table for a place that shows no bold, which its legend then does not speak of."""
    legend = {term: meaning for term, meaning in sheet.legend.items() if term != "bold"}
    return dataclasses.replace(sheet, bold=frozenset(), legend=legend)


def split(sheet: Sheet, width: int) -> list[Sheet]:
    """A table that is too wide as several, one below the other, each with the columns of words."""
    least, words = _least(sheet), sorted(sheet.words)
    parts = [list(words)]
    for column in (c for c in range(len(sheet.heads)) if c not in sheet.words):
        if len(parts[-1]) > len(words) and _total(least[c] for c in (*parts[-1], column)) > width:
            parts.append(list(words))
        parts[-1].append(column)
    return [only(sheet, part) for part in parts]


def least_of(values: Sequence[float | None]) -> list[int]:
    """The places of the least value, of those that are known.

    >>> least_of([3.0, None, 2.0, 2.0])
    [2, 3]
    """
    known = [value for value in values if value is not None]
    return [i for i, value in enumerate(values) if known and value == min(known)]


def lines(sheet: Sheet, width: int) -> list[Line]:
    """Title, heads, rule, rows and legend in at most so many characters, if numbers are not longer."""
    shown = fit(sheet, width)
    widths = _widths(shown, width)
    made: list[Line] = [[(each, "italic")] for each in _wrapped(shown.title, width) if each]
    made += _row([_head(head, w) for head, w in zip(shown.heads, widths, strict=True)], widths, shown, None)
    made.append([("─" * _total(widths), "")])
    for i, row in enumerate(shown.rows):
        made += [[]] if i in shown.apart else []
        made += _row([_wrapped(cell, w) for cell, w in zip(row, widths, strict=True)], widths, shown, i)
    return made + explained(shown.legend, width) + _missing(sheet, shown, width)


def explained(legend: Mapping[str, str], width: int) -> list[Line]:
    """What words mean, a line or more for each."""
    terms = list(map(_clean, legend))
    first = max(map(room, terms), default=0) + MARGIN
    made: list[Line] = []
    for term, meaning in zip(terms, legend.values(), strict=True):
        for k, words in enumerate(_wrapped(meaning, max(width - first, READABLE))):
            made.append([_padded(term if k == 0 else "", first, "bold", is_word=True), (words, "")])
    return made


def plain(made: Sequence[Line]) -> str:
    """Lines without styles."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in made)


def room(text: str) -> int:
    """How many places of a terminal a text takes.

    >>> room("3.2 °F"), room("東京")
    (6, 4)
    """
    if text.isascii():
        return len(text)
    return sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def _missing(sheet: Sheet, shown: Sheet, width: int) -> list[Line]:
    """Which columns have no room."""
    names = [name for name in sheet.names() if name not in shown.names()]
    words = f"No room for {', '.join(names)}: {width} characters are too few." if names else ""
    return [[(each, "")] for each in _wrapped(words, width) if each]


def _total(widths: Iterable[int]) -> int:
    known = list(widths)
    return sum(known) + GAP * max(0, len(known) - 1)


def _columns(sheet: Sheet) -> Iterator[tuple[int, list[str]]]:
    """Every column with its cells as they are shown."""
    for c in range(len(sheet.heads)):
        yield c, [_clean(row[c]) for row in sheet.rows]


def _least(sheet: Sheet, whole: bool = False) -> list[int]:
    """The least width of each column: numbers are not cut, words not folded if they are short."""
    found = []
    for c, cells in _columns(sheet):
        head = max(map(_two_lines, sheet.heads[c].split("\n")))
        longest = max(map(room, cells), default=0)
        if c in sheet.words and not whole:
            word = max((room(word) for cell in cells for word in cell.split()), default=0)
            longest = min(longest, sheet.fold, max(READABLE, word))
        found.append(max(head, longest))
    return found


def _two_lines(head: str) -> int:
    """The least width at which a head needs no third line."""
    width = max((room(word) for word in head.split()), default=0)
    while len(_wrapped(head, width)) > 2:
        width += 1
    return width


def _widths(sheet: Sheet, width: int) -> list[int]:
    """Each column's, so that all fit; what is left over goes to words, then to heads, the narrowest first."""
    widths = _least(sheet)
    whole = [max(map(room, (*sheet.heads[c].split("\n"), *cells))) for c, cells in _columns(sheet)]
    while _total(widths) < width and (narrow := [c for c, w in enumerate(widths) if w < whole[c]]):
        widths[min(narrow, key=lambda c: (c not in sheet.words, widths[c]))] += 1
    while _total(widths) > width and (long := [c for c in sheet.words if widths[c] > LEAST]):
        widths[max(long, key=widths.__getitem__)] -= 1
    return widths


def _row(cells: list[list[str]], widths: list[int], sheet: Sheet, i: int | None) -> list[Line]:
    """The lines of a row; of the heads, which end above the rule, where i is None."""
    height = max(map(len, cells))
    made: list[Line] = []
    for k in range(height):
        line: Line = []
        for c, parts in enumerate(cells):
            at = k - (height - len(parts)) if i is None else k
            words = parts[at] if 0 <= at < len(parts) else ""
            style = "bold" if i is None or (i, c) in sheet.bold else ""
            line += [(" " * GAP, "")] if c else []
            line.append(_padded(words, widths[c], style, c in sheet.words))
        made.append(line)
    return made


def _padded(words: str, width: int, style: str, is_word: bool) -> Span:
    space = " " * max(0, width - room(words))
    return (words + space if is_word else space + words), style


def _head(head: str, width: int) -> list[str]:
    return [line for part in head.split("\n") for line in _wrapped(part, width)]


def _clean(cell: str) -> str:
    return " ".join(visible(cell).split())


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most so many places; a word that is longer is folded."""
    made = [""]
    for word in _clean(text).split(" "):
        if room(made[-1]) + 1 + room(word) <= width and made[-1]:
            made[-1] += f" {word}"
            continue
        if made[-1]:
            made.append("")
        for sign in word:
            if made[-1] and room(made[-1]) + room(sign) > width:
                made.append("")
            made[-1] += sign
    return made

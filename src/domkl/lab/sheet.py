"""Tables of texts: in the terminal with rich, and as CSV, Markdown, and LaTeX for booktabs."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base import checks
from ..base.errors import InputError
from ..base.extras import need
from ..base.words import visible

#: Between two columns.
GAP = 3
#: Cells of a CSV file that a spreadsheet computes; numbers begin like them, and may have a unit.
_FORMULA, _NUMBER = re.compile(r"\s*[=+@-]|[\t\r]"), re.compile(r"[-+]?[0-9][-+0-9 .,eE]*%?")
#: Several words get so much room before a column is left out, and so much where nothing can be left out.
READABLE, LEAST = 14, 6


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

    def width(self, whole: bool = False) -> int:
        """Characters that all columns need; with `whole`, for all words in one line."""
        return _total(self._least(whole))

    def only(self, kept: Sequence[int]) -> Sheet:
        """The table with these columns alone, and what its legend says of them."""
        place = {column: k for k, column in enumerate(kept)}
        bold = frozenset((i, place[c]) for i, c in self.bold if c in place)
        left_out = {name for c, name in enumerate(self.names()) if c not in place}
        left_out |= set() if bold else {"bold"}
        return dataclasses.replace(
            self,
            heads=tuple(self.heads[c] for c in kept),
            rows=[[row[c] for c in kept] for row in self.rows],
            words=frozenset(place[c] for c in self.words if c in place),
            bold=bold,
            spare=tuple(place[c] for c in self.spare if c in place),
            legend={term: meaning for term, meaning in self.legend.items() if term not in left_out},
        )

    def fit(self, width: int) -> Sheet:
        """The table without the columns that have no room.

        >>> Sheet("", ("a", "b", "c"), [["x", "12345", "1"]], spare=(1,)).fit(width=8).heads
        ('a', 'c')
        """
        kept, least = list(range(len(self.heads))), self._least()
        for column in self.spare:
            if _total(least[c] for c in kept) <= width:
                break
            kept.remove(column)
        return self.only(kept)

    def split(self, width: int) -> list[Sheet]:
        """A table that is too wide as several, one below the other, each with the columns of words."""
        least, words = self._least(), sorted(self.words)
        parts = [list(words)]
        for column in (c for c in range(len(self.heads)) if c not in self.words):
            if len(parts[-1]) > len(words) and _total(least[c] for c in (*parts[-1], column)) > width:
                parts.append(list(words))
            parts[-1].append(column)
        return [self.only(part) for part in parts]

    def without_bold(self) -> Sheet:
        """The table for a place that shows no bold, which its legend then does not speak of."""
        legend = {term: meaning for term, meaning in self.legend.items() if term != "bold"}
        return dataclasses.replace(self, bold=frozenset(), legend=legend)

    def _least(self, whole: bool = False) -> list[int]:
        """The least width of each column: numbers are not cut, words may be folded."""
        found = []
        for c, head in enumerate(self.heads):
            cells = [_clean(row[c]) for row in self.rows]
            longest = max(map(_room, cells), default=0)
            if c in self.words and not whole:
                word = max((_room(word) for cell in cells for word in cell.split()), default=0)
                longest = min(longest, self.fold, max(READABLE, word))
            found.append(max(longest, *map(len, head.split("\n") if whole else head.split())))
        return found

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        Text, table, box, align = (need(f"rich.{name}", "cli") for name in ("text", "table", "box", "align"))
        whole = self if console.color_system else self.without_bold()
        shown = whole.fit(options.max_width)
        if shown.title:
            yield Text.Text(_clean(shown.title), "italic")
        made = table.Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        sides = ["left" if c in shown.words else "right" for c in range(len(shown.heads))]
        for c, (head, side) in enumerate(zip(shown.heads, sides, strict=True)):
            longest = max((len(_clean(row[c])) for row in shown.rows), default=0)
            least = LEAST if c in shown.words else longest
            words = Text.Text("\n".join(map(_clean, head.split("\n"))))
            made.add_column(words, justify=side, vertical="bottom", overflow="fold", min_width=least)
        for i, row in enumerate(shown.rows):
            if i in shown.apart:
                made.add_section()
            texts = [Text.Text(_clean(cell), "bold" * ((i, c) in shown.bold)) for c, cell in enumerate(row)]
            made.add_row(*(align.Align(*pair, vertical="top") for pair in zip(texts, sides, strict=True)))
        yield made
        meanings = table.Table.grid(padding=(0, 2, 0, 0))
        for term, meaning in shown.legend.items():
            meanings.add_row(Text.Text(_clean(term), "bold"), Text.Text(_clean(meaning)))
        if shown.legend:
            yield meanings
        if lost := [name for name in whole.names() if name not in shown.names()]:
            few = f"No room for {', '.join(lost)}: {options.max_width} characters are too few."
            yield Text.Text(_clean(few))


def _room(text: str) -> int:
    """Places that a text takes in a terminal: Chinese characters, for one, take two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


def least_of(values: Sequence[float | None]) -> list[int]:
    """The places of the least value, of those that are known.

    >>> least_of([3.0, None, 2.0, 2.0])
    [2, 3]
    """
    known = [value for value in values if value is not None]
    return [i for i, value in enumerate(values) if known and value == min(known)]


def _total(widths: Iterable[int]) -> int:
    known = list(widths)
    return sum(known) + GAP * max(0, len(known) - 1)


def _clean(cell: str) -> str:
    """Text in one line that commands no terminal."""
    return " ".join(visible(cell).split())


#: The endings of files, and the names of --format.
FORMATS = {"csv": ".csv", "latex": ".tex", "markdown": ".md"}
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_LATEX |= {mark: f"\\{mark}" for mark in "&%$#_{}"} | {"²": r"\textsuperscript{2}", "°": r"\textdegree{}"}
_LATEX |= {"–": "--", "σ": r"$\sigma$", "µ": r"$\mu$", "√": r"$\surd$"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
#: At the start of a row they would belong to the end of the one before: \\[length] and \\*.
_LATEX |= {"[": "{[}", "*": "{*}"}


def written(sheet: Sheet, how: str) -> str:
    """A table in one of `FORMATS`."""
    if checks.one_of("--format", how, FORMATS) == "csv":
        return as_csv([_heads(sheet), *sheet.rows])
    return (_latex if how == "latex" else _markdown)(sheet)


def _heads(sheet: Sheet) -> list[str]:
    return [head.replace("\n", ", ") for head in sheet.heads]


def as_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV. What a spreadsheet would compute, as a learner may be called, has an apostrophe before it.

    >>> print(as_csv([["=HYPERLINK(1)", "-0.5", -1, "a,b"]]), end="")
    '=HYPERLINK(1),-0.5,-1,"a,b"
    """
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(map(_inert, row) for row in rows)
    return out.getvalue()


def _inert(cell: Any) -> Any:
    is_formula = isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell


def _markdown(sheet: Sheet) -> str:
    marks = ["---" if c in sheet.words else "---:" for c in range(len(sheet.heads))]
    rows = _marked(sheet, lambda cell: f"**{_piped(cell)}**", _piped)
    lines = [" | ".join(cells) for cells in (map(_piped, _heads(sheet)), marks, *rows)]
    return f"**{_clean(sheet.title)}**\n\n" + "".join(f"| {line} |\n" for line in lines)


def _latex(sheet: Sheet) -> str:
    columns = "".join("l" if c in sheet.words else "r" for c in range(len(sheet.heads)))
    rows = _marked(sheet, lambda cell: f"\\textbf{{{escaped(cell)}}}", escaped)
    lines = [
        r"% \usepackage{booktabs,textcomp}",
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{escaped(sheet.title)}}}",
        f"\\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(map(escaped, _heads(sheet))) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _marked(sheet: Sheet, best: Callable[[str], str], other: Callable[[str], str]) -> Iterator[list[str]]:
    """The rows, each cell as its place asks for."""
    for i, row in enumerate(sheet.rows):
        yield [(best if (i, j) in sheet.bold and cell else other)(cell) for j, cell in enumerate(row)]


def escaped(words: str) -> str:
    r"""Text that LaTeX sets as it is.

    >>> escaped("50 % of a_b ± 1")
    '50 \\% of a\\_b $\\pm$ 1'
    """
    return "".join(_LATEX.get(mark, mark) for mark in words)


def _piped(cell: str) -> str:
    return _clean(cell).replace("|", "\\|").replace("*", "\\*")


def format_of(path: str | Path, option: str = "--out") -> str:
    """The format that a file's ending asks for."""
    end = Path(path).suffix.lower()
    for name, known in FORMATS.items():
        if end == known:
            return name
    raise InputError(
        f"{option} {path} ends in {end or 'nothing'}; expected {', '.join(FORMATS.values())}; rename it"
    )


def whole(sheets: Sequence[Sheet], how: str) -> str:
    """Several tables in one text, with an empty line between."""
    return "\n".join(written(sheet, how) for sheet in sheets)

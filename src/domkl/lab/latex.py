"""Tables of results for papers and pages: CSV, Markdown, and LaTeX for the package booktabs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..base import checks
from ..base.errors import InputError

#: The endings of files, and the names of --format.
FORMATS = {"csv": ".csv", "latex": ".tex", "markdown": ".md"}
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_LATEX |= {mark: f"\\{mark}" for mark in "&%$#_{}"} | {"²": r"\textsuperscript{2}", "°": r"\textdegree{}"}
_LATEX |= {"–": "--", "σ": r"$\sigma$", "µ": r"$\mu$"}


@dataclass(frozen=True)
class Sheet:
    """A table of texts; the first `left` columns are words, `bold` has the places (row, column) of the best
    cells."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    bold: frozenset[tuple[int, int]] = field(default_factory=frozenset)

    def text(self, how: str) -> str:
        """The table in one of `FORMATS`."""
        made = {"csv": self._csv, "latex": self._latex, "markdown": self._markdown}
        return made[checks.one_of("--format", how, FORMATS)]()

    def _csv(self) -> str:
        out = io.StringIO(newline="")
        csv.writer(out, lineterminator="\n").writerows([self.heads, *self.rows])
        return out.getvalue()

    def _markdown(self) -> str:
        marks = ["---" if i < self.left else "---:" for i in range(len(self.heads))]
        rows = [
            [self._marked(i, j, _piped(cell), "**") for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]
        lines = [" | ".join(cells) for cells in ([_piped(h) for h in self.heads], marks, *rows)]
        return f"**{self.title}**\n\n" + "".join(f"| {line} |\n" for line in lines)

    def _marked(self, i: int, j: int, cell: str, mark: str) -> str:
        return f"{mark}{cell}{mark}" if (i, j) in self.bold and cell else cell

    def _latex(self) -> str:
        columns = "l" * self.left + "r" * (len(self.heads) - self.left)
        rows = [
            " & ".join(
                f"\\textbf{{{escaped(cell)}}}" if (i, j) in self.bold and cell else escaped(cell)
                for j, cell in enumerate(row)
            )
            for i, row in enumerate(self.rows)
        ]
        lines = [
            r"% \usepackage{booktabs,textcomp}",
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{escaped(self.title)}}}",
            f"\\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(map(escaped, self.heads)) + r" \\",
            r"\midrule",
            *(f"{row} \\\\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Text that LaTeX sets as it is.

    >>> escaped("50 % of a_b ± 1")
    '50 \\% of a\\_b $\\pm$ 1'
    """
    return "".join(_LATEX.get(mark, mark) for mark in text)


def _piped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


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
    return "\n".join(sheet.text(how) for sheet in sheets)

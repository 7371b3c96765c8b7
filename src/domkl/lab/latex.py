"""Tables of results for papers and pages: CSV, Markdown, and LaTeX for the package booktabs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..base import checks
from ..base.errors import InputError
from ..base.sheet import Sheet

#: The endings of files, and the names of --format.
FORMATS = {"csv": ".csv", "latex": ".tex", "markdown": ".md"}
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_LATEX |= {mark: f"\\{mark}" for mark in "&%$#_{}"} | {"²": r"\textsuperscript{2}", "°": r"\textdegree{}"}
_LATEX |= {"–": "--", "σ": r"$\sigma$", "µ": r"$\mu$", "√": r"$\surd$"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
#: At the start of a row they would belong to the end of the one before: \\[length] and \\*.
_LATEX |= {"[": "{[}", "*": "{*}"}


def text(sheet: Sheet, how: str) -> str:
    """A table in one of `FORMATS`."""
    made = {"csv": _csv, "latex": _latex, "markdown": _markdown}
    return made[checks.one_of("--format", how, FORMATS)](sheet)


def _heads(sheet: Sheet) -> list[str]:
    return [head.replace("\n", ", ") for head in sheet.heads]


def _csv(sheet: Sheet) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([_heads(sheet), *sheet.rows])
    return out.getvalue()


def _markdown(sheet: Sheet) -> str:
    marks = ["---" if c in sheet.words else "---:" for c in range(len(sheet.heads))]
    rows = _marked(sheet, lambda cell: f"**{_piped(cell)}**", _piped)
    lines = [" | ".join(cells) for cells in (map(_piped, _heads(sheet)), marks, *rows)]
    return f"**{sheet.title}**\n\n" + "".join(f"| {line} |\n" for line in lines)


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
    return cell.replace("|", "\\|").replace("*", "\\*")


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
    return "\n".join(text(sheet, how) for sheet in sheets)

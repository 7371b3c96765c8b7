"""The paper's tables for files: ours, its spread and the printed figure in a cell, the best in bold."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.sheet import Sheet
from ...base.words import NONE, digits
from .tables import Figure

TITLES = {"mse": "MSE (x 1e-2)", "cv": "consensus violation"}
HINDSIGHT = "best kernel"  # known only afterwards, so no rival
LEGEND = {
    "bold": "the least at one learner of a network; the best kernel, known only afterwards, does not count"
}
METHODS = ("OMKL", "DOKL1", "DOKL2", "best kernel", "DOMKL")


def sheet(number: str, figures: Sequence[Figure]) -> Sheet:
    """One table: a row for each network, method and learner, a column for each dataset.

    In bold is the least of a dataset among the methods at one learner of a network; OMKL, which has no
    learners, is compared with each of them.
    """
    names = list(dict.fromkeys(figure.dataset for figure in figures))
    at = {(f.network, f.method, f.learner, f.dataset): f for f in figures}
    lines = sorted({key[:3] for key in at}, key=lambda line: (line[0], METHODS.index(line[1]), line[2] or 0))
    rows = [
        [str(n), method, str(j or ""), *(_cell(at.get((n, method, j, name))) for name in names)]
        for n, method, j in lines
    ]
    bold = {
        (i, 3 + k)
        for i, line in enumerate(lines)
        for k, name in enumerate(names)
        if _is_best(at.get((*line, name)), figures)
    }
    title = f"Table {number}: {TITLES[figures[0].metric]}, ours ± spread over the trials (printed)"
    return Sheet(
        title,
        ("network", "method", "learner", *names),
        rows,
        frozenset({0, 1, 2}),
        frozenset(bold),
        legend=LEGEND,
        apart=frozenset(i for i in range(1, len(lines)) if lines[i][0] != lines[i - 1][0]),
    )


def _is_best(figure: Figure | None, figures: Sequence[Figure]) -> bool:
    if figure is None or figure.method == HINDSIGHT:
        return False
    rivals = [
        f.value
        for f in figures
        if (f.network, f.dataset) == (figure.network, figure.dataset)
        and f.method != HINDSIGHT
        and (f.learner == figure.learner or None in (f.learner, figure.learner))
    ]
    return figure.value <= min(rivals)


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return NONE
    factor = 100 if figure.metric == "mse" else 1
    spread = "" if figure.spread is None else f" ± {figure.spread * factor:.1g}"
    printed = "" if figure.printed is None else f" ({figure.printed * factor:.3g})"
    return f"{digits(figure.value * factor)}{spread}{printed}"

"""The report in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.extras import need
from ...base.words import text
from ..sheet import Sheet
from ..trial import Outcome
from . import facts as told
from .facts import Column, Document, document

NAME = 7  # least width of a learner's name, which is folded before a column is left out
BAR = 10
EIGHTHS = " ▏▎▍▌▋▊▉"
#: Of more learners than this, only the best and the worst are listed.
MOST_ROWS = 24
ENDS = 6


def summary(outcome: Outcome) -> Any:
    """What `domkl run` prints as one rich renderable; the last line says whether together paid."""
    Group, parts = need("rich.console", "cli").Group, outcome.parts()
    if len(parts) > 1:
        return Group(*(line for part in parts for line in (summary(part), "")))
    facts = document(outcome)
    return Group(
        text(told.headline(facts), "bold"),
        text(told.setting_line(facts)),
        "",
        text(told.sentence(facts)),
        "",
        _Learners(facts),
        *(["", _kernels(facts)] if told.has_kernels(facts) else []),
        *(["", *(text(f"Note: {note}.") for note in facts["notes"])] if facts["notes"] else []),
        *(["", text(words, "bold")] if (words := told.verdict(facts)) else []),
    )


class _Learners:
    """Their table, which is made when the width of the terminal is known."""

    def __init__(self, facts: Document) -> None:
        self.facts = facts

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield learners(self.facts, options.max_width)


def learners(facts: Document, width: int) -> Sheet:
    """The errors of all learners, or of the best and the worst; the least of each row in bold."""
    if not told.has_kernels(facts):
        return _learners_with(facts, 0)
    most = _learners_with(facts, 3)
    return most if most.width(whole=True) <= width else _learners_with(facts, 1)


def _learners_with(facts: Document, kernels: int) -> Sheet:
    """The same with so many kernels of each learner."""
    unit, columns = told.squared_unit(facts), told.learner_columns(facts)
    mse = f"MSE, {unit}" if unit else "MSE"
    title = f"Mean squared error ({mse}): “{columns[0].head}” and others on the same samples"
    places: list[int | str | None] = [*_shown(facts), *(["mean"] if len(facts["learners"]) > 1 else [])]
    heads = [f"{column.head}\n{column.unit}".strip() for column in columns]
    last = len(columns) + 1 if kernels else len(columns)
    return Sheet(
        title,
        ("learner", *heads, *(["top kernels"] if kernels else [])),
        [_row(facts, columns, place, kernels) for place in places],
        frozenset({0, len(columns) + 1} if kernels else {0}),
        frozenset(
            (i, c + 1) for i, at in enumerate(places) for c, one in enumerate(columns) if at in one.best
        ),
        tuple(range(last, 1, -1)),
        {**told.glossary(facts), "bold": "the least of a row"},
        apart=frozenset({len(places) - 1} if places[-1] == "mean" else ()),
        fold=NAME,
    )


def _row(facts: Document, columns: list[Column], at: int | str | None, kernels: int) -> list[str]:
    more = [""] if kernels else []
    if at is None:
        return ["…" for _ in (None, *columns)] + more
    if isinstance(at, str):
        return [at, *(column.mean for column in columns), *more]
    learner = facts["learners"][at]
    top = [told.top_words(learner, kernels)] if kernels else []
    return [learner["name"], *(column.cells[at] for column in columns), *top]


def _shown(facts: Document) -> list[int | None]:
    """Which learners have a row; None stands for those left out."""
    learners = facts["learners"]
    if len(learners) <= MOST_ROWS:
        return list(range(len(learners)))
    worst = [float("inf") if one["mse"] is None else one["mse"] for one in learners]
    order = sorted(range(len(learners)), key=worst.__getitem__)
    return [*order[:ENDS], None, *order[-ENDS:]]


def _kernels(facts: Document) -> Sheet:
    """Every kernel by itself."""
    unit, rows = told.squared_unit(facts), told.kernel_rows(facts)
    bars = [_bar(row.length) + (" ← best" if row.best else "") for row in rows]
    return Sheet(
        f"Every kernel alone (DOKL), mean over learners: MSE{f' in {unit}' if unit else ''}",
        ("σ²", "MSE", "weight", "√MSE"),
        [[row.sigma2, row.mse, row.weight, bar] for row, bar in zip(rows, bars, strict=True)],
        frozenset({3}),
        frozenset((i, c) for i, row in enumerate(rows) for c in range(4) if row.best),
    )


def _bar(share: float) -> str:
    """A bar of up to BAR characters, exact to an eighth of one; never empty."""
    full, part = divmod(max(1, round(share * BAR * 8)), 8)
    return "█" * full + (EIGHTHS[part] if part else "")

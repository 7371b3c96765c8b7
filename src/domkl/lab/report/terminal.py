"""The report in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.extras import need
from ...base.words import table, text
from ..trial import Outcome
from . import sentences, tables
from .facts import Document, document
from .tables import Column, KernelRow

#: Width of the terminal below which one kernel of each learner is named.
WIDE = 110
NAME = 7  # least width of a learner's name
TOP_KERNEL = len("σ²=31.6 100 %")
SPACE = 3  # between two columns
SLACK = 2  # that rich leaves to columns whose heads it wraps
BAR = 10
EIGHTHS = " ▏▎▍▌▋▊▉"
#: Of more learners than this, only the best and the worst are listed.
MOST_ROWS = 24
ENDS = 6


def summary(outcome: Outcome) -> Any:
    """What `domkl run` prints as one rich renderable; the last line says whether together paid."""
    facts = document(outcome)
    Group = need("rich.console", "cli").Group
    return Group(
        text(sentences.headline(facts), "bold"),
        text(sentences.setting_line(facts)),
        "",
        text(sentences.sentence(facts)),
        "",
        _Wide(facts, _learners),
        *(["", _Wide(facts, _kernels)] if tables.has_kernels(facts) else []),
        *_notes(facts),
        "",
        _Wide(facts, _glossary),
        *_verdict(facts),
    )


class _Wide:
    """A table that is built when the width of the terminal is known."""

    def __init__(self, facts: Document, build: Any) -> None:
        self.facts, self.build = facts, build

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield self.build(self.facts, options.max_width)


def _learners(facts: Document, width: int) -> Any:
    unit, columns = tables.squared_unit(facts), _that_fit(tables.learner_columns(facts), width)
    mse = f"MSE, {unit}" if unit else "MSE"
    made = table(f"Mean squared error ({mse}): “{columns[0].head}” and others on the same samples")
    top = tables.has_kernels(facts) and width >= NAME + _taken(columns) + TOP_KERNEL + SPACE
    room = _room_for_names(columns, width, top)
    made.add_column("learner", no_wrap=True, overflow="ellipsis", min_width=NAME, max_width=room)
    for column in columns:
        _add_numbers(made, column)
    kernels = 0 if not top else 1 if width < WIDE else 3
    if kernels:
        made.add_column("top kernels", no_wrap=True, min_width=TOP_KERNEL)
    for j in _shown(facts):
        made.add_row(*_row(facts, columns, j, kernels))
    if len(facts["learners"]) > 1:
        made.add_section()
        made.add_row("mean", *(_cell(column, "mean", column.mean) for column in columns))
    return made


def _add_numbers(made: Any, column: Column) -> None:
    """Add a column of numbers, which are never cut; names may be."""
    least, whole = _least_width(column), " " not in column.head  # rich narrows what may wrap first
    made.add_column(text(_head(column)), justify="right", min_width=least, no_wrap=whole)


def _least_width(column: Column) -> int:
    return max(map(len, (*column.cells, column.mean, *_head(column).split())))


def _room_for_names(columns: list[Column], width: int, top: bool) -> int:
    """The width that numbers and the top kernel leave for names."""
    return min(24, max(NAME, width - _taken(columns) - (TOP_KERNEL + SPACE if top else 0)))


def _that_fit(columns: list[Column], width: int) -> list[Column]:
    """Drop the last columns where the terminal is too narrow to show all their digits."""
    while len(columns) > 1 and NAME + SLACK + _taken(columns) > width:
        columns = columns[:-1]
    return columns


def _taken(columns: list[Column]) -> int:
    return sum(_least_width(column) + SPACE for column in columns) + SPACE


def _head(column: Column) -> str:
    return f"{column.head}\n{column.unit}" if column.unit else column.head


def _cell(column: Column, row: int | str, words: str) -> Any:
    return text(words, "bold" if row in column.best else "")


def _row(facts: Document, columns: list[Column], j: int | None, kernels: int) -> list[Any]:
    if j is None:
        return ["…" for _ in (None, *columns)]
    learner = facts["learners"][j]
    top = " · ".join(f"σ²={s} {weight}" for s, weight in tables.top_kernels(learner, kernels))
    cells = [text(learner["name"]), *(_cell(column, j, column.cells[j]) for column in columns)]
    return [*cells, top] if kernels else cells


def _shown(facts: Document) -> list[int | None]:
    """Which learners have a row; None stands for those left out."""
    learners = facts["learners"]
    if len(learners) <= MOST_ROWS:
        return list(range(len(learners)))
    worst = [float("inf") if one["mse"] is None else one["mse"] for one in learners]
    order = sorted(range(len(learners)), key=worst.__getitem__)
    return [*order[:ENDS], None, *order[-ENDS:]]


def _kernels(facts: Document, width: int) -> Any:
    """Every kernel by itself, in as many side-by-side parts as there is room for."""
    unit = tables.squared_unit(facts)
    made = table(f"Every kernel alone (DOKL), mean over learners: MSE{f' in {unit}' if unit else ''}")
    rows = [_kernel_row(row) for row in tables.kernel_rows(facts)]
    parts = min(2 if width < WIDE else 3, len(rows))
    height = -(-len(rows) // parts)
    for part in range(parts):
        made.add_column("σ²", justify="right")
        made.add_column("MSE", justify="right")
        made.add_column("weight", justify="right")
        made.add_column("√MSE", min_width=BAR + (2 if part < parts - 1 else 0))
    for i in range(height):
        made.add_row(*(cell for row in rows[i::height] for cell in row))
    return made


def _kernel_row(row: KernelRow) -> list[Any]:
    bar = _bar(row.length) + (" ← best" if row.best else "")
    return [text(cell, "bold" if row.best else "") for cell in (row.sigma2, row.mse, row.weight, bar)]


def _bar(share: float) -> str:
    """A bar of up to BAR characters, exact to an eighth of one; never empty."""
    full, part = divmod(max(1, round(share * BAR * 8)), 8)
    return "█" * full + (EIGHTHS[part] if part else "")


def _notes(facts: Document) -> list[Any]:
    return ["", *(text(f"Note: {note}.") for note in facts["notes"])] if facts["notes"] else []


def _verdict(facts: Document) -> list[Any]:
    words = sentences.verdict(facts)
    return ["", text(words, "bold")] if words else []


def _glossary(facts: Document, width: int) -> Any:
    """What the headings mean; not those of columns for which there is no room."""
    columns = tables.learner_columns(facts)
    left_out = {column.head for column in columns} - {column.head for column in _that_fit(columns, width)}
    grid = need("rich.table", "cli").Table.grid(padding=(0, 2))
    for term, meaning in sentences.glossary(facts).items():
        if term not in left_out or term == "RMSE":  # which the sentence has
            grid.add_row(text(term, "bold"), text(meaning))
    return grid

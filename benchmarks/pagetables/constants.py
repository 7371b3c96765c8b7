"""docs/auto.md: the constants of `Auto`, from the code itself."""

from __future__ import annotations

from typing import Any

from domkl.learning.auto import table as constants

from .common import Maker


def shown(value: Any) -> str:
    """A constant as the page shows it.

    >>> shown(0.01), shown(1 / 7), shown((2, None)), shown(((1, 1), (1, 2)))
    ('0.01', '0.142857', '2, all', '(1, 1), (1, 2)')
    """
    if isinstance(value, tuple):
        return ", ".join(f"({shown(item)})" if isinstance(item, tuple) else shown(item) for item in value)
    return "all" if value is None else f"{value:g}"


def rows() -> str:
    head = ["| constant | value | meaning | chosen on |", "| --- | ---: | --- | --- |"]
    found = (f"| `{row.name}` | {shown(row.value)} | {row.meaning} | {row.chosen} |" for row in constants())
    return "\n".join([*head, *found])


MADE: dict[str, Maker] = {"constants": rows}

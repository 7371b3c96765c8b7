"""Tables: one style, at any width; no number is cut, and no legend stays whose column has gone."""

from __future__ import annotations

import io
import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from domkl.base import extras
from domkl.cli import show
from domkl.lab.sheet import GAP, Sheet, written

WORDS = st.text("ab c東", max_size=30)
NUMBERS = st.integers(0, 10**9).map(str)


@st.composite
def sheets(draw):
    count, height = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    row = st.tuples(WORDS, *[NUMBERS] * count)
    heads = ("learner", *(f"h{c}\n°F" for c in range(count)))
    rows = draw(st.lists(row, min_size=height, max_size=height))
    bold = frozenset(draw(st.sets(st.tuples(st.integers(0, 3), st.integers(1, count)))))
    spare = tuple(draw(st.permutations(range(1, count + 1)))[: count - 1])
    legend = {f"h{c}": f"means {c}" for c in range(count)} | {"bold": "best"}
    bold = frozenset((i, c) for i, c in bold if i < height)
    return Sheet("title", heads, rows, bold=bold, spare=spare, legend=legend)


def printed(sheet, width):
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(sheet)
    return out.getvalue()


@given(sheets(), st.integers(40, 120))
def test_what_is_shown_is_whole(sheet, width):
    shown, text = sheet.fit(width), printed(sheet, width)
    if shown.width() <= width:
        for row in shown.rows:
            assert re.search(r"\s+".join(row[1:]) + r"\s*$", text, re.MULTILINE)
    for name in sheet.names()[1:]:
        assert (f"means {name[1:]}" in text) == (name in shown.names())
    missing = {*sheet.names()} - {*shown.names()}
    assert ("No room for" in " ".join(text.split())) == bool(missing)
    assert ("bold" in shown.legend) == bool(shown.bold)
    assert sheet.width() > width or not missing


@given(sheets(), st.integers(40, 120))
def test_lines_are_no_longer_than_the_terminal(sheet, width):
    least = max(len(cell) for row in [*sheet.rows, ["0"] * len(sheet.heads)] for cell in row[1:])
    if 24 + GAP + least <= width:
        assert all(cell_len(line) <= width for line in printed(sheet, width).splitlines())


@given(sheets(), st.integers(30, 120))
def test_a_table_in_parts_has_every_column_once(sheet, width):
    parts = sheet.split(width)
    assert [head for part in parts for head in part.heads[1:]] == list(sheet.heads[1:])
    assert {part.heads[0] for part in parts} == {"learner"}
    assert all(part.width() <= width or len(part.heads) == 2 for part in parts)


def test_a_table_is_markdown_where_rich_is_not(monkeypatch, capsys):
    sheet = Sheet("t", ("a", "b"), [["x", "1"], ["y", "2"]], bold=frozenset({(0, 1)}))
    monkeypatch.setattr(show.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(extras, "need", None)
    show.sheet(sheet)
    assert capsys.readouterr().out.splitlines()[-2:] == ["| x | **1** |", "| y | 2 |"]


@given(st.text(max_size=9), st.integers(1, 40))
def test_nothing_in_a_table_commands_the_terminal(odd, width):
    odd = f"{odd}\x1b[2J\u202e"
    sheet = Sheet(odd, ("a", odd), [[odd, odd]], legend={odd: odd}, spare=(1,))
    for text in (printed(sheet, width), written(sheet, "markdown")):
        assert not {*text} & {"\x1b", "\u202e", "\r", "\t"}

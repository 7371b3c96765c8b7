"""The page about the architecture agrees with the tree."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "domkl"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_layers_that_import_linter_checks_are_the_pages():
    table = PAGE.split("## Rooms", 1)[1].split("\n## ", 1)[0]
    rooms = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", table, flags=re.MULTILINE)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.findall(r'"([\w |]+)"', re.search(r"\nlayers = \[(.*?)\]", text, flags=re.DOTALL)[1])
    assert [name for layer in reversed(layers) for name in layer.split(" | ")] == rooms[:-1]


def test_files_that_the_page_names_exist():
    for name in set(re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE)):
        assert (PACKAGE / name).is_file() or (ROOT / name).is_file(), name

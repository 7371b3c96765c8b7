"""The page about the architecture agrees with the tree: its rooms, its walks and its pictures."""

from __future__ import annotations

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "domkl"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def diagrams():
    spec = importlib.util.spec_from_file_location("make_diagrams", ROOT / "scripts" / "make_diagrams.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rooms():
    """Entries of the package in the page's order: each may import those before it."""
    table = PAGE.split("## Rooms", 1)[1].split("\n## ", 1)[0]
    return [name.rstrip("/") for name in re.findall(r"^\| `([\w./]+)` \|", table, flags=re.MULTILINE)]


def walks():
    return [(name, file) for name, steps in diagrams().walks().items() for file, _ in steps]


def test_the_rooms_are_those_of_the_package():
    found = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert set(rooms()) == found


@pytest.mark.parametrize(("name", "file"), walks())
def test_a_walks_files_exist(name, file):
    assert (PACKAGE / file).is_file(), f"{name}: {file}"


@pytest.mark.parametrize(("name", "text"), diagrams().diagrams().items())
def test_pictures_are_made_from_the_page(name, text):
    assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == text, "run: make docs"
    assert f"images/{name}" in PAGE


def test_the_layers_that_import_linter_checks_are_the_pages():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.findall(r'"([\w |]+)"', re.search(r"\nlayers = \[(.*?)\]", text, flags=re.DOTALL)[1])
    checked = [name for layer in reversed(layers) for name in layer.split(" | ")]
    assert checked == [name.removesuffix(".py") for name in rooms()[1:-1]]


def test_files_that_the_page_names_exist():
    for name in set(re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE)):
        assert (PACKAGE / name).is_file() or (ROOT / name).is_file(), name

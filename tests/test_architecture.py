"""The page about the architecture agrees with the tree: its rooms, its walks and its pictures."""

from __future__ import annotations

import ast
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


def imported(path, text):
    """The entries of the package that a file imports, at its top or inside functions."""
    parts = ("domkl", *path.with_suffix("").parts)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            base = parts[: len(parts) - node.level] if node.level else ()
            full = (*base, *(node.module.split(".") if node.module else ()))
            names = [full[1]] if len(full) > 1 else [alias.name for alias in node.names]
            yield from (name for name in names if full[0] == "domkl")
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("domkl."))


def refused(path, text):
    """Imports of a file from rooms that come after its own."""
    rank = {name.removesuffix(".py"): n for n, name in enumerate(rooms())}
    own = rank[path.parts[0].removesuffix(".py")]
    return [name for name in imported(path, text) if rank.get(name, 0) > own]


def files():
    return [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py"))]


def walks():
    return [(name, file) for name, steps in diagrams().walks().items() for file, _ in steps]


def test_the_rooms_are_those_of_the_package():
    found = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert set(rooms()) == found
    assert len(rooms()) == 17


def test_there_are_three_walks_of_several_files_each():
    assert {name: len(steps) > 5 for name, steps in diagrams().walks().items()} == {
        "csv": True,
        "device": True,
        "auto": True,
    }


@pytest.mark.parametrize(("name", "file"), walks())
def test_a_walks_files_exist_and_import_one_way(name, file):
    path = PACKAGE / file
    assert path.is_file(), f"{name}: {file}"
    assert refused(pathlib.Path(file), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", files(), ids=str)
def test_every_file_imports_one_way(path):
    assert refused(path, (PACKAGE / path).read_text(encoding="utf-8")) == []


def test_an_import_the_other_way_is_noticed():
    path = pathlib.Path("exchange/graph.py")
    for text in ("from ..learner import Learner", "from .. import agent", "import domkl.lab.trial"):
        assert len(refused(path, text)) == 1, text
    assert refused(path, "from ..learning.model import Part\nfrom . import edges\nimport numpy") == []


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

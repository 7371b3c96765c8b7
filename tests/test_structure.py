"""The layout shows the architecture: few entries, short files, one name for one thing, no I/O in the core."""

from __future__ import annotations

import ast
import pathlib

PACKAGE = pathlib.Path(__file__).parent.parent / "src" / "domkl"
PYTHON = [path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts]
SOURCES = [*PYTHON, *PACKAGE.rglob("*.cpp"), *PACKAGE.rglob("*.hpp")]
IO = {"asyncio", "time", "datetime", "random", "socket", "os", "threading", "subprocess"}
#: The same estimators for two libraries: their names are the point.
FACES = {"MultiKernelRegressor", "MultiKernelClassifier"}


def test_the_top_of_the_package_has_at_most_seventeen_entries():
    found = [path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    assert len(found) <= 17, sorted(found)


def test_models_and_the_exchange_know_no_input_output_clock_or_chance():
    found = [
        (str(path.relative_to(PACKAGE)), name)
        for path in PYTHON
        if path.relative_to(PACKAGE).parts[0] in ("learning", "exchange")
        for name in imported(ast.parse(path.read_text()))
        if name in IO
    ]
    assert found == []


def imported(tree):
    """Top-level names of the packages that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]

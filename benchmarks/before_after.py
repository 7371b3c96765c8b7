"""How large the code is: two source trees side by side.

    git worktree add OLD e2656d4
    python benchmarks/before_after.py OLD . [--json]

Learners and rounds are counted by name, from the lists below, as what counts as one is a judgement; a name
that is not in its tree is an error. Lines are those of the files, comments and blanks included; a function
is as long as from its `def` to its last line, docstring included.
"""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path
from typing import Any, NamedTuple

#: Classes that are a learner (they keep estimates and learn from samples), as module:Class in the package.
#: Faces for other libraries, and what engines keep for a learner, are not among them.
LEARNERS: dict[str, tuple[str, ...]] = {
    "before": (
        *("member:Member", "learner:Learner", "facade.scaled:ScaledLearner", "facade.first_order:FirstOrder"),
        *("facade.auto:Auto", "auto.learners:Learners", "auto.one:One", "auto.network:Network"),
        *("auto.model:Model", "auto.learner:AutoLearner"),
    ),
    "after": (),
}
#: Classes that hold an order of their own of a round's steps: predict, learn, exchange, merge.
ROUNDS: dict[str, tuple[str, ...]] = {
    "before": (
        *("engines.arrays:ArrayEngine", "engines.newton:NewtonEngine", "engines.mpi:MpiEngine"),
        *("engines.native:NativeEngine", "engines.native:NativeNewton", "engines.devices:ArrayDevice"),
        *("engines.devices:NewtonDevice", "engines.native:NativeDevice", "engines.native:NativeNewtonDevice"),
        *("auto.network:Network", "auto.learner:AutoLearner"),
    ),
    "after": (),
}


class Tree(NamedTuple):
    """The files of a package."""

    package: Path
    python: dict[Path, str]
    cpp: dict[Path, str]


#: What a device never needs, in one folder or, before, in several.
LAB = ("lab", "bench", "compare", "reproduce", "report", "experiment", "trial", "fleet", "central")


class Function(NamedTuple):
    where: str
    lines: int


def tree(root: Path) -> Tree:
    package = root / "src" / "domkl"
    python, cpp = (
        {f: f.read_text(encoding="utf-8") for f in sorted(package.rglob("*")) if f.suffix in kinds}
        for kinds in ((".py",), (".cpp", ".hpp"))
    )
    return Tree(package, python, cpp)


def lines(files: dict[Path, str]) -> int:
    return sum(len(text.splitlines()) for text in files.values())


def is_lab(path: Path, package: Path) -> bool:
    """Whether a device never needs it."""
    return path.relative_to(package).parts[0].removesuffix(".py") in LAB


def module(path: Path, package: Path) -> str:
    """Its name inside the package: engines.native"""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def classes(found: Tree) -> set[str]:
    """All classes as module:Class."""
    return {
        f"{module(path, found.package)}:{node.name}"
        for path, text in found.python.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    }


def functions(found: Tree) -> list[Function]:
    return [
        Function(f"{module(path, found.package)}:{node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for path, text in found.python.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def entries(package: Path) -> int:
    """Modules and folders right inside the package."""
    return len([p for p in package.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()])


def measure(root: Path, column: str) -> dict[str, Any]:
    found = tree(root)
    for name in {*LEARNERS[column], *ROUNDS[column]} - classes(found):
        raise SystemExit(f"{root} has no {name}; expected all that {Path(__file__).name} lists; correct it")
    lab = {path: text for path, text in found.python.items() if is_lab(path, found.package)}
    rest = {path: text for path, text in found.python.items() if path not in lab}
    texts = found.python | found.cpp
    longest = max(texts, key=lambda path: len(texts[path].splitlines()))
    function = max(functions(found), key=lambda one: one.lines)
    return {
        "classes that are a learner": len(LEARNERS[column]) or "not listed",
        "implementations of a round": len(ROUNDS[column]) or "not listed",
        "modules": len([path for path in found.python if path.name != "__init__.py"]),
        "top-level entries of the package": entries(found.package),
        "lines of Python without lab": lines(rest),
        "lines of lab": lines(lab),
        "lines of C++": lines(found.cpp),
        "longest file, lines": f"{len(texts[longest].splitlines())} ({longest.relative_to(found.package)})",
        "longest function, lines": f"{function.lines} ({function.where})",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a checkout of the older code")
    parser.add_argument("after", type=Path, help="a checkout of the newer code")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    args = parser.parse_args()
    columns = {name: measure(getattr(args, name), name) for name in ("before", "after")}
    if args.json:
        print(json.dumps(columns, indent=1))
        return
    print("| | before | after |\n|---|---:|---:|")
    for name, value in columns["before"].items():
        print(f"| {name} | {value} | {columns['after'][name]} |")


if __name__ == "__main__":
    main()

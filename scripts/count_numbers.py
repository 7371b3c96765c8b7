"""Counts the numbers that somebody chose in the code of `Auto`: the fewer, the less there is to doubt.

    python scripts/count_numbers.py [FOLDER]       FOLDER: src/domkl/learning/auto by default

One line a number (file:line, name, value), then totals; also lines, files and declared fields of state. The
rule is the same for any FOLDER. Counted are

- declared numbers: defaults of arguments of `__init__`, and attributes of a class that are assigned a number
  (`x: int = 3`, `x: int = f(3, ...)`, `field(..., first=3)`). They count whatever they are, except 0 and 1;
  of a tuple each number counts;
- literals anywhere else, module constants included, except 0, 1, 2 and 0.5, which are structure.

A minus is no part of a number, arithmetic of literals alone (1 / 7) is one number, and a number counts once a
function. Not counted are

- indices, shapes and sizes: inside [ ], in an argument axis, low or high (bounds of files), or of range,
  arange, eye, zeros, ones, full, reshape;
- guards against a division by zero of at most 1e-6, and limits of number formats, from 1e15 on;
- facts of mathematics: what is named in FACTS, and lines whose comment has "fact" or "of a normal".
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent.parent / "src" / "domkl" / "learning" / "auto"
STRUCTURE = (0, 1, 2, 0.5)
SHAPED = {"range", "arange", "eye", "zeros", "ones", "full", "reshape"}
BOUNDS = {"axis", "low", "high"}
FACTS = {"legendre", "label_normal", "MEDIAN"}  # polynomials, and quantiles of a normal distribution
TINY, HUGE = 1e-6, 1e15
#: The bars.
MOST_NUMBERS, MOST_LINES = 60, 2000


class Number(NamedTuple):
    """One that was chosen."""

    line: int
    name: str
    value: float
    is_declared: bool


def value_of(node: ast.AST) -> float | None:
    """The size of a literal, or of arithmetic of literals alone."""
    if isinstance(node, ast.Constant):
        is_number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        return node.value if is_number else None
    if isinstance(node, ast.UnaryOp):
        return value_of(node.operand)
    if isinstance(node, ast.BinOp) and None not in (value_of(node.left), value_of(node.right)):
        return float(eval(compile(ast.Expression(node), "", "eval")))
    return None


def called(node: ast.AST) -> str:
    """The last part of the name of what is called."""
    of = node.func if isinstance(node, ast.Call) else node
    return of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")


class Counter(ast.NodeVisitor):
    """Walks through one file."""

    def __init__(self, text: str) -> None:
        self.lines, self.found = text.splitlines(), list[Number]()
        self.name, self.is_declared = "", False
        self.visit(ast.parse(text))

    def visit(self, node: ast.AST) -> None:
        value = value_of(node)
        if value is None:
            super().visit(node)
        elif not self._is_free(abs(value), node.lineno):
            self.found.append(Number(node.lineno, self.name, abs(value), self.is_declared))

    def _is_free(self, value: float, line: int) -> bool:
        comment = self.lines[line - 1].partition("#")[2]
        is_fact = self.name in FACTS or "fact" in comment or "of a normal" in comment
        is_limit = value <= TINY or value >= HUGE
        return is_fact or is_limit or value in (STRUCTURE[:2] if self.is_declared else STRUCTURE)

    def _within(self, name: str, nodes: list[ast.AST | None], is_declared: bool) -> None:
        before = self.name, self.is_declared
        self.name, self.is_declared = name or self.name, is_declared
        for node in nodes:
            if node is not None:
                self.visit(node)
        self.name, self.is_declared = before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            if isinstance(part, ast.AnnAssign | ast.Assign):
                target = part.target if isinstance(part, ast.AnnAssign) else part.targets[0]
                self._within(called(target), [part.value], True)
            else:
                self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        args, first = node.args, len(self.found)
        plain = args.args[len(args.args) - len(args.defaults) :]
        pairs = [
            *zip(plain, args.defaults, strict=True),
            *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        ]
        for arg, default in pairs:
            self._within(arg.arg, [default], node.name == "__init__")
        declared, rest = self.found[first:], len(self.found)
        self._within(node.name, [*node.body], False)
        once = {number.value: number for number in reversed(self.found[rest:])}
        self.found[first:] = declared + sorted(once.values())

    def visit_Assign(self, node: ast.Assign) -> None:
        self._within(called(node.targets[0]), [node.value], False)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        self.visit(node.func)
        for part in [] if called(node) in SHAPED else [*node.args, *node.keywords]:
            if getattr(part, "arg", None) not in BOUNDS:
                self.visit(part)


def fields(text: str) -> Iterator[str]:
    """State that is declared: `x: Array = field(...)`, or the names in `FIELDS = (...)`."""
    for cls in ast.walk(ast.parse(text)):
        for part in cls.body if isinstance(cls, ast.ClassDef) else []:
            if isinstance(part, ast.AnnAssign) and called(part.value or part) == "field":
                yield called(part.target)
            elif isinstance(part, ast.AnnAssign) and called(part.target) == "FIELDS":
                yield from (str(node.value) for node in ast.walk(part) if isinstance(node, ast.Constant))


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    files = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    found = [(name, number) for name, text in files.items() for number in Counter(text).found]
    for name, number in found:
        print(f"{name}:{number.line}", number.name, f"{number.value:g}")
    declared = [(name, number.line, number.name) for name, number in found if number.is_declared]
    lines = sum(len(text.splitlines()) for text in files.values())
    state = [name for text in files.values() for name in fields(text)]
    print(f"{len(found)} numbers chosen (bar {MOST_NUMBERS}): {len(declared)} declared, ", end="")
    print(f"under {len(set(declared))} names, and {len(found) - len(declared)} literals")
    print(f"{lines} lines (bar {MOST_LINES}) in {len(files)} files; {len(state)} declared fields of state")


if __name__ == "__main__":
    main()

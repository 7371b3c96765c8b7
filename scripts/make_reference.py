"""Write build/reference.md, every name and option, from the code's signatures, docstrings and commands."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import domkl
from domkl import cli

TARGET = Path(__file__).parent.parent / "build" / "reference.md"
#: Modules whose public names are listed, after those of `domkl` itself: attributes of it, or paths below it.
MODULES = (
    *("kernels", "losses", "graph", "hedge", "metrics", "conformal", "errors"),
    *("datasets", "datasets.stations", "datasets.dataset"),
    *("learning.model", "exchange.combine", "exchange.message", "exchange.edges", "learner.handed"),
    *("river", "sklearn"),
    *("agent", "agent.config", "agent.streams", "agent.transports", "agent.wire", "agent.checkpoint"),
    *("agent.certs", "lab.experiment", "lab.trial", "lab.fleet"),
)
INTRODUCTION = """\
# Reference

Every public name and every command. This page is made from the code by `make docs`; edit the
docstrings, not the page. Arrays are described by their shapes: J learners, T rounds, d inputs,
P kernels, D random features for each kernel.
"""


class _Plain(str):
    """Text that is shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def page() -> str:
    """The whole reference."""
    parts = [INTRODUCTION, "## Commands\n", *_commands(cli.parser())]
    parts += ["## domkl\n", *_members(domkl, _top_level(), "domkl")]
    for name in MODULES:
        module = _module(name)
        members = _members(module, _public(module), f"domkl.{name}")
        parts += [f"## domkl.{name}\n", _text(module), *members, _constants(module)]
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def _module(name: str) -> ModuleType:
    """By the name that people use: `domkl.kernels` lies deeper inside the package."""
    if name in domkl.__all__:
        return getattr(domkl, name)  # type: ignore[no-any-return]
    return importlib.import_module(f"domkl.{name}")


def _top_level() -> list[str]:
    return [name for name in domkl.__all__ if not isinstance(getattr(domkl, name), ModuleType)]


def _public(module: ModuleType) -> list[str]:
    """Names in __all__, or functions and classes that the module itself defines, in its order."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if callable(getattr(module, name))]
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]
    return sorted(own, key=lambda name: inspect.getsourcelines(getattr(module, name))[1])


def _constants(module: ModuleType) -> str:
    """Names in capitals that the module itself sets."""
    source = inspect.getsource(module)
    names = re.findall(r"^([A-Z][A-Z_0-9]+)\b[^=\n]*=", source, flags=re.MULTILINE)
    return f"Constants: {', '.join(f'`{name}`' for name in dict.fromkeys(names))}.\n" if names else ""


def _members(module: ModuleType, names: list[str], shown: str) -> Iterator[str]:
    for name in names:
        value = getattr(module, name)
        yield f"### {shown}.{name}\n"
        yield from _class(name, value) if inspect.isclass(value) else _function(name, value)


def _class(name: str, kind: type[Any]) -> Iterator[str]:
    fields = _fields(kind)
    if fields:
        yield f"```python\n{fields}\n```\n"
    elif not issubclass(kind, Exception):
        yield f"```python\n{name}{_signature(kind)}\n```\n"
    yield _text(kind)
    ours = [base for base in kind.__mro__ if base.__module__.startswith("domkl.")]
    members = {member: value for base in reversed(ours[1:]) for member, value in vars(base).items()}
    for member, value in {**vars(kind), **members, **vars(kind)}.items():
        if not member.startswith("_"):
            yield from _member(name, kind, member, value)


def _member(owner: str, kind: type[Any], member: str, value: Any) -> Iterator[str]:
    if isinstance(value, property) or type(value).__name__ == "cached_property":
        yield f"#### {owner}.{member}\n"
        yield _text(value)
    elif inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
        yield f"#### {owner}.{member}()\n"
        yield from _function(f"{owner}.{member}", getattr(kind, member))


def _fields(kind: type[Any]) -> str:
    """The fields of a NamedTuple or dataclass as they stand in the source, shapes and all."""
    if not (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        return ""
    lines = inspect.getsource(kind).splitlines()
    return "\n".join(line[4:] for line in lines if re.match(r"    [a-zA-Z]\w*: ", line))


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    yield f"```python\n{name}{_signature(function)}\n```\n"
    yield _text(function)


def _signature(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    parameters = [
        p.replace(annotation=_shown(p.annotation), default=_default(p.default))
        for p in signature.parameters.values()
        if p.name != "self"
    ]
    text = str(
        signature.replace(parameters=parameters, return_annotation=_shown(signature.return_annotation))
    )
    if len(text) < 90:
        return text
    opened = re.sub(r"^\((.*)\)( -> .*)?$", r"(\n    \1,\n)\2", text, flags=re.DOTALL)
    return re.sub(r", (?=\*?\*?\w+(: |,)|/|\*,)(?![^\[]*\])", ",\n    ", opened)


def _shown(annotation: Any) -> Any:
    return _Plain(annotation) if isinstance(annotation, str) else annotation


def _default(value: Any) -> Any:
    return (
        _Plain(value.__name__) if inspect.isclass(value) and value is not inspect.Parameter.empty else value
    )


def _text(thing: Any) -> str:
    """A docstring as Markdown."""
    doc = inspect.cleandoc(thing.__doc__ or "")
    if "├" in doc or "====" in doc:  # a drawing or a table: keep it as it is
        return f"```text\n{doc}\n```\n"
    titled = re.split(r"^(Parameters|Examples|References)\n-+\n", doc, flags=re.MULTILINE)
    body, sections = titled[0], zip(titled[1::2], titled[2::2], strict=True)
    parts = [_examples(_escaped(body))]
    for title, content in sections:
        parts += [f"{title}:\n", _parameters(content) if title == "Parameters" else _examples(content)]
    return "\n".join(part.strip("\n") + "\n" for part in parts if part.strip())


def _escaped(text: str) -> str:
    """Stars that would otherwise start emphasis."""
    return re.sub(r"(?<=\w)\*(?=[\w(])", r"\\*", text)


def _parameters(content: str) -> str:
    """Both habits: "name : meaning", and the meaning indented below the name."""
    items: list[list[str]] = []
    for line in content.splitlines():
        if line and not line.startswith(" "):
            name, _, meaning = line.partition(" : ")
            items.append([f"- `{name}`:", meaning])
        elif line:
            items[-1].append(line.strip())
    return "\n".join(" ".join(word for word in item if word) for item in items)


def _examples(text: str) -> str:
    """Examples as plain code with results in comments: the docstrings are what tests execute."""
    lines, inside, result = [], False, False
    for line in text.splitlines():
        prompt = re.match(r"(>>>|\.\.\.) ?(.*)", line)
        if prompt and not inside:
            lines += ["```python"]
            inside = True
        if inside and not prompt and not line.strip():
            lines += ["```"]
            inside = False
        result = inside and not prompt
        lines.append(prompt[2] if prompt else f"# {line}" if result else line)
    return "\n".join([*lines, "```"] if inside else lines)


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every command with its arguments, deepest last."""
    if parser.prog != "domkl":
        yield f"### {parser.prog}\n"
        yield f"{parser.description or ''}\n".lstrip("\n")
    rows = [_row(action) for action in parser._actions if not _is_commands(action)]
    yield "| argument | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    for action in filter(_is_commands, parser._actions):
        for name, command in action.choices.items():  # type: ignore[union-attr]
            helps = {choice.dest: choice.help for choice in action._choices_actions}  # type: ignore[attr-defined]
            command.description = command.description or f"{helps.get(name, '')}."
            yield from _commands(command)


def _is_commands(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _row(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings) or action.dest
    if action.option_strings and action.nargs != 0:
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
        names += f" {action.metavar or choices or action.dest.upper()}"
    meaning = (action.help or "") % {**vars(action), "prog": "domkl"}
    return f"| `{names}` | {meaning.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page(), encoding="utf-8")

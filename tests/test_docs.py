"""Pages that agree with the code, with each other and with the command line."""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import re
import shlex

import pytest

from domkl import cli

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def text(path):
    return path.read_text(encoding="utf-8")


def prose(path):
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text(path), flags=re.DOTALL | re.MULTILINE)


def anchors(path):
    """The anchors that a page's headings get."""
    heads = re.findall(r"^#+ (.*)$", prose(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def parsers(parser):
    """A parser and, below it, those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from parsers(command)


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_and_option_has_help_and_is_in_the_reference():
    reference = script("make_reference").page()
    for parser in parsers(cli.parser()):
        assert parser.prog == "domkl" or f"### {parser.prog}\n" in reference
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                assert {c.dest for c in action._choices_actions if c.help} == set(action.choices)
                continue
            assert action.help, f"{parser.prog}: {action.dest} has no help"
            assert all(option in reference for option in action.option_strings)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_on_the_pages_exist(page):
    for line in re.findall(r"^\$ (domkl .*)$", text(page), flags=re.MULTILINE):
        cli.parser().parse_args(shlex.split(line.split(" | ")[0], comments=True)[1:])


def test_every_module_and_test_that_the_mathematics_name_exists():
    page = text(ROOT / "docs" / "math.md")
    for name in set(re.findall(r"`(test_\w+\.py)", page)):
        assert (ROOT / "tests" / name).is_file(), name
    naive = text(ROOT / "tests" / "naive.py")
    for name in set(re.findall(r"`naive\.(\w+)`", page)):
        assert f"def {name}(" in naive, name


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_page_names_a_machines_own_paths(page):
    assert not re.search(r"(?<![\w.])/(home|root|work|tmp|Users)/", text(page))

"""Every measured table of the pages is that of its results, and no figure is typed by hand."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the results are in a checkout alone")
#: Tables without measurements that hold numbers all the same: a part of the line of headings.
SETTINGS = (
    "| field | bound |",
    "| setting | default |",
    "| package | where |",
    "| what | code | test |",
    "| loss | h | k |",
)
NUMBER = re.compile(r"(?<![\w^/])\d+\.\d+|\d %")


def script(name):
    """A module of benchmarks/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tables():
    kept = list(sys.path)
    yield script("tables")
    sys.path[:] = kept


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def text(page):
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_holds_what_the_results_say(page, tables):
    assert tables.fill(text(page)) == text(page), "run: python benchmarks/tables.py"


def test_every_marker_has_a_maker_and_every_maker_a_marker(tables):
    used = [name for page in pages() for _, name, _ in tables.MARKED.findall(text(page))]
    assert set(used) == set(tables.MADE)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_markers_are_closed(page, tables):
    begun = len(re.findall(r"<!-- (?:table|figure): ", text(page)))
    assert begun == text(page).count("<!-- end -->") == len(tables.MARKED.findall(text(page)))
    assert all("<!--" not in inside for _, _, inside in tables.MARKED.findall(text(page)))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_table_of_figures_is_typed_by_hand(page, tables):
    prose = re.sub(r"^```.*?^```$", "", tables.MARKED.sub("", text(page)), flags=re.DOTALL | re.MULTILINE)
    for found in re.findall(r"(?:^\|.*\n)+", prose, flags=re.MULTILINE):
        first = found.splitlines()[0]
        assert first.startswith(SETTINGS) or not NUMBER.search(found), f"{page.name}: {first}"

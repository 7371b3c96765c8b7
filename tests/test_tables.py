"""Every measured table of the pages is that of its results, and no figure is typed by hand."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import shutil
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


def test_the_picture_of_the_dial_holds_what_the_results_say(tables):
    picture = ROOT / "docs" / "images" / "dial.svg"
    assert tables.dial.svg() == text(picture), "run: python benchmarks/tables.py"
    assert "(docs/images/dial.svg)" in text(ROOT / "README.md")


def test_the_dial_divides_means_of_the_same_seeds(tables):
    kept = {
        "made a=0 seed 0": {"before": {"together": 3.0}, "now": {"together": 1.0, "alone": 2.0}},
        "made a=0 seed 1": {"before": {"together": 1.0}, "now": {"together": 2.0, "alone": 4.0}},
        "made a=0 seed 2": {"before": {"together": 9.0}},
        "made two clusters seed 0": {"now": {"together": 3.0, "alone": 4.0}},
        "dealt air to 5": {"now": {"together": 3.0, "alone": 4.0}},
    }
    assert tables.dial.points(kept, "now") == [(0, 0.5), (4, 0.75)]
    assert tables.dial.points(kept, "before") == [(0, 2 / 3)]


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
    if page.name == "reference.md":
        return
    prose = re.sub(r"^```.*?^```$", "", tables.MARKED.sub("", text(page)), flags=re.DOTALL | re.MULTILINE)
    for found in re.findall(r"(?:^\|.*\n)+", prose, flags=re.MULTILINE):
        first = found.splitlines()[0]
        assert first.startswith(SETTINGS) or not NUMBER.search(found), f"{page.name}: {first}"


def test_another_result_is_noticed(tables, tmp_path, monkeypatch):
    """The comparison above can fail."""
    common = sys.modules["pagetables.common"]
    shutil.copytree(common.RESULTS, tmp_path / "results")
    changed = tmp_path / "results" / "stations.json"
    kept = json.loads(changed.read_text())
    kept["auto"]["400"]["alone"] = [9.0, 9.0, 9.0]
    changed.write_text(json.dumps(kept))
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    readme = text(ROOT / "README.md")
    assert "9.00" in tables.fill(readme)
    assert tables.fill(readme) != readme


def test_streams_to_tune_on_are_named_alike_everywhere(tables):
    measured, shown = script("streams"), sys.modules["pagetables.streams"]
    assert (measured.TUNED, measured.REPORTED) == (shown.TUNED, shown.REPORTED)
    assert not set(measured.TUNED) & set(measured.REPORTED)
    page = " ".join(text(ROOT / "docs" / "auto.md").split())
    assert f"**may be tuned on**: {', '.join(measured.TUNED)};" in page
    assert f"**only reported**: {', '.join(measured.REPORTED)}." in page


def test_published_figures_are_the_leaderboards():
    board = pathlib.Path(os.environ.get("DOMKL_DATA", "")) / "streams" / "leaderboard.json"
    if not board.is_file():
        pytest.skip("set DOMKL_DATA to the folder that holds streams/leaderboard.json")
    published = json.loads(board.read_text())
    for name, row in json.loads((BENCHMARKS / "results" / "streams.json").read_text()).items():
        measure = "r2" if row["task"] == "regression" else "accuracy"
        theirs = published[row["task"]][name]
        assert row["best"] == max(one[measure] for one in theirs.values())
        assert row["best"] == theirs[row["best_is"]][measure]
        assert row["ARF"] == theirs["ARF"][measure]
        assert row["rows"] == row["their_rows"] == theirs["ARF"]["n"]

"""`domkl reproduce` as people run it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil

import pytest

import domkl
from domkl import cli
from domkl.datasets.uci import METRO, SOURCES
from domkl.lab import reproduce

needs_data = pytest.mark.skipif(not os.environ.get("DOMKL_DATA"), reason="DOMKL_DATA is not set")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_json(capsys, *argv):
    assert cli.main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


class TestReproduceWithoutFiles:
    """Datasets made here, in place of UCI's files."""

    @pytest.fixture(autouse=True)
    def small(self, here, monkeypatch):
        monkeypatch.setenv("DOMKL_DATA", str(here / "data"))
        monkeypatch.setenv("DOMKL_CACHE", str(here / "cache"))
        monkeypatch.setattr(reproduce, "LENGTHS", (10, 20))
        reproduce._load.cache_clear()
        yield
        reproduce._load.cache_clear()

    def bring(self, monkeypatch, values=lambda t: t % 7 / 7):
        """A file of a day's temperatures under the name, and with the digest, of the real one."""
        text = "holiday,temp,traffic_volume\n" + "".join(f"None,{values(t)},1\n" for t in range(5500))
        path = os.path.join(os.environ["DOMKL_DATA"], "metro_traffic.csv")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        known = dataclasses.replace(METRO.files[0], digests=(METRO.files[0].digest(text.encode()),))
        monkeypatch.setitem(SOURCES, "temperature", dataclasses.replace(METRO, files=(known,)))
        monkeypatch.setattr(reproduce, "omkl", quick_omkl)
        monkeypatch.setattr(reproduce, "simulate", quick_simulate)
        reproduce._load.cache_clear()

    ARGV = ("reproduce", "--datasets", "temperature/5", "--networks", "1", "--trials", "1", "--jobs", "1")

    @pytest.mark.parametrize("argv", [["reproduce"], ["reproduce", "--tables", "II"]])
    def test_no_dataset_at_all_is_said_before_anything_is_run(self, here, capsys, argv):
        assert cli.main([*argv, "--jobs", "1"]) == 2
        err = capsys.readouterr().err
        assert err.startswith("domkl: none of the paper's datasets is here; expected their files in ")
        assert "domkl data fetch weather" in err
        assert "DOMKL_DATA" in err
        assert err.count("\n") == 1
        assert not (here / "domkl-results").exists()

    def test_a_named_dataset_that_is_not_here_is_said_before_anything_is_run(self, here, capsys):
        assert cli.main([*self.ARGV]) == 2
        assert "temperature/5 is not here; expected its file" in capsys.readouterr().err
        assert not (here / "domkl-results").exists()

    def test_results_on_disk_need_no_data(self, here, capsys, monkeypatch):
        self.bring(monkeypatch)
        first = run_json(capsys, *self.ARGV)
        shutil.rmtree(here / "data")
        reproduce._load.cache_clear()
        assert run_json(capsys, *self.ARGV) == first
        every = run_json(capsys, "reproduce", "--networks", "1", "--trials", "1", "--jobs", "1")
        assert every["rows"] == first["rows"]
        assert "weather is not here: domkl data fetch weather" in every["notes"]

    def test_results_of_other_data_are_not_used(self, here, capsys, monkeypatch):
        self.bring(monkeypatch)
        first = run_json(capsys, *self.ARGV)
        self.bring(monkeypatch, values=lambda t: t % 5 / 5)
        assert run_json(capsys, *self.ARGV)["rows"] != first["rows"]
        self.bring(monkeypatch)
        lines = (here / "domkl-results" / "reproduce-fitted.jsonl").read_text().count("\n")
        assert run_json(capsys, *self.ARGV)["rows"] == first["rows"]
        assert (here / "domkl-results" / "reproduce-fitted.jsonl").read_text().count("\n") == lines

    def test_figures_that_are_not_finite_are_null(self, here, capsys, monkeypatch):
        self.bring(monkeypatch)
        run_json(capsys, *self.ARGV)
        results = here / "domkl-results" / "reproduce-fitted.jsonl"
        results.write_text(re.sub(r'"value": [\d.e-]+', '"value": NaN', results.read_text()))
        assert {cell["value"] for cell in run_json(capsys, *self.ARGV)["rows"]} == {None}

    def test_a_place_that_cannot_be_written_is_noticed_first(self, here, capsys, monkeypatch):
        self.bring(monkeypatch)
        monkeypatch.setattr(reproduce, "perform", None)  # nothing may be run
        (here / "file").write_text("")
        assert cli.main([*self.ARGV, "--out", "file/results"]) == 2
        assert "cannot be written" in capsys.readouterr().err

    def test_a_results_file_of_other_bytes_is_one_line(self, here, capsys, monkeypatch):
        self.bring(monkeypatch)
        (here / "domkl-results").mkdir()
        (here / "domkl-results" / "reproduce-fitted.jsonl").write_bytes(b"\xff\n")
        assert cli.main([*self.ARGV]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def quick_omkl(X, y, **options):
    return domkl.omkl(X[:30], y[:30], **options)


def quick_simulate(X, y, *args, **options):
    return domkl.simulate(X[:, :30], y[:, :30], *args, **options)


@needs_data
def test_reproduce_prints_ours_beside_the_printed_figures_and_resumes(here, capsys, monkeypatch):
    monkeypatch.setattr(reproduce, "LENGTHS", (250, 500, 1000))
    argv = [
        "reproduce",
        "--tables",
        "VI",
        "--datasets",
        "temperature/5",
        "--networks",
        "1",
        "--trials",
        "1",
        "--jobs",
        "1",
    ]
    document = run_json(capsys, *argv)
    cell = next(r for r in document["rows"] if r["method"] == "DOMKL" and r["learner"] == 1)
    assert cell["printed"] == 0.00086
    assert cell["ratio"] == pytest.approx(cell["value"] / 0.00086)
    assert {"metric", "dataset", "network", "method", "learner", "value", "printed", "ratio"} <= set(cell)
    assert len(document["claims"]) == 7
    results = here / "domkl-results" / "reproduce-fitted.jsonl"
    before = results.read_text()
    assert cli.main(argv) == 0
    assert results.read_text() == before
    out = capsys.readouterr().out
    for expected in ("Table VI", "inferred", "What the paper claims", "temperature/5"):
        assert expected in out

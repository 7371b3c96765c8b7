from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from domkl import cli

needs_data = pytest.mark.skipif(not os.environ.get("DOMKL_DATA"), reason="DOMKL_DATA is not set")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_table(path, learners=("a", "b", "c"), rows=60):
    rng = np.random.default_rng(0)
    lines = ["site,u,v,y"]
    for _ in range(rows):
        for name in learners:
            u, v = rng.uniform(size=2)
            lines.append(f"{name},{u:.6f},{v:.6f},{1000 * (u + v):.4f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def run_json(capsys, *argv):
    assert cli.main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_run_learns_the_shipped_stations_and_writes_a_report(here, capsys):
    assert cli.main(["run", "--rounds", "300"]) == 0
    out = capsys.readouterr().out
    for expected in ("EWR", "JFK", "LGA", "OMKL", "as it is now", "domkl-report"):
        assert expected in out
    page = (here / "domkl-report" / "index.html").read_text(encoding="utf-8")
    assert "EWR" in page


def test_run_json_is_one_document_and_progress_goes_elsewhere(here):
    done = subprocess.run(
        [sys.executable, "-m", "domkl", "run", "--rounds", "50", "--json", "--no-report"],
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(done.stdout)
    assert [learner["name"] for learner in document["learners"]] == ["EWR", "JFK", "LGA"]
    assert document["files"] == []
    assert not (here / "domkl-report").exists()


def test_run_takes_a_table_of_your_own(here, capsys):
    path = write_table(here / "mine.csv")
    argv = ["run", "--data", str(path), "--target", "y", "--learner-column", "site", "--no-report"]
    document = run_json(capsys, *argv, "--graph", "a-b,b-c", "--hedge", "messages")
    assert document["title"] == "mine.csv: predicting y"
    assert [learner["name"] for learner in document["learners"]] == ["a", "b", "c"]
    assert document["learners"][0]["neighbours"] == ["b"]
    whole = run_json(
        capsys,
        "run",
        "--data",
        str(path),
        "--target",
        "y",
        "--drop",
        "site",
        "--learners",
        "4",
        "--no-report",
    )
    assert len(whole["learners"]) == 4


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(here, capsys):
    runs = [run_json(capsys, "run", "--rounds", "60", "--no-report", "--seed", seed) for seed in "112"]
    mse = [[learner["mse"] for learner in run["learners"]] for run in runs]
    assert mse[0] == mse[1] != mse[2]


def test_preset_paper_takes_the_printed_rates(here, capsys):
    document = run_json(capsys, "run", "--rounds", "100", "--no-report", "--preset", "paper")
    assert document["rates"] == {"rho": 10.0, "eta": 10.0, "eta_g": 10.0}


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["run", "--data", "no.csv", "--target", "y"], ["no.csv", "no such file"]),
        (["run", "--data", "mine.csv"], ["mine.csv needs a target", "--target"]),
        (["run", "--target", "y"], ["--target is for a file", "--data"]),
        (["run", "--data", "mine.csv", "--target", "z"], ["mine.csv", "no column 'z'", "site, u, v, y"]),
        (["run", "--data", "mine.csv", "--target", "y"], ["site", "--drop site"]),
        (["run", "--data", "bad.csv", "--target", "y"], ["bad.csv", "line 3", "u", "'x'"]),
        (["run", "--data", "short.csv", "--target", "y"], ["short.csv", "line 3"]),
        (["run", "nothing"], ["no experiment 'nothing'", "three-stations"]),
        (["run", "--graph", "wheel"], ["graph is 'wheel'", "ring"]),
        (["run", "--graph", "paper3"], ["5 learners", "3"]),
        (["run", "--hedge", "messages"], ["messages", "tree"]),
        (["run", "--loss", "cubic"], ["loss is 'cubic'"]),
        (["run", "--rounds", "0"], ["rounds is 0"]),
        (["run", "--rounds", "many"], ["--rounds", "'many'"]),
        (["run", "--rho", "-1"], ["rho is -1"]),
        (["reproduce", "--tables", "X"], ["--tables is 'X'", "IX"]),
        (["reproduce", "--datasets", "wether"], ["--datasets is 'wether'", "did you mean 'weather'"]),
        (["reproduce", "--networks", "5"], ["--networks is '5'"]),
        (["reproduce", "--networks", "1", "--tables", "III"], ["III", "[3, 4]"]),
        (["reproduce", "--trials", "0"], ["--trials is 0"]),
        (["reproduce", "--backend", "nonsense"], ["--backend 'nonsense' cannot be used"]),
        (["data", "fetch", "wether"], ["wether", "did you mean 'weather'"]),
        (["data", "fetch", "weather", "--cache", "c", "--base-url", "http://127.0.0.1:9"], ["127.0.0.1:9"]),
        ([], ["COMMAND"]),
        (["lern"], ["'lern'"]),
    ],
)
def test_bad_requests_give_one_line_and_exit_code_2(here, capsys, argv, parts):
    write_table(here / "mine.csv")
    (here / "bad.csv").write_text("u,y\n1,2\nx,3\n4,5\n")
    (here / "short.csv").write_text("u,y\n1,2\n3\n4,5\n")
    try:
        code = cli.main(argv)
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    for part in parts:
        assert part in captured.err
    assert not (here / "domkl-report").exists()


def test_data_lists_every_set_with_its_licence(capsys):
    names = [entry["name"] for entry in run_json(capsys, "data")["datasets"]]
    assert names[0] == "stations"
    assert {"weather", "conductivity", "air_quality", "wave_energy", "traffic/5", "temperature/10"} <= set(
        names
    )
    assert cli.main(["data"]) == 0
    out = capsys.readouterr().out
    assert "CC BY 4.0" in out
    assert "commercial use excluded" in out


@needs_data
def test_reproduce_prints_ours_beside_the_printed_figures_and_resumes(here, capsys):
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


@pytest.mark.parametrize("flag", ["", "--json"])
def test_a_reader_that_leaves_causes_no_noise(here, flag):
    script = f"{sys.executable} -m domkl data {flag} | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("domkl ")

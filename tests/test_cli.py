from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import domkl
from domkl import cli
from domkl.cli import show
from domkl.datasets.sources import METRO, SOURCES
from domkl.lab import experiment
from domkl.lab.reproduce import claims, tasks

needs_data = pytest.mark.skipif(not os.environ.get("DOMKL_DATA"), reason="DOMKL_DATA is not set")

#: A file of one's own, and what to predict in it.
MINE = ("--data", "mine.csv", "--target", "y")


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


def test_run_takes_the_second_order_step(here, capsys):
    given = ["--step", "newton", "--memory", "40"]
    document = run_json(capsys, "run", "--rounds", "60", *given)
    assert (document["step"], document["memory"]) == ("newton", 40.0)
    data = domkl.datasets.load_stations(6)
    chosen = experiment.load("three-stations")
    run = domkl.simulate(
        data.X[:, :60],
        data.y[:, :60],
        "complete",
        kernels=chosen.kernels.draw(15),
        rates=chosen.rates.at(60),
        delay=data.delay,
        step="newton",
        memory=40,
    )
    assert [learner["mse"] for learner in document["learners"]] == run.mse.tolist()
    page = (here / "domkl-report" / "index.html").read_text(encoding="utf-8")
    assert "second order, about 40 past samples count" in page


def test_run_tunes_nothing_unless_an_option_or_the_preset_asks_for_it(here, capsys):
    write_table(here / "mine.csv")
    few = ("run", "--rounds", "30", "--no-report")
    plain = run_json(capsys, *few)
    assert (plain["preset"], plain["auto"]["size"], plain["rates"]) == ("auto", 400, None)
    assert "first-order" in plain["network"]["baselines"]
    mine = run_json(capsys, *few, *MINE, "--drop", "site")
    assert (mine["preset"], mine["auto"]["size"]) == ("auto", 1700)
    assert run_json(capsys, *few, "--size", "100", "--loss", "huber")["auto"]["size"] == 100
    for option in (["--kappa", "0.1"], ["--D", "7"], ["--hedge", "local"], ["--preset", "own"]):
        own = run_json(capsys, *few, *option)
        assert (own["preset"], own["auto"]) == ("own", None)
        assert own["rates"]["rho"] > 0


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
        (["run", "--kappa", "-1"], ["kappa is -1.0", "choose another kappa"]),
        (["run", "--kappa-g", "0"], ["kappa_g is 0.0"]),
        (["run", "--graph", "EWR-JFK-LGA"], ["'EWR-JFK-LGA'", "write links like A-B,B-C"]),
        (["run", "--graph", "EWR-JFK"], ["learner 'LGA' has no neighbour"]),
        (["run", "--reg", "-1"], ["reg is -1"]),
        (["run", "--preset", "auto", "--kappa", "0.1"], ["--kappa is given with --preset auto"]),
        (["run", "--preset", "paper", "--D", "9"], ["--D is given with --preset paper"]),
        (["run", "--preset", "own", "--size", "99"], ["--size is for preset auto, not own"]),
        (["run", "--size", "9"], ["size is 9"]),
        (["run", "--delta", "2"], ["delta is 2.0", "'squared'", "huber"]),
        (["run", "--split", "bogus"], ["split is 'bogus'"]),
        (["run", "--split", "random"], ["split is 'random' for the stations"]),
        (["run", "--missing", "drop"], ["--missing is for a file"]),
        (["run", "--learners", "4"], ["--learners is for a file"]),
        (["run", *MINE, "--horizon", "3"], ["--horizon is for the shipped stations"]),
        (["run", *MINE, "--drop", "site", "--learners", "0"], ["learners is 0"]),
        (["run", *MINE, "--learner-column", "site", "--learners", "7"], ["--learners", "--learner-column"]),
        (["run", *MINE, "--learner-column", "site", "--split", "random"], ["--split", "--learner-column"]),
        (["run", *MINE, "--learner-column", "site", "--missing", "bogus"], ["missing is 'bogus'"]),
        (["run", *MINE, "--features", ""], ["features names no column"]),
        (["run", "--data", "huge.csv", "--target", "y"], ["huge.csv, column 'y'", "1e+308"]),
        (["run", "--data", "large.csv", "--target", "y"], ["large.csv, column 'y'", "span 1e+200"]),
        (
            ["run", "--data", "uneven.csv", "--target", "y", "--learner-column", "site"],
            ["learner 'b' has 1 rows", "8 of 10 rows", "--rounds 1"],
        ),
        (["reproduce", "--jobs", "0"], ["--jobs is 0", "-1 for all cores"]),
        (["reproduce", "--tables", "II", "--datasets", "traffic/5"], ["tables II hold no traffic/5"]),
        (["reproduce", "--tables", "II, VI", "--datasets", "weather"], ["table VI holds series sets"]),
        (["reproduce", "--tables", "II,III", "--networks", "1"], ["table III", "networks 3 and 4"]),
        (["reproduce", "--tables", "II", "--networks", "1, 3"], ["[1, 2], not 3"]),
        (["data", "fetch", "weather", "--farm", "perth"], ["'wave_energy' only"]),
        (["data", "fetch", "weather", "--cache", "mine.csv/c"], ["mine.csv/c: cannot be written into"]),
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
    (here / "huge.csv").write_text("u,y\n1,1e308\n2,-1e308\n4,5\n")
    (here / "large.csv").write_text("u,y\n1,1e200\n2,3\n4,5\n")
    (here / "uneven.csv").write_text("site,u,y\n" + "a,1,2\n" * 9 + "b,1,3\n")
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
    assert not (here / "domkl-results").exists()


def test_a_penalty_of_zero_and_another_loss_than_the_files(here, capsys):
    quick = ["run", "--rounds", "20", "--no-report"]
    assert run_json(capsys, *quick, "--loss", "ridge", "--reg", "0")["reg"] == 0
    assert run_json(capsys, *quick, "--loss", "ridge")["reg"] == 0.01
    (here / "huber.toml").write_text("[learning]\nloss = 'huber'\ndelta = 0.5\n")
    assert run_json(capsys, "run", "huber.toml", *quick[1:], "--loss", "squared")["loss"] == "squared"


def test_numbers_that_are_not_finite_are_null(capsys):
    show.document({"a": [float("nan"), {"b": (float("inf"), 1.5)}]})
    assert json.loads(capsys.readouterr().out) == {"a": [None, {"b": [None, 1.5]}]}


def test_programs_need_no_rich(here):
    script = (
        "import sys; sys.modules['rich'] = None; from domkl.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    argv = ["run", "--rounds", "20", "--no-report", "--json"]
    done = subprocess.run([sys.executable, "-c", script, *argv], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rounds"] == 20


@pytest.mark.parametrize("argv", [["data"], ["data", "--json"]])
def test_a_full_disk_is_one_line(argv):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "domkl", *argv],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("domkl: standard output cannot be used: No space left on device; ")
    assert done.stderr.count("\n") == 1


def test_a_closed_standard_output_is_no_error():
    script = f"{sys.executable} -m domkl data --json >&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("argv", [["data", "--json", "fetch"], ["data", "fetch", "--json"]])
def test_fetch_answers_programs_wherever_they_ask(capsys, argv):
    assert cli.main([*argv, "stations"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "stations"


class TestReproduceWithoutFiles:
    """Datasets made here, in place of UCI's files."""

    @pytest.fixture(autouse=True)
    def small(self, here, monkeypatch):
        monkeypatch.setenv("DOMKL_DATA", str(here / "data"))
        monkeypatch.setenv("DOMKL_CACHE", str(here / "cache"))
        monkeypatch.setattr(tasks, "LENGTHS", (10, 20))
        monkeypatch.setattr(claims, "LENGTHS", (10, 20))
        tasks._load.cache_clear()
        yield
        tasks._load.cache_clear()

    def bring(self, monkeypatch, values=lambda t: t % 7 / 7):
        """A file of a day's temperatures under the name, and with the digest, of the real one."""
        text = "holiday,temp,traffic_volume\n" + "".join(f"None,{values(t)},1\n" for t in range(5500))
        path = os.path.join(os.environ["DOMKL_DATA"], "metro_traffic.csv")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        known = dataclasses.replace(METRO.files[0], digests=(METRO.files[0].digest(text.encode()),))
        monkeypatch.setitem(SOURCES, "temperature", dataclasses.replace(METRO, files=(known,)))
        monkeypatch.setattr(tasks, "omkl", quick_omkl)
        monkeypatch.setattr(tasks, "simulate", quick_simulate)
        tasks._load.cache_clear()

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
        tasks._load.cache_clear()
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
        monkeypatch.setattr(tasks, "perform", None)  # nothing may be run
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


@pytest.mark.parametrize(
    ("argv", "given", "found"), [("data", {}, "1"), ("data", {"OPENBLAS_NUM_THREADS": "3"}, "3")]
)
def test_commands_spare_numpys_threads_unless_told_otherwise(argv, given, found):
    code = (
        "import os, sys; from domkl import cli; assert 'numpy' not in sys.modules; "
        f"cli.main([{argv!r}, '--json']); print(os.environ['OPENBLAS_NUM_THREADS'], file=sys.stderr)"
    )
    plain = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**plain, **given}
    )
    assert done.stderr.strip() == found


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("domkl ")

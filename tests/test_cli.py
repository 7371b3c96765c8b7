from __future__ import annotations

import dataclasses
import json
import operator
import os
import subprocess
import sys

import numpy as np
import pytest

import domkl
from domkl import cli
from domkl.base.errors import InputError
from domkl.cli import options, show
from domkl.lab import experiment

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
    assert cli.main(["run", "--rounds", "60"]) == 0
    out = capsys.readouterr().out
    for expected in ("EWR", "JFK", "LGA", "alone", "simple guess", "domkl-report"):
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
    document = run_json(capsys, *argv, "--graph", "a-b,b-c", "--model", "paper", "--hedge", "messages")
    assert document["title"] == "mine.csv: predicting y"
    assert [learner["name"] for learner in document["learners"]] == ["a", "b", "c"]
    assert document["learners"][0]["neighbours"] == ["b"]
    assert "rows divided over 3 learners by the learner column" in document["notes"]
    argv = ["run", *MINE, "--drop", "site", "--no-report", "--size", "64"]
    for more, J, note in (
        ([], 1, "all rows are of one learner"),
        (["--learners", "4"], 4, "rows dealt out in turn to 4 learners"),
        (
            ["--split", "blocks", "--learners", "3"],
            3,
            "rows cut into 3 blocks that learn at the same time: learners see each",
        ),
    ):
        whole = run_json(capsys, *argv, *more)
        assert len(whole["learners"]) == J
        assert whole["notes"][0].startswith(note)
        assert whole["scale"] == 1


def test_the_summary_says_how_rows_were_divided_and_scaled(here, capsys):
    write_table(here / "mine.csv")
    argv = ["run", *MINE, "--drop", "site", "--no-report", "--rounds", "30", "--learners", "3"]
    assert cli.main([*argv, "--model", "paper"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "rows dealt out in turn to 3 learners" in out
    assert "inputs and target scaled by the range of the first 30 rounds" in out


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(here, capsys):
    runs = [run_json(capsys, "run", "--rounds", "20", "--no-report", "--seed", seed) for seed in "112"]
    mse = [[learner["mse"] for learner in run["learners"]] for run in runs]
    assert mse[0] == mse[1] != mse[2]


def test_run_takes_the_second_order_step(here, capsys):
    given = ["--model", "paper", "--step", "newton", "--D", "8", "--no-report"]
    document = run_json(capsys, "run", "--rounds", "60", *given)
    assert document["model"]["step"] == "newton"
    data = domkl.datasets.load_stations(6)
    paper = experiment.load("three-stations").paper
    small = dataclasses.replace(paper.kernels or domkl.KernelSpec(), D=8)
    model = dataclasses.replace(paper, step="newton", kernels=small)
    run = domkl.simulate(data.X[:, :60], data.y[:, :60], "complete", model=model, delay=data.delay)
    assert [learner["mse"] for learner in document["learners"]] == (document["scale"] * run.mse).tolist()


def test_the_model_is_auto_unless_another_is_asked_for(here, capsys):
    write_table(here / "mine.csv")
    few = ("run", "--rounds", "30", "--no-report")
    plain = run_json(capsys, *few)
    assert (plain["model"]["kind"], plain["model"]["size"], plain["rates"]) == ("auto", 400, None)
    assert list(plain["network"]["baselines"]) == ["simple guess"]
    mine = run_json(capsys, *few, *MINE, "--drop", "site")
    assert (mine["model"]["kind"], mine["model"]["size"]) == ("auto", 1000)
    (here / "small.toml").write_text("[model]\nsize = 64\n")
    mine = run_json(capsys, "run", "small.toml", *few[1:], *MINE, "--drop", "site")
    assert mine["model"]["size"] == 64
    given = ["--size", "100", "--seed", "3"]
    assert run_json(capsys, *few, *given)["model"] == {**plain["model"], "size": 100, "seed": 3}


def test_the_papers_model_takes_the_files_section_and_the_options(here, capsys):
    few = ("run", "--rounds", "100", "--no-report", "--model", "paper")
    stations = run_json(capsys, *few)
    assert stations["rates"] == pytest.approx({"rho": 0.3, "eta": 0.3, "eta_g": 0.1})
    assert "paper" not in stations["network"]["baselines"]
    given = [
        "--kappa",
        "0.1",
        "--eta-g",
        "5",
        "--D",
        "7",
        "--seed",
        "2",
        "--kernels",
        "cauchy",
        "--hedge",
        "local",
    ]
    model = run_json(capsys, *few, *given)["model"]
    assert model["rates"] == {"kappa": 0.1, "kappa_g": 0.01, "eta_g": 5.0}
    assert {key: model["kernels"][key] for key in ("D", "seed", "family")} == {
        "D": 7,
        "seed": 2,
        "family": "cauchy",
    }
    assert model["hedge"] == "local"


@pytest.mark.parametrize("kind", ["auto", "paper"])
@pytest.mark.parametrize("option", options.OPTIONS.values(), ids=lambda option: option.name)
def test_every_option_sets_its_field_or_is_refused(option, kind):
    texts = {"loss": "logistic", "kernels": "cauchy", "hedge": "local", "step": "newton", "outliers": "bound"}
    needs = {"delta": ["--loss", "huber"]}
    text, field = texts.get(option.name, "64"), getattr(option, kind)
    argv = ["run", "--model", kind, f"--{option.name}", text, *(needs.get(option.name, []) if field else [])]
    args, plain = cli.parser().parse_args(argv), experiment.load("three-stations")
    if field:
        changed = options.choose_model(args, plain).model
        assert changed.kind == kind
        assert operator.attrgetter(field)(changed) == option.type(text)
    else:
        with pytest.raises(InputError, match=f"--{option.name} is a setting of model"):
            options.choose_model(args, plain)


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["run", "--data", "no.csv", "--target", "y"], ["no.csv", "no such file"]),
        (["run", "--data", "mine.csv"], ["mine.csv needs a target", "one of site, u, v, y", "--target"]),
        (["run", "--target", "y"], ["--target is for a file", "--data"]),
        (["run", "--data", "mine.csv", "--target", "z"], ["mine.csv", "no column 'z'", "site, u, v, y"]),
        (["run", "--data", "bad.csv", "--target", "y"], ["bad.csv: 1 usable rows of 3", "line 3", "'x'"]),
        (["run", "--data", "short.csv", "--target", "y"], ["short.csv: 1 usable rows of 2", "line 3"]),
        (["run", "nothing"], ["no experiment 'nothing'", "three-stations"]),
        (["run", "--graph", "wheel"], ["graph is 'wheel'", "ring"]),
        (["run", "--graph", "paper3"], ["5 learners", "3"]),
        (["run", "--model", "paper", "--hedge", "messages"], ["messages", "tree"]),
        (["run", "--loss", "cubic"], ["loss is 'cubic'"]),
        (["run", "--loss", "huber"], ["loss is 'huber'", "squared, logistic"]),
        (["run", "--rounds", "0"], ["rounds is 0"]),
        (["run", "--rounds", "many"], ["--rounds", "'many'"]),
        (["run", "--model", "paper", "--rho", "-1"], ["rho is -1"]),
        (["run", "--model", "paper", "--kappa", "-1"], ["kappa is -1.0", "choose another kappa"]),
        (["run", "--model", "paper", "--kappa-g", "0"], ["kappa_g is 0.0"]),
        (["run", "--graph", "EWR-JFK-LGA"], ["'EWR-JFK-LGA'", "write links like A-B,B-C"]),
        (["run", "--graph", "EWR-JFK"], ["learner 'LGA' has no neighbour"]),
        (["run", "--model", "paper", "--reg", "-1"], ["reg is -1"]),
        (["run", "--kappa", "0.1"], ["--kappa is a setting of model paper", "add that", "--model paper"]),
        (["run", "--model", "auto", "--D", "9"], ["--D is a setting of model paper, and the model is auto"]),
        (["run", "--model", "paper", "--size", "99"], ["--size is a setting of model auto", "--model auto"]),
        (["run", "--model", "own"], ["--model", "'own'"]),
        (["run", "--size", "9"], ["size is 9"]),
        (["run", "--model", "paper", "--delta", "2"], ["delta is 2.0", "'squared'", "huber"]),
        (["run", "--split", "bogus"], ["split is 'bogus'"]),
        (["run", "--split", "random"], ["split is 'random' for the stations"]),
        (["run", "--missing", "drop"], ["--missing is for a file"]),
        (["run", "--learners", "4"], ["--learners is for a file"]),
        (["run", *MINE, "--horizon", "soon"], ["horizon is 'soon'", "1h..24h"]),
        (["run", *MINE, "--least", "0"], ["--least is of forecasts", "--horizon"]),
        (["run", *MINE, "--drop", "site", "--learners", "0"], ["learners is 0"]),
        (["run", *MINE, "--learner-column", "site", "--learners", "7"], ["--learners", "--learner-column"]),
        (["run", *MINE, "--learner-column", "site", "--split", "random"], ["--split", "--learner-column"]),
        (["run", *MINE, "--drop", "site", "--split", "bogus"], ["split is 'bogus'"]),
        (["run", *MINE, "--drop", "site", "--loss", "logistic"], ["y holds the label", "map the classes"]),
        (["run", *MINE, "--learner-column", "site", "--missing", "bogus"], ["missing is 'bogus'"]),
        (["run", *MINE, "--features", ""], ["features names no column"]),
        (
            ["run", "--data", "huge.csv", "--target", "y"],
            ["huge.csv: 1 usable rows of 3 (column 'y' is 1e+308", "up to 1e+100"],
        ),
        (
            ["run", "--data", "large.csv", "--target", "y"],
            ["large.csv: 1 usable rows of 2 (column 'y' is 1e+200"],
        ),
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
        (["rnu"], ["COMMAND is 'rnu'", "did you mean 'run'?"]),
        (["run", "--rounds", "x"], ["--rounds is 'x'; expected a whole number; see"]),
        (["compare", "--json", "--format", "csv"], ["--json and --format are both given"]),
        (["reproduce", "--json", "--format", "csv"], ["--json and --format are both given"]),
        (["compare", "three-stations", "--dataset", "weather"], ["an experiment and --dataset are both"]),
        (["reproduce", "--datasets", "wether"], ["--datasets is 'wether'", "did you mean 'weather'"]),
        (["reproduce", "--networks", "5"], ["--networks is '5'"]),
        (["reproduce", "--networks", "1", "--tables", "III"], ["III", "[3, 4]"]),
        (["reproduce", "--trials", "0"], ["--trials is 0"]),
        (["reproduce", "--backend", "nonsense"], ["--backend 'nonsense' cannot be used"]),
        (["data", "fetch", "wether"], ["wether", "did you mean 'weather'"]),
        (["data", "fetch", "weather", "--cache", "c", "--base-url", "http://127.0.0.1:9"], ["127.0.0.1:9"]),
        (["lern"], ["'lern'"]),
    ],
)
def test_bad_requests_give_one_line_and_exit_code_2(here, capsys, argv, parts):
    write_table(here / "mine.csv")
    (here / "bad.csv").write_text("u,y\n1,2\nx,3\n4,?\n")
    (here / "short.csv").write_text("u,y\n1,2\n3\n")
    (here / "huge.csv").write_text("u,y\n1,1e308\n2,-1e308\n4,5\n")
    (here / "large.csv").write_text("u,y\n1,1e200\n2,3\n")
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
    quick = ["run", "--rounds", "20", "--no-report", "--model", "paper"]
    assert run_json(capsys, *quick, "--loss", "ridge", "--reg", "0")["reg"] == 0
    assert run_json(capsys, *quick, "--loss", "ridge")["reg"] == 0.01
    (here / "huber.toml").write_text("[paper]\nloss = 'huber'\ndelta = 0.5\n")
    assert run_json(capsys, "run", "huber.toml", *quick[1:], "--loss", "squared")["loss"] == "squared"


def test_numbers_that_are_not_finite_are_null(capsys):
    show.document({"a": [float("nan"), {"b": (float("inf"), 1.5)}]})
    assert json.loads(capsys.readouterr().out) == {"a": [None, {"b": [None, 1.5]}]}


def test_programs_need_no_rich(here):
    script = "import sys; sys.modules['rich'] = None; from domkl.cli import main; sys.exit(main())"
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


def test_data_lists_every_set_with_its_licence(capsys):
    names = [entry["name"] for entry in run_json(capsys, "data")["datasets"]]
    assert names[0] == "stations"
    assert {"weather", "conductivity", "air_quality", "wave_energy", "traffic/5"} <= set(names)
    assert cli.main(["data"]) == 0
    out = capsys.readouterr().out
    assert "CC BY 4.0" in out
    assert "commercial use excluded" in out


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


def test_a_command_loads_no_other():
    assert set(cli.parser("agent")._commands()) == {"agent"}
    assert tuple(cli.parser()._commands()) == tuple(cli.parser("no such")._commands()) == cli.COMMANDS
    code = "import sys; from domkl import cli; cli.main(['data']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "domkl.cli.data" in loaded
    assert not {"domkl.cli.agent", "domkl.cli.bench", "domkl.cli.run"} & loaded


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("domkl ")

"""`domkl up` as people run it: real processes, real transports, real signals."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

import brokers
import domkl
from domkl import cli
from domkl.agent import load
from domkl.agent.serve import Explaining
from domkl.base import toml
from domkl.cli import live, up
from domkl.lab import experiment, fleet, trial
from domkl.models import settings

pytest.importorskip("zenoh")

UP = (sys.executable, "-m", "domkl", "up")
#: Seconds after which a test gives up; two busy cores take a while to start three learners.
LONG = 120


@pytest.fixture
def environ(tmp_path):
    """Temporary folders go where they can be counted, and a warning anywhere is an error."""
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONWARNINGS": "error"}


@contextlib.contextmanager
def started(environ, *argv, **options):
    process = subprocess.Popen([*UP, *argv], env=environ, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def children(pid):
    """The processes that a process started, from /proc."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(stat.parent.name))
    return sorted(found)


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(what, seconds=LONG):
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


@pytest.mark.parametrize(
    "more",
    [[], ["--model", "paper"], ["--model", "paper", "--step", "newton"]],
    ids=["auto", "paper", "newton"],
)
def test_three_processes_over_zenoh_give_the_bits_of_the_simulator(environ, tmp_path, more):
    argv = [*UP, "--rounds", "40", "--json", *more]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["same_bits"] is True
    assert (document["rounds"], document["unit"], document["transport"]) == (40, "°F", "zenoh")
    assert document["model"]["kind"] == ("paper" if more else "auto")
    assert [learner["name"] for learner in document["learners"]] == ["EWR", "JFK", "LGA"]
    for learner in document["learners"]:
        assert learner["rmse"] == learner["rmse_simulated"] == pytest.approx(130 * learner["mse"] ** 0.5)
        assert learner["bytes_sent"] > 34 * 390 * 8
        assert len(learner["neighbours"]) == 2
        assert learner["rmse_alone"] > 0
        assert learner["rounds_incomplete"] == 0
    first, *others = done.stderr.splitlines()  # 34 rounds may be over before the first line of progress
    assert re.fullmatch(r"Page: http://127\.0\.0\.1:\d+/", first)
    assert all(
        re.match(r" +\d+ s  (starting 3 learners|round \d+ of 35, RMSE )", line) for line in others[:1]
    )
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.skipif(brokers.MOSQUITTO is None, reason="mosquitto is not installed")
def test_over_mqtt_and_at_a_rate_with_a_live_view_on_a_terminal(environ, tmp_path):
    above, below = pty.openpty()
    folder = tmp_path / "kept"
    with brokers.running(tmp_path) as broker:
        argv = ["--transport", "mqtt", "--broker", broker.address, "--rounds", "60", "--rate", "25"]
        argv += ["--graph", "EWR-JFK,JFK-LGA", "--model", "paper", "--folder", str(folder)]
        with started(environ, *argv, stdin=below, stdout=below, stderr=below) as process:
            os.close(below)
            shown = read_all(above)
            assert process.wait(LONG) == 0, shown
    os.close(above)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|`", "", shown)
    for expected in (
        "4/4 neighbours up",
        "σ² =",
        "of 55, RMSE",
        "(alone –)",
        "alone",
        "B/s",
        "over mqtt",
        "paper: yes",
        "kept",
    ):
        assert expected in shown, expected
    assert {path.name for path in folder.glob("EWR.*")} == {
        f"EWR.{kind}" for kind in ("toml", "jsonl", "log", "predictions.jsonl")
    }


def read_all(terminal):
    """All that a terminal shows until the last program has left it."""
    parts = []
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="there is no /proc here")
class TestEnds:
    """However it ends, no learner is left behind."""

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_a_signal_stops_all(self, environ, tmp_path, number, code):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with started(environ, "--rate", "5", **pipes) as process:
            pids = wait_for(lambda: len(children(process.pid)) == 3 and children(process.pid))
            time.sleep(1)  # some learn by now, or still start: both must end
            process.send_signal(number)
            out, err = process.communicate(timeout=LONG)
        assert (process.returncode, out) == (code, "")
        assert err.splitlines()[-1] == "domkl: stopped"
        assert not any(map(is_alive, pids))
        assert list((tmp_path / "tmp").iterdir()) == []

    def test_a_learner_that_dies_is_named_with_its_last_words(self, environ, tmp_path):
        folder = tmp_path / "kept"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with started(environ, "--rate", "5", "--folder", str(folder), "--json", **pipes) as process:
            wait_for(lambda: (folder / "JFK.log").exists() and "status" in (folder / "JFK.log").read_text())
            pids = children(process.pid)
            os.kill(pids[1], signal.SIGKILL)
            out, err = process.communicate(timeout=LONG)
        assert (process.returncode, out) == (2, "")
        last = (folder / "JFK.log").read_text().splitlines()[-1]
        assert err.splitlines()[-1].startswith(f"domkl: learner JFK was ended by signal 9: {last}; expected")
        assert not any(map(is_alive, pids))


def test_a_folder_is_laid_out_for_agents(tmp_path, capsys):
    folder = tmp_path / "stations"
    given = ["--graph", "path", "--model", "paper", "--step", "newton"]
    assert cli.main(["up", "--rounds", "30", "--folder", str(folder), "--no-start", *given]) == 0
    assert f"domkl agent {folder}/EWR.toml" in capsys.readouterr().out
    config = load(folder / "JFK.toml", {})
    assert config.neighbours == ("EWR", "LGA")
    paper = experiment.load("three-stations").paper
    rates = dataclasses.replace(paper.rates, horizon=30)
    assert config.model == dataclasses.replace(paper, rates=rates, step="newton")
    assert config.dtype == "float64"
    for name in ("EWR", "JFK", "LGA"):
        assert cli.main(["agent", str(folder / f"{name}.toml"), "--check", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["name"] == name
    assert cli.main(["up", "--folder", str(folder)]) == 2
    assert "is not empty; expected a new one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["--transport", "mqtt", "--broker", "127.0.0.1:9"], ["no MQTT broker answers", "mosquitto -p 9"]),
        (["--transport", "mqtt", "--broker", "10.1.2.3:1883"], ["another machine", "domkl agent"]),
        (["--transport", "mqtt", "--broker", "here"], ["'here'", "host:port"]),
        (["--broker", "127.0.0.1:1883"], ["--broker is for MQTT", "--transport mqtt"]),
        (["--transport", "pigeon"], ["'pigeon'"]),
        (["--rate", "0"], ["--rate is 0.0"]),
        (["--model", "paper", "--step", "newten"], ["did you mean 'newton'"]),
        (["--step", "newton"], ["--step is a setting of model paper", "--model paper"]),
        (["--model", "paper", "--size", "99"], ["--size is a setting of model auto"]),
        (["--model", "own"], ["'own'"]),
        (["--rounds", "0"], ["rounds is 0"]),
        (["--graph", "EWR-JFK"], ["'LGA' has no neighbour"]),
        (["--no-start"], ["--no-start without --folder"]),
        (["nothing"], ["no experiment 'nothing'"]),
        (["my file.toml", "--rounds", "10"], ["network is 'my file'"]),
    ],
)
def test_bad_requests_give_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, argv, parts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my file.toml").write_text("")
    try:
        code = cli.main(["up", *argv])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.count("\n") == 1, captured.err
    for part in parts:
        assert part in captured.err


@pytest.mark.parametrize("given", [["--size", "200"], ["--model", "paper"]], ids=["auto", "paper"])
def test_the_files_of_agents_hold_the_model_and_no_other_learner(tmp_path, capsys, given):
    folder = tmp_path / "net"
    assert cli.main(["up", "--rounds", "30", "--folder", str(folder), "--no-start", *given]) == 0
    table = toml.read(folder / "JFK.toml", "a configuration", "agent")
    auto = given[0] == "--size"
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    assert plain == {
        "network": "three-stations",
        "name": "JFK",
        "neighbours": ["EWR", "LGA"],
        "inputs": 15,
        "dtype": "float32" if auto else "float64",
    }
    sections = {"columns", "model", "stream", "transport", "rounds", "output", "checkpoint"}
    assert set(table) - set(plain) == sections
    model = settings.from_table(table["model"], "JFK.toml [model]")
    paper = experiment.load("three-stations").paper
    horizon = dataclasses.replace(paper.rates, horizon=30)
    assert model == (domkl.Auto(size=200) if auto else dataclasses.replace(paper, rates=horizon))


def test_the_files_of_agents_say_what_inputs_are_made_of(tmp_path):
    """Whatever a user's columns are called, also as quotes, tables and braces of a file."""
    columns = ('city "{name}"', "día.🌡", "when")
    table = tmp_path / "t.csv"
    with open(table, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*columns, "power"])
        for n in range(40):
            rows.writerow(
                [("Rome", "Oslo", "Bonn")[n % 3], n / 2, f"2024-05-{n % 28 + 1:02d} 06:00", n * 1.5]
            )
    given = ["--data", str(table), "--target", "power", "--learners", "2", "--kind", 'city "{name}"=category']
    folder = tmp_path / "net"
    assert cli.main(["up", *given, "--folder", str(folder), "--no-start"]) == 0
    config = load(folder / "1.toml", {})
    names, groups = Explaining(config)._named
    assert (config.target, config.inputs) == ("power", sum(map(len, groups)))
    assert set(columns) <= set(names)
    assert len(groups[names.index(columns[0])]) == 3
    assert config.columns.features[:2] == columns[:2]


def test_the_page_of_a_fleet_has_dates_and_inputs_that_matter(tmp_path):
    chosen = experiment.load("three-stations")
    source = trial.prepare(chosen, 30)
    network = fleet.Fleet(tmp_path, ["EWR", "JFK", "LGA"])
    line = {"event": "inputs", "round": 9, "inputs": [["temp", 0.75, 0.1, "rises"], ["dewp", 0.25, 0.05, ""]]}
    network.log("EWR").write_text(json.dumps(line) + "\n")
    (tmp_path / "EWR.predictions.jsonl").write_text('{"index": 0, "id": "0", "y_hat": 0.5}\n')
    shown = live.FleetPage(network, chosen, source)
    network.status("EWR")
    shown.look({name: {} for name in network.names}, [])
    found = shown.feed.document("EWR")
    assert found["target"] == "temperature in 6 hours"
    assert found["detail"]["samples"][:3] == [[0], [source.split.times[0, 0]], [45.0]]
    effects = [["temp", 0.75, 13.0, "rises"], ["dewp", 0.25, 6.5, ""]]
    assert found["detail"]["effects"] == {"round": 9, "inputs": effects}


def test_agents_are_compared_with_one_simulation_of_the_same_model(monkeypatch):
    chosen = experiment.load("three-stations").with_model("paper")
    source, runs = trial.prepare(chosen, 30), []
    monkeypatch.setattr(trial, "simulate", lambda *a, **k: runs.append(domkl.simulate(*a, **k)) or runs[-1])
    network = SimpleNamespace(
        names=list(source.split.names),
        predictions=lambda name: [{"y_hat": 0.5}] * 30,
        status=lambda name: {"messages_sent": 3},
    )
    found = up.document(network, chosen, source, "zenoh")
    assert [len(run.mse) for run in runs] == [3, 1, 1, 1]
    assert found["graph"]["edges"] == [["EWR", "JFK"], ["EWR", "LGA"], ["JFK", "LGA"]]
    first = found["learners"][0]
    assert (first["neighbours"], first["messages_sent"], first["same_bits"]) == (["JFK", "LGA"], 3, False)
    assert first["rmse_simulated"] == pytest.approx(130 * runs[0].mse[0] ** 0.5)
    assert first["rmse_alone"] == pytest.approx(130 * runs[1].mse[0] ** 0.5)


def shown(view):
    """The lines of a live table."""
    console = Console(width=120, file=io.StringIO(), color_system=None)
    console.print(view.table)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_the_live_view_shows_errors_beside_those_alone(tmp_path):
    chosen = experiment.load("three-stations")
    source = trial.prepare(chosen, 30)
    network = fleet.Fleet(tmp_path, ["EWR", "JFK", "LGA"])
    view = up.View.of(network, chosen, source)
    known = {"round": 9, "kernel": 2, "weight": 0.5, "up": 2, "neighbours": 2, "trusted": 2, "bytes_sent": 7}
    view.status = {name: {**known, "rmse": 0.1, "rmse_alone": 0.2} for name in network.names}
    assert "round 9 of 25, RMSE 13 °F (alone 26 °F), 6/6 neighbours up" in view.line
    assert "EWR 9 13.0 26.0 2/2 2 own 50 % 7 B" in shown(view)
    view.status["LGA"]["rmse_alone"] = None
    assert "(alone –)" in view.line
    assert "LGA 9 13.0 – 2/2 2 own 50 % 7 B" in shown(view)
    view.status = {name: {**known, "rmse": None, "rmse_alone": None} for name in network.names}
    assert "RMSE – (no label has come yet), 6/6 neighbours up" in view.line
    view.status["JFK"] = {}
    assert "JFK starting – – – – – –" in shown(view)


def test_the_end_of_up_says_whether_together_paid(capsys):
    learners = [
        {"name": name, "rmse": 3.0, "rmse_simulated": 3.0, "rmse_alone": 4.0, **dict.fromkeys(up.TRAFFIC)}
        for name in "ab"
    ]
    about = {
        "transport": "zenoh",
        "unit": "°F",
        "same_bits": True,
        "rounds": 9,
        "seconds": 1.0,
        "folder": None,
    }
    up._print({"learners": learners, "model": {"kind": "auto"}, "notes": ["1 row dropped"], **about})
    shown = capsys.readouterr().out
    assert re.search(r"^a +3.00 +3.00 +4.00", shown, re.MULTILINE)
    assert "Together 3.00 °F, alone 4.00 °F: 25 % less error." in shown
    assert "The same bits as `domkl run --model auto`: yes." in shown


@pytest.mark.parametrize(
    ("incomplete", "expected"),
    [
        ((0, 0), "no, although every round had the messages of all neighbours"),
        ((1200, 0), "no, as a neighbour was too slow for some rounds (a 1,200)"),
    ],
)
def test_other_bits_than_the_simulators_are_explained(incomplete, expected):
    pairs = zip("ab", incomplete, strict=True)
    learners = [{"name": name, "rounds_incomplete": count} for name, count in pairs]
    assert up._same({"same_bits": False, "learners": learners}) == expected


def test_samples_are_given_with_the_labels_known_by_then():
    lines = [b'{"x": 1}\n', b'{"x": 2}\n', b'{"id": 1}\n', b'{"x": 3}\n', b'{"id": 2}\n']
    assert list(fleet._samples(lines)) == [lines[0], lines[1] + lines[2], lines[3] + lines[4]]

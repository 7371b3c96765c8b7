"""`domkl init` makes short files that agents start with, and `domkl up FOLDER` starts them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest

from brokers import MOSQUITTO, free_ports, running
from domkl import cli
from domkl.agent import checkpoint, config
from domkl.base.errors import InputError
from domkl.cli import init
from domkl.lab import fleet

needs_broker = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")


def write_csv(path, site, separator=",", decimal=".", rows=40):
    """Readings with a date, a category, and decimals as they are written somewhere."""
    draw = random.Random(site)
    lines = [separator.join(["when", "humid", "temp", "site"])]
    for i in range(rows):
        humid = draw.uniform(0, 100)
        numbers = [f"{value:.2f}".replace(".", decimal) for value in (humid, 10 + humid / 10)]
        lines.append(separator.join([f"2024-01-0{1 + i // 24} {i % 24:02d}:00", *numbers, site]))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "north.csv", "north")
    write_csv(tmp_path / "south hill.csv", "south", ";", ",")
    return tmp_path


def refused(capsys, *argv):
    assert cli.main(["init", *argv]) == 2
    return capsys.readouterr().err


def test_csv_files_become_devices_that_agree_on_their_inputs(here, capsys):
    assert cli.main(["init", "north.csv", "south hill.csv", "--target", "temp", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["devices"] == ["north", "south-hill"]
    assert said["next"] == "domkl up agents"
    found = [config.load(here / "agents" / f"{name}.toml", {}) for name in said["devices"]]
    assert [each.neighbours for each in found] == [("south-hill",), ("north",)]
    assert {each.network for each in found} == {here.name.strip("-")[:64]}
    assert [each.columns.separator for each in found] == [",", ";"]
    assert [each.columns.decimal for each in found] == ["", ","]
    for each in found:
        assert each.columns.categories == {"site": ("north", "south")}
        assert (each.target, each.columns.time, each.output.coverage) == ("temp", ("when",), 0.9)
    for name in said["devices"]:
        lines = (here / "agents" / f"{name}.toml").read_text().splitlines()
        assert len(lines) <= 7
        assert cli.main(["agent", f"agents/{name}.toml", "--check", "--json"]) == 0
        looked = json.loads(capsys.readouterr().out)
        assert looked["first_rows"]["refused"] == []
        assert looked["first_rows"]["used"] == looked["first_rows"]["read"] > 10


def test_databases_become_devices_whose_files_hold_no_password(here, capsys):
    with contextlib.closing(sqlite3.connect(here / "log.db")) as made:
        made.execute("create table log (humid, temp)")
        made.executemany("insert into log values (?, ?)", [(i, 2 * i) for i in range(30)])
        made.commit()
    query = "select * from log where humid < 20"
    assert cli.main(["init", "sqlite:log.db", "--query", query, "--target", "temp", "--follow"]) == 0
    assert cli.main(["agent", "agents/log.toml", "--check"]) == 0
    assert "the first rows of log.db: 20 read, 20 can be used" in capsys.readouterr().out
    found = config.load(here / "agents" / "log.toml", {}).stream
    assert (found.kind, found.query, found.follow) == ("database", query, True)
    for address in ("postgresql://me:secret@h/x", "postgresql://me@h/x?password=secret"):
        with pytest.raises(InputError, match="has a password, which everybody could read") as caught:
            init._seen_from(here, address)
        assert "secret" not in str(caught.value)


def test_a_second_folder_has_other_ports_and_one_that_is_used_is_named(here, capsys):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        assert fleet.free_from(port, 2) > port
        first = ["init", "north.csv", "--target", "temp", "--port", str(port), "--alarm-rate", "0.01"]
        assert cli.main(first) == 0
        assert cli.main(["up", "agents"]) == 2
    said = capsys.readouterr().err
    assert f"127.0.0.1:{port}, the page of north, is in use" in said
    assert "change http in agents/north.toml" in said
    assert config.load(here / "agents" / "north.toml", {}).output.alarm_rate == 0.01


def test_nothing_is_overwritten_and_nothing_left_behind(here, capsys):
    assert cli.main(["init", "north.csv", "--target", "temp"]) == 0
    before = (here / "agents" / "north.toml").read_text()
    assert "is there already; expected a new folder" in refused(capsys, "north.csv", "--target", "humid")
    assert (here / "agents" / "north.toml").read_text() == before
    wrong = refused(capsys, "north.csv", "--target", "temp", "--alarm-rate", "3", "--folder", "other")
    assert "rate is 3.0; expected" in wrong
    wrong = refused(capsys, "north.csv", "--target", "temp", "--port", "99999", "--folder", "other")
    assert "listen is '127.0.0.1:99999'; expected host:port" in wrong
    wrong = refused(capsys, "north.csv", "--target", "temp", "--graph", "ring", "--folder", "other")
    assert "--graph is given for one device; expected two or more" in wrong
    assert {path.name for path in here.iterdir()} == {"agents", "north.csv", "south hill.csv"}


@pytest.mark.parametrize(
    ("argv", "wrong"),
    [
        ([], "neither files nor --topic are given; expected one of them"),
        (["north.csv"], "no target is given; expected the column to predict; add --target"),
        (
            ["north.csv", "--target", "tmp"],
            "north.csv has no column 'tmp'; expected one of when",
        ),
        (["north.csv", "--topic", "a", "--target", "temp"], "files and --topic are both given"),
        (["--topic", "a", "--target", "temp"], "--topic is given without --broker"),
        (["--topic", "a", "--target", "temp", "--broker", "b", "--user", "u"], "no password of u is given"),
        (["north.csv", "./north.csv", "--target", "temp"], "two devices are called 'north'"),
        (["none.csv", "--target", "temp"], "none.csv"),
        (["north.csv", "--target", "temp", "--user", "u"], "--user is given with files"),
        (["--topic", "a", "--target", "temp", "--follow"], "--follow is given with topics"),
    ],
)
def test_what_is_missing_is_said_in_one_line(here, capsys, monkeypatch, argv, wrong):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    said = refused(capsys, *argv)
    assert wrong in said
    assert len(said.splitlines()) == 1


def test_somebody_at_a_terminal_is_asked(here, capsys, monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    answers = iter(["north.csv", "temp", "2 rows"])
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    assert cli.main(["init"]) == 0
    assert "agents has 1 device that predicts temp from when, humid, site:" in capsys.readouterr().out
    found = config.load(here / "agents" / "north.toml", {})
    assert (found.target, found.horizon.names) == ("temp", ("2 rows",))


def test_values_are_toml_whatever_they_hold(tmp_path):
    table = {'a "b"\n': ["ü", "\x7f", "\\"], "b": {"c.d": 0.5, "e": True}, "f": 3}
    (tmp_path / "a.toml").write_text(f"x = {fleet.as_inline(table)}\n")
    from domkl.base import toml

    assert toml.read(tmp_path / "a.toml", "a test", "agent") == {"x": table}


def test_names_come_from_what_differs_in_topics():
    found = init.names_of(["home/1/a b/x", "home/2/a b/x", "home/3/c/x"])
    assert list(found.values()) == ["1-a-b", "2-a-b", "3-c"]
    assert init.names_of(["a/b", "c"]) == {"a/b": "a-b", "c": "c"}
    with pytest.raises(InputError, match="no different names"):
        init.names_of(["a b/x", "a-b/x"])


@needs_broker
def test_topics_become_devices_with_a_secret_that_others_cannot_read(here, capsys, monkeypatch):
    paho = pytest.importorskip("paho.mqtt.client")
    monkeypatch.setattr(init, "QUIET", 0.3)
    with running(here, users={"me": "it's a secret"}) as broker:
        stop = threading.Event()

        def publish():
            client = paho.Client(paho.CallbackAPIVersion.VERSION2)
            client.username_pw_set("me", "it's a secret")
            client.connect("127.0.0.1", broker.port)
            client.loop_start()
            for t in range(1000):
                for name in ("kitchen", "attic"):
                    reading = {"temp": 20 + t % 5, "air": {"humid": 40 + t % 7}, "open": t % 2 == 0}
                    client.publish(f"home/{name}/env", json.dumps(reading))
                    client.publish(f"home/{name}/noise/env", "hello")
                if stop.wait(0.02):
                    break
            client.disconnect()
            client.loop_stop()

        sensors = threading.Thread(target=publish)
        sensors.start()
        monkeypatch.setenv("BROKER_PASSWORD", "it's a secret")
        argv = ["--broker", broker.address, "--user", "me", "--topic", "home/+/env", "--target", "temp"]
        try:
            assert (
                cli.main(
                    [
                        "init",
                        *argv,
                        "--home-assistant",
                        "--unit",
                        "°C",
                        "--device-class",
                        "temperature",
                        "--json",
                    ]
                )
                == 0
            )
        finally:
            stop.set()
            sensors.join()
        said = json.loads(capsys.readouterr().out)
        monkeypatch.setenv("BROKER_PASSWORD", "wrong")
        assert "cannot be used: Not authorized" in refused(capsys, *argv, "--folder", "other")
    assert said["devices"] == ["attic", "kitchen"]
    assert said["columns"]["features"] == ["air.humid", "open"]
    secret = here / "agents" / fleet.PASSWORD
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert secret.read_text() == "it's a secret\n"
    found = config.load(here / "agents" / "kitchen.toml", {})
    assert (found.neighbours, found.stream.topic) == (("attic",), "home/kitchen/env")
    assert found.transport_settings().password == "it's a secret"
    assert found.output.topic == "predictions/kitchen"
    assert found.output.home_assistant
    assert (found.output.unit, found.output.device_class) == ("°C", "temperature")
    assert found.network == init.safe_name(here.name)
    text = (here / "agents" / "kitchen.toml").read_text()
    assert "secret" not in text.replace("password_file", "")
    assert len(text.splitlines()) <= 7


@needs_broker
def test_silent_topics_are_an_error_that_says_what_to_do(here, capsys):
    with running(here) as broker:
        argv = ["--broker", broker.address, "--topic", "a/+", "--target", "temp", "--wait", "0.3"]
        assert "no JSON object came on a/+ within 0.3 s; expected readings" in refused(capsys, *argv)


def test_up_starts_the_agents_of_a_folder_until_their_files_end(here, capsys):
    (first,) = free_ports(1)
    assert cli.main(["init", "north.csv", "south hill.csv", "--target", "temp", "--port", str(first)]) == 0
    for file in (here / "agents").glob("*.toml"):
        file.write_text(f"{file.read_text()}model = {{size = 50}}\n")
    capsys.readouterr()
    assert cli.main(["up", "agents", "--seconds", "60", "--json"]) == 0
    said = capsys.readouterr()
    learners = json.loads(said.out)["learners"]
    assert [(each["name"], each["samples"], each["state"]) for each in learners] == [
        ("north", 40, "done"),
        ("south-hill", 40, "done"),
    ]
    assert f"north: http://127.0.0.1:{first}/" in said.err
    lines = (here / "agents" / "north.predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["time"] for line in lines[:2]] == [
        "2024-01-01T00:00:00.000Z",
        "2024-01-01T01:00:00.000Z",
    ]


def test_up_outlives_an_agent_that_dies_and_starts_it_again(here):
    assert cli.main(["init", "north.csv", "south hill.csv", "--target", "temp", "--follow"]) == 0
    command = [sys.executable, "-m", "domkl", "up", "agents", "--json"]
    log, said = here / "agents" / "north.log", here / "said"
    with said.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            until(lambda: '"event": "status"' in log.read_text())
            os.kill(int((here / "agents" / "north.state" / checkpoint.LOCK).read_text()), signal.SIGKILL)
            until(lambda: '"event": "resumed"' in log.read_text())
            until(lambda: "north started again 1 time" in said.read_text())
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        finally:
            process.kill()
    assert "south-hill started again" not in said.read_text()


def until(what, seconds=60.0):
    """What something says, as soon as it says anything."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if found := what():
                return found
        time.sleep(0.1)
    raise TimeoutError


def test_up_refuses_folders_and_options_that_do_not_go_together(here, capsys):
    (here / "empty").mkdir()
    assert cli.main(["up", "empty"]) == 2
    assert "empty has no agent's file; expected NAME.toml" in capsys.readouterr().err
    for option in (["--rounds", "3"], ["--page", "127.0.0.1:1"], ["--no-start"], ["--transport", "mqtt"]):
        assert cli.main(["up", "empty", *option]) == 2
        assert f"{option[0]} is given with the folder empty" in capsys.readouterr().err
    assert cli.main(["up", "--seconds", "3"]) == 2
    assert "--seconds is for a folder" in capsys.readouterr().err


def test_up_takes_data_of_ones_own(here, capsys):
    argv = ["up", "--data", "north.csv", "--target", "temp", "--rounds", "10", "--size", "50", "--json"]
    assert cli.main(argv) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["dataset"], said["rounds"], said["same_bits"]) == ("north.csv", 10, True)


def test_a_name_that_is_no_text_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"a.toml would hold '\\udcff', which is no character"):
        fleet.write_folder(tmp_path / "new", {"a.toml": "stream = {path = '\udcff.csv'}"}, None)
    assert not list(tmp_path.iterdir())


def test_a_learners_name_in_a_table_leads_to_no_other_folder(here, capsys):
    rows = "".join(f"{who},{i},{i}\n" for i in range(20) for who in ("../out", "b"))
    (here / "who.csv").write_text("who,a,y\n" + rows)
    argv = ["up", "--data", "who.csv", "--target", "y", "--learner-column", "who", "--folder", "in/agents"]
    assert cli.main(argv) == 2
    assert "a learner is '../out'; expected 1 to 64 letters" in capsys.readouterr().err
    assert not list(here.rglob("out*"))

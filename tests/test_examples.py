"""The stories in examples/, each from nothing: a folder, the commands, what comes out."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from brokers import MOSQUITTO, free_ports, running

NAMES = ("ewr", "jfk", "lga")
EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="not a checkout")


def environment():
    """Ours with the domkl of this Python, and no settings of agents."""
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DOMKL_")}
    return {**kept, "PATH": path, "COLUMNS": "100"}


def story(name, folder, *args):
    """Run a script in a folder; returns what it printed."""
    command = ["sh", EXAMPLES / name / "story.sh", *args]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(name):
    text = re.sub(r"\\\n", " ", (EXAMPLES / name / "story.sh").read_text())
    return [line for line in text.splitlines() if line.startswith("domkl ")]


def test_a_raw_csv_becomes_predictions_a_model_and_an_explanation(tmp_path):
    assert [line.split()[1] for line in commands("bakery")] == ["run", "predict", "explain"]
    said = story("bakery", tmp_path)
    with (tmp_path / "tomorrow.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        assert row["time"].startswith("2023-07-0")
        assert float(row["low"]) < float(row["y_hat"]) < float(row["high"])
    with (tmp_path / "results" / "predictions.csv").open() as file:
        learnt = [row for row in csv.DictReader(file) if row["y"]][300:]
    errors = [abs(float(row["y_hat"]) - float(row["y"])) for row in learnt]
    mean = sum(float(row["y"]) for row in learnt) / len(learnt)
    spread = [abs(float(row["y"]) - mean) for row in learnt]
    assert sum(errors) < 0.5 * sum(spread)
    assert (tmp_path / "results" / "model.domkl").stat().st_size > 1000
    matter = said[said.index("What matters to the prediction of") :]
    assert all(name in matter for name in ("Date", "Shop", "Weather", "Price (EUR)", "Holiday"))


def test_the_sales_are_those_that_their_script_makes():
    spec = importlib.util.spec_from_file_location("make", EXAMPLES / "bakery" / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.rows(module.FIRST, module.DAYS, 1, True)
    assert (EXAMPLES / "bakery" / "sales.csv").read_text().splitlines() == made


def test_an_algorithm_and_a_dataset_of_ones_own_are_in_a_latex_table(tmp_path):
    pytest.importorskip("river")
    assert len(commands("researcher")) == 1
    story("researcher", tmp_path, str(tmp_path / "table.tex"))
    table = (tmp_path / "table.tex").read_text()
    assert table.count(r"\begin{tabular}") == table.count(r"\end{tabular}") == 1
    rows = [line for line in table.splitlines() if line.endswith(r"\\")]
    assert len({line.count("&") for line in rows}) == 1
    (mine,) = [line for line in rows if line.startswith("mine:LastDays")]
    assert float(mine.split("&")[2].strip(" }").removeprefix(r"\textbf{")) > 0
    assert any(line.startswith("domkl, auto") for line in rows)
    assert "sales.csv" in table


@pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
def test_sensors_behind_a_password_become_predictions_on_a_topic_and_a_page(tmp_path):
    assert len(commands("mqtt")) <= 5
    users = {"weather": "a secret"}
    with running(tmp_path, users=users) as broker, sensors(broker), Reader(broker) as reader:
        (port,) = free_ports(1)
        said = until(reader.has_seen_all, tmp_path, broker.address, str(port), port=port, reader=reader)
    for name in NAMES:
        text = (tmp_path / "agents" / f"{name}.toml").read_text()
        assert len(text.splitlines()) <= 7
        assert "secret" not in text
        last = reader.predictions[name][-1]
        assert last["target"] == "temp"
        assert last["low"] < last["y_hat"] < last["high"]
        assert last["time"].startswith("2013-")
    assert all("<html" in page for page in reader.pages.values())
    assert "3 devices that predict temp" in said


def until(fact, folder, *args, port, reader):
    """Run the story of the sensors until something was seen, then stop it as Ctrl-C would."""
    environ = {**environment(), "BROKER_PASSWORD": "a secret"}
    command = ["sh", EXAMPLES / "mqtt" / "story.sh", *args]
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            end = time.monotonic() + 60
            while not fact(port) and process.poll() is None and time.monotonic() < end:
                time.sleep(0.1)
            assert fact(port), (reader.pages.keys(), {k: len(v) for k, v in reader.predictions.items()})
        finally:
            os.killpg(process.pid, signal.SIGINT)
            said, _ = process.communicate(timeout=20)
    return said


@contextlib.contextmanager
def sensors(broker):
    command = [sys.executable, EXAMPLES / "mqtt" / "sensors.py", "--broker", broker.address]
    command += ["--user", "weather", "--rate", "15", "--count", "5000"]
    process = subprocess.Popen(command, env={**os.environ, "SENSORS_PASSWORD": "a secret"})
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


class Reader:
    """What somebody sees who subscribes to predictions/# and opens the devices' pages."""

    def __init__(self, broker):
        paho = pytest.importorskip("paho.mqtt.client")
        self.predictions, self.pages = {}, {}
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        self.client.username_pw_set("weather", "a secret")
        self.client.on_connect = lambda client, *_: client.subscribe("predictions/#")
        self.client.on_message = self._on_message
        self.client.connect("127.0.0.1", broker.port)

    def _on_message(self, client, data, message):
        name = message.topic.split("/")[1]
        self.predictions.setdefault(name, []).append(json.loads(message.payload))

    def has_seen_all(self, first):
        """Whether there are predictions with bounds of every device, and its page."""
        for port in {first, first + 1, first + 2} - {*self.pages}:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
                self.pages[port] = page.read().decode()
        last = [self.predictions.get(name, [{}])[-1] for name in NAMES]
        return len(self.pages) == 3 and all(record.get("low") is not None for record in last)

    def __enter__(self):
        self.client.loop_start()
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()

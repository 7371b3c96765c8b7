"""Agents that forecast: readings on a topic, the values to come on another."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import math
import subprocess
import sys
import threading
import time

import paho.mqtt.client as mqtt
import pytest

from brokers import MOSQUITTO, running
from domkl import cli
from domkl.agent import Agent, AgentConfig
from domkl.agent.config import CheckpointSection, OutputSection, RoundSection, StreamSection, TransportSection
from domkl.agent.streams import Reading
from domkl.base.errors import InputError
from domkl.models.settings import Auto, Paper, RateSpec

HOUR = 3600.0
#: A Wednesday at noon.
START = 1_700_049_600.0


def given(name="a", neighbours=(), **more):
    sections = {
        "stream": StreamSection(horizon="1h..3h"),
        "transport": TransportSection(kind="memory"),
        "model": Auto(size=60),
        "rounds": RoundSection(start=2.0),
        **more,
    }
    return AgentConfig("net", name, tuple(neighbours), inputs=1, **sections)


def daily(hour, phase=0.0):
    return 20 + 5 * math.sin(math.tau * (hour + phase) / 24)


async def hours(first, last, phase=0.0):
    for n in range(first, last):
        yield Reading(n, [0.0], daily(n, phase), time=START + HOUR * n)
        await asyncio.sleep(0)


def run(config, stream):
    out = []
    asyncio.run(asyncio.wait_for(Agent(config, stream=stream, out=out.append).run(), 60))
    return out


def test_forecasts_have_no_more_digits_than_tell_something():
    stream = StreamSection(horizon="1h..3h", target_low=-12.1, target_high=38.0)
    for record in run(given(stream=stream, output=OutputSection(coverage=0.8)), hours(0, 60)):
        numbers = [record["now"], *(point[key] for point in record["forecast"] for key in ("y_hat", "low"))]
        assert all(len(f"{abs(each)!r}".replace(".", "").strip("0")) <= 12 for each in numbers if each)


def test_each_lead_is_forecast_and_learnt():
    out = run(given(), hours(0, 24 * 12))
    last = out[-1]
    assert [point["lead"] for point in last["forecast"]] == ["1h", "2h", "3h"]
    assert (last["lead"], last["y_hat"]) == ("1h", last["forecast"][0]["y_hat"])
    for k, point in enumerate(last["forecast"], 1):
        assert abs(point["y_hat"] - daily(24 * 12 - 1 + k)) < 0.5


def test_an_absurd_target_is_refused_and_changes_no_forecast():
    async def odd():
        async for reading in hours(0, 100):
            yield dataclasses.replace(reading, y=1e9) if reading.index == 90 else reading

    out = []
    agent = Agent(given(), stream=odd(), out=out.append)
    asyncio.run(asyncio.wait_for(agent.run(), 60))
    assert max(point["y_hat"] for each in out[90:] for point in each["forecast"]) < 40
    assert agent.metrics()["readings_refused"] == {"absurd": 1}


def test_forecasts_that_wait_for_labels_survive_a_restart(tmp_path):
    whole = run(given(), hours(0, 200))
    kept = given(checkpoint=CheckpointSection(str(tmp_path), sync=False))
    first, second = run(kept, hours(0, 120)), run(kept, hours(120, 200))
    assert [each["y_hat"] for each in (*first, *second)] == [each["y_hat"] for each in whole]


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"rounds": RoundSection("sync")}, "mode sync; expected async"),
        ({"model": Paper(rates=RateSpec(horizon=9))}, r"\[model\] paper; expected kind auto"),
        ({"model": Auto(loss="logistic")}, "loss logistic; expected kind auto of numbers"),
    ],
)
def test_what_does_not_go_with_a_horizon_is_refused(more, wrong):
    with pytest.raises(InputError, match=wrong):
        given(**more)


def test_a_horizon_that_is_none_is_refused():
    with pytest.raises(InputError, match="horizon is 'soon'; expected a time"):
        StreamSection(horizon="soon")


class House:
    """Three rooms that publish their temperature, humidity and time; and what comes back."""

    def __init__(self, address):
        self.forecasts, self.entities, self._stop = {}, {}, threading.Event()
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self._client.on_message = self._receive
        host, port = address.split(":")
        self._client.connect(host, int(port))
        self._client.subscribe([("predictions/#", 0), ("homeassistant/#", 0)])
        self._client.loop_start()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _receive(self, client, data, message):
        kept = self.entities if message.topic.startswith("homeassistant/") else self.forecasts
        if message.payload:  # else an entity that is not wanted
            kept[message.topic] = json.loads(message.payload)

    def _publish(self):
        for n in range(10_000):
            for phase, room in enumerate(("bath", "hall", "kitchen")):
                moment = {"time": START + 1200.0 * n, "humid": 50 + n % 7, "temp": daily(n / 3, phase)}
                self._client.publish(f"sensors/{room}/env", json.dumps(moment))
            if self._stop.wait(0.1):
                return

    def close(self):
        self._stop.set()
        self._thread.join()
        self._client.disconnect()
        self._client.loop_stop()


@pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
def test_three_sensors_and_two_commands_to_a_temperature_one_hour_ahead(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with running(tmp_path) as broker, contextlib.closing(House(broker.address)) as house:
        about = ["--broker", broker.address, "--topic", "sensors/+/env", "--target", "temp"]
        assert cli.main(["init", *about, "--horizon", "1h", "--time", "time", "--home-assistant"]) == 0
        with subprocess.Popen([sys.executable, "-m", "domkl", "up", "agents"], stderr=subprocess.PIPE) as up:
            try:
                until = time.monotonic() + 60
                while len(house.forecasts) < 3 or min(r["index"] for r in house.forecasts.values()) < 60:
                    assert up.poll() is None
                    assert time.monotonic() < until
                    time.sleep(0.1)
            finally:
                up.terminate()
                up.communicate()
    for topic, found in house.forecasts.items():
        assert topic in ("predictions/bath", "predictions/hall", "predictions/kitchen")
        assert (found["target"], found["lead"]) == ("temp", "1h")
        assert abs(found["y_hat"] - found["now"]) < 3
    (entity,) = (one for one in house.entities.values() if one["unique_id"].endswith("kitchen_predicted"))
    assert entity["state_topic"] == entity["json_attributes_topic"] == "predictions/kitchen"

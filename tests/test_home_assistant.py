"""Home Assistant finds an agent's predictions at a real broker; scripts/check_doors.py asks its own code."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading

import jinja2
import pytest

from brokers import MOSQUITTO, running
from domkl import cli
from domkl.agent import Agent, config, homeassistant
from domkl.agent.homeassistant import Device
from domkl.base.errors import InputError

paho = pytest.importorskip("paho.mqtt.client")
needs_broker = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
TOPIC = re.compile(r"homeassistant/(sensor|binary_sensor)/[a-zA-Z0-9_-]+/config")
#: What Home Assistant's documents allow and want, for what is used here: type, and whether it is needed.
SCHEMA = {
    "name": (str, True),
    "unique_id": (str, True),
    "state_topic": (str, True),
    "value_template": (str, True),
    "availability_topic": (str, True),
    "availability_template": (str, False),
    "device": (dict, True),
    "origin": (dict, True),
    "unit_of_measurement": (str, False),
    "device_class": (str, False),
    "state_class": (str, False),
}
PREDICTION, STATE = "field/pump/prediction", "field/pump/prediction/state"
FILE = """
network = "field"
[columns]
target = "temp"
features = ["humid"]
[stream]
topic = "sensors/pump"
broker = "{broker}"
user = "pump"
password = "a secret"
[output]
topic = "field/pump/prediction"
coverage = 0.8
home_assistant = true
unit = "°C"
device_class = "temperature"
predictions = ""
alarm_rate = 0.01
"""


@pytest.mark.parametrize(
    ("prediction", "shown"),
    [
        ({"y_hat": 21.306956444534244, "low": None}, ("21.307", "None")),
        ({"y_hat": 123456.7}, ("123460.0", "None")),
        ({"y_hat": -1.23456789e-7, "low": 3}, ("-1.2346e-07", "3.0")),
    ],
)
def test_numbers_have_sensible_digits(prediction, shown):
    for entity, text in zip(("predicted", "low"), shown, strict=True):
        template = jinja2.Template(homeassistant.ENTITIES[entity][1])
        assert template.render(value_json=prediction) == text


def test_a_forecast_is_an_attribute_for_charts_and_for_emhass():
    forecast = [
        {"time": f"2026-01-01T0{h}:00:00Z", "y_hat": h * 100.0, "low": 0.0, "high": 1.0} for h in (1, 2)
    ]
    text = jinja2.Template(homeassistant.CURVE).render(value_json={"lead": "1h", "forecast": forecast})
    assert json.loads(text) == {"lead": "1h", "forecast": forecast, "values": [100.0, 200.0]}


def check(topic, payload):
    """A discovery message as the documents say; returns it."""
    assert TOPIC.fullmatch(topic), topic
    found = json.loads(payload)
    assert found.keys() <= SCHEMA.keys()
    for key, (kind, is_needed) in SCHEMA.items():
        assert isinstance(found[key], kind) if key in found else not is_needed, key
    assert found["device"]["identifiers"]
    assert found["origin"]["name"]
    assert "sensor/" not in topic or "binary" in topic or found["state_class"] == "measurement"
    return found


class Home:
    """A client that keeps the last message of every topic, as Home Assistant does."""

    def __init__(self, broker, user="home", password="another"):
        self.topics, self.changed = {}, threading.Condition()
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self.client.username_pw_set(user, password)
        self.client.on_message = self._on_message
        self.client.on_connect = lambda client, *_: client.subscribe("#")
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()

    def _on_message(self, client, data, message):
        with self.changed:
            self.topics[message.topic] = message.payload
            if not message.payload:
                del self.topics[message.topic]
            self.changed.notify_all()

    async def wait(self, fact):
        def until():
            with self.changed:
                assert self.changed.wait_for(lambda: fact(self.topics), 10), self.topics

        await asyncio.to_thread(until)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()


@needs_broker
def test_entities_appear_have_values_become_unavailable_and_are_removed(tmp_path, capsys):
    with running(tmp_path, users={"pump": "a secret", "home": "another"}) as broker:
        (tmp_path / "pump.toml").write_text(FILE.format(broker=broker.address))
        asyncio.run(seen(broker, config.load(tmp_path / "pump.toml", {})))
        assert cli.main(["agent", str(tmp_path / "pump.toml"), "--remove-entities"]) == 0
        assert "removed from Home Assistant" in capsys.readouterr().out
        with Home(broker) as home:
            asyncio.run(asyncio.sleep(0.3))
            assert [topic for topic in home.topics if topic.startswith("homeassistant/")] == []
            assert STATE not in home.topics


async def seen(broker, settings):
    agent = Agent(settings)
    running_agent = asyncio.create_task(agent.run())
    with Home(broker) as home:
        await home.wait(lambda topics: topics.get(STATE) == b"online")
        messages = {topic: body for topic, body in home.topics.items() if topic.startswith("homeassistant/")}
        found = {topic.split("/")[2]: check(topic, body) for topic, body in messages.items()}
        assert {*found} == {f"domkl_field_pump_{what}" for what in ("predicted", "low", "high", "alarm")}
        assert len({each["unique_id"] for each in found.values()}) == 4
        for each in found.values():
            assert (each["state_topic"], each["availability_topic"]) == (PREDICTION, STATE)
        for what in ("predicted", "low", "high"):
            each = found[f"domkl_field_pump_{what}"]
            assert (each["unit_of_measurement"], each["device_class"]) == ("°C", "temperature")
        assert found["domkl_field_pump_alarm"]["device_class"] == "problem"
        for t in range(30):
            reading = {"humid": t % 7, "temp": 20 + t % 7 + t % 3}
            home.client.publish("sensors/pump", json.dumps(reading))
        await home.wait(lambda topics: json.loads(topics.get(PREDICTION, "{}")).get("index") == 29)
        last = json.loads(home.topics[PREDICTION])
        assert last["low"] < last["y_hat"] < last["high"]
        assert last["alarm"] is False
        agent.stop()
        await running_agent
        await home.wait(lambda topics: topics.get(STATE) == b"offline")


@needs_broker
def test_a_learner_that_is_killed_becomes_unavailable_by_its_last_will(tmp_path):
    async def main():
        agent = Agent(config.load(tmp_path / "pump.toml", {}))
        running_agent = asyncio.create_task(agent.run())
        with Home(broker) as home:
            await home.wait(lambda topics: topics.get(STATE) == b"online")
            agent.topics.guest._client.socket().shutdown(2)  # the line is cut: nothing is said
            await home.wait(lambda topics: topics.get(STATE) == b"offline")
            await home.wait(lambda topics: topics.get(STATE) == b"online")  # and comes back by itself
        agent.stop()
        await running_agent

    with running(tmp_path, users={"pump": "a secret", "home": "another"}) as broker:
        (tmp_path / "pump.toml").write_text(FILE.format(broker=broker.address))
        asyncio.run(main())


@needs_broker
def test_a_learner_whose_transport_is_the_broker_is_available_by_its_state(tmp_path):
    own = "domkl/field/pump/"

    async def main():
        agent = Agent(config.load(tmp_path / "pump.toml", {}))
        running_agent = asyncio.create_task(agent.run())
        with Home(broker) as home:
            await home.wait(lambda topics: b"ready" in topics.get(f"{own}state", b""))
            config_topic = "homeassistant/sensor/domkl_field_pump_predicted/config"
            found = check(config_topic, home.topics[config_topic])
            assert (found["state_topic"], found["availability_topic"]) == (f"{own}prediction", f"{own}state")
            assert await asyncio.to_thread(cli_removes, tmp_path / "pump.toml") == 0
            await home.wait(lambda topics: config_topic not in topics)
            assert b"ready" in home.topics[f"{own}state"]  # nobody was told that the learner is lost
            agent.stop()
            await running_agent
            await home.wait(lambda topics: topics.get(f"{own}state") == b"lost")

    with running(tmp_path, users={"home": "another"}) as broker:
        (tmp_path / "pump.toml").write_text(
            f'network = "field"\ntransport = {{broker = "{broker.address}", user = "home", '
            'password = "another"}\n'
            'stream = {topic = "sensors/pump"}\ncolumns = {target = "temp", features = ["humid"]}\n'
            'output = {home_assistant = true, predictions = ""}\n'
        )
        asyncio.run(main())


def cli_removes(file):
    command = [sys.executable, "-m", "domkl", "agent", str(file), "--remove-entities"]
    return subprocess.run(command, check=False, capture_output=True).returncode


def test_without_bounds_their_entities_are_removed_and_names_stay_apart():
    one, other = (Device("n", name, "y", "p", "s") for name in ("a.b", "a_2eb"))
    messages = one.messages({"predicted": True})
    assert [bool(body) for body in messages.values()] == [True, False, False, False]
    assert not {*messages} & {*other.messages({})}
    (topic, body), *_ = messages.items()
    found = check(topic, body)
    assert "value_json.state" in found["availability_template"]
    assert "unit_of_measurement" not in found


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            "[output]\nhome_assistant = true",
            "there is no MQTT broker; expected one that Home Assistant reads",
        ),
        ('[output]\ndevice_class = "Hot!"', "device_class is 'Hot!'; expected"),
        ('[output]\ndiscovery_prefix = "a/#"', "discovery_prefix is 'a/#'; expected"),
        (f'[output]\nunit = "{"x" * 40}"', "unit has 40 characters"),
    ],
)
def test_bad_settings_are_refused(tmp_path, text, wrong):
    (tmp_path / "a.toml").write_text(f"inputs = 1\n{text}")
    with pytest.raises(InputError, match=re.escape(wrong)):
        config.load(tmp_path / "a.toml", {})

"""Checks what domkl exchanges with Home Assistant, Grafana and ROS 2 against their own code; takes minutes.

    python scripts/check_doors.py [FOLDER]

Needs a package index, and makes virtual environments in FOLDER (a temporary one by default):

- homeassistant 2024.3.3 (the last for Python 3.11): every discovery message must be valid for the schema of
  its component, and the templates must give the right states, rendered by Home Assistant's own engine;
- grafana-foundation-sdk (Grafana's published model of dashboards): deploy/grafana/domkl.json must survive
  being read and written;
- rosbags (ROS 2's message definitions): examples/ros2/bridge.py must read what it serialises.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = {
    "home-assistant": ["homeassistant==2024.3.3", "paho-mqtt==1.6.1"],
    "grafana": ["grafana-foundation-sdk"],
    "ros2": ["rosbags"],
}
#: Payloads and the states that Home Assistant must show for them: predicted, low, high, alarm.
STATES = {
    '{"y_hat": 21.5, "low": 20.25, "high": 22.75, "alarm": false}': ("21.5", "20.25", "22.75", "OFF"),
    '{"y_hat": 21.5, "low": null, "high": null, "alarm": true}': ("21.5", "None", "None", "ON"),
    '{"y_hat": -1e-7}': ("-1e-07", "None", "None", ""),
}
AVAILABILITY = {'{"state": "init"}': "online", '{"state": "ready"}': "online", '{"state": "done"}': "offline"}
AVAILABILITY |= {"lost": "offline", "": "offline"}


def main() -> None:
    """Make the environments and run each check in its own."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        given = {"home-assistant": messages(), "grafana": dashboard(), "ros2": ""}
        for what, packages in PACKAGES.items():
            python = environment(folder / what, packages)
            subprocess.run([python, __file__, "--inside", what], input=given[what], text=True, check=True)


def environment(folder: pathlib.Path, packages: list[str]) -> str:
    """A Python that has the packages."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(python)


def messages() -> str:
    """Discovery messages of an agent with everything, and of one with little."""
    from domkl.agent.homeassistant import ENTITIES, Device

    full = Device("field.1", "pump_3", "temp", "field/temp", "domkl/f/p/state", False, "°C", "temperature")
    bare = Device("n", "a", "y", "field/y", "field/y/state", is_plain=True)
    found = [device.messages(dict.fromkeys(ENTITIES, True)) for device in (full, bare)]
    return json.dumps([[topic, payload.decode()] for each in found for topic, payload in each.items()])


def dashboard() -> str:
    return (ROOT / "deploy" / "grafana" / "domkl.json").read_text(encoding="utf-8")


def check_home_assistant(given: str) -> None:
    """Inside of Home Assistant's environment."""
    from homeassistant.components.mqtt import binary_sensor, discovery, sensor

    schemas = {"sensor": sensor.DISCOVERY_SCHEMA, "binary_sensor": binary_sensor.DISCOVERY_SCHEMA}
    configs = []
    for topic, payload in json.loads(given):
        found = discovery.TOPIC_MATCHER.match(topic.removeprefix("homeassistant/"))
        assert found, topic
        told = json.loads(payload)
        config = schemas[found["component"]](dict(told))
        lost = told.keys() - config.keys()
        assert not lost, f"{topic}: {lost} is unknown there"  # it would be dropped in silence
        configs.append(config)
    asyncio.run(_check_states(configs))
    print(
        f"home-assistant: {len(configs)} discovery messages are valid, their templates give the right states"
    )


async def _check_states(configs: list[dict]) -> None:
    from homeassistant.core import HomeAssistant

    hass = HomeAssistant(tempfile.gettempdir())
    for payload, states in STATES.items():
        for config, state in zip(configs, states * 2, strict=True):
            assert _rendered(hass, config["value_template"], payload) == state, (payload, state)
    for payload, state in AVAILABILITY.items():
        assert _rendered(hass, configs[0]["availability_template"], payload) == state, (payload, state)
    await hass.async_stop(force=True)


def _rendered(hass: object, template: object, payload: str) -> str:
    template.hass = hass
    return str(template.async_render_with_possible_json_value(payload, "failed"))


def check_grafana(given: str) -> None:
    """Inside of the environment with Grafana's models."""
    from grafana_foundation_sdk.cog import encoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    told = json.loads(given)
    again = json.loads(encoder.JSONEncoder().encode(Dashboard.from_json(told)))
    _check_kept(told, again, "dashboard")
    print(f"grafana: the dashboard's {len(told['panels'])} panels survive Grafana's own model")


def _check_kept(told: object, again: object, where: str) -> None:
    """Whether everything that was told is still there."""
    if isinstance(told, dict):
        for key, value in told.items():
            if value not in ({}, []):
                assert key in again, f"{where}.{key} is unknown there"
                _check_kept(value, again[key], f"{where}.{key}")
    elif isinstance(told, list):
        assert len(told) == len(again), where
        for i, value in enumerate(told):
            _check_kept(value, again[i], f"{where}[{i}]")
    else:
        assert told == again, f"{where} became {again!r}"


def check_ros2(given: str) -> None:
    """Inside of the environment with ROS 2's messages."""
    from rosbags.typesys import Stores, get_typestore

    sys.path.insert(0, str(ROOT / "examples" / "ros2"))
    import bridge

    store = get_typestore(Stores.ROS2_JAZZY)
    header = store.types["std_msgs/msg/Header"](
        store.types["builtin_interfaces/msg/Time"](7, 250_000_000), "ab"
    )
    for kind, fields in bridge.TYPES.items():
        values = {name: _example(letter, header) for name, letter in (f.split(":") for f in fields.split())}
        found = bridge.decode(kind, bytes(store.serialize_cdr(store.types[kind](**values), kind)))
        plain = {name: value for name, value in values.items() if name != "header"}
        told = {"time": 7.25, "frame_id": "ab"} if "header" in values else {}
        assert found == told | plain, (kind, found)
    print(f"ros2: {len(bridge.TYPES)} types of messages are read as rosbags writes them")


def _example(letter: str, header: object) -> object:
    return {"h": header, "?": True, "i": -5}.get(letter, 1.5)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        checks = {"home-assistant": check_home_assistant, "grafana": check_grafana, "ros2": check_ros2}
        checks[sys.argv[2]](sys.stdin.read())
    else:
        main()

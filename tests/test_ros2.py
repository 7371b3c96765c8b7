"""ROS 2 messages on Zenoh become readings of an agent; ROS 2 itself is not run."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import pathlib
import re
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers import free_ports
from domkl.agent import Agent, config

zenoh = pytest.importorskip("zenoh")
ROOT = pathlib.Path(__file__).parent.parent
BRIDGE = ROOT / "examples" / "ros2" / "bridge.py"
pytestmark = pytest.mark.skipif(not BRIDGE.exists(), reason="not a checkout")
TEMPERATURE = "sensor_msgs/msg/Temperature"
#: As rosbags 0.11 serialises it: stamp 5.5 s, frame "base", 21.5 degrees, variance 0.25.
MESSAGE = bytes.fromhex(
    "00010000050000000065cd1d050000006261736500000000000000000000000000803540000000000000d03f"
)


def bridge():
    spec = importlib.util.spec_from_file_location("bridge", BRIDGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_message_is_decoded_and_one_that_is_cut_refused():
    reading = {"time": 5.5, "frame_id": "base", "temperature": 21.5, "variance": 0.25}
    assert bridge().decode(TEMPERATURE, MESSAGE) == reading
    for length in range(len(MESSAGE)):
        with pytest.raises(ValueError, match=r"CDR|short"):
            bridge().decode(TEMPERATURE, MESSAGE[:length])
    big = b"\x00\x00\x00\x00" + struct.pack(">d", 1.5)
    assert bridge().decode("std_msgs/msg/Float64", big) == {"data": 1.5}


@given(st.binary(max_size=60), st.sampled_from(sorted(bridge().TYPES)))
def test_no_bytes_end_the_bridge(data, kind):
    try:
        found = bridge().decode(kind, data)
    except ValueError:
        return
    assert isinstance(found, dict)


def test_an_agent_learns_from_messages_on_a_ros_key(tmp_path):
    asyncio.run(asyncio.wait_for(learnt(tmp_path), 30))


async def learnt(folder):
    ros, inner = (f"127.0.0.1:{port}" for port in free_ports(2))
    page = (ROOT / "docs" / "howto-ros2.md").read_text()
    text = re.search(r"(?s)```toml\n(.*?)```", page)[1].replace("127.0.0.1:7450", inner)
    (folder / "robot.toml").write_text(text)
    router = zenoh.Config.from_json5(
        json.dumps({"listen": {"endpoints": [f"tcp/{ros}"]}, "scouting": {"multicast": {"enabled": False}}})
    )
    command = [sys.executable, BRIDGE, "0/env/temperature/**", "sensors/robot/env", TEMPERATURE]
    command += ["--connect", f"tcp/{ros}", "--listen", f"tcp/{inner}"]
    records = []
    with zenoh.open(router) as robot, subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        await asyncio.to_thread(process.stdout.readline)
        agent = Agent(config.load(folder / "robot.toml", {}), out=records.append)
        running = asyncio.create_task(agent.run())
        try:
            key = "0/env/temperature/sensor_msgs::msg::dds_::Temperature_/RIHS01_72514a"
            for second in itertools.count(5):
                if len(records) >= 3:
                    break
                robot.put(key, MESSAGE[:4] + struct.pack("<i", second) + MESSAGE[8:])
                robot.put(key, b"broken")
                await asyncio.sleep(0.1)
        finally:
            agent.stop()
            await running
            process.terminate()
    assert {record["target"] for record in records} == {"temperature"}
    assert {record["time"][:17] + record["time"][19:] for record in records} == {"1970-01-01T00:00:.500Z"}
    assert {record["y"] for record in records} == {21.5}

"""`domkl graph`: an operator changes a network that is running."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import subprocess
import sys
import time

import numpy as np
import pytest

import brokers
import domkl
from domkl import cli
from domkl.agent import certs, load
from domkl.agent.loop import Agent
from domkl.agent.streams import aiter_of
from domkl.agent.transports import Hub, MemoryTransport, TransportSettings
from domkl.cli import graph
from domkl.lab import experiment, fleet, trial

pytest.importorskip("zenoh")

#: Seconds after which a test gives up.
LONG = 120
CONFIG = """
network = "field"
name = "{name}"
neighbours = {neighbours}
inputs = 1
[model]
size = 60
[transport]
kind = "memory"
"""


async def samples():
    """A slow sensor."""
    rng = np.random.default_rng(0)
    while True:
        x = rng.uniform(size=1)
        yield x, float(x[0])
        await asyncio.sleep(0.01)


def make_agent(folder, hub, name, neighbours):
    path = folder / f"{name}.toml"
    path.write_text(CONFIG.format(name=name, neighbours=json.dumps(neighbours)))
    config = load(path, {})
    transport = MemoryTransport(config.transport_settings(), hub)
    return Agent(config, transport, aiter_of(samples(), 1), lambda said: None)


@contextlib.asynccontextmanager
async def running(agents):
    tasks = [asyncio.create_task(agent.run()) for agent in agents]
    try:
        yield
    finally:
        for agent in agents:
            agent.stop()
        await asyncio.gather(*tasks)


async def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def operator(hub):
    return MemoryTransport(TransportSettings("memory", "field", "operator"), hub)


def test_learners_take_a_graph_and_say_so(tmp_path):
    async def main():
        hub = Hub()
        near = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
        agents = {name: make_agent(tmp_path, hub, name, near[name]) for name in near}
        async with running(agents.values()):
            await until(lambda: all(agent.learner.round > 3 for agent in agents.values()))
            links = graph.parse("a-b,a-c")
            found = await graph._announce(operator(hub), ["a", "b", "c"], links, 7, wait=20)
            assert found == dict.fromkeys("abc", graph.GraphState("ready", 7))
            await until(lambda: sorted(agents["a"].learner.neighbours) == ["b", "c"])
            await until(lambda: agents["b"].learner.neighbours == ("a",))
            await until(lambda: agents["c"].learner.neighbours == ("a",))
            before = agents["c"].learner.round
            await until(lambda: agents["c"].learner.round > before + 3)
            await until(lambda: agents["b"].learner.topology.known["c"][1] == ("a",))  # which a passed on
            older = await graph._announce(operator(hub), ["a", "b"], [("a", "b")], 6, wait=0.5)
            assert {state.graph for state in older.values()} == {7}  # which they keep

    asyncio.run(main())


def test_whoever_does_not_answer_is_named_and_graphs_are_said_again(tmp_path):
    async def main():
        hub = Hub()
        heard = MemoryTransport(TransportSettings("memory", "field", "a"), hub)
        await heard.open()
        heard.subscribe("domkl/field/operator/#")
        found = await graph._announce(operator(hub), ["a", "b"], [("a", "b")], 7, wait=1.5)
        assert found == dict.fromkeys("ab", graph.GraphState("no answer", 0))
        said = [json.loads(payload) for topic, payload in await heard.receive() if topic.endswith("graph")]
        assert said == [{"version": 7, "links": [["a", "b"]]}] * len(said)
        assert len(said) >= 2
        await heard.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"state": "ready", "round": 3, "graph": 9}', ("ready", 9)),
        (b"lost", ("lost", 5)),
        (b"[]", ("lost", 5)),
        (b"\xff", ("lost", 5)),
        (b'{"state": "ready"}', ("lost", 5)),
    ],
)
def test_states(payload, expected):
    assert graph._state(payload, graph.GraphState("ready", 5)) == expected


@pytest.fixture
def stations(tmp_path):
    """Three real processes along a path, 50 samples a second each."""

    @contextlib.contextmanager
    def start(transport):
        loaded, model = experiment.load("three-stations"), domkl.Auto(size=120)
        chosen = dataclasses.replace(loaded, graphs=("EWR-JFK,JFK-LGA",), model=model)
        names = fleet.lay_out(tmp_path / "fleet", chosen, trial.prepare(chosen), transport)
        with fleet.Fleet(tmp_path / "fleet", names, rate=50) as network:
            network.start()
            end = time.monotonic() + LONG
            while not all(network.status(name).get("round") for name in names):
                assert time.monotonic() < end
                assert network.running == names, [network.tail(name) for name in names]
                time.sleep(0.1)
            yield network

    return start


def announce(*argv):
    command = [sys.executable, "-W", "error", "-m", "domkl", "graph", *argv, "--network", "three-stations"]
    return subprocess.run(
        [*command, "--wait", "20", "--json"], capture_output=True, text=True, timeout=LONG, check=False
    )


def assert_all_hear_all(network):
    end = time.monotonic() + LONG
    while [network.status(name).get("up") for name in network.names] != [2, 2, 2]:
        assert time.monotonic() < end, [network.status(name) for name in network.names]
        time.sleep(0.1)


def test_processes_over_zenoh_with_certificates(stations, tmp_path):
    folder = tmp_path / "certs"
    certs.make(folder, ["EWR", "JFK", "LGA", "operator"])
    files = {"ca": folder / "ca.pem", "cert": folder / "{name}.pem", "key": folder / "{name}.key"}
    with stations({"kind": "zenoh", **{key: str(path) for key, path in files.items()}}) as network:
        address = load(network.folder / "JFK.toml", {}).transport.listen[0]
        options = ["--connect", address]
        for key, path in files.items():
            options += [f"--{key}", str(path).replace("{name}", "operator")]
        done = announce("EWR-JFK,JFK-LGA,LGA-EWR", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        document = json.loads(done.stdout)
        assert document["taken"] is True
        assert {learner["graph"] for learner in document["learners"]} == {document["version"]}
        assert_all_hear_all(network)


@pytest.mark.skipif(brokers.MOSQUITTO is None, reason="mosquitto is not installed")
def test_processes_over_mqtt(stations, tmp_path):
    with (
        brokers.running(tmp_path) as broker,
        stations({"kind": "mqtt", "broker": broker.address}) as network,
    ):
        done = announce("EWR:JFK,JFK:LGA,LGA:EWR", "--transport", "mqtt", "--broker", broker.address)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_all_hear_all(network)


def test_nobody_there_is_one_line_and_exit_code_2(capsys):
    (port,) = brokers.free_ports(1)
    argv = ["graph", "a-b", "--network", "field", "--connect", f"127.0.0.1:{port}", "--version", "3"]
    assert cli.main([*argv, "--wait", "0.3"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "graph 3\na: not taken (no answer)\nb: not taken (no answer)\n"
    assert captured.err.startswith("domkl: a, b did not take graph 3 within 0.3 s; expected")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["a-b"], ["--connect is not given", "add --connect HOST:PORT"]),
        (["a-b", "--connect", "127.0.0.1"], ["'127.0.0.1'", "host:port"]),
        (["a-b", "--connect", "10.1.2.3:7447"], ["10.1.2.3:7447", "domkl certs DIRECTORY operator"]),
        (["a-b", "--broker", "127.0.0.1:9", "--connect", "127.0.0.1:9"], ["--broker is not for zenoh"]),
        (["a-b", "--transport", "mqtt", "--connect", "127.0.0.1:9"], ["--connect is not for mqtt"]),
        (["a-b", "--transport", "mqtt", "--broker", "127.0.0.1:9"], ["broker 127.0.0.1:9", "refused"]),
        (["a-b", "--connect", "127.0.0.1:9", "--ca", "ca.pem"], ["cert and key not given"]),
        (["a-b", "--connect", "127.0.0.1:9", "--version", "0"], ["--version is 0"]),
        (["a-b,c-d", "--connect", "127.0.0.1:9"], ["not connected", "'c'"]),
        (["a-a", "--connect", "127.0.0.1:9"], ["'a' is linked to itself"]),
        (["a", "--connect", "127.0.0.1:9"], ["link 'a'", "a-b,b-c"]),
        (["a-b,", "--connect", "127.0.0.1:9"], ["link ''"]),
        (["x-1-y", "--connect", "127.0.0.1:9"], ["link 'x-1-y'", "x-1:x-2"]),
        (["a-ä", "--connect", "127.0.0.1:9"], ["'ä'"]),
        (["a-operator", "--connect", "127.0.0.1:9"], ["'operator'"]),
    ],
)
def test_bad_requests_give_one_line_and_exit_code_2(capsys, argv, parts):
    assert cli.main(["graph", *argv, "--network", "field", "--wait", "0.1"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    for part in parts:
        assert part in captured.err

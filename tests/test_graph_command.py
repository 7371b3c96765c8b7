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
from domkl.agent import topology as graphs
from domkl.agent.loop import Agent
from domkl.agent.streams import aiter_of
from domkl.agent.transports import Hub, MemoryTransport, TransportSettings
from domkl.base.errors import InputError
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


async def samples(pause=0.01):
    """A slow sensor."""
    rng = np.random.default_rng(0)
    while True:
        x = rng.uniform(size=1)
        yield x, float(x[0])
        await asyncio.sleep(pause)


def make_agent(folder, hub, name, neighbours, pause=0.01):
    path = folder / f"{name}.toml"
    path.write_text(CONFIG.format(name=name, neighbours=json.dumps(neighbours)))
    config = load(path, {})
    transport = MemoryTransport(config.transport_settings(), hub)
    return Agent(config, transport, aiter_of(samples(pause), 1), lambda said: None)


@contextlib.asynccontextmanager
async def running(agents, round=3):
    tasks = [asyncio.create_task(agent.run()) for agent in agents]
    try:
        await until(lambda: all(agent.learner.round > round for agent in agents))
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


def path_of_three(folder, hub, pause=0.01):
    near = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
    return {name: make_agent(folder, hub, name, near[name], pause) for name in near}


async def ask(hub, *argv):
    """`domkl graph` in this process; its arguments without those that reach the network."""
    args = cli.parser().parse_args(["graph", *argv, "--network", "field", "--wait", "1.5"])
    links = args.links and graph.parse(args.links)
    await (graph._change(operator(hub), links, args) if links else graph._show(operator(hub), args))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("domkl.agent.topology.QUIET", 0.2)


def test_learners_take_a_graph_and_say_so(tmp_path, capsys):
    async def main():
        hub = Hub()
        agents = path_of_three(tmp_path, hub)
        async with running(agents.values()):
            await ask(hub, "a-b,a-c", "--yes")
            await until(lambda: sorted(agents["a"].learner.neighbours) == ["b", "c"])
            await until(lambda: agents["b"].learner.neighbours == ("a",))
            await until(lambda: agents["c"].learner.neighbours == ("a",))
            before = agents["c"].learner.round
            await until(lambda: agents["c"].learner.round > before + 3)
            await ask(hub)

    asyncio.run(main())
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if "─" not in line]
    assert said == [
        *("Graph 1, beside the present one", "change links or learners", "added a-c", "removed b-c"),
        *("Graph 1", "learner state graph taken", "a ready 1 yes", "b ready 1 yes", "c ready 1 yes"),
        *("Network field: 3 learners, 2 links", "learner state graph neighbours"),
        *("a ready 1 b, c", "b ready 1 a", "c ready 1 a", "links: a-b, a-c"),
    ]


def test_a_network_without_readings_takes_a_graph_at_once(tmp_path):
    async def main():
        hub = Hub()
        agents = path_of_three(tmp_path, hub, pause=3600)
        async with running(agents.values(), round=0):
            await ask(hub, "a-b,b-c,a-c", "--yes")
            assert {agent.neighbourhood.graph for agent in agents.values()} == {1}
            assert list(agents["a"].peers) == ["b", "c"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["a-b,b-z", "--yes"], ["z did not answer", "learners that run: a, b, c", "--add z"]),
        (["a-b", "--yes"], ["leave out c", "--drop c"]),
        (["a-b,b-c"], ["not confirmed", "--yes"]),
        (["a-b,b-c", "--drop", "c", "--yes"], ["--drop names c"]),
        (["a-b,b-c", "--add", "d", "--yes"], ["--add names d"]),
        (["a-b,a-c", "--version", str(2**61), "--yes"], ["a, b, c did not take graph 2305843009213693952"]),
    ],
)
def test_what_may_be_a_slip_changes_nothing(tmp_path, argv, parts):
    async def main():
        hub = Hub()
        agents = path_of_three(tmp_path, hub)
        async with running(agents.values()):
            with pytest.raises(InputError) as caught:
                await ask(hub, *argv)
            assert [list(agent.peers) for agent in agents.values()] == [["b"], ["a", "c"], ["b"]]
            return str(caught.value)

    error = asyncio.run(main())
    for part in parts:
        assert part in error


def test_a_learner_is_dropped_by_name_and_another_added_before_it_starts(tmp_path, capsys):
    async def main():
        hub = Hub()
        agents = path_of_three(tmp_path, hub)
        async with running(agents.values()):
            await ask(hub, "a-b,b-d", "--drop", "c", "--add", "d", "--yes", "--json")
            await until(lambda: [*agents["c"].peers] == [] and [*agents["b"].peers] == ["a", "d"])
            async with running([make_agent(tmp_path, hub, "d", ["b"])]):
                await until(lambda: "d" in agents["b"].learner.neighbours)

    asyncio.run(main())
    document = json.loads(capsys.readouterr().out)
    assert (document["dropped"], document["later"], document["taken"]) == (["c"], ["d"], True)
    held = {learner["name"]: (learner["graph"], learner["taken"]) for learner in document["learners"]}
    assert held == {"a": (1, True), "b": (1, True), "c": (1, True), "d": (0, False)}


def test_nobody_locks_the_operator_out(tmp_path):
    async def main():
        hub = Hub()
        agents = path_of_three(tmp_path, hub)
        forged = operator(hub)
        liar = MemoryTransport(TransportSettings("memory", "field", "liar"), hub)
        lie = {"state": "ready", "graph": 2**61, "neighbours": [], "addresses": ["10.0.0.1:1", "x"]}
        async with running(agents.values()):
            await forged.open()
            for version in (2**62, 2**62 - 1, graphs.STEP + 1, 2**63 - 1, -1, 0, True, 1.5):
                links = [["a", "b"], ["b", "c"], ["c", "a"]]
                forged.publish("domkl/field/operator/graph", graphs.encode(version, links, {}, ()))
            agents["a"].neighbourhood.graph = 3 * graphs.STEP  # a version that somebody has used up there
            await liar.open()
            liar.publish("domkl/field/liar/state", json.dumps(lie).encode(), retain=True)
            await ask(hub, "a-b,b-c,c-a", "--drop", "liar", "--yes", "--version", str(3 * graphs.STEP + 1))
            assert {agent.neighbourhood.graph for agent in agents.values()} == {3 * graphs.STEP + 1}
            assert agents["b"].refused["graph"] >= 8
            await liar.close()
            await forged.close()

    with pytest.raises(InputError, match="liar did not take graph"):
        asyncio.run(main())


@pytest.fixture
def stations(tmp_path):
    """Three real processes along a path, 20 samples a second each."""

    @contextlib.contextmanager
    def start(transport):
        loaded, model = experiment.load("three-stations"), domkl.Auto(size=120)
        chosen = dataclasses.replace(loaded, graphs=("EWR-JFK,JFK-LGA",), model=model)
        names = fleet.lay_out(tmp_path / "fleet", chosen, trial.prepare(chosen, 4000), transport)
        with fleet.Fleet(tmp_path / "fleet", names, rate=20) as network:
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
        [*command, "--wait", "20", "--json", "--yes"],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
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
    argv = ["graph", "--network", "field", "--connect", f"127.0.0.1:{port}", "--wait", "0.3"]
    for links, error in (
        (["a-b"], "a, b did not answer; expected learners that run: nobody"),
        ([], "nobody answered"),
    ):
        assert cli.main([*argv, *links]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        warning, line, rest = captured.err.split("\n")
        assert warning == "no certificates: anybody who reaches this network can change its graph"
        assert (line.startswith(f"domkl: {error}"), rest) == (True, "")


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
    assert captured.err.replace("no certificates: anybody", "").count("\n") <= 2, captured.err
    for part in parts:
        assert part in captured.err


def test_an_operator_may_have_a_password_at_a_broker(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("geheim\n")
    given = ["graph", "--network", "n", "--user", "op"]
    file = ["--password-file", str(tmp_path / "secret")]
    made = graph._transport(cli.parser().parse_args([*given, *file, "--transport", "mqtt"]))
    assert (made.settings.user, made.settings.password) == ("op", "geheim")
    monkeypatch.setenv("BROKER_PASSWORD", "other")
    made = graph._transport(cli.parser().parse_args([*given, "--transport", "mqtt"]))
    assert made.settings.password == "other"
    with pytest.raises(InputError, match="--user is not for zenoh"):
        graph._transport(cli.parser().parse_args([*given, "--connect", "a"]))

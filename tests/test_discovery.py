"""Learners that find each other: by their names on one machine, by multicast on a local network."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

import netns
import problems
from domkl.agent import AgentConfig, certs, load
from domkl.agent.config import RoundSection, TransportSection
from domkl.agent.transports import security
from domkl.agent.transports.names import local_address
from domkl.agent.transports.zenoh import configuration
from domkl.base.errors import InputError
from inmemory import PAPER, Agent, aiter_of, d, together

LINES = """\
neighbours = ["{other}"]
columns = {{target = "y"}}
stream = {{path = "{name}.csv"}}
output = {{predictions = "{name}.out"}}
transport = {transport}
model = {{size = 16}}
"""


def network_of(names, **transport):
    section = TransportSection(**transport)
    return [
        AgentConfig(
            "found",
            name,
            tuple(other for other in names if other != name),
            inputs=d,
            model=PAPER,
            transport=section,
            rounds=RoundSection(start=20.0),
        )
        for name in names
    ]


def test_neighbours_on_one_machine_need_no_addresses():
    X, y = problems.streams(3, 25, d)
    agents = [
        Agent(each, stream=aiter_of(zip(X[j], y[j], strict=True), d), out=len)
        for j, each in enumerate(network_of("abc"))
    ]
    asyncio.run(together(*agents))
    assert [agent.learner.round for agent in agents] == [25, 25, 25]
    assert all(peer.received_at > 0 for agent in agents for peer in agent.peers.values())
    assert {*agents[0].transport.settings.connect} == {local_address("found", name) for name in "bc"}


def test_addresses_follow_from_names():
    names = [f"l{j}" for j in range(200)]
    for platform in ("linux", "darwin"):
        found = [local_address("net", name, platform) for name in names]
        assert all(map(security.is_local, found))
        assert len({*found}) > 190
        assert found == [local_address("net", name, platform) for name in names]
    assert local_address("net", "a") != local_address("other", "a")
    given = network_of("ab", listen=("127.0.0.1:7447",))[0].transport_settings()
    assert (given.listen, given.connect) == (("127.0.0.1:7447",), ())


def test_a_local_network_needs_certificates_or_leave():
    settings = network_of("ab", discover="lan")[0].transport_settings()
    with pytest.raises(InputError, match=r"0\.0\.0\.0:0 is not a loopback address and no certificates"):
        configuration(settings)
    made = configuration(network_of("ab", discover="lan", insecure=True)[0].transport_settings())
    assert made["scouting"]["multicast"]["enabled"]


def test_learners_find_each_other_on_a_local_network(tmp_path):
    """Two machines that know each other's names alone, over TLS."""
    if reason := netns.supported():
        pytest.skip(reason)
    certs.make(tmp_path, ["a", "b"])
    with netns.connected(["a", "b"]) as net:
        started = [start(tmp_path, net, name, other) for name, other in ("ab", "ba")]
        done = [each.communicate(timeout=60) for each in started]
    for name, (_, log), process in zip("ab", done, started, strict=True):
        assert process.returncode == 0, log
        last = json.loads(log.splitlines()[-1])
        assert (last["up"], last["samples"]) == (1, 30), log
        assert len((tmp_path / f"{name}.out").read_text().splitlines()) == 30


def start(folder, net, name, other):
    files = f'ca = "ca.pem", cert = "{name}.pem", key = "{name}.key"'
    text = LINES.format(name=name, other=other, transport=f'{{discover = "lan", {files}}}')
    assert len(text.splitlines()) == 6
    (folder / f"{name}.toml").write_text(text)
    (folder / f"{name}.csv").write_text("u,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(30)))
    load(folder / f"{name}.toml", {})
    space = net.spaces[name]
    subprocess.run(["ip", "-n", space, "route", "add", "default", "dev", device(space)], check=False)
    command = [*net.within(name), sys.executable, "-m", "domkl", "agent", f"{name}.toml"]
    return subprocess.Popen(command, cwd=folder, stdout=-1, stderr=-1, text=True)


def device(space):
    """The network interface of a machine, besides loopback."""
    found = json.loads(netns.run("ip", "-n", space, "-j", "link"))
    return next(each["ifname"] for each in found if each["ifname"] != "lo")

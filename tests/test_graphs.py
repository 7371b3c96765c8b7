"""Graphs of an operator as agents check them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

import inmemory
from domkl import cli
from domkl.agent import Agent
from domkl.agent import topology as graphs
from domkl.agent.config import TransportSection
from domkl.agent.transports import TransportSettings
from domkl.base.errors import InputError
from domkl.cli import graph

pytest.importorskip("zenoh")

LOCAL = TransportSettings("zenoh", "field", "a", listen=("127.0.0.1:1",))
LINKS = [["a", "b"], ["b", "c"]]
ADDRESSES = {"b": ["127.0.0.1:7447"], "c": ["127.0.0.1:7448"]}


def document(**changes):
    return json.dumps(
        {"version": 3, "links": LINKS, "addresses": ADDRESSES, "dropped": [], **changes}
    ).encode()


def test_a_learner_sees_its_neighbours_and_their_addresses():
    found = graphs.decode(document(), LOCAL)
    assert found == (3, ("b",), {"b": ("127.0.0.1:7447",)})
    again = graphs.encode(3, [("a", "b"), ("b", "c")], {"b": ("127.0.0.1:7447",)}, ())
    assert graphs.decode(again, LOCAL) == found


def test_only_who_is_dropped_by_name_stays_alone():
    links = [["b", "c"]]
    assert graphs.decode(document(links=links, dropped=["a"]), LOCAL).neighbours == ()
    with pytest.raises(InputError, match="the graph leaves a out"):
        graphs.decode(document(links=links), LOCAL)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"version": 3}',
        b"[" * 100_000,
        document(version=True),
        document(version=-1),
        document(version=1e300),
        document(version=float("nan")),
        document(links=[["a", "b", "c"]]),
        document(links=[["a", "a"]]),
        document(links=[["a", "b"], ["c", "d"]]),
        document(links=[["a", "operator"]]),
        document(links=[["a", "b/#"]]),
        document(links=[["a", f"n{i}"] for i in range(graphs.MOST_LEARNERS)]),
        document(links=7),
        document(dropped=7),
        document(addresses=7),
        document(addresses={"b": "127.0.0.1:7447"}),
        document(addresses={"b": [7]}),
        document(addresses={"b": ["127.0.0.1:7447"] * 9}),
        document(addresses={"b": ["127.0.0.1"]}),
        document(addresses={"b": ["127.0.0.1#iface=eth0:1"]}),
        document(addresses={"b": [f"{'x' * 300}:1"]}),
        document(addresses={"b": ["10.0.0.1:7447"]}),  # without certificates only loopback
    ],
)
def test_what_cannot_be_right_is_refused(payload):
    with pytest.raises(InputError):
        graphs.decode(payload, LOCAL)


@pytest.mark.parametrize("changes", [{"ca": "ca.pem", "cert": "a.pem", "key": "a.key"}, {"insecure": True}])
def test_other_machines_need_certificates_or_permission(changes):
    settings = TransportSettings("zenoh", "field", "a", **changes)
    found = graphs.decode(document(addresses={"b": ["10.0.0.1:7447"]}), settings)
    assert found.addresses == {"b": ("10.0.0.1:7447",)}


@pytest.mark.parametrize(("held", "version", "good"), [(0, 1, True), (7, 7, False), (7, 6, False)])
def test_versions_grow(held, version, good):
    new = graphs.NewGraph(version, (), {})
    assert_accepted(new, held, good)


@pytest.mark.parametrize("held", [0, 5, 2**61])
def test_a_version_far_ahead_is_refused(held):
    assert_accepted(graphs.NewGraph(held + graphs.STEP, (), {}), held, True)
    assert_accepted(graphs.NewGraph(held + graphs.STEP + 1, (), {}), held, False)


def assert_accepted(new, held, good):
    try:
        graphs.check_version(new, held)
    except InputError:
        assert not good
    else:
        assert good


def test_an_agent_without_certificates_says_what_that_means(log):
    section = TransportSection(listen=("127.0.0.1:7447",))
    Agent(inmemory.config("a", ["b"], transport=section))
    (line,) = [line for line in log() if line["event"].startswith("no certificates")]
    assert line["level"] == "warning"
    assert "change its graph" in line["event"]


@pytest.mark.parametrize(("answer", "expected"), [("y", True), ("YES", True), ("", False), ("no", False)])
def test_a_person_is_asked_on_a_terminal_only(monkeypatch, answer, expected):
    monkeypatch.setattr("builtins.input", lambda words: answer)
    args = cli.parser().parse_args(["graph", "a-b", "--network", "net"])
    for terminal in (True, False):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda yes=terminal: yes))
        assert graph._is_confirmed(args) is (expected and terminal)


@pytest.mark.parametrize("version", [-1, graphs.LAST + 1, 2**63, 10**30])
def test_no_version_is_above_one_that_nobody_can_hold(version):
    state = {"state": "ready", "graph": version, "neighbours": ["b"], "addresses": []}
    network = graphs.LiveNetwork(SimpleNamespace(settings=LOCAL))
    network.handle([("domkl/field/a/state", json.dumps(state).encode())])
    assert network.next_version() == 1
    assert not network.live

"""Networks that lose, delay and cut off; the full scenarios are run by benchmarks/chaos.py."""

from __future__ import annotations

import pytest

import netns
from brokers import MOSQUITTO

pytest.importorskip("msgspec")
pytest.importorskip("cryptography")

KINDS = ["zenoh", "mqtt"]
#: Beside the deadline: a busy machine is slow to notice that it is over.
MARGIN = 1.3


def skip_without(kind, delay=False):
    reason = netns.supported(delay)
    if reason:
        pytest.skip(reason)
    if kind == "zenoh":
        pytest.importorskip("zenoh")
    elif kind == "mqtt":
        pytest.importorskip("paho.mqtt.client")
        if MOSQUITTO is None:
            pytest.skip("there is no mosquitto here")


def check(facts, T, deadline):
    assert facts["whole"], facts
    assert facts["learnt"] == [T] * len(facts["learnt"]), facts
    assert facts["duals"] <= 1e-9, facts
    assert facts["error_ratio"] <= 1.05, facts
    assert max(facts["stalls"].values()) <= deadline + MARGIN, facts


def test_learners_on_a_slow_network_that_loses_packets(tmp_path):
    skip_without("zenoh", delay=True)
    facts = netns.lossy(tmp_path, "zenoh", rounds=25, deadline=3.0)
    check(facts, T=25, deadline=3.0)


@pytest.mark.parametrize("kind", KINDS)
def test_learners_cut_off_from_each_other_go_on_and_meet_again(kind, tmp_path):
    skip_without(kind)
    facts = netns.partitioned(tmp_path, kind, seconds=2.2, deadline=0.5, before=0.6, after=3.0)
    check(facts, T=290, deadline=0.5)  # who waits for the others while they are away has a stall of 2.2 s
    assert all(events.get("neighbour lost") for events in facts["events"].values()), facts
    assert any(events.get("neighbour joined") for events in facts["events"].values()), facts


def test_a_network_delays_loses_and_is_cut():
    reason = netns.supported(delay=True)
    if reason:
        pytest.skip(reason)
    with netns.connected(["a", "b", "c"], delay=20) as net:
        assert min(net.round_trip("a", "b") for _ in range(3)) > 0.035  # 20 ms each way, as timers round
        net.partition(["a"], ["b", "c"])
        assert net.round_trip("a", "b", timeout=0.3) == float("inf")
        assert net.round_trip("b", "c") < 5
        net.heal()
        net.loss("a", 100)
        assert net.round_trip("a", "b", timeout=0.3) == float("inf")
        net.loss("a", 0)
        assert net.round_trip("a", "b") < 5

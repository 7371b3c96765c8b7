"""Reports pass from neighbour to neighbour; a liar can neither fill nor end anybody, nor speak for them."""

from __future__ import annotations

import contextlib
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domkl.agent import gossip
from domkl.agent.gossip import Gossip, Report
from domkl.base.errors import PeerError

NEAR = {"name": "b", "up": True, "trust": 0.5}


def status(**more):
    return {
        "state": "ready",
        "round": 7,
        "samples": 7,
        "rmse": 1.5,
        "neighbours": [NEAR],
        "weights": [["own", 1.0]],
        **more,
    }


def reports(*found):
    return json.dumps([{"version": 1, **each} for each in found]).encode()


def names(found):
    return [each["name"] for each in json.loads(found or b"[]")]


def test_news_reach_everybody_once():
    """Along a line of five, each tick one step further; then all is quiet."""
    line = [Gossip(name) for name in "abcde"]
    near = {a: [b for b in "abcde" if abs(ord(a) - ord(b)) == 1] for a in "abcde"}
    sent = 0
    for tick in range(8):
        for one in line:
            one.report(status(), now=0.0)
        messages = [(one.name, payload) for one in line if (payload := one.take_news())]
        sent += len(messages)
        for sender, payload in messages:
            for name in near[sender]:
                line["abcde".index(name)].receive(sender, payload, near[name], now=float(tick))
    assert all(set(one.known) == set("abcde") for one in line)
    assert {name: line[0].via[name] for name in "bcde"} == dict.fromkeys("bcde", "b")
    assert not any(one.take_news() for one in line)
    assert sent <= 5 * 5 * 2


def test_a_report_is_repeated_after_a_while_or_with_another_state():
    one = Gossip("a")
    for now, state, is_new in (
        (0, "init", True),
        (1, "init", False),
        (2, "ready", True),
        (3, "ready", False),
        (8, "ready", True),
    ):
        one.report(status(state=state), float(now))
        assert bool(one.take_news()) is is_new, now


def test_what_is_reported_is_what_is_shown():
    a, b = Gossip("a"), Gossip("b")
    a.report(status(bytes_sent=10, rows_refused=3, faults=["secret"], learner="a"), 0.0)
    b.receive("a", a.take_news(), {"a"}, 1.0)
    (shown,) = b.statuses(3.0, ["own"])
    assert (shown["learner"], shown["round"], shown["rmse"], shown["bytes_sent"]) == ("a", 7, 1.5, 10)
    assert (shown["neighbours"], shown["weights"]) == ([NEAR], [["own", 1.0]])
    assert (shown["via"], shown["age"]) == (None, 2.0)
    assert "faults" not in shown


def test_a_neighbour_cannot_speak_for_another_neighbour_or_for_us():
    one = Gossip("a")
    one.report(status(round=3), 0.0)
    one.receive("b", reports({"name": "b", "round": 1}, {"name": "far", "round": 2}), {"b", "c"}, 0.0)
    one.receive(
        "b", reports({"name": "c", "version": 5}, {"name": "a", "version": 9, "round": 99}), {"b", "c"}, 0.0
    )
    assert {name: report.round for name, report in one.known.items()} == {"a": 3, "b": 1, "far": 2}


def test_a_forged_or_earlier_report_of_ours_is_outrun():
    one, forged = Gossip("a"), 2**40
    one.report(status(), 0.0)
    one.receive("b", reports({"name": "a", "version": forged}), {"b"}, 0.0)
    one.report(status(), 0.1)
    assert json.loads(one.take_news())[0]["version"] == forged + 1
    one.receive(
        "b", reports({"name": "a", "version": 2**62}), {"b"}, 0.0
    )  # cannot be outrun, so it is nothing
    one.report(status(), 9.0)
    assert json.loads(one.take_news())[0]["version"] == forged + 2


def test_a_neighbour_whose_clock_went_back_receives_its_past():
    one = Gossip("a")
    one.receive("b", reports({"name": "b", "version": 500}), {"b"}, 0.0)
    one.take_news()
    one.receive("b", reports({"name": "b", "version": 3}), {"b"}, 0.0)
    assert names(one.take_news()) == ["b"]
    assert one.known["b"].version == 500


def test_versions_far_ahead_are_not_believed():
    one = Gossip("a")
    one.receive("b", reports({"name": "x", "version": 2**41}, {"name": "y", "version": 10}), {"b"}, 0.0)
    one.receive("b", reports({"name": "y", "version": 11 + 2**26}), {"b"}, 0.0)
    assert {name: report.version for name, report in one.known.items()} == {"y": 10}


def test_invented_learners_are_bounded_and_give_way():
    one = Gossip("a")
    for n in range(0, 2000, 50):
        one.receive("b", reports(*({"name": f"x{n + k}"} for k in range(50))), {"b"}, 0.0)
    assert len(one.known) == gossip.MOST_LEARNERS
    one.receive("b", reports({"name": "real"}), {"b"}, gossip.OLD + 1)
    assert "real" in one.known
    assert len(one.known) == gossip.MOST_LEARNERS
    one.receive("c", reports({"name": "c"}, {"name": "beyond-c"}), {"b", "c"}, gossip.OLD + 1)
    assert {"c", "beyond-c"} <= one.known.keys()  # however many b invents
    assert len(one.known) == gossip.MOST_LEARNERS
    longest = {f"n{k:063d}": 1.0 for k in range(64)}
    for n in range(60):
        one.receive("b", reports({"name": f"x{n}", "version": 2, "links": longest}), {"b"}, 99.0)
    while payload := one.take_news():
        assert len(payload) <= gossip.MOST_BYTES


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "<script>"},
        {"name": "a b"},
        {"name": "x" * 65},
        {"name": "x\n"},
        {"version": -1},
        {"version": 2**63},
        {"round": 2**63 - 1},
        {"round": -1},
        {"round": 1.5},
        {"rmse": -1.0},
        {"rmse": 1e200},
        {"rmse": "1"},
        {"state": "hacked"},
        {"links": {"<b>": 1.0}},
        {"links": {"b": 2.0}},
        {"links": {f"n{k}": 1.0 for k in range(65)}},
        {"weights": [2.0]},
        {"weights": [0.1] * 65},
    ],
)
def test_wrong_reports_are_refused_as_a_whole(wrong):
    one = Gossip("a")
    with pytest.raises(PeerError):
        one.receive("b", reports({"name": "good"}, {"name": "bad", **wrong}), {"b"}, 0.0)
    assert one.known == {}


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
)
@settings(max_examples=50)
def test_any_bytes_are_reports_or_refused(payload):
    one = Gossip("a")
    with contextlib.suppress(PeerError):
        one.receive("b", payload, {"b"}, 0.0)
    assert one.known == {}


def test_a_long_message_is_not_read():
    with pytest.raises(PeerError, match="bytes"):
        Gossip("a").receive("b", b" " * (gossip.MOST_BYTES + 1), {"b"}, 0.0)


def test_fields_of_a_later_version_are_ignored():
    one = Gossip("a")
    one.receive("b", reports({"name": "b", "colour": "red"}), {"b"}, 0.0)
    assert one.known["b"] == msgspec.convert({"name": "b", "version": 1}, Report)

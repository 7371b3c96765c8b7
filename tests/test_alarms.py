"""Alarms at an asked rate: as the literal twin, calibrated, neither deaf nor deafening."""

from __future__ import annotations

import asyncio
import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from domkl import alarms
from domkl.agent.config import OutputSection
from domkl.agent.output import ReadingAlarms
from domkl.base.errors import InputError
from inmemory import PAPER, agents_of, config, configs, d, restarted, together


def noise(kind, T, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "heavy":
        return rng.standard_t(3, T)
    if kind == "whole":
        return rng.integers(-2, 3, T).astype(float)
    e = rng.standard_normal(T)
    if kind == "slow":
        for t in range(1, T):
            e[t] += 0.9 * e[t - 1]
    return e * 10 ** np.sin(np.arange(T) / 300) if kind == "changing" else e  # by a factor of 100


@pytest.mark.parametrize("kind", ["normal", "heavy", "whole"])
def test_readings_are_judged_as_by_the_literal_twin(kind):
    y = noise(kind, 900)
    y[500], y[700:720] = 40.0, y[699]
    expected = naive.alarms(np.zeros(900), y, 0.01, alarms)
    found = alarms.Alarms(0.01)
    judged = [found.judge(0.0, label) for label in y]
    np.testing.assert_allclose([j.surprise[0] for j in judged], [p for p, _ in expected], rtol=1e-9)
    assert [bool(j.alarm[0]) for j in judged] == [alarm for _, alarm in expected]


@pytest.mark.parametrize("kind", ["normal", "heavy", "slow", "changing", "whole"])
def test_false_alarms_are_as_frequent_as_asked_for(kind):
    y = np.stack([noise(kind, 5000, seed) for seed in range(2)])
    found = alarms.judge_all(np.zeros_like(y), y, 0.01)
    assert abs(found.alarm.sum() / 100 - 1) < 0.2, found.alarm.sum()


FAULTS = {
    "spike": lambda y: np.append(y, y[-1] + 12),
    "stuck": lambda y: np.append(y, np.full(12, y[-1])),
    "drift": lambda y: np.append(y, noise("normal", 40, 5) + 2.5),
    "unit": lambda y: np.append(y, 32 + 1.8 * noise("normal", 5, 5)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_raise_an_alarm_at_a_rate_far_below_one_in_the_window(fault):
    y = FAULTS[fault](noise("normal", 1500))
    assert alarms.judge_all(np.zeros((1, len(y))), y[None], 0.0005).alarm[0, 1500:].any()


def test_a_fault_is_neither_learnt_away_at_once_nor_does_it_silence_what_comes_later():
    y = noise("normal", 4000)
    y[1500:1800] += 100.0  # a unit that was mistaken, for long
    y[2600], y[3500] = 30.0, -30.0
    found = alarms.judge_all(np.zeros((1, 4000)), y[None], 0.001).alarm[0]
    assert found[1500]
    assert found[1550:1600].any()
    assert found[2600]
    assert found[3500]
    assert not found[1900:2600].any()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20), st.integers(0, 150))
def test_no_number_breaks_it_and_state_is_everything(odd, at):
    values = np.insert(noise("normal", 160), at, odd)
    one, other = alarms.Alarms(0.01, 2), alarms.Alarms(0.01, 2)
    for value in values[:-20]:
        one.judge([0.0, value], [value, 0.0])
    other.restore(one.state())
    for value in values[-20:]:
        a, b = one.judge([0.0, 1.0], [value, 1.0]), other.judge([0.0, 1.0], [value, 1.0])
        np.testing.assert_array_equal(a, b)
        assert ((a.surprise >= 0) & (a.surprise <= 1)).all()


def test_to_peek_changes_nothing():
    found = alarms.Alarms(0.01)
    for value in noise("normal", 300):
        found.judge(0.0, value)
    before = found.state()
    p = found.peek(0.0, 9.0)
    np.testing.assert_equal(found.state(), before)
    assert p == found.judge(0.0, 9.0).surprise[0]


@pytest.mark.parametrize("rate", [0, 1, -0.1, float("nan")])
def test_a_rate_that_cannot_be_is_refused(rate):
    with pytest.raises(InputError, match="rate is"):
        alarms.Alarms(rate)


def test_an_agent_counts_alarms_and_keeps_them_over_a_restart(caplog):
    one, other = ReadingAlarms(0.01), ReadingAlarms(0.01)
    for t, value in enumerate(noise("normal", 300)):
        one.judge(t, t, 0.0, value)
    count = one.count
    record = one.judge(300, 300, 0.0, 50.0)
    assert record["alarm"]
    assert record["surprise"] < 0.001
    assert one.count == count + 1
    other.restore(one.state())
    assert other.judge(301, 301, 0.0, 1.0) == one.judge(301, 301, 0.0, 1.0)
    assert other.count == one.count
    json.dumps(record)
    assert ReadingAlarms(None).judge(1, 1, 0.0, 50.0) == {}
    assert one.judge(0, 0, 0.0, 50.0) == {}  # before any label was learnt


def test_the_detector_of_river_raises_the_same_alarms():
    river = pytest.importorskip("domkl.river")
    rng = np.random.default_rng(0)
    X, detector, model = rng.uniform(size=(250, 2)), river.AlarmDetector(domkl.Paper(), 0.01), domkl.river
    twin, judge, found, expected = model.MultiKernelRegressor(domkl.Paper()), alarms.Alarms(0.01), [], []
    for t, row in enumerate(X):
        x, y = dict(enumerate(row.tolist())), float(row.sum() + (5.0 if t == 200 else 0.0))
        found.append(detector.classify(detector.score_one(x, y)))
        detector.learn_one(x, y)
        expected.append(bool(t and judge.judge(twin.predict_one(x), y).alarm[0]))
        twin.learn_one(x, y)
    assert found == expected
    assert found[200]


def test_agents_judge_as_a_run_does_also_after_a_restart(tmp_path):
    T, graph = 150, nx.path_graph(2)
    X, y = problems.streams(2, T, d)
    y[0, 140] += 30
    both = configs(graph, output=OutputSection(alarm_rate=0.05))
    outs = [[], []]
    asyncio.run(together(*agents_of(both, X, y, outs)))
    expected = domkl.simulate(X, y, graph, model=PAPER).alarms(y, 0.05)
    for j, out in enumerate(outs):
        assert "alarm" not in out[0]
        assert [record["alarm"] for record in out[1:]] == expected.alarm[j, 1:].tolist()
        assert [record["surprise"] for record in out[1:]] == expected.surprise[j, 1:].tolist()
    assert outs[0][140]["alarm"]
    agents, _ = restarted(both, X, y, tmp_path, at=120)
    assert [agent.store.alarms.count for agent in agents] == expected.alarm.sum(1).tolist()


def test_an_agent_of_classes_raises_no_alarms():
    with pytest.raises(InputError, match="learns classes"):
        config("a", model=domkl.Auto(loss="logistic"), output=OutputSection(alarm_rate=0.05))

"""Learners without settings on devices: the simulator's bits in any order, saved states, replays."""

from __future__ import annotations

import copy
import json
import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import domkl
import problems
from auto_networks import SIZE, duals, learners, simulated
from domkl.learning.auto import C
from domkl.learning.auto.memories import NEVER, Memories


def check_same(members, rows):
    state = rows.parameters
    for name in ("theta", "lam", "m"):
        found = np.concatenate([getattr(member.state, name) for member in members])
        np.testing.assert_array_equal(found, getattr(state, name), err_msg=name)
    for k, memory in enumerate(rows.memories.all):
        found = np.concatenate([member._row.model.memories.all[k].mean for member in members])
        np.testing.assert_array_equal(found, memory.mean, err_msg=f"memory {k}")


@pytest.mark.parametrize("engine", problems.ENGINES)
@settings(max_examples=3, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(problems.graphs(most=5), st.integers(1, 3), st.integers(1, 110), st.randoms(), st.booleans())
def test_devices_have_the_bits_of_a_network_in_one_process(engine, graph, d, T, rng, classify):
    X, y = problems.streams(len(graph), T, d, T, classify)
    X[0, ::5, 0] = np.nan
    loss = "logistic" if classify else "squared"
    expected, rows = simulated(graph, X, y, engine=engine, loss=loss)
    members = learners(graph, d, engine=engine, loss=loss)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, rng), expected)
    check_same(members, rows)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_late_labels_and_float32_have_the_networks_bits_too(dtype):
    graph, T, delay = nx.path_graph(3), 75, 4
    X, y = problems.streams(3, T, 2)
    model = domkl.Auto(size=SIZE)
    expected = domkl.simulate(X, y, graph, model=model, delay=delay, dtype=dtype)
    members, y_hat = learners(graph, 2, dtype=dtype), np.empty_like(y)
    alone = np.zeros(3)
    for t in range(T):
        y_hat[:, t] = [member.predict(X[j, t]) for j, member in enumerate(members)]
        if t >= delay:
            problems.feed(members, range(3), graph, X[:, t - delay], y[:, t - delay], random.Random(t))
            alone += [(member.step.alone - member.step.y) ** 2 for member in members]
    np.testing.assert_array_equal(y_hat, expected.y_hat)
    known = slice(None, T - delay)
    run = domkl.simulate(X[:, known], y[:, known], graph, model=model, delay=delay, dtype=dtype)
    np.testing.assert_allclose(alone / (T - delay), run.alone, rtol=1e-12)


@pytest.mark.parametrize("forgetting", ["none", 50.0])
def test_messages_hold_no_memories_where_changes_are_not_watched(forgetting):
    graph, model = nx.path_graph(3), domkl.Auto(size=SIZE, forgetting=forgetting)
    X, y = problems.streams(3, 80, 2)
    run, members = domkl.simulate(X, y, graph, model=model), problems.learners(graph, model, inputs=2)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), run.y_hat)
    shapes = members[0].shapes
    assert shapes.theta[1] + shapes.scalars < SIZE


def test_devices_bound_the_labels_that_a_network_in_one_process_does():
    graph, X, y = nx.cycle_graph(4), *problems.streams(4, 100, 2)
    wrong = np.random.default_rng(0).random(y.shape) < 0.05
    wrong[:, :10] = False  # what the first labels do to parameters may be refused by devices
    y[wrong] *= 1e4
    expected, rows = simulated(graph, X, y)
    members = learners(graph, 2)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), expected)
    check_same(members, rows)
    assert np.abs(expected[:, 20:]).max() < 100


def test_devices_drop_own_samples_where_a_network_in_one_process_does():
    graph, X, y = nx.path_graph(3), *problems.streams(3, 110, 2)
    y[0, 60:] = y[0, 60:] / 2 + 20
    expected, rows = simulated(graph, X, y)
    members = learners(graph, 2)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), expected)
    check_same(members, rows)
    assert rows.warm.skip[0] > 60
    assert rows.warm.skip[1:].tolist() == [0, 0]


def test_devices_follow_another_unit_as_a_network_in_one_process_does():
    graph, X, y = nx.path_graph(3), *problems.streams(3, 190, 2)
    y[0, 130:] = 1000 * y[0, 130:] + 5
    expected, rows = simulated(graph, X, y)
    members = learners(graph, 2)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), expected)
    check_same(members, rows)
    assert rows.unit.factor[0] == pytest.approx(1000, rel=0.3)
    assert rows.unit.factor[1:].tolist() == [1, 1]
    assert members[0].label_unit == (rows.unit.shift[0], rows.unit.factor[0])
    assert members[1].label_unit == (0, 1)


def changing(J, T, at):
    X, y = problems.streams(J, T, 3)
    y[:, at:] *= -1
    return X, y


@pytest.mark.usefixtures("short_warm_up")
def test_devices_agree_on_what_to_do_about_a_change():
    graph = nx.star_graph(2)
    X, y = changing(len(graph), 260, 200)  # after the scale is fixed
    expected, rows = simulated(graph, X, y)
    restarts = rows.memories.restarts
    renewed = rows.own_watch.since <= 260 - 200  # own samples that have started again
    assert restarts > 0 or renewed.all()
    members = learners(graph, 3)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), expected)
    check_same(members, rows)
    assert {member._row.model.memories.restarts for member in members} == {restarts}
    assert duals(members) < 1e-9


def disagreeing(at, T, seed):
    """Streams of four learners on a ring that change in different ways, so that not all give up the past."""
    X, y = problems.streams(4, T, 3, seed)
    y[2:, at:] *= -1
    y[:2, at:] = 0.3 * y[:2, at:] - 0.2
    return nx.cycle_graph(4), X, y


@pytest.mark.usefixtures("short_warm_up")
@pytest.mark.parametrize("engine", problems.ENGINES)
def test_devices_have_the_networks_bits_where_not_all_start_again(engine):
    graph, X, y = disagreeing(150, 250, 2)
    expected, rows = simulated(graph, X, y, engine=engine)
    assert set(rows.joint.restarts.tolist()) == {0, 1}
    members = learners(graph, 3, engine=engine)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), expected)
    check_same(members, rows)
    assert duals(members) < 1e-9


def test_what_some_have_given_up_counts_for_the_others_when_the_scale_is_fixed(short_warm_up):
    object.__setattr__(C, "warm_up", 256)  # put back by the fixture
    graph, X, y = disagreeing(110, 258, 4)
    expected, rows = simulated(graph, X[:, :255], y[:, :255])
    gone = rows.warm.gone
    assert sorted(set(gone.tolist())) == [0, 110]
    np.testing.assert_array_equal(rows.joint.own.judge.since, gone)
    stats = rows.warm.statistics()
    np.testing.assert_array_equal(stats.n[:, -1], 255 - gone)
    for j in range(4):
        np.testing.assert_allclose(stats.mean[j, :-1], X[j, gone[j] : 255].mean(0))
    members = learners(graph, 3)
    found = problems.fed(members, graph, X, y, random.Random(0))
    np.testing.assert_array_equal(found[:, :255], expected)
    expected, rows = simulated(graph, X, y)
    np.testing.assert_array_equal(found, expected)
    check_same(members, rows)
    assert rows.warm.over


def test_all_rows_know_of_a_decision_when_it_is_due(monkeypatch):
    seen, act = [], Memories._raise

    def check(self, votes, now, later):
        act(self, votes, now, later)
        for decision in (self.alarm, self.restart):
            if (decision[:, 0] == now).any():
                seen.append(now)
                assert len(np.unique(decision, axis=0)) == 1

    monkeypatch.setattr(Memories, "_raise", check)
    X, y = changing(9, 400, 250)
    simulated(nx.path_graph(9), X, y)
    assert len(seen) >= 2


def test_a_decision_on_its_way_outlives_the_round_that_fixes_the_scale(short_warm_up, monkeypatch):
    decide, pending = Memories.decide, {}

    def record(self, incoming, rounds, diameter):
        found = decide(self, incoming, rounds, diameter)
        pending[rounds] = (self.alarm[:, 0] < NEVER).any()
        return found

    monkeypatch.setattr(Memories, "decide", record)
    graph = nx.path_graph(3)
    X, y = problems.streams(3, short_warm_up + 15, 2)
    # All are alarmed, for a round soon after the last of the warm-up.
    y[:, short_warm_up - 12 :] = 30 + y[:, short_warm_up - 12 :][:, ::-1]
    expected, rows = simulated(graph, X, y)
    assert pending[short_warm_up]
    assert not pending[short_warm_up + 10]
    members = learners(graph, 2)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), expected)
    check_same(members, rows)


@pytest.mark.parametrize("at", [0, 3, 66, 131])
def test_a_saved_learner_goes_on_with_the_same_bits(at):
    graph, engine = nx.path_graph(3), problems.ENGINES[at % len(problems.ENGINES)]
    X, y = problems.streams(3, at + 30, 2)
    members, rng = learners(graph, 2, engine=engine), random.Random(0)
    problems.fed(members, graph, X[:, :at], y[:, :at], rng)
    arrays, meta = members[1].save()
    arrays = {name: array.copy() for name, array in arrays.items()}
    again = learners(graph, 2, engine=engine)[1]
    again.load(arrays, json.loads(json.dumps(meta)))
    twins = [*members[:1], again, *members[2:]]
    expected = problems.fed(copy.deepcopy(members), graph, X[:, at:], y[:, at:], rng)
    np.testing.assert_array_equal(problems.fed(twins, graph, X[:, at:], y[:, at:], rng), expected)


def test_what_others_saved_is_refused():
    one, other = learners(nx.path_graph(2), 2)[0], learners(nx.path_graph(2), 2, seed=1)[0]
    with pytest.raises(domkl.errors.DataError, match="fingerprint"):
        other.load(*one.save())


def test_a_prediction_is_of_what_is_known_now():
    graph = nx.path_graph(2)
    X, y = problems.streams(2, 12, 2)
    members = learners(graph, 2)
    problems.fed(members, graph, X[:, :10], y[:, :10], random.Random(0))
    updates = [member.observe(X[j, 10], y[j, 10]) for j, member in enumerate(members)]
    members[0].predict(X[0, 11])
    members[0].receive(1, updates[1])
    again = learners(graph, 2)[0]
    again.load(*members[0].save())
    assert members[0].predict(X[0, 11]) == again.predict(X[0, 11])


def test_predictions_without_labels_are_forgotten():
    one = learners(nx.path_graph(2), 2)[0]
    for k in range(3000):
        one.predict([k % 1500, 0.0])
    assert len(one._row.asked) == 1000


@pytest.mark.parametrize("payload", ["float32", "float16"])
def test_rounded_messages_keep_duals_that_cancel(payload):
    graph = nx.cycle_graph(3)
    X, y = problems.streams(3, 90, 2)
    members = learners(graph, 2, exchange=domkl.Exchange(payload))
    y_hat = problems.fed(members, graph, X, y, random.Random(0))
    assert duals(members) < 1e-9
    assert ((y_hat - y)[:, 60:] ** 2).mean() < 0.2 * y.var()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: one.observe([1.0], 1.0), "x has shape"),
        (lambda one: one.observe([1.0, np.inf], 1.0), "infinite"),
        (lambda one: one.observe([1.0, 2.0], np.nan), "y is nan"),
        (lambda one: one.close(), "no round is open"),
        (lambda one: one.receive("x", None), "'x' is not a neighbour"),
        (lambda one: one.take_links({0: None}), "links of 0 are None"),
    ],
)
def test_wrong_use_is_refused_in_one_line_and_changes_nothing(call, message):
    one = learners(nx.path_graph(2), 2)[0]
    with pytest.raises((domkl.errors.InputError, domkl.errors.PeerError), match=message) as caught:
        call(one)
    assert "\n" not in str(caught.value)
    assert one.round == 0
    assert not one.waiting


def copied(saved):
    arrays, meta = saved
    return {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(meta))


@pytest.mark.parametrize("seed", range(2))
def test_learners_that_go_back_and_replay_change_nothing_whatever_is_said_meanwhile(seed):
    graph, T, rng = nx.cycle_graph(3), 130, random.Random(seed)
    X, y = problems.streams(3, T, 2, seed)
    expected, _ = simulated(graph, X, y)
    members, sent, saved = learners(graph, 2, number=7), [], []
    y_hat = np.empty_like(y)
    for t in range(T):
        if t % 20 == 0:
            saved = [copied(member.save()) for member in members]
        if rng.random() < 0.06:
            j = rng.randrange(3)
            members[j] = replayed(j, members, graph, saved[j], sent, X, y)
        updates = []
        for j, member in enumerate(members):
            for i in range(j):
                member.meet(i, updates[i].edges[j])
            updates.append(member.observe(X[j, t], y[j, t]))
            y_hat[j, t] = member.step.y_hat
        for j, member in enumerate(members):
            for i in graph.neighbors(j):
                member.receive(i, updates[i])
        sent.append(updates)
    np.testing.assert_array_equal(y_hat, expected)


def replayed(j, members, graph, saved, sent, X, y):
    """Learner j from its checkpoint up to now; it and its neighbours hear of each other all the while."""
    again = learners(graph, 2, number=10**6)[j]
    again.load(*saved)
    for t in range(again.round, len(sent)):
        for i in graph.neighbors(j):
            again.meet(i, members[i].edges[j])
            members[i].meet(j, again.edges[i])
        again.observe(X[j, t], y[j, t])
        for i in graph.neighbors(j):
            again.receive(i, sent[t][i])
    return again


@pytest.mark.parametrize(("payload", "most"), [("float16", 65504.0), ("float64", 1e8)])
def test_parameters_too_large_to_send_are_sent_as_large_as_may_be(payload, most):
    graph, (X, y) = nx.path_graph(2), problems.streams(2, 80, 2)
    members = learners(graph, 2, exchange=domkl.Exchange(payload))
    problems.fed(members, graph, X[:, :79], y[:, :79], random.Random(0))
    joint = members[0]._row.model.joint
    joint.state = joint.state._replace(theta=np.full_like(joint.state.theta, 1e12), m=joint.state.m + 1e12)
    update = members[0].observe(X[0, 79], y[0, 79])
    assert np.abs(update.theta).max() == most
    members[1].receive(0, update)

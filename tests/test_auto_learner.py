"""A learner of preset "auto" on a device: the simulator's bits, whatever the order; faults; memory."""

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
from domkl.learning import auto

SIZE = 60


def learners(graph, d, **options):
    J, near = len(graph), problems.neighbours_of(graph)
    span = domkl.graph.as_graph(graph).diameter
    common = {"learners": list(range(J)), "diameter": span, "size": SIZE, **options}
    return [domkl.AutoLearner(d, near[j], name=j, **common) for j in range(J)]


def feed(members, graph, X, y, rng):
    y_hat = np.empty_like(y)
    for t in range(y.shape[1]):
        problems.feed(members, range(len(members)), graph, X[:, t], y[:, t], rng)
        y_hat[:, t] = [member.step.y_hat for member in members]
    return y_hat


def simulated(graph, X, y, **options):
    loss = domkl.losses.get(options.pop("loss", "squared"))
    network = auto.Network(domkl.graph.as_graph(graph), X.shape[-1], loss, size=SIZE, forgets=True, **options)
    sums = domkl.engines.Sums.zero(len(y), 2)
    return np.stack(list(auto.rounds(network, [(X, y)], 0, sums, lambda _: None)), 1), network


def check_same(members, network):
    state = network.state
    for name in ("theta", "lam", "m"):
        found = np.concatenate([getattr(member.state, name) for member in members])
        np.testing.assert_array_equal(found, getattr(state, name), err_msg=name)
    for k, memory in enumerate(network.memories):
        found = np.concatenate([member.one.memories[k].mean for member in members])
        np.testing.assert_array_equal(found, memory.mean, err_msg=f"memory {k}")


@pytest.mark.parametrize("engine", problems.ENGINES)
@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(problems.graphs(), st.integers(1, 3), st.integers(1, 140), st.randoms(), st.booleans())
def test_devices_have_the_bits_of_a_network_in_one_process(engine, graph, d, T, rng, classify):
    X, y = problems.streams(len(graph), T, d, T, classify)
    X[0, ::5, 0] = np.nan
    loss = "logistic" if classify else "squared"
    expected, network = simulated(graph, X, y, engine=engine, loss=loss)
    members = learners(graph, d, engine=engine, loss=loss)
    np.testing.assert_array_equal(feed(members, graph, X, y, rng), expected)
    check_same(members, network)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_late_labels_and_float32_have_the_networks_bits_too(dtype):
    graph, T, delay = nx.path_graph(3), 100, 4
    X, y = problems.streams(3, T, 2)
    expected = domkl.simulate(X, y, graph, preset="auto", size=SIZE, delay=delay, dtype=dtype)
    members, y_hat = learners(graph, 2, dtype=dtype), np.empty_like(y)
    for t in range(T):
        y_hat[:, t] = [member.predict(X[j, t]) for j, member in enumerate(members)]
        if t >= delay:
            problems.feed(members, range(3), graph, X[:, t - delay], y[:, t - delay], random.Random(t))
    np.testing.assert_array_equal(y_hat, expected.y_hat)


def changing(J, T, at):
    X, y = problems.streams(J, T, 3)
    y[:, at:] *= -1
    return X, y


@pytest.mark.parametrize("graph", [nx.cycle_graph(5), nx.path_graph(4), nx.star_graph(4)])
def test_devices_agree_on_what_to_do_about_a_change(graph):
    X, y = changing(len(graph), 700, 560)  # after the scale is fixed
    expected, network = simulated(graph, X, y)
    assert network.restarts > 0
    members = learners(graph, 3)
    np.testing.assert_array_equal(feed(members, graph, X, y, random.Random(0)), expected)
    check_same(members, network)
    assert {member.one.restarts for member in members} == {network.restarts}
    duals = np.concatenate([member.state.lam for member in members])
    assert np.abs(duals.sum(0)).max() < 1e-9


def test_all_rows_know_of_a_decision_when_it_is_due(monkeypatch):
    seen = []

    def check(self, *given, act):
        seen.append(self.rounds)
        for decision in (self.alarm, self.restart):
            assert len(np.unique(decision[:, 0])) == 1
        act(self, *given)

    for name in ("_begin_young", "_restart"):
        act = getattr(auto.Network, name)
        monkeypatch.setattr(auto.Network, name, lambda self, *a, act=act: check(self, *a, act=act))
    X, y = changing(9, 400, 250)
    simulated(nx.path_graph(9), X, y)
    assert len(seen) >= 2


def test_a_decision_on_its_way_outlives_the_round_that_fixes_the_scale():
    graph = nx.path_graph(8)
    X, y = problems.streams(8, 540, 2)
    y[7, 505:] += 30  # one end of the path is alarmed, for round 516 or so
    expected, network = simulated(graph, X, y)
    members = learners(graph, 2)
    np.testing.assert_array_equal(feed(members, graph, X, y, random.Random(0)), expected)
    check_same(members, network)


# Memory


@pytest.mark.parametrize("engine", problems.ENGINES)
@pytest.mark.parametrize("at", [0, 1, 3, 5, 40, 66, 130])
def test_a_saved_learner_goes_on_with_the_same_bits(engine, at):
    graph = nx.path_graph(3)
    X, y = problems.streams(3, at + 30, 2)
    members, rng = learners(graph, 2, engine=engine), random.Random(0)
    feed(members, graph, X[:, :at], y[:, :at], rng)
    arrays, meta = members[1].save()
    arrays = {name: array.copy() for name, array in arrays.items()}
    again = learners(graph, 2, engine=engine)[1]
    again.load(arrays, json.loads(json.dumps(meta)))
    twins = [*members[:1], again, *members[2:]]
    expected = feed(copy.deepcopy(members), graph, X[:, at:], y[:, at:], rng)
    np.testing.assert_array_equal(feed(twins, graph, X[:, at:], y[:, at:], rng), expected)


def test_what_others_saved_is_refused():
    one, other = learners(nx.path_graph(2), 2)[0], learners(nx.path_graph(2), 2, seed=1)[0]
    with pytest.raises(domkl.errors.DataError, match="fingerprint"):
        other.load(*one.save())


# Faults


def lossy(members, graph, X, y, rng, loss):
    """Rounds in which updates are lost; whoever misses one goes on without it."""
    y_hat = np.empty_like(y)
    for t in range(y.shape[1]):
        updates = [member.observe(X[j, t], y[j, t]) for j, member in enumerate(members)]
        for j, member in enumerate(members):
            y_hat[j, t] = member.step.y_hat
            for i in graph.neighbors(j):
                if not loss(t, i, j, rng):
                    member.receive(i, updates[i])
        for member in members:
            if member.waiting:
                member.close()
    return y_hat


def duals(members):
    return np.abs(np.concatenate([member.state.lam for member in members]).sum(0)).max()


def scales(members):
    return {member.one.scale for member in members}


def test_lost_updates_leave_one_scale_and_duals_that_cancel():
    graph, T = nx.cycle_graph(4), 200
    X, y = problems.streams(4, T, 2)
    members, rng = learners(graph, 2), random.Random(1)
    y_hat = lossy(members, graph, X, y, rng, lambda t, i, j, rng: t < 150 and rng.random() < 0.1)
    assert len(scales(members)) == 1
    assert 0 not in scales(members)
    assert duals(members) < 1e-9
    calm = simulated(graph, X, y)[0]
    errors = [((found - y)[:, 100:] ** 2).mean() for found in (y_hat, calm)]
    assert errors[0] < 1.3 * errors[1]


def test_two_halves_that_were_apart_find_one_scale():
    graph, T = nx.cycle_graph(4), 120
    X, y = problems.streams(4, T, 2)
    X[2:] = 10 * X[2:] + 5
    members = learners(graph, 2)
    apart = lambda t, i, j, rng: t < 90 and (i < 2) != (j < 2)  # noqa: E731
    lossy(members, graph, X[:, :90], y[:, :90], None, apart)
    assert len(scales(members)) == 2
    lossy(members, graph, X[:, 90:], y[:, 90:], None, lambda *given: False)
    assert len(scales(members)) == 1
    assert duals(members) < 1e-9


def test_who_comes_later_gets_scale_and_estimate_from_a_neighbour():
    graph, T = nx.path_graph(3), 100
    X, y = problems.streams(3, T, 2)
    first = learners(graph, 2)[:2]
    first[1].leave(2)
    small = nx.path_graph(2)
    feed(first, small, X[:2, :90], y[:2, :90], random.Random(0))
    late = learners(graph, 2)[2]
    late.skip_to(90)
    first[1].join(2, number=7)
    members = [*first, late]
    y_hat = feed(members, graph, X[:, 90:], y[:, 90:], random.Random(0))
    assert len(scales(members)) == 1
    assert ((y_hat - y[:, 90:])[2, 4:] ** 2).mean() < 0.2 * y.var()
    assert duals(members) < 1e-9


@pytest.mark.parametrize("at", [0, 1, 2, 3, 5, 20, 40])
@pytest.mark.parametrize("to", [4, 7, 8, 15, 31, 62, 63, 64, 126, 127, 510, 511, 1023])
def test_who_skips_rounds_finds_the_others_again(at, to):
    if to < at:
        return
    graph = nx.path_graph(3)
    X, y = problems.streams(3, at + 8, 2)
    members = learners(graph, 2)
    feed(members, graph, X[:, :at], y[:, :at], random.Random(0))
    members[2].skip_to(to)
    for t in range(at, at + 3):
        members[2].observe(X[2, t], y[2, t])
        members[2].close()
    assert np.isfinite(members[2].predict(X[2, 0]))


def cut_after(first, then):
    """A triangle that loses an edge after `first` rounds, and goes on for some."""
    graph = nx.cycle_graph(3)
    X, y = problems.streams(3, first + then, 2)
    members = learners(graph, 2)
    feed(members, graph, X[:, :first], y[:, :first], random.Random(0))
    members[0].leave(1), members[1].leave(0)
    feed(members, nx.from_edgelist([(0, 2), (1, 2)]), X[:, first:], y[:, first:], random.Random(0))
    return members


def test_duals_of_memories_cancel_after_a_change_of_edges():
    members = cut_after(75, 3)
    for k in (0, 1):
        lam = sum(member.one.memories[k].state.lam for member in members)
        assert np.abs(lam).max() < 1e-9


def test_a_prediction_is_of_what_is_known_now():
    graph = nx.path_graph(2)
    X, y = problems.streams(2, 12, 2)
    members = learners(graph, 2)
    feed(members, graph, X[:, :10], y[:, :10], random.Random(0))
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
    assert len(one._asked) == 1000


def test_neighbours_that_leave_take_their_duals_along():
    members = cut_after(40, 20)
    assert duals(members) < 1e-9
    assert members[0].one.weight == 1
    assert members[2].one.weight == 2


@pytest.mark.parametrize("payload", ["float32", "float16"])
def test_rounded_messages_keep_duals_that_cancel(payload):
    graph = nx.cycle_graph(3)
    X, y = problems.streams(3, 120, 2)
    members = learners(graph, 2, payload=payload)
    y_hat = feed(members, graph, X, y, random.Random(0))
    assert duals(members) < 1e-9
    assert ((y_hat - y)[:, 60:] ** 2).mean() < 0.2 * y.var()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(3))
def test_forged_numbers_break_nothing(dtype, seed):
    graph = nx.path_graph(2)
    X, y = problems.streams(2, 150, 2)
    members, rng = learners(graph, 2, dtype=dtype), np.random.default_rng(seed)
    refused = 0
    for t in range(150):
        updates = [member.observe(X[j, t], y[j, t]) for j, member in enumerate(members)]
        try:
            members[0].receive(1, forged(updates[1], t, rng))
        except domkl.errors.PeerError as error:
            refused += "\n" not in str(error)
            members[0].close()
        members[1].receive(0, updates[0])
        assert np.isfinite(members[0].predict(X[0, t]))
        assert len(members[0].one.table) <= 3
    assert members[0].round == members[1].round == 150
    assert 20 < refused < 150
    assert all(array.dtype != object for array in members[0].save()[0].values())


def forged(update, t, rng):
    """A message in which some numbers are others."""
    strange = [-1.0, 0.0, 0.5, 1.0, 2.0, t + 1, t + 2, 1e9, 1e40, -1e300]
    fields = {}
    for name in ("theta", "losses", "more"):
        value = getattr(update, name)
        if value is not None and rng.uniform() < 0.3:
            changed = value.copy()
            changed.flat[rng.integers(0, value.size, 2)] = rng.choice(strange, 2)
            fields[name] = changed
    if rng.uniform() < 0.1:
        fields["more"] = rng.standard_normal(40) * 3
    return update._replace(**fields)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one: one.observe([1.0], 1.0), "x has shape"),
        (lambda one: one.observe([1.0, np.inf], 1.0), "infinite"),
        (lambda one: one.observe([1.0, 2.0], np.nan), "y is nan"),
        (lambda one: one.close(), "no round is open"),
        (lambda one: one.receive("x", None), "'x' is not a neighbour"),
        (lambda one: domkl.AutoLearner(2, [], learners=["a"], diameter=0, name="b"), "'b' is not in"),
        (lambda one: domkl.AutoLearner(2, ["c"], learners=["a"], diameter=0, name="a"), "'c' is not in"),
        (lambda one: domkl.AutoLearner(2, ["b"], learners=["a", "b"], diameter=0, name="a"), "diameter is 0"),
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


@pytest.mark.parametrize("seed", range(4))
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
                member.meet(i, updates[i].heard[j], t)
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
            again.meet(i, members[i].heard[j], members[i].round)
            members[i].meet(j, again.heard[i], again.round)
        again.observe(X[j, t], y[j, t])
        for i in graph.neighbors(j):
            again.receive(i, sent[t][i])
    return again


@pytest.mark.parametrize(("payload", "most"), [("float16", 65504.0), ("float64", 1e8)])
def test_an_estimate_too_large_to_send_is_sent_as_large_as_may_be(payload, most):
    graph, (X, y) = nx.path_graph(2), problems.streams(2, 80, 2)
    members = learners(graph, 2, payload=payload)
    feed(members, graph, X[:, :79], y[:, :79], random.Random(0))
    one = members[0].one
    one.state = one.state._replace(theta=np.full_like(one.state.theta, 1e12), m=one.state.m + 1e12)
    update = members[0].observe(X[0, 79], y[0, 79])
    assert np.abs(update.theta).max() == most
    members[1].receive(0, update)

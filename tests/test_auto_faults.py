"""Learners without settings in bad networks: lost and forged updates, cuts, latecomers."""

from __future__ import annotations

import copy
import functools
import random

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from auto_networks import SIZE, duals, learners, scales, simulated
from domkl.learning.auto import message as parts
from domkl.learning.auto import rescale


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


def test_lost_updates_leave_one_scale_and_duals_that_cancel():
    graph, T = nx.cycle_graph(4), 130
    X, y = problems.streams(4, T, 2)
    members, rng = learners(graph, 2), random.Random(1)
    y_hat = lossy(members, graph, X, y, rng, lambda t, i, j, rng: t < 100 and rng.random() < 0.1)
    assert len(scales(members)) == 1
    assert 0 not in scales(members)
    assert duals(members) < 1e-9
    calm = simulated(graph, X, y)[0]
    errors = [((found - y)[:, 70:] ** 2).mean() for found in (y_hat, calm)]
    assert errors[0] < 1.3 * errors[1]


def test_two_halves_that_were_apart_find_one_scale_when_the_next_is_due(short_warm_up):
    graph, T = nx.cycle_graph(4), 160
    X, y = problems.streams(4, T, 2)
    X[2:] = 10 * X[2:] + 5
    members = learners(graph, 2)
    apart = lambda t, i, j, rng: t < 90 and (i < 2) != (j < 2)  # noqa: E731
    lossy(members, graph, X[:, :90], y[:, :90], None, apart)
    assert len(scales(members)) == 2
    lossy(members, graph, X[:, 90:], y[:, 90:], None, lambda *given: False)
    assert len(scales(members)) == 1
    assert duals(members) < 1e-9


def test_halves_between_which_messages_were_lost_find_one_scale_soon():
    graph, T = nx.path_graph(4), 80
    X, y = problems.streams(4, T, 2)
    members = learners(graph, 2)
    lost = lambda t, i, j, rng: 58 <= t < 66 and {i, j} == {1, 2}  # noqa: E731
    lossy(members, graph, X[:, :66], y[:, :66], None, lost)
    assert len(scales(members)) == 2
    lossy(members, graph, X[:, 66:], y[:, 66:], None, lambda *given: False)
    assert len(scales(members)) == 1


@pytest.mark.parametrize(
    ("graph", "is_cut"),
    [
        (nx.path_graph(4), lambda i, j: {i, j} == {1, 2}),
        (nx.cycle_graph(5), lambda i, j: 0 in (i, j)),
        (nx.cycle_graph(5), lambda i, j: (i, j) == (0, 1)),
    ],
    ids=["halves", "one silent", "one direction"],
)
def test_messages_lost_when_the_scale_is_fixed_split_no_network(graph, is_cut, short_warm_up):
    """Those who lack some statistics would each have a scale of their own, for good."""
    X, y = problems.streams(len(graph), 2 * short_warm_up + 4, 2)
    X[:, :70] /= 10  # so that the scale before is no good
    members = learners(graph, 2)
    lost = lambda t, i, j, rng: short_warm_up - 6 <= t < short_warm_up + 4 and is_cut(i, j)  # noqa: E731
    lossy(members, graph, X[:, :150], y[:, :150], None, lost)
    assert len(scales(members)) == 1
    lossy(members, graph, X[:, 150:], y[:, 150:], None, lambda *given: False)
    assert len(scales(members)) == 1
    assert all(member._row.model.warm.over for member in members)
    spans = [member._row.model.scale.inputs.high - member._row.model.scale.inputs.low for member in members]
    assert np.min(spans) > 0.8 * np.ptp(X)


def test_one_who_tells_everybody_something_else_splits_no_network(short_warm_up):
    graph, T = nx.complete_graph(4), short_warm_up + 8
    X, y = problems.streams(4, T, 2)
    members = learners(graph, 2)
    for t in range(T):
        updates = [member.observe(X[j, t], y[j, t]) for j, member in enumerate(members)]
        for j, member in enumerate(members):
            for i in graph.neighbors(j):
                more = updates[i].more
                told = None if more is None else more * (1 + 1e-9 * j * (np.abs(more) % 1 > 0))
                member.receive(i, updates[i]._replace(more=told) if i == 0 else updates[i])
    assert len(scales(members[1:])) == 1
    assert all(member._row.model.warm.over for member in members[1:])


@pytest.mark.usefixtures("short_warm_up")
def test_a_device_that_was_alone_takes_a_scale_without_forgetting_its_last_samples():
    X, y = problems.streams(2, 200, 2)
    members = learners(nx.path_graph(2), 2)
    problems.fed(members, nx.path_graph(2), X[:, :20], y[:, :20], random.Random(0))
    one, other = members
    one.leave(1)
    for t in range(20, 150):
        one.observe(X[0, t], y[0, t])
    model = one._row.model
    assert model.warm.over
    assert not model.shared
    scale = other._row.model.scale
    rescale.take(model, parts.unpacked(scale.whole, 3), scale.count, False)
    assert model.memories.all[0].samples > 100
    assert scale.number == one._row._number
    assert model.scale.fixed
    errors = [one.predict(X[0, t]) - y[0, t] for t in range(150, 200)]
    assert np.square(errors).mean() < 0.2 * y.var()


@pytest.mark.usefixtures("short_warm_up")
def test_one_who_joined_shortly_before_keeps_nobody_from_fixing_the_scale():
    _, _, members = ring_with_latecomer(134, 110)
    assert len(scales(members)) == 1
    assert all(member._row.model.warm.over for member in members)


def test_a_scale_that_lacks_one_learner_gives_way_to_everybodys_at_once():
    graph = nx.cycle_graph(5)
    X, y = problems.streams(5, 12, 2)
    members = learners(graph, 2)
    lost = lambda t, i, j, rng: 3 <= t < 8 and (i, j) == (0, 1)  # noqa: E731
    lossy(members, graph, X[:, :8], y[:, :8], None, lost)
    assert len(scales(members)) > 1
    lossy(members, graph, X[:, 8:], y[:, 8:], None, lambda *given: False)
    assert len(scales(members)) == 1


def test_who_comes_later_gets_scale_and_estimate_from_a_neighbour():
    graph, T = nx.path_graph(3), 100
    X, y = problems.streams(3, T, 2)
    first = learners(graph, 2)[:2]
    first[1].leave(2)
    small = nx.path_graph(2)
    problems.fed(first, small, X[:2, :90], y[:2, :90], random.Random(0))
    late = learners(graph, 2)[2]
    late.skip_to(90)
    first[1].join(2, number=7)
    members = [*first, late]
    y_hat = problems.fed(members, graph, X[:, 90:], y[:, 90:], random.Random(0))
    assert len(scales(members)) == 1
    assert ((y_hat - y[:, 90:])[2, 4:] ** 2).mean() < 0.2 * y.var()
    assert duals(members) < 1e-9


@functools.cache
def _ring(T, rounds):
    """Four learners on a ring after some of T rounds."""
    members, (X, y) = learners(nx.cycle_graph(4), 2), problems.streams(5, T, 2)
    problems.fed(members, nx.cycle_graph(4), X[:4, :rounds], y[:4, :rounds], random.Random(0))
    return members


def ring_with_latecomer(T, at, changed=lambda update: update):
    """Four learners on a ring, and a fifth that joins between two of them at a round; its predictions."""
    X, y = problems.streams(5, T, 2)
    members = copy.deepcopy(_ring(T, at - 1))
    for one in (members[0], members[3]):
        one.join(4, number=7)
    updates = [one.observe(X[j, at - 1], y[j, at - 1]) for j, one in enumerate(members)]
    for one in members:
        for i in set(one.neighbours) - {4}:
            one.receive(i, updates[i])
    members[0].close(), members[3].close()
    late = domkl.Learner(domkl.Auto(size=SIZE), [0, 3], name=4, inputs=2, number=7)
    members.append(late)
    domkl.introduce(members)
    late.adopt([changed(updates[0]), updates[3]])
    late.skip_to(at)
    graph = nx.from_edgelist([*nx.cycle_graph(4).edges, (0, 4), (3, 4)])
    return problems.fed(members, graph, X[:, at:], y[:, at:], random.Random(0)), y[:, at:], members


@pytest.mark.usefixtures("short_warm_up")
def test_who_joins_predicts_its_first_samples_as_well_as_its_neighbours():
    y_hat, y, members = ring_with_latecomer(210, 140)
    errors = ((y_hat - y) ** 2).mean(1)
    assert errors[4] < 1.25 * errors[:4].max()  # each on samples of its own
    assert (y_hat[4, 0] - y[4, 0]) ** 2 < 0.2 * y.var()
    assert len(scales(members)) == 1
    assert duals(members) < 1e-9


@pytest.mark.usefixtures("short_warm_up")
def test_who_joins_beside_a_liar_recovers_by_its_own_samples():
    lie = ring_with_latecomer(210, 140, lambda update: update._replace(theta=np.full_like(update.theta, 1e6)))
    y_hat, y, members = lie
    assert ((y_hat - y)[4, 20:] ** 2).mean() < 0.1 * y.var()
    assert np.abs(members[4].state.theta).max() < 100


@pytest.mark.usefixtures("short_warm_up")
def test_who_joins_with_nobodys_scale_waits_for_the_next_messages():
    y_hat, y, members = ring_with_latecomer(210, 140, lambda update: update._replace(more=None))
    assert len(scales(members)) == 1
    assert ((y_hat - y)[4, 2:] ** 2).mean() < 0.1 * y.var()


@pytest.mark.parametrize("at", [0, 1, 3, 20])
@pytest.mark.parametrize("to", [4, 7, 8, 63, 64, 511, 1023])
def test_who_skips_rounds_finds_the_others_again(at, to):
    if to < at:
        return
    graph = nx.path_graph(3)
    X, y = problems.streams(3, at + 8, 2)
    members = learners(graph, 2)
    problems.fed(members, graph, X[:, :at], y[:, :at], random.Random(0))
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
    problems.fed(members, graph, X[:, :first], y[:, :first], random.Random(0))
    members[0].leave(1), members[1].leave(0)
    problems.fed(members, nx.from_edgelist([(0, 2), (1, 2)]), X[:, first:], y[:, first:], random.Random(0))
    return members


def test_duals_of_memories_cancel_after_a_change_of_edges():
    members = cut_after(75, 3)
    for k in (0, 1):
        lam = sum(member._row.model.memories.all[k].state.lam for member in members)
        assert np.abs(lam).max() < 1e-9


def test_neighbours_that_leave_take_their_duals_along():
    members = cut_after(40, 20)
    assert duals(members) < 1e-9
    assert members[0]._row.model.weight == 1
    assert members[2]._row.model.weight == 2


@pytest.mark.parametrize(("dtype", "seed"), [(np.float64, 0), (np.float64, 1), (np.float32, 2)])
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
        assert len(members[0]._row.table.rows) <= 3
    assert members[0].round == members[1].round == 150
    assert 20 < refused < 150
    assert all(array.dtype != object for array in members[0].save()[0].values())


def forged(update, t, rng):
    """A message in which some numbers are others."""
    strange = [-1.0, 0.0, 0.5, 1.0, 2.0, t + 1, t + 2, 1e9, 1e40, -1e300]
    fields = {}
    for name in ("theta", "scalars", "more"):
        value = getattr(update, name)
        if value is not None and rng.uniform() < 0.3:
            changed = value.copy()
            changed.flat[rng.integers(0, value.size, 2)] = rng.choice(strange, 2)
            fields[name] = changed
    if rng.uniform() < 0.1:
        fields["more"] = rng.standard_normal(40) * 3
    return update._replace(**fields)


def test_a_network_of_another_size_has_another_share_of_the_prior_and_so_it_is_restored():
    graph = nx.path_graph(2)
    X, y = problems.streams(2, 71, 2)
    members = learners(graph, 2)
    problems.fed(members, graph, X[:, :70], y[:, :70], random.Random(0))
    model, before = members[0]._row.model, members[0]._row.model.joint.pulls.c.copy()
    members[0].take_links({1: (1, (0, 2)), 2: (0, (1,))})  # the degree of learner 1 is not known yet
    again = learners(graph, 2)[0]
    again.load(*members[0].save())
    updates = [one.observe(X[j, 70], y[j, 70]) for j, one in enumerate(members)]
    again.observe(X[0, 70], y[0, 70])
    for one in (members[0], again):
        one.receive(1, updates[1])
    assert model.joint.pulls.c < before
    assert {memory.of for memory in model.memories.all} == {3}
    np.testing.assert_array_equal(again.state.inverse.settle(), members[0].state.inverse.settle())

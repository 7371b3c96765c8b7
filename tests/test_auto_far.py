"""Learners whose samples differ from others' by more than chance: equal first weights, and an own memory."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest

import domkl
import naive
import problems
from auto_networks import learners, simulated
from domkl.learning import losses
from domkl.learning.auto import C, rescale
from domkl.learning.auto.additive import Terms, bounded
from domkl.learning.auto.features import Stats, statistics
from domkl.learning.auto.own_memory import OwnMemory
from domkl.learning.model import Statistics


def places(J, T, seed=0, classify=False):
    """Streams of learners in different places: one more input, which is a constant of the place."""
    X, y = problems.streams(J, T, 2, seed, classify)
    at = np.broadcast_to(np.arange(J)[:, None, None] ** 2, (J, T, 1))
    return np.concatenate([X, at], -1), y


def far_ones(X, y, n):
    """Who is far in a complete network, by the first n samples."""
    rows = problems.online(nx.complete_graph(len(X)), X.shape[-1]).rows
    rows.warm.samples = [(X[:, t], y[:, t]) for t in range(n)]
    own = rows.warm.statistics()
    return rescale._is_far(rows, Statistics(own, np.ones((len(X), len(X)), bool))).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_who_is_far_is_as_the_literal_twin_says(seed):
    rng = np.random.default_rng(seed)
    X, y = problems.streams(5, 6, 3, seed)
    X += rng.choice([0, 3, 30], (5, 1, 3)) * rng.random((5, 1, 3))
    X[0, :, 1] = np.nan
    columns = np.concatenate([X, y[..., None]], -1)
    assert far_ones(X, y, 6) == naive.are_far(columns, C.far)


def test_places_and_seasons_are_far_and_samples_of_one_kind_are_not():
    X, y = problems.streams(6, 30, 3)
    assert far_ones(X, y, 4) == [False] * 6
    assert far_ones(X, y, 30) == [False] * 6
    assert far_ones(*places(6, 30), 4) == [True] * 6  # but for chance, the median one would not be
    y[2] += 100
    assert far_ones(X, y, 30) == [False, False, True, False, False, False]


def test_a_rare_value_is_no_other_place():
    X, y = problems.streams(5, 4, 2)
    X[..., 1] = 0
    X[3, 2, 1] = 1  # of a column that is constant to everybody else
    assert far_ones(X, y, 4) == [False] * 5


def test_one_false_statistic_makes_nobody_far():
    X, y = problems.streams(5, 20, 2)
    rows = problems.online(nx.complete_graph(5), 2).rows
    rows.warm.samples = [(X[:, t], y[:, t]) for t in range(20)]
    lie = Stats(*(np.array(v) for v in rows.warm.statistics()))
    lie.mean[4], lie.sd[4] = 1e9, 0.0
    found = rescale._is_far(rows, Statistics(lie, np.ones((5, 5), bool)))
    assert not found.any()


def test_experts_start_equal_where_learners_differ():
    for (X, y), equal in ((places(4, 5), True), (problems.streams(4, 5, 3), False)):
        model = problems.online(nx.complete_graph(4), 3, size=80)
        for t in range(4):
            model.learn(X[:, t], y[:, t])
        assert (np.ptp(model.rows.experts.weights(), -1) < 0.1).all() == equal


def test_the_own_memory_is_that_of_the_literal_twin():
    rng = np.random.default_rng(0)
    samples = [(rng.normal([5.0, -3], [1, 20], (2, 2)), rng.normal(size=2)) for _ in range(80)]
    terms = Terms(30, 2)
    own = OwnMemory.of(samples, terms, losses.squared())
    for j in range(2):
        X, y = np.array([x[j] for x, _ in samples]), np.array([label[j] for _, label in samples])
        stats, scaled = statistics(X), (y - y.mean()) / np.ptp(y)
        b, _ = naive.additive(terms.of(X, stats), scaled, terms.group, np.inf)
        expected = y.mean() + np.ptp(y) * (terms.of(X, stats) @ b)
        found = [own.score(np.stack([x, x]))[j] for x in X]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
        assert np.abs(bounded(X, stats)).max() < 1


def test_few_samples_show_no_scale():
    samples = [(np.zeros((1, 2)), np.zeros(1))] * (C.looks - 1)
    assert OwnMemory.of(samples, Terms(30, 2), losses.squared()) is None


@pytest.mark.parametrize("classify", [False, True])
def test_devices_with_an_own_memory_have_the_networks_bits_and_go_on_from_a_state(classify):
    graph, loss = nx.path_graph(3), "logistic" if classify else "squared"
    X, y = places(3, 110, classify=classify)
    expected, rows = simulated(graph, X, y, loss=loss)
    assert rows.own_memory is not None
    members, rng, found = learners(graph, 3, loss=loss), random.Random(0), []
    for t in range(110):
        if t == 90:
            states = [member.save() for member in members]
            members = learners(graph, 3, loss=loss)
            for member, state in zip(members, states, strict=True):
                member.load(*state)
        problems.feed(members, range(3), graph, X[:, t], y[:, t], rng)
        found.append([member.step.y_hat for member in members])
    np.testing.assert_array_equal(np.array(found).T, expected)
    for j, member in enumerate(members):
        own = member._row.model.own_memory
        np.testing.assert_array_equal(own is None, not rows.is_far[j])
        if own is not None:
            np.testing.assert_array_equal(own.memory.mean[0], rows.own_memory.memory.mean[j])


def test_nothing_that_neighbours_send_changes_the_own_memory():
    X, y = places(4, 120)
    found = []
    for factor in (1, -1e3):
        model = problems.online(nx.cycle_graph(4), 3, size=80)
        joint, merge = model.rows.joint, model.rows.joint.merge
        joint.merge = lambda near, *others, by=factor, to=merge: to(by * near, *others)
        for t in range(120):
            model.learn(X[:, t], y[:, t])
        found.append((model.rows.own_memory.score(X[:, 0]), joint.state.theta))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert np.abs(found[0][1] - found[1][1]).max() > 1


def test_who_is_not_far_predicts_what_the_experts_do():
    X, y = places(5, 100)
    X[1:, :, 2] = 1  # only the first is elsewhere
    model = problems.online(nx.complete_graph(5), 3, size=80)
    for t in range(99):
        model.learn(X[:, t], y[:, t])
    found = model.rows.predict(X[:, 99])
    assert model.rows.is_far.tolist() == [True, False, False, False, False]
    np.testing.assert_array_equal(found.y_hat[1:], found.halves[1:, 0])
    low, high = np.sort(found.halves[0])
    assert low < found.y_hat[0] < high


def test_a_saved_network_of_places_goes_on(tmp_path):
    X, y = places(3, 90)
    model = domkl.DOMKL(nx.complete_graph(3), model=domkl.Auto(size=60))
    for t in range(80):
        model.learn(X[:, t], y[:, t])
    model.save(tmp_path / "network.domkl")
    again = domkl.DOMKL.load(tmp_path / "network.domkl")
    for t in range(80, 90):
        np.testing.assert_array_equal(again.predict(X[:, t]), model.predict(X[:, t]))
        for one in (model, again):
            one.learn(X[:, t], y[:, t])


def test_what_is_explained_is_what_is_predicted():
    X, y = places(3, 90)
    model = problems.online(nx.complete_graph(3), 3, size=80)
    for t in range(89):
        model.learn(X[:, t], y[:, t])
    expected = model.rows.predict(X[:, 89]).y_hat
    assert model.rows.is_far.any()
    for j in range(3):
        function, _ = model.as_function(j)
        np.testing.assert_allclose(function(X[j, 89:90]), expected[[j]], rtol=1e-9)


@pytest.mark.usefixtures("short_warm_up")
def test_who_turns_far_later_has_the_bits_of_a_network_in_one_process():
    graph = nx.complete_graph(3)
    X, y = places(3, 140)
    X[..., 2] = [[1], [0], [0]]
    X[1, :66, 0] = np.nan
    X[1, 66:, 0] += 40  # the second is elsewhere when the scale is fixed, and not when the own memory starts
    expected, rows = simulated(graph, X, y)
    assert rows.warm.over
    assert rows.is_far.tolist() == [True, True, False]
    members = learners(graph, 3)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), expected)
    weights = np.concatenate([member._row.model.halves.weights() for member in members])
    np.testing.assert_array_equal(weights, rows.halves.weights())

"""What benchmarks/liars.py measures with: learners that lie, and screens of the literature."""

from __future__ import annotations

import pathlib
import sys

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.learning.auto import AutoRows

BENCHMARKS = pathlib.Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="benchmarks are in a checkout alone")


@pytest.fixture(scope="module")
def attacks():
    kept = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    import attacks

    yield attacks
    sys.path[:] = kept


@pytest.fixture(scope="module")
def screens():
    kept = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    import screens

    yield screens
    sys.path[:] = kept


def through(network, X, y, model):
    """What the learners of a network predict. (J, T)"""
    (J, T, d), found = X.shape, np.zeros_like(y)
    rows = AutoRows(model, J, d, network.neighbours.weight, J, network.diameter)
    for t in range(T):
        prediction = rows.predict(X[:, t])
        found[:, t] = prediction.y_hat
        rows.merge(network.exchange_round(rows, rows.learn(prediction, y[:, t])))
    return found


def test_learners_of_whom_nobody_lies_are_those_of_the_simulator(attacks):
    graph, (X, y) = nx.cycle_graph(4), problems.streams(4, 80, 2)
    model = domkl.Auto(size=60)
    network = attacks.Lies(domkl.graph.as_graph(graph), domkl.Exchange(), (0,), "none")
    expected = domkl.simulate(X, y, graph, model=model, engine="numpy").y_hat
    np.testing.assert_array_equal(through(network, X, y, model), expected)


@pytest.mark.parametrize("attack", ["sign flipped", "terms flipped"])
def test_liars_go_on_with_the_truth_and_others_receive_the_lie(attacks, attack, monkeypatch):
    monkeypatch.setattr(attacks, "START", 2)
    network = attacks.Lies(domkl.graph.as_graph(nx.path_graph(2)), domkl.Exchange(), (0,), attack)
    network.t, network.most = 2, 1e8
    own = {name: np.arange(1.0, 5.0).reshape(2, 1, 2) for name in ("theta", "terms")}
    sent = network.delivered(own)
    np.testing.assert_array_equal(own["theta"][0], [[1.0, 2.0]])
    np.testing.assert_array_equal(sent["terms"], [[[-1.0, -2.0]], [[3.0, 4.0]]])
    assert (sent["theta"][0] != own["theta"][0]).all() == (attack == "sign flipped")


def test_every_attack_changes_what_liars_send_and_nothing_else(attacks):
    every = np.random.default_rng(0).normal(size=(5, 2, 7))
    for name, lie in attacks.PARAMETERS.items():
        kept, rng = {}, np.random.default_rng(1)
        first, later = (lie(attacks.Sent(every * k, (1, 3), k - 1, rng, kept)) for k in (1, 2))
        assert first.shape == later.shape == (2, 2, 7), name
        assert (later != 2 * every[[1, 3]]).any(), name
        if name == "collusion":
            np.testing.assert_array_equal(first[0], first[1])


def test_labels_of_liars_alone_are_changed_and_only_for_a_time(attacks):
    X, y = problems.streams(3, 800, 2)
    for name in attacks.LABELS:
        labels = attacks.Streams(X, y).attacked(name, [1]).labels
        changed = labels != y
        assert changed[1, attacks.START : attacks.STOP].all()
        assert changed.sum() == attacks.STOP - attacks.START


def test_trimmed_mean_drops_the_ends_of_each_coordinate(screens):
    own, others = np.zeros((1, 2)), np.array([[[1.0, -9.0]], [[2.0, 1.0]], [[1e9, 2.0]], [[3.0, 3.0]]])
    np.testing.assert_allclose(screens.trimmed_mean(own, others, b=1), np.full((4, 1, 2), [2.0, 1.0]))
    np.testing.assert_allclose(screens.trimmed_mean(own, others[:2], b=1)[0], [[1.0, 0.0]])


def test_clipped_gossip_moves_the_farthest_to_the_distance_of_the_next(screens):
    own, others = np.ones((1, 2)), np.array([[[1.0, 3.0]], [[2.0, 1.0]], [[1.0, 101.0]]])
    np.testing.assert_allclose(screens.clipped_gossip(own, others, b=1)[:2], others[:2])
    np.testing.assert_allclose(screens.clipped_gossip(own, others, b=1)[2], [[1.0, 3.0]])


def test_krum_and_the_nearest_leave_out_who_is_far_away(screens):
    own, others = np.zeros((1, 2)), np.array([[[0.1, 0.0]], [[0.0, 0.2]], [[50.0, 50.0]]])
    assert np.abs(screens.krum(own, others, b=1)).max() <= 0.2
    np.testing.assert_allclose(screens.nearest(own, others, b=1), np.full((3, 1, 2), [0.05, 0.1]))

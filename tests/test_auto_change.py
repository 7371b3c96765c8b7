"""The model without settings when the world changes: errors are soon back at their level."""

from __future__ import annotations

import dataclasses

import networkx as nx
import numpy as np
import pytest

import domkl
import naive
import problems
from domkl.learning.auto import C
from domkl.learning.auto.additive import PAST
from domkl.learning.auto.change import ChangeDetector
from domkl.learning.auto.experts import NAMES

SMALL = domkl.Auto(size=160)


@pytest.fixture
def room_for_pairs(monkeypatch):
    """Small models in which the memories have room for functions of all pairs of inputs."""
    monkeypatch.setattr("domkl.learning.auto.rows.C", dataclasses.replace(C, memory_part=0.6))


def friedman(J, T, order=(0, 1, 2, 3, 4), seed=0):
    """Friedman's function of 6 inputs, 5 of which matter; the noise has variance 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(J, T, 6))
    a, b, c, d, e = (X[..., k] for k in order)
    y = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return X, y + rng.standard_normal(y.shape)


def joined(*parts):
    return tuple(np.concatenate(values, 1) for values in zip(*parts, strict=True))


def mean_errors(run, y, *spans):
    return [((run.y_hat - y)[:, a:b] ** 2).mean() for a, b in spans]


@pytest.mark.usefixtures("short_warm_up")
@pytest.mark.parametrize("J", [1, 3])
def test_the_past_is_dropped_when_it_misleads(J):
    X, y = problems.streams(J, 400, 3)
    y[:, 180:] *= -1  # after the scale is fixed
    graph = nx.cycle_graph(J) if J > 1 else nx.empty_graph(1)
    models = {kind: problems.online(graph, 3, forgetting=kind) for kind in ("none", "auto")}
    errors = {k: (problems.taught(m, X.swapaxes(0, 1), y.T).T - y) ** 2 for k, m in models.items()}
    restarts = {kind: model.rows.memories.restarts for kind, model in models.items()}
    assert restarts["none"] == 0
    assert restarts["auto"] in ((1, 2) if J == 1 else (0, 1, 2))  # new own samples may do as well
    assert errors["auto"][:, :180].mean() < 1.03 * errors["none"][:, :180].mean()
    assert errors["auto"][:, 320:].mean() < 0.3 * errors["none"][:, 320:].mean()
    assert np.abs(models["auto"].rows.parameters.lam.sum(0)).max() < 1e-9


@pytest.mark.usefixtures("short_warm_up")
def test_a_given_memory_follows_a_change():
    X, y = (values[0] for values in problems.streams(1, 400, 3))
    y[180:] *= -1
    errors = {
        memory: ((problems.taught_alone(problems.online(None, 3, forgetting=memory), X, y) - y) ** 2)
        for memory in ("none", 60.0)
    }
    late = {memory: found[320:].mean() for memory, found in errors.items()}
    assert late[60.0] < 0.3 * late["none"]


@pytest.mark.usefixtures("room_for_pairs")
@pytest.mark.parametrize("delay", [0, 5])
def test_errors_are_back_at_their_level_200_rounds_after_a_change(delay):
    X, y = joined(friedman(4, 300), friedman(4, 280, order=(3, 5, 1, 2, 0), seed=1))
    run = domkl.simulate(X, y, "ring", model=SMALL, delay=delay)
    before, at_once, after = mean_errors(run, y, (200, 300), (300, 310), (500, 580))
    assert at_once > 8 * before
    assert after < 1.15 * before


@pytest.mark.usefixtures("room_for_pairs")
def test_what_returns_is_known_at_once():
    old, new = (0, 1, 2, 3, 4), (3, 5, 1, 2, 0)
    parts = [friedman(4, n, order, seed) for n, order, seed in ((300, old, 0), (200, new, 1), (60, old, 2))]
    X, y = joined(*parts)
    run = domkl.simulate(X, y, "ring", model=SMALL)
    before, again = mean_errors(run, y, (200, 300), (530, 560))
    assert again < 1.5 * before


def test_missing_values_do_not_look_like_a_change():
    X, y = problems.streams(3, 400, 3)
    X[:, 200:][np.random.default_rng(0).uniform(size=(3, 200, 3)) < 0.02] = np.nan
    models = [domkl.Auto(size=160, forgetting=kind) for kind in ("auto", "none")]
    errors = [mean_errors(domkl.simulate(X, y, "ring", model=one), y, (100, 400))[0] for one in models]
    assert errors[0] < 1.03 * errors[1]


def test_labels_that_turn_round_are_followed():
    X, y = problems.streams(3, 400, 2, classify=True)
    y[:, 200:] *= -1
    run = domkl.simulate(X, y, "ring", model=domkl.Auto(size=160, loss="logistic"))
    assert (np.sign(run.y_hat) == y)[:, 120:200].mean() > 0.9
    assert (np.sign(run.y_hat) == y)[:, 330:].mean() > 0.9


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_detector_agrees_with_its_literal_twin(seed):
    """Errors that grow, first of some learners, then of all, and memories that overtake each other."""
    rng, T, near = np.random.default_rng(seed), 400, [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]
    size = np.exp(rng.normal(0, 0.1, (T // 50, 4, 6)).cumsum(0).repeat(50, 0) * 6)
    errors = size * rng.exponential(size=(T, 4, 6))
    errors[100:, :2], errors[250:] = 20 * errors[100:, :2], 20 * errors[250:]
    alarms_in, restarts_in = {150, 290}, {220}
    twin = naive.watched(errors[..., 0], errors[..., 1:], near, alarms_in, restarts_in, C)
    around = np.array([[(i in row) / len(row) for i in range(4)] for row in near])
    detector = ChangeDetector(4)
    for t, (votes, alarms, misled, own_surplus) in enumerate(twin):
        detector.observe(errors[t, :, 0], errors[t, :, 1:])
        detector.average(around @ detector.surplus, around @ detector.errors)
        assert detector.votes.tolist() == votes
        assert detector.alarms.tolist() == alarms
        assert detector.misled().tolist() == misled
        np.testing.assert_allclose(detector.own_surplus, own_surplus, atol=1e-9)
        if t in alarms_in:
            detector.reset_level()
        if t in restarts_in:
            detector.reset_comparison()
    assert np.any([alarms for _, alarms, _, _ in twin])
    assert np.any([misled for _, _, misled, _ in twin])
    assert np.any([votes for votes, _, _, _ in twin])


def test_nobody_votes_for_what_its_own_errors_contradict():
    """A neighbour's errors make another memory look better, for as long as it likes."""
    detector = ChangeDetector(2)
    for _ in range(2 * C.watch_lasting):
        detector.observe(np.ones(2), np.array([[1, 1, 1, 1.2, 1.2], [1, 1, 1, 0.9, 1.2]]))
        detector.average(np.zeros(2), np.tile([10.0, 10.0, 10.0, 0.0, 0.0], (2, 1)))
    assert detector.votes.tolist() == [0, 1]


@pytest.mark.usefixtures("short_warm_up")
def test_trust_in_the_past_passes_to_the_long_memory_when_that_learns_all_samples():
    """After what was past has returned, the next scale teaches all samples to the long memory alone."""
    graph = nx.cycle_graph(3)
    X, y = problems.streams(3, 130, 3)
    model = problems.online(graph, 3)
    problems.taught(model, X[:, :120].swapaxes(0, 1), y[:, :120].T)
    rows = model.rows
    rows.memories.replace_long(True, rows.experts)
    rows.warm.divide(10, True, np.zeros(3, bool))
    trusted = rows.experts.weights()[:, NAMES.index("past memory")]
    assert (trusted > 0.3).all()
    problems.taught(model, X[:, 120:128].swapaxes(0, 1), y[:, 120:128].T)
    weights = rows.experts.weights()
    assert rows.warm.over
    assert rows.memories.all[PAST].samples == 0
    assert (weights[:, NAMES.index("past memory")] < 0.01).all()
    assert (weights[:, NAMES.index("long memory")] > 0.2).all()

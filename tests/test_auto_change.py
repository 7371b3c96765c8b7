"""The model without settings when the world changes: errors are soon back at their level."""

from __future__ import annotations

import dataclasses

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.learning.auto import C

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

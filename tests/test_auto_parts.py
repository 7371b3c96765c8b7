"""Parts of the model without settings beside literal twins: joint models, statistics, memories, residuals."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from domkl.exchange.combine import Neighbours, pull
from domkl.exchange.network import Network
from domkl.learning import losses
from domkl.learning.auto import EXPERT_NAMES, C
from domkl.learning.auto.additive import AdditiveMemory, Terms
from domkl.learning.auto.dependence import Dependence
from domkl.learning.auto.features import Stats, pooled, scaled, statistics
from domkl.learning.auto.residual import ResidualModel


@settings(max_examples=6, deadline=None)
@given(problems.graphs(most=5), st.integers(0, 99))
def test_the_joint_models_are_the_literal_second_order_admm(graph, seed):
    X, y = problems.streams(len(graph), 90, 2, seed)
    model = problems.online(graph, 2, size=40, seed=seed, forgetting="none", outliers="keep")
    model.rows.judges = ()  # whoever has few samples may err too much for its neighbours
    problems.taught(model, X.swapaxes(0, 1), y.T)
    scale, joint = model.rows.scale, model.rows.joint
    Z = joint.features.of(X, scale.inputs)
    target = (y - scale.centre[:, None]) / scale.width[:, None]
    for p in range(2):
        eta = joint.ridge * C.eta / len(graph)
        theta, lam = naive.auto_joint(Z[:, :, p], target, problems.neighbours_of(graph), C.rho, eta, kept=63)
        np.testing.assert_allclose(joint.state.theta[:, p], theta, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(joint.state.lam[:, p], lam, rtol=1e-7, atol=1e-8)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 60), st.floats(-1, 1), st.floats(-100, 100), st.integers(0, 10**6))
def test_errors_that_resemble_the_last_make_the_ridge_stronger(n, r, size, seed):
    noise, found = np.random.default_rng(seed).normal(size=(n, 2)), Dependence(2)
    errors = np.zeros((n, 2))
    for t in range(n):
        errors[t] = (r * errors[t - 1] if t else 0) + noise[t]
        found.learn(10**size * errors[t])  # in any unit
    expected = [naive.ridge_of([*errors[:, j]], C.repeats, 24, 1000) for j in range(2)]
    np.testing.assert_allclose(found.ridge(), expected, rtol=1e-9)


def test_a_network_of_learners_whose_errors_repeat_has_a_stronger_ridge_and_one_alone_has_not():
    X, y = problems.streams(3, 70, 2)
    y = y + np.cumsum(np.random.default_rng(0).normal(size=y.shape), -1)
    model = problems.online(nx.path_graph(3), 2, size=40)
    problems.taught(model, X.swapaxes(0, 1), y.T)
    joint = model.rows.joint
    assert (joint.ridge > 5).all()
    each = C.eta / 3 * joint.ridge + C.rho * model.rows.weight
    np.testing.assert_allclose(joint.pulls.c[:, 0], each)
    alone = problems.online(nx.empty_graph(1), 2, size=40)
    problems.taught(alone, X[:1].swapaxes(0, 1), y[:1].T)
    np.testing.assert_allclose(alone.rows.joint.pulls.c, C.eta_alone)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 40), st.floats(0, 0.9), st.integers(0, 10**6))
def test_pooled_statistics_are_those_of_all_samples(J, n, missing, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((J, n, 3)) * [1e-3, 1e6, 1.0] + [5.0, 0.0, 0.0]
    X[rng.uniform(size=X.shape) < missing] = np.nan
    found = pooled(statistics(X), np.ones((1, J), bool))
    whole = statistics(X.reshape(1, J * n, 3))
    for one, other in zip(found[:5], whole[:5], strict=True):  # targets, which come last, are judged if few
        np.testing.assert_allclose(one[:, :2], other[:, :2], rtol=1e-9, atol=1e-9)
    assert found.quantiles.shape == (1, min(max(n - 1, 1), C.few_steps) + 1, 3)
    slack = 1e-9 * (1 + np.abs(found.high))
    assert (np.diff(found.quantiles, axis=1) >= -slack).all()
    assert (found.quantiles >= found.low - slack).all()
    assert (found.quantiles <= found.high + slack).all()


def test_ranks_are_straight_between_quantiles_and_half_at_ties():
    rng = np.random.default_rng(0)
    X = np.stack([rng.standard_exponential(160), rng.uniform(size=160) < 0.5], -1)
    stats = statistics(X)
    steps = np.linspace(0, 1, C.quantile_steps + 1)
    np.testing.assert_allclose(stats.quantiles, np.quantile(X, steps, axis=0))
    x = rng.standard_exponential(50)
    expected = np.interp(x, stats.quantiles[:, 0], steps)
    ranks = scaled(np.stack([x, np.ones(50)], -1), stats)[..., 4:] / C.rank_size + 0.5
    np.testing.assert_allclose(ranks[:, 0], expected)
    assert 0.5 < ranks[0, 1] < 1
    shares = scaled(X, stats)[..., 4:] / C.rank_size + 0.5
    np.testing.assert_allclose(shares.mean(0), 0.5, atol=0.05)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 140), st.sampled_from([math.inf, 200.0, 60.0]), st.integers(0, 99))
def test_a_memory_is_its_literal_twin(d, T, memory, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, d))
    y = np.tanh(X[:, 0]) / 2 + 0.1 * rng.standard_normal(T)
    terms, stats = Terms(60, d), statistics(X)
    Z = terms.of(X, Stats(*(value[None] for value in stats)))
    found = AdditiveMemory(terms, np.zeros(1), 1, losses.get("squared"), memory)
    for z, target in zip(Z, y, strict=True):
        found.replay(z[None], np.array([target]))
    b, v = naive.additive(Z, y, terms.group, memory)
    np.testing.assert_allclose(found.mean[0, 0], b, atol=1e-7)
    np.testing.assert_allclose(found.variances[0], v, rtol=1e-6)


def test_a_memory_that_exchanges_seldom_stays_small_on_inputs_that_are_nearly_equal():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((4, 606)), 1) / 10
    X, y = np.stack([walk[:, 5 - k : -1 - k] for k in range(5)], -1), np.sin(walk[:, 6:]) / 2
    near = Neighbours.of(domkl.graph.named("ring", 4))
    terms, stats = Terms(100, 5), statistics(X.reshape(1, -1, 5))
    memory = AdditiveMemory(terms, near.weight, 4, domkl.losses.get("squared"), rounds=100)
    for t in range(600):
        z = terms.of(X[:, t], stats)
        if t % 4 == 0:
            sent = memory.learn(z, y[:, t])
            found = pull(near, sent, sent)
            memory.merge(found.near, found.mean, found.weight)
        else:
            memory.learn_silently(z, y[:, t])
    assert np.abs(memory.state.theta).max() < 5
    assert np.abs(memory.state.lam.sum(0)).max() < 1e-8
    assert ((memory.score(terms.of(X[:, -1], stats)) - y[:, -1]) ** 2).mean() < 0.1


@given(st.integers(1, 3), st.integers(1, 40), st.integers(0, 99))
def test_the_residual_model_is_a_regression_over_all_errors_so_far(J, T, seed):
    errors = np.random.default_rng(seed).standard_normal((J, T)).cumsum(-1) / 3
    found, expected = ResidualModel(J), np.zeros((J, T))
    for t in range(T):
        expected[:, t] = found.expected()
        found.learn(found.last, errors[:, t])
    for j in range(J):
        literal = naive.echo(errors[j], C.residual_fade, C.residual_doubt, C.residual_few)
        np.testing.assert_allclose(expected[j], literal, atol=1e-9)


@given(st.integers(1, 30), st.floats(0.1, 10), st.integers(0, 99))
def test_the_residual_model_changes_units_with_the_scale(T, ratio, seed):
    errors = np.random.default_rng(seed).uniform(-0.2, 0.2, (1, T)).cumsum(-1) / T
    changed, other = ResidualModel(1), ResidualModel(1)
    for t in range(T):
        changed.learn(changed.last, errors[:, t])
        other.learn(other.last, errors[:, t] * ratio)
    expected = changed.expected()
    changed.rescale(np.array([ratio]))
    np.testing.assert_allclose(changed.expected(), ratio * expected)
    np.testing.assert_allclose(changed.last, other.last)
    for name in ("matrix", "vector", "size"):
        np.testing.assert_allclose(getattr(changed, name), getattr(other, name))


def test_the_scale_may_change_under_the_residual_model():
    """A walk whose steps grow: the width of the targets is another one after round 512."""
    rng = np.random.default_rng(0)
    steps = rng.normal(0, 1, 520) * np.where(np.arange(520) < 300, 1, 20)
    X, y = rng.uniform(size=(520, 1, 2)), np.cumsum(steps)[:, None]
    model, expected = problems.online(None, 2, size=60), []
    for t in range(520):
        if 505 < t < 520:
            expected.append(abs(model.rows.residual.expected()[0] * model.rows.scale.width[0]))
        model.learn(X[t], y[t])
    assert max(expected[7:]) < 3 * max(expected[:7])


@pytest.mark.parametrize(("stays", "best"), [(0.9, 0.325), (0.97, 0.135)])
def test_classes_that_stay_are_told_with_probabilities(stays, best):
    rng = np.random.default_rng(0)
    y = np.cumprod(np.where(rng.uniform(size=900) < stays, 1, -1))
    model = problems.online(None, 2, loss="logistic", size=60)
    scores = problems.taught_alone(model, rng.uniform(-1, 1, (900, 2)), y)
    assert -np.log((1 + y * scores) / 2)[300:].mean() < best + 0.06


def slow(T, slowness, seed=0):
    """A function of x, and beside it a level that moves, slowly or at once."""
    rng = np.random.default_rng(seed)
    X, level = rng.uniform(size=(1, T, 2)), np.zeros(T)
    for t in range(1, T):
        level[t] = slowness * level[t - 1] + rng.normal(0, 0.3)
    return X, (np.sin(3 * X[..., 0]) + X[..., 1] + level)


@pytest.mark.parametrize(("delay", "gain"), [(0, 0.5), (3, 0.8)])
def test_errors_that_come_again_are_expected(delay, gain):
    X, y = slow(500, 0.98)
    rows, found = problems.online(None, 2, size=120).rows, []
    network = Network(domkl.graph.named("ring", 1), domkl.Exchange())
    for t in range(500):
        found.append(rows.predict(X[:, t]))
        if t >= delay:
            s = t - delay
            rows.merge(network.exchange_round(rows, rows.learn(rows.predict(X[:, s]), y[:, s], found[s])))
    late = range(250, 500)
    experts = np.array([found[t].experts[0] - y[0, t] for t in late])
    errors = dict(zip(EXPERT_NAMES, (experts**2).mean(0), strict=True))
    together = np.mean([(found[t].y_hat[0] - y[0, t]) ** 2 for t in late])
    assert errors["residual"] < gain * errors["blend"]
    assert together < 1.05 * errors["residual"]


def test_the_residual_model_costs_next_to_nothing_where_errors_do_not_come_again():
    X, y = slow(300, 0.0)
    model, without = problems.online(None, 2, size=120), problems.online(None, 2, size=120)
    without.rows.residual.expected = lambda: np.zeros(1)
    errors = [np.mean((problems.taught_alone(one, X[0], y[0]) - y[0]) ** 2) for one in (model, without)]
    assert errors[0] < 1.01 * errors[1]

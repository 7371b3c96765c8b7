"""The experts with a learner's own samples: alone, personal and shrunk."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import domkl
import naive
import problems
from domkl.learning import losses, second_order
from domkl.learning.auto import EXPERT_NAMES, C
from domkl.learning.auto.own import Own
from domkl.learning.auto.residual import ResidualModel

ALONE = EXPERT_NAMES.index("alone")


def made(J=1, K=5, loss=None):
    own = Own(loss or losses.squared(), np.float64, second_order.Inverse.diagonal)
    own.reset(J, K)
    return own


def data(T, J=1, K=5):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(T, J, C.models, K))
    return Z, (Z @ rng.normal(size=K)).mean(-1) + rng.normal(0, 0.1, (T, J)), rng.normal(size=Z.shape)


def test_scores_are_those_of_the_literal_twin():
    Z, y, c = data(50, J=3)
    own, found = made(3), []
    for t in range(50):
        scores = own.scores(Z[t], c[t])
        found.append(np.column_stack([scores.alone, scores.personal, scores.shrunk]))
        own.learn(Z[t], y[t], c[t])
    ridges = C.own_strong, C.own_weak, C.own_stride, C.own_momentum
    for j in range(3):
        twins = [naive.own_samples(Z[:, j, p], y[:, j], c[:, j, p], *ridges) for p in range(C.models)]
        np.testing.assert_allclose(np.array(found)[:, j], np.mean(twins, 0), rtol=1e-8, atol=1e-10)


def test_the_weak_ridge_is_soon_that_of_a_matrix_of_its_own():
    Z, y, c = data(300)
    own = made()
    for t in range(300):
        own.learn(Z[t], y[t], c[0])
    weak, personal = [], []
    for p in range(C.models):
        M = 2 * Z[:, 0, p].T @ Z[:, 0, p] + C.own_weak * np.eye(5)
        b = 2 * Z[:, 0, p].T @ y[:, 0]
        weak.append(Z[0, 0, p] @ np.linalg.solve(M, b))
        personal.append(Z[0, 0, p] @ np.linalg.solve(M, b + C.own_weak * c[0, 0, p]))
    found = own.scores(Z[0], c[0])
    np.testing.assert_allclose(found.alone[0, 0], np.mean(weak), rtol=1e-3)
    np.testing.assert_allclose(found.personal[0], np.mean(personal), rtol=1e-3)


def lie(own, sent):
    return -1e3 * sent


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_alone_never_listens(loss):
    X, y = problems.streams(4, 150, 2, classify=loss == "logistic")
    model = domkl.Auto(size=80, loss=loss, forgetting="none")
    honest, lied_to = (
        domkl.simulate(X, y, "ring", model=model, exchange=domkl.Exchange(screen=screen))
        for screen in (None, lie)
    )
    np.testing.assert_array_equal(honest.alone, lied_to.alone)
    assert (honest.mse != lied_to.mse).all()
    assert honest.alone.max() < 0.5


def test_alone_is_a_learner_without_neighbours_that_has_the_same_samples():
    X, y = problems.streams(3, 90, 2)
    model, learnt = problems.online(nx.cycle_graph(3), 2, size=80), []
    own = model.rows.joint.own
    learn, reset = own.learn, own.reset
    own.learn = lambda z, y, c, counts=None: (learnt.append((z, y)), learn(z, y, c, counts))
    own.reset = lambda J, K: (learnt.clear(), reset(J, K))
    for t in range(90):
        model.learn(X[:, t], y[:, t])
    rng, z = np.random.default_rng(0), learnt[-1][0] * 0.9
    for j in range(3):
        lone = made(1, z.shape[-1])
        for features, label in learnt:
            lone.learn(features[[j]], label[[j]], rng.normal(size=z[[j]].shape))
        found = own.scores(z, model.rows.joint.common).alone[[j]]
        np.testing.assert_allclose(lone.scores(z[[j]], 0 * z[[j]]).alone, found, rtol=1e-9)


def apart(a, J=4, T=300):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (J, T, 2))
    own = np.stack([np.sin(2 * X[j] @ rng.normal(size=2) + j) for j in range(J)])
    return X, np.cos(2 * X[..., 0]) + a * own


def test_learners_with_nothing_in_common_do_as_well_as_alone():
    X, y = apart(5.0)
    model, found = problems.online(nx.complete_graph(4), 2, size=100), []
    for t in range(300):
        prediction = model.rows.predict(X[:, t])
        found.append(np.column_stack([prediction.y_hat, prediction.experts]) - y[:, [t]])
        model.learn(X[:, t], y[:, t])
    together, own, *_ = np.mean(np.square(found[150:]), (0, 1))
    alone = np.square(found[150:])[..., 1 + ALONE].mean()
    assert together < 1.1 * alone
    assert own < 1.1 * alone  # nobody uses what the others send
    assert np.nanmax(model.network.trust) < 0.5


def test_learners_with_something_in_common_do_better_than_alone_and_than_one_for_all():
    X, y = apart(0.5)
    run = domkl.simulate(X, y, "complete", model=domkl.Auto(size=100))
    assert run.mse.mean() < 0.85 * run.alone.mean()


def test_a_sample_out_of_range_is_left_out():
    Z, y, c = data(2)
    own = made()
    own.learn(Z[0], y[0], c[0])
    before = own.m.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        own.learn(Z[1] * 1e300, np.array([1e300]), c[0])
    np.testing.assert_array_equal(own.m, before)
    assert np.isfinite(own.scores(Z[1], c[0]).alone).all()


@pytest.mark.parametrize(("stays", "low", "high"), [(0.0, 1.0, 1.1), (0.9, 6.0, 12.0)])
def test_errors_that_resemble_the_last_count_less(stays, low, high):
    rng, model, error = np.random.default_rng(0), ResidualModel(1), np.zeros(1)
    for _ in range(1000):
        error = stays * error + rng.normal(0, 0.1, 1)
        model.learn(model.last, error)
    assert low <= model.repeats()[0] < high


def test_new_inputs_and_forgetting_reach_the_own_samples():
    Z, y, c = data(40)
    own = made()
    for t in range(40):
        own.learn(Z[t], y[t], c[t])
    alone = own.scores(Z[0], c[0]).alone
    own.grow(2)
    wider = [np.pad(v, ((0, 0), (0, 0), (0, 2))) for v in (Z[0], c[0])]
    np.testing.assert_allclose(own.scores(*wider).alone, alone, rtol=1e-10)
    size = np.abs(own.m).max()
    own.fade(second_order.pace(10, 7), 10)
    assert np.abs(own.m).max() < size
    assert np.isfinite(own.scores(*wider).alone).all()


def moving(T=140, J=12, season=60.0):
    """Inputs that wander, and one that tells places apart; targets that follow the first."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(J, T, 3))
    X[..., 0] += np.arange(T) / season * 4
    X[..., 2] = np.arange(J)[:, None]
    return X, X[..., 0] - X[..., 1] + rng.normal(0, 0.1, (J, T))


@pytest.mark.parametrize(("season", "again"), [(60.0, 1), (np.inf, 0)])
def test_a_scale_of_few_rounds_is_taken_again_only_if_inputs_have_moved(season, again):
    X, y = moving(T=C.looks + 1, season=season)
    model = problems.online(nx.complete_graph(12), 3, size=80)
    scales = set()
    for t in range(C.looks + 1):
        model.learn(X[:, t], y[:, t])
        if t >= model.rows.warm.looks:
            scales.add(model.rows.scale.number)
    assert model.rows.warm.looks < C.looks
    assert len(scales) == 1 + again

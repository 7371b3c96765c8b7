"""The model without settings over a network: raw scales, missing values, any graph, no look ahead."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.base.errors import InputError
from domkl.learning.auto import EXPERT_NAMES, C

SMALL = domkl.Auto(size=160)


def test_a_network_learns_from_raw_data_without_any_setting():
    X, y = (values[:, :240] for values in problems.streams(5, 250, 3))
    run = domkl.simulate(1e4 * X + 3e5, 5000 * y - 7e4, "ring", model=SMALL)
    assert np.nanmin(run.trust) == 1  # while one is refused, only one end of its edge has dropped the dual
    assert ((run.y_hat - (5000 * y - 7e4)) ** 2)[:, 100:].mean() < 0.03 * 5000**2
    assert run.theta.shape == run.lam.shape == (5, 2, 60)  # 21 of the additive model, 17 others
    assert 0 < run.cv.max() < 0.05 * 5000**2
    assert 150 < run.sent <= 165
    assert np.abs(run.lam.sum(0)).max() < 1e-10


def test_exchange_pays():
    X, y = problems.streams(5, 150, 3)
    together = domkl.simulate(X, y, "ring", model=SMALL)
    alone = [domkl.simulate(X[[j]], y[[j]], nx.empty_graph(1), model=SMALL).mse[0] for j in range(2)]
    assert together.mse[:2].mean() < 0.8 * np.mean(alone)


@pytest.mark.skipif("native" not in problems.ENGINES, reason="the native engine was not built")
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_engines_give_the_same_numbers(loss):
    X, y = problems.streams(3, 90, 3, classify=loss == "logistic")
    X[1, ::7, 2] = np.nan
    model = domkl.Auto(size=160, loss=loss)
    slow, fast, two = (
        domkl.simulate(X, y, "path", model=model, engine=name, threads=n)
        for name, n in (("numpy", 1), ("native", 1), ("native", 2))
    )
    for name in ("y_hat", "theta", "lam", "mse", "cv"):
        expected = getattr(slow, name)
        atol = 1e-8 * np.abs(expected).max()
        np.testing.assert_allclose(getattr(fast, name), expected, rtol=1e-8, atol=atol, err_msg=name)
        np.testing.assert_array_equal(getattr(two, name), getattr(fast, name), err_msg=name)


def test_an_engine_that_cannot_run_it_is_refused():
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match="'mpi' has no second-order step"):
        domkl.simulate(X, y, "path", model=SMALL, engine="mpi")


@pytest.mark.parametrize("graph", ["star", "complete", "path"])
def test_any_graph(graph):
    X, y = problems.streams(8, 130, 2)
    run = domkl.simulate(X, y, graph, model=SMALL)
    assert ((run.y_hat - y) ** 2)[:, 65:].mean() < 0.04


def test_scale_does_not_matter():
    X, y = problems.streams(3, 100, 4)
    size, shift = np.array([1e-3, 1e6, 1.0, 50.0]), np.array([5.0, -3e6, 0.0, 1.0])
    runs = [domkl.simulate(data, y, "ring", model=SMALL) for data in (X, X * size + shift)]
    np.testing.assert_allclose(runs[0].y_hat, runs[1].y_hat, atol=1e-4)
    large = domkl.simulate(X, 4000 * y + 9000, "ring", model=SMALL)
    np.testing.assert_allclose(large.y_hat[:, 1:], 4000 * runs[0].y_hat[:, 1:] + 9000, rtol=1e-4)


def test_raw_columns_of_any_size_do_as_well_as_scaled_ones():
    rng = np.random.default_rng(1)
    X, y = problems.streams(3, 200, 3)
    tails = rng.standard_t(1.5, size=(3, 200, 1))
    X = np.concatenate([X, np.ones((3, 200, 1)), tails], -1)
    y = 3000 + 700 * (y + 0.1 * np.tanh(tails[..., 0]))
    raw = X * np.array([1e-3, 1e6, 50.0, 7.0, 1e4]) + np.array([5.0, -3e6, 0.0, 0.0, 1e3])
    flat = raw.reshape(-1, 5)
    ready = (raw - flat.min(0)) / np.maximum(np.ptp(flat, 0), 1e-9)
    model = domkl.Auto(size=160, start=3000.0)
    run, best = (domkl.simulate(data, y, "ring", model=model) for data in (raw, ready))
    assert np.isfinite(run.y_hat).all()
    assert run.mse.mean() < 1.05 * best.mse.mean()
    assert ((run.y_hat - y) ** 2)[:, 120:].mean() < 0.1 * y.var()


def test_before_the_scale_is_common_neighbours_know_of_each_other_and_others_do_not():
    X, y = problems.streams(4, 2, 2)
    y[:, 0] = [0.0, 30.0, 90.0, 50.0]
    y_hat = domkl.simulate(X, y, "path", model=SMALL).y_hat
    for learner, heard in ((2, True), (3, False)):
        changed = y.copy()
        changed[learner, 0] += 50
        other = domkl.simulate(X, changed, "path", model=SMALL).y_hat
        assert (other[1, 1] != y_hat[1, 1]) == heard


def test_learners_who_live_in_different_seasons_do_not_follow_the_average():
    """Each learner has its own level of inputs and targets: what neighbours know is far off at first."""
    rng, J, T = np.random.default_rng(0), 8, 48
    level = rng.uniform(0, 10, (J, 1))
    walk = level + rng.normal(0, 0.2, (J, T))
    X, y = np.stack([walk, rng.uniform(size=(J, T))], -1), level + np.sin(walk) + rng.normal(0, 0.1, (J, T))
    model = problems.online(nx.complete_graph(J), 2, forgetting="none")
    experts, y_hat = [], []
    for t in range(T):
        found = model.rows.predict(X[:, t])
        experts.append((found.experts - y[:, [t]]) ** 2)
        y_hat.append((found.y_hat - y[:, t]) ** 2)
        model.learn(X[:, t], y[:, t])
    own, averaged, *_ = np.mean(experts[8:], (0, 1))
    assert averaged < 10 * own  # as those who err much have no part in it, once that is clear
    assert np.nanmax(model.network.trust) < 0.9
    assert np.mean(y_hat[8:]) < 1.2 * own


def test_one_expert_is_a_blend_and_new_experts_begin_with_little_weight():
    X, y = problems.streams(3, 66, 3)
    model = problems.online(nx.cycle_graph(3), 3)
    for t in range(64):
        model.learn(X[:, t], y[:, t])
    w = model.rows.experts.weights()
    found = dict(zip(EXPERT_NAMES, model.rows.predict(X[:, 64]).experts.T, strict=True))
    blend = (1 - C.blend) * found["neighbours"] + C.blend * found["long memory"]
    assert np.allclose(found["blend"], blend)
    assert np.allclose(w[:, EXPERT_NAMES.index("long memory") :].sum(-1), C.untried, atol=2e-3)


def test_constant_missing_and_heavy_tailed_columns_stay_finite():
    rng = np.random.default_rng(0)
    X, y = problems.streams(3, 200, 2)
    X = np.concatenate([X, np.full((3, 200, 1), 7.0), rng.standard_cauchy((3, 200, 1)) ** 5], -1)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    X[:, :20, 1] = np.nan
    run = domkl.simulate(X, y, "ring", model=SMALL)
    assert np.isfinite(run.y_hat).all()
    assert ((run.y_hat - y) ** 2)[:, 100:].mean() < 0.5 * y.var()


@pytest.mark.parametrize("delay", [0, 2])
def test_no_prediction_depends_on_a_label_that_is_not_known_yet(delay):
    X, y = problems.streams(3, 90, 2)
    model = domkl.Auto(size=60)
    whole = domkl.simulate(X, y, "path", model=model, delay=delay).y_hat
    for t in (0, 7, 8, 63, 64):
        changed = y.copy()
        changed[:, t] += 1
        known = t + delay + 1
        some = slice(known + 4)
        y_hat = domkl.simulate(X[:, some], changed[:, some], "path", model=model, delay=delay).y_hat
        np.testing.assert_array_equal(y_hat[:, :known], whole[:, :known])
        assert (y_hat[:, known:] != whole[:, some][:, known:]).any(1).all()


def test_float32_and_blocks():
    X, y = problems.streams(3, 90, 2)
    whole = domkl.simulate(X, y, "ring", model=SMALL)
    blocks = domkl.simulate([(X[:, :50], y[:, :50]), (X[:, 50:], y[:, 50:])], None, "ring", model=SMALL)
    np.testing.assert_array_equal(whole.y_hat, blocks.y_hat)
    small = domkl.simulate(X, y, "ring", model=SMALL, dtype=np.float32)
    np.testing.assert_allclose(small.mse, whole.mse, rtol=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 5}, "size is 5; expected a whole number from 16 to 20000"),
        ({"loss": "huber"}, "loss is 'huber'"),
        ({"forgetting": "never"}, "forgetting is 'never'"),
        ({"forgetting": -1.0}, "forgetting is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"start": np.nan}, "start is nan"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(wrong, message):
    with pytest.raises(InputError, match=message) as caught:
        domkl.Auto(**wrong)
    assert "\n" not in str(caught.value)


def test_infinite_inputs_are_refused():
    X, y = problems.streams(3, 5, 2)
    X[0, 2, 1] = np.inf
    with pytest.raises(InputError, match="infinite"):
        domkl.simulate(X, y, "ring", model=SMALL)


def test_regret_against_the_best_fixed_function_grows_slower_than_the_rounds():
    X, y = problems.streams(3, 600, 2)
    y = y + 0.2 * np.random.default_rng(0).standard_normal(y.shape)
    model = problems.online(nx.cycle_graph(3), 2, size=80, forgetting="none")
    y_hat = problems.taught(model, X.swapaxes(0, 1), y.T).T
    joint, scale = model.rows.joint, model.rows.scale
    regret = []
    for T in (150, 600):
        z = joint.features.of(X[:, :T], scale.inputs).reshape(3 * T, 2, -1)
        labels = y[:, :T].ravel()
        best = min(((z[:, p] @ np.linalg.lstsq(z[:, p], labels)[0] - labels) ** 2).sum() for p in (0, 1))
        regret.append(((y_hat - y)[:, :T] ** 2).sum() - best)
    assert regret[0] > 0
    assert regret[1] < 4**0.6 * regret[0]

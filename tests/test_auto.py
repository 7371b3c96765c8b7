"""The learner without settings: scales, missing values, late inputs, intervals, networks."""

from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl import auto
from domkl.auto import Model
from domkl.errors import InputError


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Networks of small models: the same code, quicker."""
    make = auto.Network.__init__
    monkeypatch.setattr(auto.Network, "__init__", lambda self, *a, **k: make(self, *a, **{"size": 160, **k}))


def taught(model, X, y):
    y_hat = []
    for x, label in zip(X, y, strict=True):
        y_hat.append(model.predict(x))
        model.learn(x, label)
    return np.array(y_hat)


def stream(n, d=3, seed=0, classify=False):
    X, y = problems.streams(1, n, d, seed, classify)
    return X[0], y[0]


def test_a_network_learns_from_raw_data_without_any_setting():
    X, y = problems.streams(5, 400, 3)
    run = domkl.simulate(1e4 * X + 3e5, 5000 * y - 7e4, "ring", preset="auto")
    assert ((run.y_hat - (5000 * y - 7e4)) ** 2)[:, 100:].mean() < 0.03 * 5000**2
    assert run.theta.shape == run.lam.shape == (5, 2, 80)
    assert 0 < run.cv.max() < 0.05 * 5000**2
    assert 150 < run.sent < 180
    assert np.abs(run.lam.sum(0)).max() < 1e-10


def test_exchange_pays():
    X, y = problems.streams(5, 300, 3)
    together = domkl.simulate(X, y, "ring", preset="auto")
    alone = [domkl.simulate(X[[j]], y[[j]], nx.empty_graph(1), preset="auto").mse[0] for j in range(5)]
    assert together.mse.mean() < 0.8 * np.mean(alone)


@pytest.mark.skipif("native" not in problems.ENGINES, reason="the native engine was not built")
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_engines_give_the_same_numbers(loss):
    X, y = problems.streams(3, 150, 3, classify=loss == "logistic")
    X[1, ::7, 2] = np.nan
    common = {"preset": "auto", "loss": loss}
    slow, fast, two = (
        domkl.simulate(X, y, "path", engine=name, threads=n, **common)
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
        domkl.simulate(X, y, "path", preset="auto", engine="mpi")


@pytest.mark.parametrize("graph", ["star", "complete", "path"])
def test_any_graph(graph):
    X, y = problems.streams(8, 200, 2)
    run = domkl.simulate(X, y, graph, preset="auto")
    assert ((run.y_hat - y) ** 2)[:, 100:].mean() < 0.04


def test_scale_does_not_matter():
    X, y = problems.streams(3, 200, 4)
    size, shift = np.array([1e-3, 1e6, 1.0, 50.0]), np.array([5.0, -3e6, 0.0, 1.0])
    runs = [domkl.simulate(data, y, "ring", preset="auto") for data in (X, X * size + shift)]
    np.testing.assert_allclose(runs[0].y_hat, runs[1].y_hat, atol=1e-4)
    large = domkl.simulate(X, 4000 * y + 9000, "ring", preset="auto")
    np.testing.assert_allclose(large.y_hat[:, 1:], 4000 * runs[0].y_hat[:, 1:] + 9000, rtol=1e-4)


def test_constant_missing_and_heavy_tailed_columns_stay_finite():
    rng = np.random.default_rng(0)
    X, y = problems.streams(3, 300, 2)
    X = np.concatenate([X, np.full((3, 300, 1), 7.0), rng.standard_cauchy((3, 300, 1)) ** 5], -1)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    X[:, :20, 1] = np.nan
    run = domkl.simulate(X, y, "ring", preset="auto")
    assert np.isfinite(run.y_hat).all()
    assert ((run.y_hat - y) ** 2)[:, 150:].mean() < 0.5 * y.var()


def test_no_prediction_depends_on_a_label_that_is_not_known_yet():
    X, y = problems.streams(3, 90, 2)
    for t in (0, 3, 7, 8, 63, 64, 80):
        changed = y.copy()
        changed[:, t] += 1
        for delay in (0, 2):
            runs = [domkl.simulate(X, labels, "path", preset="auto", delay=delay) for labels in (y, changed)]
            known = t + delay + 1
            np.testing.assert_array_equal(runs[0].y_hat[:, :known], runs[1].y_hat[:, :known])


def test_float32_and_blocks():
    X, y = problems.streams(3, 150, 2)
    whole = domkl.simulate(X, y, "ring", preset="auto")
    blocks = domkl.simulate([(X[:, :70], y[:, :70]), (X[:, 70:], y[:, 70:])], None, "ring", preset="auto")
    np.testing.assert_array_equal(whole.y_hat, blocks.y_hat)
    small = domkl.simulate(X, y, "ring", preset="auto", dtype=np.float32)
    np.testing.assert_allclose(small.mse, whole.mse, rtol=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"preset": "autos"}, "did you mean 'auto'"),
        ({"preset": "auto", "rates": domkl.Rates(1, 1, 1)}, "rates is given with preset='auto'"),
        ({"preset": "auto", "kernels": np.ones((1, 2, 2))}, "kernels is given"),
    ],
)
def test_wrong_presets_are_refused(wrong, message):
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match=message):
        domkl.simulate(X, y, "ring", **wrong)


def test_infinite_inputs_are_refused():
    X, y = problems.streams(3, 5, 2)
    X[0, 2, 1] = np.inf
    with pytest.raises(InputError, match="infinite"):
        domkl.simulate(X, y, "ring", preset="auto")


# One device


def test_a_model_is_a_network_of_one():
    X, y = stream(150)
    run = domkl.simulate(X[None], y[None], nx.empty_graph(1), preset="auto")
    np.testing.assert_array_equal(taught(Model(3, size=160), X, y), run.y_hat[0])


def test_models_copy_pickle_and_repeat():
    X, y = stream(120)
    for n in (0, 10, 100):
        model = Model(3, size=160)
        taught(model, X[:n], y[:n])
        twins = [model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        y_hat = [taught(one, X[n:], y[n:]) for one in twins]
        np.testing.assert_array_equal(y_hat[0], y_hat[1])
        np.testing.assert_array_equal(y_hat[0], y_hat[2])


def test_memory_stays_constant_after_the_warm_up():
    X, y = stream(auto.WARM_UP + 200)
    model, sizes = Model(3, size=160), []
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
        sizes.append(len(pickle.dumps(model)))
    sizes = sizes[auto.WARM_UP + 1 :]
    assert len(set(sizes)) <= 2  # a counter may need one byte more
    assert max(sizes) - min(sizes) <= 8


def test_classification_gives_scores():
    X, y = stream(500, classify=True)
    scores = taught(Model(3, loss="logistic", size=160), X, y)
    assert np.abs(scores).max() <= 1
    assert (np.sign(scores) == y)[250:].mean() > 0.9
    zeros = taught(Model(3, loss="logistic", size=160), X, (y + 1) / 2)
    np.testing.assert_array_equal(scores, zeros)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_intervals_are_calibrated(coverage):
    X, y = stream(1500)
    y[700:] += np.random.default_rng(1).standard_normal(800) * 0.3  # the noise grows
    model, hits = Model(3, size=80), []
    for x, label in zip(X, y, strict=True):
        low, high = model.interval(x, coverage)
        hits.append(low <= label <= high)
        model.learn(x, label)
    assert abs(np.mean(hits[100:]) - coverage) < 0.05
    assert abs(np.mean(hits[-500:]) - coverage) < 0.05


def test_an_interval_without_knowledge_is_infinite():
    assert Model(2, size=40).interval([1.0, 2.0]) == (-np.inf, np.inf)
    with pytest.raises(InputError, match="coverage is 1"):
        Model(2, size=40).interval([1.0, 2.0], 1)


@pytest.mark.parametrize("when", [10, 150])
def test_inputs_that_come_later_help_and_change_nothing_before(when):
    X, y = stream(900, d=3)
    y = y + 2 * X[:, 2]
    model, twin = Model(2, size=160), Model(2, size=160)
    early = taught(model, X[:when, :2], y[:when])
    np.testing.assert_array_equal(early, taught(twin, X[:when, :2], y[:when]))
    before = model.predict(X[when, :2])
    model.grow(3)
    assert model.d == 3
    if when > auto.WARM_UP:
        assert model.predict([*X[when, :2], np.nan]) == pytest.approx(before, abs=1e-9)
        assert model.predict(X[when]) == pytest.approx(before, abs=1e-9)  # its scale is not known yet
    late = taught(model, X[when:], y[when:])
    without = taught(twin, X[when:, :2], y[when:])
    assert ((late - y[when:]) ** 2)[-300:].mean() < 0.3 * ((without - y[when:]) ** 2)[-300:].mean()


@pytest.mark.parametrize("J", [1, 4])
def test_the_past_is_dropped_when_it_misleads(J):
    X, y = problems.streams(J, 1300, 3)
    y[:, 700:] *= -1
    errors, networks = {}, {}
    for forgets in (False, True):
        graph = domkl.graph.as_graph(nx.cycle_graph(J) if J > 1 else nx.empty_graph(1))
        network = auto.Network(graph, 3, domkl.losses.get("squared"), forgets=forgets)
        sums = domkl.engines.Sums.zero(J, 2)
        y_hat = np.stack(list(auto.rounds(network, [(X, y)], 0, sums, lambda _: None)), 1)
        errors[forgets], networks[forgets] = (y_hat - y) ** 2, network
    assert networks[False].restarts == 0 < networks[True].restarts <= 2
    np.testing.assert_allclose(errors[True][:, :700].mean(), errors[False][:, :700].mean(), rtol=0.03)
    assert errors[True][:, 900:].mean() < 0.3 * errors[False][:, 900:].mean()
    assert np.abs(networks[True].state.lam.sum(0)).max() < 1e-9


def test_a_given_memory_follows_a_change():
    X, y = stream(1400)
    y[700:] *= -1
    errors = {
        memory: ((taught(Model(3, size=160, forgetting=memory), X, y) - y) ** 2)[1000:].mean()
        for memory in ("none", 120.0, "auto")
    }
    assert errors[120.0] < 0.3 * errors["none"]
    assert errors["auto"] < 0.3 * errors["none"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Model(0), "d is 0"),
        (lambda: Model(2, loss="huber"), "loss is 'huber'"),
        (lambda: Model(2, forgetting="never"), "forgetting is 'never'"),
        (lambda: Model(2, size=40).predict([1.0]), "x has shape"),
        (lambda: Model(2, size=40).predict([1.0, np.inf]), "infinite"),
        (lambda: Model(2, size=40).learn([1.0, 2.0], np.nan), "y is nan"),
        (lambda: Model(2, size=40).grow(1), "at least 2"),
        (lambda: Model(2, size=40, loss="logistic").learn([1.0, 2.0], 3), "label 3"),
    ],
)
def test_wrong_use_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)

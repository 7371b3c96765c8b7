"""The front door: one device and a network, sample by sample, give what their long forms give."""

from __future__ import annotations

import copy
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.base.errors import InputError
from domkl.learner import handed
from problems import taught

SMALL = domkl.Auto(size=60)
BOTH = pytest.mark.parametrize("settings", [SMALL, domkl.Paper()], ids=["auto", "paper"])


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_one_device_is_the_model_of_auto(loss):
    X, y = problems.streams(1, 120, 3, classify=loss == "logistic")
    mine = taught(domkl.DOMKL(model=domkl.Auto(loss=loss, seed=2, size=60)), X[0], y[0])
    run = domkl.simulate(X, y, nx.empty_graph(1), model=domkl.Auto(loss=loss, seed=2, size=60))
    np.testing.assert_array_equal(mine, run.y_hat[0])


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("forgetting", ["auto", "none"])
def test_a_network_round_by_round_is_the_simulators(loss, forgetting):
    X, y = problems.streams(4, 120, 3, classify=loss == "logistic")
    X[0, 5, 1] = np.nan
    model = domkl.Auto(loss=loss, seed=2, size=60, start=0.2, forgetting=forgetting)
    run = domkl.simulate(X, y, "ring", model=model)
    mine = taught(domkl.DOMKL("ring", model=model), X.swapaxes(0, 1), y.T)
    np.testing.assert_array_equal(mine.T, run.y_hat)


def test_predictions_may_be_left_out_or_repeated_and_changed():
    X, y = problems.streams(3, 60, 2)
    X, y = X.swapaxes(0, 1), y.T
    often, never = domkl.DOMKL("path", model=SMALL), domkl.DOMKL("path", model=SMALL)
    for x, label in zip(X, y, strict=True):
        often.predict(x)
        often.predict(x + 1)[:] = 7.0
        often.learn(x, label)
        never.learn(x, label)
    np.testing.assert_array_equal(often.predict(X[0]), never.predict(X[0]))


@BOTH
def test_copies_continue_apart(settings):
    X, y = problems.streams(1, 100, 2)
    model = domkl.DOMKL(model=settings)
    taught(model, X[0, :50], y[0, :50])
    again = copy.deepcopy(model)
    np.testing.assert_array_equal(taught(model, X[0, 50:], y[0, 50:]), taught(again, X[0, 50:], y[0, 50:]))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_papers_step_is_that_of_river(loss):
    river = pytest.importorskip("domkl.river")
    X, y = problems.streams(1, 300, 3, classify=loss == "logistic")
    X[0, 7, 1] = np.nan
    mine = taught(domkl.DOMKL(model=domkl.Paper(loss=loss)), X[0], y[0])
    rows = [dict(enumerate(x)) for x in X[0].tolist()]
    if loss == "squared":
        other, theirs = river.MultiKernelRegressor(domkl.Paper()), []
        for x, label in zip(rows, y[0], strict=True):
            theirs.append(other.predict_one(x))
            other.learn_one(x, label)
        assert np.mean((mine - y[0])[200:] ** 2) < 0.2 * y.var()
    else:
        other, theirs = river.MultiKernelClassifier(domkl.Paper()), []
        for x, label in zip(rows, y[0], strict=True):
            theirs.append(2 * other.predict_proba_one(x).get(1.0, 0.5) - 1)
            other.learn_one(x, label)
        theirs[1] = mine[1]  # River knows a single class there
        assert np.abs(mine).max() < 1
    np.testing.assert_allclose(mine, theirs, atol=1e-4)


@BOTH
def test_inputs_may_be_added(settings):
    X, y = problems.streams(1, 400, 2)
    model = domkl.DOMKL(model=settings)
    taught(model, X[0, :200, :1], y[0, :200])
    before = model.predict([0.3])
    with pytest.raises(InputError, match=r"x has shape \(2,\); expected \(1,\); .*grow\(\)"):
        model.predict([0.3, 0.0])
    model.grow(2)
    assert model.predict([0.3, np.nan]) == pytest.approx(before, abs=0.1)
    more = taught(model, X[0, 200:], y[0, 200:]) - y[0, 200:]
    assert np.mean(more[100:] ** 2) < 0.15 * y.var()
    with pytest.raises(InputError, match="d is 1; expected a whole number of at least 2"):
        model.grow(1)


def test_inputs_may_be_added_before_the_first_sample():
    model = domkl.DOMKL(model=SMALL)
    model.grow(3)
    assert model.predict([1.0, 2.0, 3.0]) == 0
    with pytest.raises(InputError, match=r"expected \(3,\)"):
        model.learn([1.0, 2.0], 1.0)


@BOTH
def test_one_device_is_handed_over(tmp_path, settings):
    X, y = problems.streams(1, 80, 2)
    model = domkl.DOMKL(model=settings)
    taught(model, X[0], y[0])
    model.hand_over(tmp_path / "a.model")
    assert handed.read(tmp_path / "a.model").inputs == 2


def test_the_first_prediction_is_start():
    model = domkl.DOMKL(model=domkl.Auto(size=60, start=0.4))
    assert model.predict([1.0]) == 0.4
    model.learn([1.0], 7.0)
    assert model.predict([1.0]) == pytest.approx(7)


def test_changing_a_sample_in_place_is_noticed():
    X, y = problems.streams(1, 60, 2)
    models = [domkl.DOMKL(model=domkl.Paper()) for _ in range(2)]
    for model in models:
        taught(model, X[0], y[0])
    x = X[0, 0].copy()
    models[0].predict(x)
    x += 0.5
    for model in models:
        model.learn(x, 3.0)
    assert models[0].predict(X[0, 1]) == models[1].predict(X[0, 1])


@BOTH
def test_an_interval_holds_the_label_about_as_often_as_asked(settings):
    X, y = problems.streams(1, 400, 2)
    model, held = domkl.DOMKL(model=settings), []
    for x, label in zip(X[0], y[0], strict=True):
        low, high = model.interval(x, 0.8)
        held.append(low <= label <= high)
        model.learn(x, label)
    assert 0.7 < np.mean(held[100:]) < 0.9
    assert np.ptp(model.interval(X[0, 0], 0.8)) < 2 * np.ptp(y)


def test_each_learner_of_a_network_has_an_interval():
    X, y = problems.streams(3, 400, 2)
    y[1] += np.random.default_rng(0).standard_normal(400)  # one of them has more noise
    network, held, wide = domkl.DOMKL("ring", model=SMALL), [], []
    for t in range(400):
        low, high = network.interval(X[:, t], 0.8)
        held.append((low <= y[:, t]) & (y[:, t] <= high))
        wide.append(high - low)
        network.learn(X[:, t], y[:, t])
    assert (np.abs(np.mean(held[100:], 0) - 0.8) < 0.08).all()
    assert np.isinf(wide[0]).all()
    assert wide[-1][1] > 2 * wide[-1][0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: domkl.DOMKL().predict(3.0), r"x has shape \(\); expected \(d,\)"),
        (lambda: domkl.DOMKL("ring").predict([1.0]), r"X has shape \(1,\); expected \(J, d\)"),
        (lambda: domkl.DOMKL("wheel").predict(np.ones((3, 2))), "graph is 'wheel'"),
        (lambda: domkl.DOMKL("ring").learn(np.ones((3, 2)), [1.0]), r"y has shape \(1,\)"),
        (lambda: domkl.DOMKL("ring").predict(np.full((3, 2), np.inf)), "infinite"),
        (lambda: domkl.DOMKL("ring").interval(np.ones((3, 2)), 2), "coverage is 2"),
        (lambda: domkl.DOMKL("ring").grow(3), "a network's inputs cannot grow"),
        (lambda: domkl.DOMKL().grow(0), "d is 0"),
        (lambda: domkl.DOMKL(model=domkl.Paper()).learn([1.0], [1.0, 2.0]), "y has 2 targets"),
        (lambda: taught(domkl.DOMKL(), [[1.0]] * 2, [3.0, [1.0, 2.0]]), r"y has shape \(2,\)"),
        (lambda: domkl.DOMKL(model=domkl.Paper()).predict([np.inf]), "infinite"),
        (lambda: domkl.DOMKL(model=domkl.Auto(loss="logistic")).learn([1.0], 3.0), "label 3"),
        (lambda: domkl.DOMKL(model="atuo"), "model is 'atuo'"),
        (lambda: domkl.DOMKL("ring", model="atuo"), "model is 'atuo'"),
        (lambda: domkl.DOMKL("ring", model=domkl.Paper()), r"model is Paper.*use domkl.simulate"),
        (lambda: domkl.DOMKL(model=domkl.Paper(loss="huber")), "loss is 'huber'"),
        (lambda: domkl.DOMKL().hand_over("never.model"), "there is no model of one device"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_importing_domkl_loads_neither_numpy_nor_the_learners():
    code = "import domkl, sys; assert 'numpy' not in sys.modules and 'domkl.learning.auto' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

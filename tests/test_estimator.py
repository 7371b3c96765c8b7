"""The front door: one device and a network, sample by sample, give what their long forms give."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest

import domkl
import problems
from domkl.base.errors import InputError
from domkl.learning.auto import Model
from problems import taught

SMALL = {"size": 60}


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_one_device_is_the_model_of_auto(loss):
    X, y = problems.streams(1, 120, 3, classify=loss == "logistic")
    mine = taught(domkl.DOMKL(loss=loss, seed=2, **SMALL), X[0], y[0])
    np.testing.assert_array_equal(mine, taught(Model(3, loss=loss, seed=2, **SMALL), X[0], y[0]))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_network_round_by_round_is_the_simulators(loss):
    X, y = problems.streams(4, 120, 3, classify=loss == "logistic")
    X[0, 5, 1] = np.nan
    run = domkl.simulate(X, y, "ring", preset="auto", loss=loss, seed=2, **SMALL)
    mine = taught(domkl.DOMKL("ring", loss=loss, seed=2, **SMALL), X.swapaxes(0, 1), y.T)
    np.testing.assert_array_equal(mine.T, run.y_hat)


def test_predictions_may_be_left_out_or_repeated_and_changed():
    X, y = problems.streams(3, 60, 2)
    X, y = X.swapaxes(0, 1), y.T
    often, never = domkl.DOMKL("path", **SMALL), domkl.DOMKL("path", **SMALL)
    for x, label in zip(X, y, strict=True):
        often.predict(x)
        often.predict(x + 1)[:] = 7.0
        often.learn(x, label)
        never.learn(x, label)
    np.testing.assert_array_equal(often.predict(X[0]), never.predict(X[0]))


def test_copies_go_on_apart():
    X, y = problems.streams(1, 100, 2)
    model = domkl.DOMKL(**SMALL)
    taught(model, X[0, :50], y[0, :50])
    again = copy.deepcopy(model)
    np.testing.assert_array_equal(taught(model, X[0, 50:], y[0, 50:]), taught(again, X[0, 50:], y[0, 50:]))


def test_an_interval_holds_the_label_about_as_often_as_asked():
    X, y = problems.streams(1, 400, 2)
    model, held = domkl.DOMKL(**SMALL), []
    for x, label in zip(X[0], y[0], strict=True):
        low, high = model.interval(x, 0.8)
        held.append(low <= label <= high)
        model.learn(x, label)
    assert 0.7 < np.mean(held[100:]) < 0.9


def test_each_learner_of_a_network_has_an_interval():
    X, y = problems.streams(3, 400, 2)
    y[1] += np.random.default_rng(0).standard_normal(400)  # one of them hears more noise
    network, held, wide = domkl.DOMKL("ring", **SMALL), [], []
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
        (lambda: domkl.DOMKL(loss="cubic"), "loss is 'cubic'"),
        (lambda: domkl.DOMKL(size=3), "size is 3"),
        (lambda: domkl.DOMKL(seed=-1), "seed is -1"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_importing_domkl_loads_neither_numpy_nor_the_learners():
    code = "import domkl, sys; assert 'numpy' not in sys.modules and 'domkl.learning.auto' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

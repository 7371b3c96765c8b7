"""The model without settings on one device: copies, intervals, late inputs, refusals."""

from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.base.errors import InputError
from problems import taught_alone


def device(d, **settings):
    return problems.online(None, d, **settings)


def stream(n, d=3, seed=0, classify=False):
    X, y = problems.streams(1, n, d, seed, classify)
    return X[0], y[0]


def test_a_device_is_a_network_of_one():
    X, y = stream(150)
    run = domkl.simulate(X[None], y[None], nx.empty_graph(1), model=domkl.Auto(size=160))
    np.testing.assert_array_equal(taught_alone(device(3), X, y), run.y_hat[0])


def test_models_copy_pickle_and_repeat():
    X, y = stream(80)
    for n in (0, 10, 66):
        model = device(3)
        taught_alone(model, X[:n], y[:n])
        twins = [model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        y_hat = [taught_alone(one, X[n:], y[n:]) for one in twins]
        np.testing.assert_array_equal(y_hat[0], y_hat[1])
        np.testing.assert_array_equal(y_hat[0], y_hat[2])


def test_memory_stays_constant_after_the_warm_up(short_warm_up):
    X, y = stream(short_warm_up + 250)
    model, sizes = device(3, size=60), []
    for t in range(len(y)):
        model.learn(X[t, None], y[t, None])
        if t >= short_warm_up + 210:
            sizes.append(len(pickle.dumps(model)))
    assert max(sizes) - min(sizes) <= 16  # counters may need a byte more


def test_classification_gives_scores():
    X, y = stream(300, classify=True)
    scores = taught_alone(device(3, loss="logistic"), X, y)
    assert np.abs(scores).max() <= 1
    assert (np.sign(scores) == y)[150:].mean() > 0.9
    zeros = taught_alone(device(3, loss="logistic"), X, (y + 1) / 2)
    np.testing.assert_array_equal(scores, zeros)


def test_intervals_are_calibrated():
    X, y = stream(1500)
    y[700:] += np.random.default_rng(1).standard_normal(800) * 0.3  # the noise grows
    model, coverages = domkl.DOMKL(model=domkl.Auto(size=80)), (0.5, 0.8, 0.95)
    hits = np.zeros((1500, 3))
    for t in range(1500):
        for k, coverage in enumerate(coverages):
            low, high = model.interval(X[t], coverage)
            hits[t, k] = low <= y[t] <= high
        model.learn(X[t], y[t])
    assert np.abs(hits[100:].mean(0) - coverages).max() < 0.05
    assert np.abs(hits[-500:].mean(0) - coverages).max() < 0.05


def test_an_interval_without_knowledge_is_infinite():
    assert domkl.DOMKL().interval([1.0, 2.0]) == (-np.inf, np.inf)
    with pytest.raises(InputError, match="coverage is 1"):
        domkl.DOMKL().interval([1.0, 2.0], 1)


@pytest.mark.parametrize("when", [10, 100, 150])
def test_inputs_that_come_later_help_and_change_nothing_before(when, short_warm_up):
    X, y = stream(when + 220, d=3)
    y = y + 2 * X[:, 2]
    model, twin = device(2), device(2)
    early = taught_alone(model, X[:when, :2], y[:when])
    np.testing.assert_array_equal(early, taught_alone(twin, X[:when, :2], y[:when]))
    before = model.predict(X[when, None, :2])
    model.grow(3)
    assert model.d == 3
    if when > short_warm_up:
        assert model.predict([[*X[when, :2], np.nan]]) == pytest.approx(before, abs=1e-9)
        assert model.predict(X[when, None]) == pytest.approx(before, abs=1e-9)  # its scale is not known yet
    late = taught_alone(model, X[when:], y[when:])
    without = taught_alone(twin, X[when:, :2], y[when:])
    assert ((late - y[when:]) ** 2)[-100:].mean() < 0.3 * ((without - y[when:]) ** 2)[-100:].mean()


@pytest.mark.usefixtures("short_warm_up")
def test_a_late_input_may_change_everything():
    X, y = stream(400, d=3)
    y[120:] = 3 * X[120:, 2]
    model = device(2)
    taught_alone(model, X[:75, :2], y[:75])
    model.grow(3)
    late = taught_alone(model, X[75:], y[75:])
    assert ((late - y[75:]) ** 2)[-100:].mean() < 0.1 * y[120:].var()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: device(0), "d is 0"),
        (lambda: device(2).predict([[1.0]]), "X has shape"),
        (lambda: device(2).predict([1.0, 2.0]), "X has shape"),
        (lambda: device(2).predict([[1.0, np.inf]]), "infinite"),
        (lambda: device(2).learn([[1.0, 2.0]], [np.nan]), r"y\[0\] is nan"),
        (lambda: device(2).learn([[1.0, 2.0]], 1.0), "y has shape"),
        (lambda: device(2).grow(1), "at least 2"),
        (lambda: device(2, loss="logistic").learn([[1.0, 2.0]], [3]), "label 3"),
    ],
)
def test_wrong_use_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)

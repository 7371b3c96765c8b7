"""Bounds from the last errors."""

from __future__ import annotations

import numpy as np
import pytest

import domkl
import problems
from domkl.base.errors import InputError
from domkl.learning import conformal

PAPER = domkl.Paper(rates=domkl.Rates(0.1, 0.1, 1.0))


@pytest.mark.parametrize(("model", "delay"), [(PAPER, 0), (PAPER, 5), (domkl.Auto(size=60), 5)])
def test_bounds_of_a_run_are_calibrated_whatever_the_model(model, delay):
    X, y = problems.streams(3, 600, 2)
    run = domkl.simulate(X, y, "ring", model=model, delay=delay)
    low, high = conformal.bounds(run.y_hat, y, 0.8, delay)
    assert (np.abs(((low <= y) & (y <= high))[:, 100:].mean(1) - 0.8) < 0.06).all()


@pytest.mark.parametrize("inputs", [None, np.random.default_rng(1).standard_normal((2, 60, 3))])
def test_bounds_use_no_label_before_it_is_known(inputs):
    rng, delay = np.random.default_rng(0), 3
    y_hat, y = rng.standard_normal((2, 60)), rng.standard_normal((2, 60))
    low, _ = conformal.bounds(y_hat, y, 0.5, delay, inputs)
    other = y.copy()
    other[:, 40:] = 99.0
    changed, _ = conformal.bounds(y_hat, other, 0.5, delay, inputs)
    np.testing.assert_array_equal(changed[:, : 41 + delay], low[:, : 41 + delay])
    assert (changed[:, 48:] != low[:, 48:]).any()


def test_bounds_are_those_that_a_model_gives():
    X, y = problems.streams(1, 120, 2)
    model, found, y_hat = domkl.DOMKL(model=domkl.Auto(size=40)), [], []
    for x, label in zip(X[0], y[0], strict=True):
        found.append(model.interval(x, 0.7))
        y_hat.append(model.predict(x))
        model.learn(x, label)
    low, high = conformal.bounds([y_hat], y, 0.7, X=X)
    np.testing.assert_array_equal(np.transpose(found), [low[0], high[0]])


def test_bounds_follow_a_state_that_an_input_tells():
    """While a machine runs there is six times as much noise: constant bounds hold 100 and 80 % then."""
    rng = np.random.default_rng(0)
    X, model, inside = rng.uniform(size=(1500, 2)), domkl.DOMKL(model=domkl.Auto(size=40)), []
    X[:, 1] = np.cumsum(rng.uniform(size=1500) < 1 / 40) % 2
    y = 10 * X[:, 0] + (0.5 + 2.5 * X[:, 1]) * rng.standard_normal(1500)
    for x, label in zip(X, y, strict=True):
        low, high = model.interval(x, 0.9)
        inside.append(low <= label <= high)
        model.learn(x, label)
    for state in (0, 1):
        assert abs(np.mean(np.array(inside[400:])[X[400:, 1] == state]) - 0.9) < 0.05


def test_an_error_grows_old():
    errors = conformal.Errors()
    for miss in [1.0] * 600 + [3.0] * 300:
        errors.note(miss)
    assert errors.width(0.5) == 3
    assert errors.misses.shape == (1, conformal.KEPT)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: conformal.bounds(np.ones((2, 3)), np.ones((2, 4))), "y has shape"),
        (lambda: conformal.bounds(np.ones(3), np.ones(3)), "y_hat has shape"),
        (lambda: conformal.bounds(np.ones((2, 3)), np.ones((2, 3)), 0), "coverage is 0"),
        (lambda: conformal.bounds(np.ones((2, 3)), np.ones((2, 3)), delay=-1), "delay is -1"),
    ],
)
def test_wrong_use_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message) as error:
        call()
    assert "\n" not in str(error.value)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domkl.base.errors import InputError
from domkl.learning import losses

LOSSES = [losses.squared(), losses.ridge(0.5), losses.huber(0.7), losses.logistic()]
numbers = st.floats(-50, 50)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@given(u=numbers, c=st.floats(1e-3, 1e3), y=numbers)
def test_the_prox_solves_its_equation(loss, u, c, y):
    y = np.asarray(np.sign(y) or 1.0 if loss.classifies else y)
    a = loss.prox_slope(np.asarray(u), np.asarray(c), y)
    s = (u - a) / c
    # c s + g'(s) = u; where g' jumps from piece to piece, rounding of s moves it by at most eps * 2
    assert abs(loss.slope(s, y) - a) <= 1e-9 * max(1, abs(u), abs(c * y)) * max(1, 1 / c)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@given(s=numbers, y=numbers)
def test_the_slope_is_the_derivative_of_the_value(loss, s, y):
    y = np.asarray(np.sign(y) or 1.0 if loss.classifies else y)
    h = 1e-6
    difference = (loss.value(np.asarray(s + h), y) - loss.value(np.asarray(s - h), y)) / (2 * h)
    assert loss.slope(np.asarray(s), y) == pytest.approx(difference, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_prox_does_not_depend_on_its_company(loss):
    rng = np.random.default_rng(0)
    u, c = rng.normal(scale=5, size=(40, 3)), np.full((40, 1), 0.3)
    y = np.sign(rng.normal(size=(40, 1)))
    together = loss.prox_slope(u, c, y)
    alone = [loss.prox_slope(u[j], c[j], y[j]) for j in range(40)]
    np.testing.assert_array_equal(together, alone)


@given(st.floats(-1e300, 1e300), st.sampled_from([-1.0, 1.0]))
def test_logistic_neither_overflows_nor_warns(s, y):
    loss = losses.logistic()
    assert np.isfinite(loss.value(np.asarray(s), np.asarray(y)))
    assert abs(loss.slope(np.asarray(s), np.asarray(y))) <= 1


def test_labels_of_minus_one_or_zero_mean_the_same():
    loss = losses.logistic()
    np.testing.assert_array_equal(losses.labels(loss, np.array([0.0, 1.0, -1.0])), [-1, 1, -1])
    with pytest.raises(InputError, match=r"y holds the label 2; expected -1 and \+1"):
        losses.labels(loss, np.array([1.0, 2.0]))
    np.testing.assert_array_equal(losses.labels(losses.squared(), np.array([2.0])), [2.0])


def test_losses_by_name():
    assert losses.get("huber").delta == 1.0
    assert losses.get("ridge").reg == 0.01
    with pytest.raises(InputError, match=r"loss is 'huver'.*did you mean 'huber'"):
        losses.get("huver")
    with pytest.raises(InputError, match="reg is -1"):
        losses.squared(-1)
    with pytest.raises(InputError, match="delta is 0"):
        losses.huber(0)

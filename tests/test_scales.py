"""Numbers of any size: every one is learnt, counts as constant or is refused in one line; none gives NaN."""

from __future__ import annotations

import numpy as np
import pytest

import domkl
import problems
from domkl.base import checks
from domkl.base.errors import InputError
from domkl.faces.handing import handed_over
from domkl.faces.online import OnlineRows
from domkl.learner import introduce
from domkl.learning.settings import MOST_INPUTS, KernelSpec

AUTO = domkl.Auto(size=60)
RATES = domkl.Rates(rho=0.5, eta=0.5, eta_g=1.0)
PAPER = domkl.Paper(kernels=KernelSpec(D=10, sigma2=(0.3, 3.0)), rates=RATES)
d = 2


def samples(T=60):
    return problems.streams(3, T, d)


def simulated(x_scale, y_scale, **options):
    X, y = samples()
    return domkl.simulate(x_scale * X, y_scale * y, "ring", model=AUTO, **options)


# Any scale


@pytest.mark.parametrize("scale", [5e-324, 1e-250, 1e-150, 1e99])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_simulation_is_finite_on_every_scale(scale, dtype):
    for run in (simulated(scale, 1.0, dtype=dtype), simulated(1.0, scale, dtype=dtype)):
        for part in (run.y_hat, run.mse, run.cv, run.theta, run.lam, run.q):
            assert np.isfinite(part).all()
    _, y = samples()
    if scale > 1e-199:  # one that can be seen is learnt as any other
        error = ((simulated(scale, scale).y_hat / scale - y)[:, 30:] ** 2).mean()
        assert error < 0.3 * y[:, 30:].var()


@pytest.mark.parametrize("y_scale", [1e-150, 1e50])
def test_one_label_beyond_all_others_leaves_a_finite_state(y_scale):
    X, y = samples(70)  # from round 64 on there are memories too
    y *= y_scale
    y[1, 3], y[0, 66] = 1e90, -1e100
    for dtype in (np.float32, np.float64):
        run = domkl.simulate(X, y, "ring", model=domkl.Auto(size=30), dtype=dtype)
        assert all(np.isfinite(part).all() for part in (run.y_hat, run.theta, run.lam, run.q))


@pytest.mark.parametrize("y_scale", [1e-150, 1.0, 1e50])
def test_one_label_beyond_a_scale_that_is_fixed_leaves_a_finite_state(y_scale):
    alone, (X, y) = OnlineRows(AUTO, d), samples(70)
    for x, label in zip(X[0], y_scale * y[0], strict=True):
        alone.learn(x[None], [label])
    for dtype in (np.float32, np.float64):
        one = domkl.Learner(handed_over(alone), name="a", dtype=dtype)
        for label in (-1e100, y_scale, 1e99, y_scale):
            one.observe(X[0, 0], label)
        assert all(np.isfinite(array).all() for array in one.save()[0].values())
        assert np.isfinite(one.predict(X[0, 1]))


# Beyond all scales

TOO_LARGE = r"too large to be squared; expected at most 1e\+100 up or down; leave such samples out, or use an"


@pytest.mark.parametrize("model", [AUTO, PAPER], ids=["auto", "paper"])
@pytest.mark.parametrize("engine", problems.ENGINES)
def test_numbers_that_cannot_be_squared_are_refused_in_one_line(model, engine):
    X, y = samples(5)
    for wrong_X, wrong_y in ((1e300 * X, y), (X, 1e300 * y)):
        with pytest.raises(InputError, match=TOO_LARGE) as caught:
            domkl.simulate(wrong_X, wrong_y, "ring", model=model, engine=engine)
        assert "\n" not in str(caught.value)
    one = domkl.Learner(model, name="a", inputs=d, engine=engine)
    for x, label in zip(X[0], y[0], strict=True):
        one.observe(x, label)
    before = one.save()
    for x, label in (([0.1, 1e101], 1.0), ([0.1, 0.2], -1.01e100)):
        with pytest.raises(InputError, match=TOO_LARGE):
            one.observe(x, label)
    if model is AUTO:  # inputs of the paper's learner only enter sines
        with pytest.raises(InputError, match=TOO_LARGE):
            one.predict([0.1, -1e300])
    after = one.save()
    assert all(np.array_equal(before[0][name], array) for name, array in after[0].items())
    assert (before[0].keys(), before[1]) == (after[0].keys(), after[1])


@pytest.mark.parametrize("model", [AUTO, domkl.Paper()], ids=["auto", "paper"])
def test_one_device_refuses_such_labels_and_goes_on(model):
    one = domkl.DOMKL(model=model)
    X, y = samples()
    for x, label in zip(X[0], y[0], strict=True):
        one.learn(x, label)
    for label in (1e101, -1e308):
        with pytest.raises(InputError, match=TOO_LARGE):
            one.learn(X[0, 0], label)
    one.learn(X[0, 0], 1e100)
    assert np.isfinite(one.predict(X[0, 1]))


@pytest.mark.parametrize("model", [AUTO, domkl.Paper()], ids=["auto", "paper"])
def test_the_faces_refuse_such_labels_too(model):
    river, sklearn = pytest.importorskip("domkl.river"), pytest.importorskip("domkl.sklearn")
    one = river.MultiKernelRegressor(model)
    for label in (1.0, 2.0, 1e100, 3.0):
        one.learn_one({"a": label}, label)
    with pytest.raises(InputError, match=TOO_LARGE):
        one.learn_one({"a": 1.0}, 1e150)
    assert np.isfinite(one.predict_one({"a": 1.0}))
    with pytest.raises(InputError, match=TOO_LARGE):
        sklearn.MultiKernelRegressor(model).fit(np.ones((3, 1)), [1.0, 2.0, 1e150])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("engine", problems.ENGINES)
def test_inputs_so_large_that_angles_are_lost_leave_the_papers_learner_as_bounded_as_others(engine, dtype):
    one, rng = domkl.Learner(PAPER, name="a", inputs=d, engine=engine, dtype=dtype), np.random.default_rng(0)
    for x in rng.uniform(size=(50, d)):
        one.observe(x, 1.0)
    for size in 10.0 ** np.arange(6, 36 if dtype == np.float32 else 100):
        x = size * rng.uniform(-1, 1, size=d)
        assert abs(one.predict(x)) < 3
        one.observe(x, 1.0)
    assert np.abs(one.state.theta).max() < 3


def test_whole_numbers_too_long_for_a_float_are_refused():
    with pytest.raises(InputError, match="x cannot be read as numbers"):
        domkl.Learner(PAPER, name="a", inputs=1).predict([10**400])
    with pytest.raises(InputError, match=r"rho is 1000.*; expected a finite number above 0"):
        domkl.Rates(rho=10**400, eta=1, eta_g=1)
    with pytest.raises(InputError, match="too long to be shown; expected a whole number from 16 to 20000"):
        domkl.Auto(size=10**5000)


def test_what_can_be_squared_is_told_from_what_cannot():
    for value in (checks.LARGEST, -checks.LARGEST, 0.0):
        assert checks.finite("y", np.array(value)) == value
    for value in (np.nextafter(checks.LARGEST, np.inf), -1.7e308):
        with pytest.raises(InputError, match="too large"):
            checks.finite_or_missing("X", np.array([[np.nan, value]]))
    assert np.isnan(checks.finite_or_missing("X", np.array([np.nan]))).all()
    with pytest.raises(InputError, match=r"y\[2\] is 1e\+200, too large"):
        checks.finite("y", np.array([1.0, 2.0, 1e200]))


# How many


def test_more_inputs_than_are_learnt_in_time_are_refused_at_once():
    most = rf"is {MOST_INPUTS + 1}; expected a whole number from 1 to {MOST_INPUTS}"
    X = np.zeros((1, 2, MOST_INPUTS + 1))
    with pytest.raises(InputError, match=most):
        domkl.simulate(X, np.zeros((1, 2)), [[0]], model=AUTO)
    with pytest.raises(InputError, match=most):
        domkl.Learner(AUTO, name="a", inputs=MOST_INPUTS + 1)
    with pytest.raises(InputError, match=most):
        domkl.DOMKL(model=AUTO).predict(X[0, 0])
    with pytest.raises(InputError, match="expected a whole number from 1 to 4096"):
        domkl.simulate(np.zeros((1, 2, 100_000)), np.zeros((1, 2)), [[0]])
    with pytest.raises(InputError, match="too many frequencies; expected P D d of at most"):
        domkl.Learner(domkl.Paper(rates=RATES), name="a", inputs=10**9)


def test_a_river_of_features_ends_in_a_refusal_that_changes_nothing():
    river = pytest.importorskip("domkl.river")
    one = river.MultiKernelRegressor(domkl.Auto(size=16))
    one.learn_one({"a": 1.0}, 2.0)
    before = one.predict_one({"a": 1.0})
    with pytest.raises(InputError, match="expected a whole number from 1 to 4096"):
        one.learn_one({f"f{i}": 1.0 for i in range(MOST_INPUTS)}, 2.0)
    assert one.predict_one({"a": 1.0}) == before
    one.learn_one({"a": 1.0, "b": 2.0}, 2.0)


def test_as_many_inputs_as_are_allowed_are_learnt():
    X = np.random.default_rng(0).normal(size=(3, MOST_INPUTS))
    a, b = (domkl.Learner(AUTO, [other], name=name, inputs=MOST_INPUTS) for name, other in ("ab", "ba"))
    introduce([a, b])
    for x in X:
        from_a, from_b = a.observe(x, x[0]), b.observe(x, x[0])
        a.receive("b", from_b)
        b.receive("a", from_a)
    assert np.isfinite(a.predict(X[0]))

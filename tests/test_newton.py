"""The second-order step: the literal twin, its numbers over many rounds, what it is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from domkl import core, losses, newton
from domkl.errors import InputError

V = domkl.kernels.gaussian(2, D=20, sigma2=[0.3, 1.0])
RATES = domkl.Rates(rho=0.1, eta=0.02, eta_g=0.1)


def check(problem, hedge):
    X, y, graph, V, rates, loss, naive_loss = problem
    near = problems.neighbours_of(graph)
    twin = naive.newton(X, y, near, V, rates.rho, rates.eta, rates.eta_g, hedge=hedge, **naive_loss)
    run = domkl.simulate(X, y, graph, kernels=V, rates=rates, loss=loss, hedge=hedge, step="newton")
    for name, expected in twin.items():
        np.testing.assert_allclose(getattr(run, name), expected, err_msg=name, rtol=1e-9, atol=1e-9)
    assert np.abs(run.lam.sum(0)).max() <= 1e-12 * max(1, np.abs(run.lam).max())


@settings(max_examples=60, deadline=None)
@given(problems.problems(), st.sampled_from(["neighbours", "local"]))
def test_simulate_equals_the_literal_second_order_step(problem, hedge):
    check(problem, hedge)


@settings(max_examples=20, deadline=None)
@given(problems.problems(tree=True))
def test_and_with_messages_on_trees(problem):
    check(problem, "messages")


@pytest.mark.parametrize("name", ["squared", "huber", "logistic"])
def test_the_parabola_touches_the_loss_and_lies_above_it(name):
    loss, v = losses.get(name), np.linspace(-9, 9, 181)
    for s in (-6.0, -1.5, 1e-5, 0.4, 3.0):
        for y in (-1.0, 1.0):
            h, k = newton.parabola(loss, np.array(s), np.array(y))
            above = h / 2 * (v**2 - s**2) - k * y * (v - s) + loss.value(np.array(s), np.array(y))
            assert (above - loss.value(v, np.full_like(v, y)) >= -1e-9).all()


def inverse_after(rounds, K, dtype, seed=0):
    """P and M after many rounds of two kernels."""
    rng = np.random.default_rng(seed)
    pulls = newton.Pulls.of(np.asarray(2.0, dtype), RATES, losses.get("squared"))
    state = newton.init(2, K, pulls)
    V = rng.standard_normal((2, K // 2, 3)).astype(dtype)
    M, x = np.stack([np.eye(K) * float(pulls.c[0])] * 2), np.zeros(3, dtype)
    for _ in range(rounds):
        x = (0.95 * x + 0.3 * rng.standard_normal(3)).astype(dtype)
        z = core.features(V, x)
        learnt = newton.local(state, z, newton.predict(state, z)[0], x[0], pulls, losses.get("squared"))
        state = newton.merge(state, learnt, pulls.deg * learnt[0], learnt[1], pulls, 1.0)
        M += 2 * np.einsum("pi,pj->pij", z.astype(float), z.astype(float))
    return state.inverse.settle(), np.linalg.inv(M), state


@pytest.mark.parametrize(("dtype", "limit"), [(np.float64, 1e-10), (np.float32, 1e-2)])
def test_the_inverse_stays_symmetric_and_true_over_many_rounds(dtype, limit):
    P, exact, state = inverse_after(20_000, 40, dtype)
    assert P.dtype == dtype
    np.testing.assert_array_equal(P, np.swapaxes(P, -1, -2))
    assert np.linalg.norm(P - exact) / np.linalg.norm(exact) < limit
    assert np.isfinite(state.theta).all()


def test_forgetting_is_stable_and_equals_the_weighted_sum():
    K, keep = 12, 0.9
    pulls = newton.Pulls.of(np.asarray(1.0), RATES, losses.get("squared"))
    state, rng, M = newton.init(1, K, pulls), np.random.default_rng(0), np.eye(K) * pulls.c[0]
    for t in range(5000):
        z = rng.standard_normal((1, K)) * (t < 2000 or t % 2)  # a direction that is no longer excited too
        z[:, -1] *= t < 100
        learnt = newton.local(state, z, newton.predict(state, z)[0], z[0, 0], pulls, losses.get("squared"))
        state = newton.merge(state, learnt, pulls.deg * learnt[0], learnt[1], pulls, 1.0)
        state = newton.forget(state, keep, pulls)
        M = keep * (M + 2 * np.outer(z, z)) + (1 - keep) * pulls.c[0] * np.eye(K)
    P = state.inverse.settle()[0]
    np.testing.assert_allclose(P, np.linalg.inv(M), rtol=1e-8, atol=1e-10)
    assert np.linalg.eigvalsh(P).max() <= 1 / pulls.c[0] * (1 + 1e-9)


def test_it_follows_a_change_with_a_memory_only():
    X, y = problems.streams(3, 1600, 2)
    y[:, 800:] *= -1
    late = slice(1200, None)
    runs = {
        memory: domkl.simulate(X, y, "ring", kernels=V, rates=RATES, step="newton", memory=memory)
        for memory in (None, 150)
    }
    errors = {memory: ((run.y_hat - y) ** 2)[:, late].mean() for memory, run in runs.items()}
    assert errors[150] < 0.03 < errors[None]


def test_it_beats_the_first_order_step_at_the_same_message():
    X, y = problems.streams(5, 500, 2)
    first = [
        domkl.simulate(X, y, "ring", kernels=V, rates=domkl.Rates(k, k, 0.1)).mse.mean()
        for k in (0.02, 0.05, 0.1, 0.3, 1.0)
    ]
    run = domkl.simulate(X, y, "ring", kernels=V, rates=RATES, step="newton")
    assert run.mse.mean() < 0.75 * min(first)


def test_classification_and_float32():
    X, y = problems.streams(4, 400, 2, classify=True)
    common = {"kernels": V, "rates": RATES, "loss": "logistic", "step": "newton"}
    runs = [domkl.simulate(X, y, "ring", dtype=t, **common) for t in (np.float64, np.float32)]
    assert (np.sign(runs[0].y_hat) == y)[:, 200:].mean() > 0.9
    np.testing.assert_allclose(runs[0].mse, runs[1].mse, rtol=1e-2)


def test_a_delayed_label_changes_nothing_before_it_is_known():
    X, y = problems.streams(3, 20, 2)
    changed = y.copy()
    changed[:, 5] += 10
    runs = [
        domkl.simulate(X, labels, "ring", kernels=V, rates=RATES, step="newton", delay=4)
        for labels in (y, changed)
    ]
    np.testing.assert_array_equal(runs[0].y_hat[:, :10], runs[1].y_hat[:, :10])
    assert (runs[0].y_hat[:, 10] != runs[1].y_hat[:, 10]).all()
    assert (runs[0].y_hat[:, :5] == 0).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"step": "newten"}, "did you mean 'newton'"),
        ({"step": "newton", "engine": "native"}, "has no second-order step"),
        ({"step": "newton", "memory": -1}, "above 0"),
        ({"memory": 100}, "memory is for step='newton'"),
    ],
)
def test_wrong_steps_are_refused_in_one_line(wrong, message):
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match=message) as caught:
        domkl.simulate(X, y, "ring", kernels=V, rates=RATES, **wrong)
    assert "\n" not in str(caught.value)

"""The inverse that a second-order state keeps: true over many rounds, forgetting and new degrees."""

from __future__ import annotations

import numpy as np
import pytest

import domkl
import problems
from domkl import engines
from domkl.learning import first_order, losses, second_order

RATES = domkl.Rates(rho=0.1, eta=0.02, eta_g=0.1)

needs_native = pytest.mark.skipif("native" not in problems.ENGINES, reason=str(engines.available()))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sample_that_overflows_leaves_the_inverse_as_it_was(dtype):
    pulls = second_order.SecondOrderPulls.of(np.asarray(1.0, dtype), RATES, losses.get("squared"))
    state = second_order.init(2, 6, pulls)
    z, f = np.full((2, 6), 0.3, dtype), np.zeros(2, dtype)

    def learn(y):
        learnt = second_order.local(state, z, f, np.asarray(y, dtype), pulls, losses.get("squared"))
        second_order.merge(state, learnt, learnt.theta, learnt.L, pulls, 1.0)

    learn(1.0)
    before = state.inverse.settle().copy()
    with np.errstate(over="ignore", invalid="ignore"):
        learn(np.finfo(dtype).max)
    np.testing.assert_array_equal(state.inverse.settle(), before)


def inverse_after(rounds, K, dtype, seed=0):
    """P and M after many rounds of two kernels."""
    rng = np.random.default_rng(seed)
    pulls = second_order.SecondOrderPulls.of(np.asarray(2.0, dtype), RATES, losses.get("squared"))
    state = second_order.init(2, K, pulls)
    V = rng.standard_normal((2, K // 2, 3)).astype(dtype)
    M, x = np.stack([np.eye(K) * float(pulls.c[0])] * 2), np.zeros(3, dtype)
    for _ in range(rounds):
        x = (0.95 * x + 0.3 * rng.standard_normal(3)).astype(dtype)
        z = first_order.features(V, x)
        learnt = second_order.local(
            state, z, first_order.predict(state, z)[0], x[0], pulls, losses.get("squared")
        )
        state = second_order.merge(state, learnt, pulls.deg * learnt[0], learnt[1], pulls, 1.0)
        M += 2 * np.einsum("pi,pj->pij", z.astype(float), z.astype(float))
    return state.inverse.settle(), np.linalg.inv(M), state


@pytest.mark.parametrize(("dtype", "limit"), [(np.float64, 1e-10), (np.float32, 3e-6)])
def test_the_inverse_stays_symmetric_and_true_over_many_rounds(dtype, limit):
    P, exact, state = inverse_after(3_000, 40, dtype)
    assert P.dtype == dtype
    np.testing.assert_array_equal(P, np.swapaxes(P, -1, -2))
    assert np.linalg.norm(P - exact) / np.linalg.norm(exact) < limit
    assert np.isfinite(state.theta).all()


@needs_native
@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda it: it.put(2, np.zeros((2, 2))), "that fit K"),
        (lambda it: it.resume_one(0, np.zeros(6), np.zeros(2)), "that fit K"),
        (lambda it: type(it)(0, 3, isa="baseline"), "above 0"),
    ],
)
def test_the_extension_refuses_what_does_not_fit(act, message):
    from domkl.engines._native import _engine

    with pytest.raises(ValueError, match=message):
        act(_engine.Inverses64(2, 2, isa="baseline"))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_change_of_degree_is_exact_however_ill_conditioned(dtype):
    rng, K, c, rho = np.random.default_rng(0), 12, 1e-3 + 2 * 0.5, 0.5
    Z = rng.standard_normal((300, K)) * np.logspace(0, -4, K)
    S = Z.T @ Z
    inverse = second_order.Inverse(np.linalg.inv(c * np.eye(K) + S)[None].astype(dtype))
    for by in (-rho, -rho, rho, rho, rho):
        inverse = second_order.shift(inverse, c, by)
        c += by
        expected = np.linalg.inv(c * np.eye(K) + S)
        P = inverse.settle()[0]
        np.testing.assert_array_equal(P, P.T)
        assert P.dtype == dtype
        error = np.linalg.norm(P - expected) / np.linalg.norm(expected)
        assert error < (1e-12 if dtype == np.float64 else 1e-3)


def test_the_last_neighbour_may_leave_where_hardly_anything_else_holds_the_matrix():
    rho, eta, K = 1.0, 1e-9, 8
    one = second_order.Inverse(
        np.full((1, K, K), 1e-8, np.float32) + np.eye(K, dtype=np.float32) / (eta + rho)
    )
    P = second_order.shift(one, eta + rho, -rho).settle()[0]
    assert np.isfinite(P).all()
    assert np.linalg.eigvalsh(P.astype(float)).max() <= 1.001 / eta

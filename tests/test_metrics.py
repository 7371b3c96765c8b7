from __future__ import annotations

import numpy as np
import pytest

import domkl
import naive
import problems
from domkl.base.errors import InputError
from domkl.learning import metrics

LENGTHS = (250, 500, 1000, 2000, 4000, 8000)


@pytest.mark.parametrize(("graph", "kind"), [("complete", "wave"), ("star", "step")])
def test_both_regrets_grow_no_faster_than_the_square_root(graph, kind):
    """Theorem 2 with its own rates, rho = eta = eta_g = sqrt(T)."""
    learning, discrepancy = [], []
    for T in LENGTHS:
        X, y = stream(T, kind)
        V = domkl.kernels.gaussian(2, D=10, seed=1, sigma2=[0.1, 1.0, 10.0])
        run = problems.simulate_paper(X, y, graph, kernels=V, rates=domkl.Rates.paper(T))
        learning.append(metrics.regret_a(run.y_hat, y, metrics.hindsight(X, y, V)).max())
        discrepancy.append(metrics.regret_d(run.cv, T).max())
    assert metrics.exponent(LENGTHS, learning) <= 0.6
    assert metrics.exponent(LENGTHS, discrepancy) <= 0.6


def stream(T, kind):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3, T, 2))
    y = np.tanh(3 * X[..., 0]) if kind == "step" else 0.5 * np.sin(2 * X[..., 0]) + 0.3 * X[..., 1]
    return X, y + 0.1 * rng.standard_normal((3, T))


@pytest.mark.parametrize("reg", [0.0, 0.05])
@pytest.mark.parametrize("order", [1, -1])
def test_nothing_beats_the_best_function_in_hindsight(reg, order):
    X, y = problems.streams(3, 80, 2)
    V = domkl.kernels.gaussian(2, D=4, sigma2=[0.1, 1.0])[::order]
    best = metrics.hindsight(X, y, V, domkl.losses.ridge(reg))
    Z = np.array([[naive.z_of(V_p, x) for x in X.reshape(-1, 2)] for V_p in V])

    def total(p, theta):
        return ((Z[p] @ theta - y.ravel()) ** 2).sum() + y.size * reg * theta @ theta

    least = total(best.kernel, best.theta)
    assert best.squares.sum() + y.size * reg * best.theta @ best.theta == pytest.approx(least)
    rng = np.random.default_rng(0)
    for p in (0, 1):
        own = np.linalg.solve(Z[p].T @ Z[p] + y.size * reg * np.eye(8), Z[p].T @ y.ravel())
        if p == best.kernel:
            np.testing.assert_allclose(best.theta, own, rtol=1e-6)
        else:
            assert total(p, own) > 1.01 * least
        for size in (1e-3, 0.1, 1):
            assert total(p, own + size * rng.standard_normal(8)) > least


@pytest.mark.parametrize("reg", [0.0, 0.05])
def test_the_regret_of_the_best_function_itself_is_zero(reg):
    X, y = problems.streams(2, 50, 2)
    V = domkl.kernels.gaussian(2, D=3, sigma2=1.0)
    best = metrics.hindsight(X, y, V, domkl.losses.ridge(reg))
    y_hat = domkl.learning.first_order.features(V, X)[:, :, 0] @ best.theta
    np.testing.assert_allclose(metrics.regret_a(y_hat, y, best), 0, atol=1e-10)


def test_discrepancy_regret_is_T_times_the_violation():
    X, y = problems.streams(3, 40, 2)
    V, rates = domkl.kernels.gaussian(2, D=3, sigma2=[0.5, 2.0]), domkl.Rates(1.0, 1.0, 1.0)
    run = problems.simulate_paper(X, y, "path", kernels=V, rates=rates)
    twin = naive.domkl(X, y, [[1], [0, 2], [1]], V, 1.0, 1.0, 1.0)
    np.testing.assert_allclose(metrics.regret_d(run.cv, 40), 40 * twin["cv"])


def test_what_has_no_exact_answer_is_refused():
    X, y = problems.streams(2, 5, 2)
    V = domkl.kernels.gaussian(2)
    with pytest.raises(InputError, match="loss is logistic; expected squared or ridge"):
        metrics.hindsight(X, y, V, "logistic")
    with pytest.raises(InputError, match="not above 0"):
        metrics.exponent([1, 2], [1.0, -1.0])
    with pytest.raises(InputError, match="at least 2 to fit a line"):
        metrics.exponent([1], [1.0])
    with pytest.raises(InputError, match=r"X\[0, 0, 0\] is nan"):
        metrics.hindsight(X * np.nan, y, V)

"""The inverse that a second-order state keeps: true over many rounds, the same in C++ on any threads."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import problems
from domkl import engines
from domkl.learning import first_order, losses, second_order

RATES = domkl.Rates(rho=0.1, eta=0.02, eta_g=0.1)

needs_native = pytest.mark.skipif("native" not in problems.ENGINES, reason=str(engines.available()))
engine_names = pytest.mark.parametrize("engine", problems.ENGINES)


def inverses(engine, K, seed, dtype=np.float64):
    """One of the engine's inverses, of two learners and three kernels, with a few terms."""
    rng = np.random.default_rng(seed)
    made = engines.make_inverse(engine, threads=2)(np.full((2, 3), 0.5, dtype), K)
    for _ in range(int(rng.integers(0, 40))):
        u = (0.3 * rng.standard_normal((2, 3, K)) / np.sqrt(K)).astype(dtype)
        made.times(u, u)
        made.lower(u)
    return made, rng


@needs_native
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40) | st.integers(256, 260), st.integers(0, 99))
def test_the_native_inverse_is_numpys(K, seed):
    (slow, rng), (fast, _) = (inverses(name, K, seed) for name in ("numpy", "native"))
    vectors = rng.standard_normal((int(rng.integers(2, 4)), 2, 3, K))
    for expected, found in zip(slow.times(*vectors), fast.times(*vectors), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * K)
    np.testing.assert_allclose(fast.settle(), slow.settle(), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(fast.settle(), np.swapaxes(fast.settle(), -1, -2))
    np.testing.assert_array_equal(fast.like(slow.settle()).settle(), slow.settle())


@needs_native
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40) | st.integers(256, 260), st.integers(0, 99), st.booleans())
def test_the_native_inverse_learns_as_numpys(K, seed, good):
    rng = np.random.default_rng(seed)
    slow, fast = (engines.make_inverse(name, 2)(np.full((2, 3), 0.5), K) for name in ("numpy", "native"))
    for n in range(int(rng.integers(1, 40))):
        z, b = rng.standard_normal((2, 2, 3, K)) / np.sqrt(K)
        h, before = rng.uniform(0.1, 2, (2, 3)), fast.settle()
        pulls = second_order.SecondOrderPulls.of(rng.uniform(0, 3, 2), RATES, losses.get("squared"))
        state = second_order.SecondOrderState(*rng.standard_normal((3, 2, 3, K)), h, h, b, fast)
        L = h if good or n % 2 == 1 else np.where(h == h[1, 2], np.nan, h)
        expected, found = (it.learn(state, pulls, z, h, h - 1, L) for it in (slow, fast))
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-14, atol=1e-14)
        assert np.array_equal(fast.settle(), before) == (not good and n % 2 == 0)
    np.testing.assert_allclose(fast.settle(), slow.settle(), rtol=1e-10, atol=1e-10)


@needs_native
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 99), st.sampled_from([(), (1,), (4,)]))
def test_the_native_inverse_ends_a_round_as_numpys(K, seed, leading):
    rng = np.random.default_rng(seed)
    lam, theta, theta_sum = rng.standard_normal((3, *leading, 3, K))
    total, deg = rng.uniform(0, 2000, (*leading, 3)), rng.uniform(0, 3, leading)
    pulls = second_order.SecondOrderPulls.of(np.asarray(deg), RATES, losses.get("squared"))
    slow, fast = (engines.make_inverse(name)(total, K) for name in ("numpy", "native"))
    args = lam, theta, theta_sum, total, pulls, 7.0
    for expected, found in zip(slow.merge(*args), fast.merge(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@needs_native
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("K", [1, 9, 33, 257])
def test_each_of_three_products_has_the_bits_of_two(K, dtype):
    for seed in range(8):
        made, rng = inverses("native", K, seed, dtype)
        a, b, c = rng.standard_normal((3, 2, 3, K)).astype(dtype)
        made.times(a, b)  # subtracts terms, if it is time
        for found, expected in zip(
            made.times(a, b, c), [*made.times(a, b), made.times(a, c)[1]], strict=True
        ):
            np.testing.assert_array_equal(found, expected)


def products(inverse, rounds, seed=0):
    """All that comes out of some rounds, and the matrix in the end."""
    rng, out = np.random.default_rng(seed), []
    pulls = second_order.SecondOrderPulls.of(np.asarray(2.0, inverse.dtype), RATES, losses.get("squared"))
    h = np.full(inverse.shape[:-1], 2, inverse.dtype)
    for _ in range(rounds):
        z, b, *three = rng.standard_normal((5, *inverse.shape)).astype(inverse.dtype) / 10
        state = second_order.SecondOrderState(*three, h, h, b, inverse)
        out += [*inverse.times(z, b), *inverse.learn(state, pulls, z, h, h, h)]
    return [*out, inverse.settle()]


@needs_native
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lasting_threads_give_the_bits_of_one(dtype):
    c = np.full((3, 2), 0.5, dtype)
    alone = products(engines.make_inverse("native", 1)(c, 33), 60)
    for threads in (2, 3, 5, 9):  # more than there are matrices too
        for expected, found in zip(
            alone, products(engines.make_inverse("native", threads)(c, 33), 60), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


@needs_native
def test_lasting_threads_may_be_of_any_number_from_call_to_call():
    one = engines.make_inverse("native", 1)(np.full(4, 0.5), 20)
    two = engines.make_inverse("native", 1)(np.full(4, 0.5), 20)
    for threads in (3, 1, 2, 4, 2):
        two.threads = threads
        for expected, found in zip(products(one, 2), products(two, 2), strict=True):
            np.testing.assert_array_equal(found, expected)


def tasks():
    return len(os.listdir("/proc/self/task"))


@needs_native
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux to count threads")
def test_lasting_threads_end_with_their_matrices_and_do_nothing_meanwhile():
    before = tasks()
    made = engines.make_inverse("native", 3)(np.full(4, 0.5), 30)
    assert tasks() == before  # none before it is needed
    products(made, 3)
    assert tasks() == before + 2
    time.sleep(0.01)
    spent = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - spent < 0.1  # of 0.6 s that two busy threads would have spent
    del made
    assert tasks() == before


@needs_native
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Python 3.12, about threads and forks
def test_after_a_fork_both_processes_go_on_with_the_same_bits():
    made, twin = (engines.make_inverse("native", n)(np.full(4, 0.5), 30) for n in (3, 1))
    for it in (made, twin):
        products(it, 3)
    expected = products(twin, 5, seed=1)

    def same():
        return all(map(np.array_equal, products(made, 5, seed=1), expected))

    child = os.fork()
    if child == 0:
        good = same()
        del made  # joins the child's own threads, not its parent's
        os._exit(0 if good else 1)
    assert same()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@needs_native
def test_python_ends_while_threads_wait():
    code = (
        "import numpy as np; from domkl import engines;"
        "it = engines.make_inverse('native', 3)(np.full(4, 0.5), 20);"
        "it.times(np.ones((4, 20)), np.ones((4, 20))); import sys; sys.kept = it"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@needs_native
@pytest.mark.parametrize("again", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_copied_native_inverse_goes_on_with_the_same_bits(again, dtype):
    for seed in range(5):
        made, rng = inverses("native", 21, seed, dtype)
        other = again(made)
        for _ in range(20):
            z, b = rng.standard_normal((2, 2, 3, 21)).astype(dtype)
            for expected, found in zip(made.times(z, b), other.times(z, b), strict=True):
                np.testing.assert_array_equal(found, expected)
            made.lower(z / 100)
            other.lower(z / 100)
        np.testing.assert_array_equal(other.settle(), made.settle())


@needs_native
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("K", [1, 9, 33, 257])
def test_a_new_native_inverse_reads_its_diagonal_alone_with_the_bits_of_all_of_it(K, dtype):
    new = engines.make_inverse("native")(np.full((2, 3), 4, dtype), K)
    kept = pickle.loads(pickle.dumps(new))  # does not know that it is a diagonal
    zero = np.zeros((2, 3, K), dtype)
    three = zero + 1, -zero, zero - np.finfo(dtype).smallest_subnormal  # a quarter of it is -0
    outputs = zip(
        [*kept.times(*three), *products(kept, 45)], [*new.times(*three), *products(new, 45)], strict=True
    )
    for expected, found in outputs:
        assert found.tobytes() == expected.tobytes()


@engine_names
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sample_that_overflows_leaves_the_inverse_as_it_was(engine, dtype):
    pulls = second_order.SecondOrderPulls.of(np.asarray(1.0, dtype), RATES, losses.get("squared"))
    state = second_order.init(2, 6, pulls, engines.make_inverse(engine))
    z, f = np.full((2, 6), 0.3, dtype), np.zeros(2, dtype)
    second_order.local(state, z, f, np.asarray(1.0, dtype), pulls, losses.get("squared"))
    before = state.inverse.settle().copy()
    with np.errstate(over="ignore", invalid="ignore"):
        second_order.local(state, z, f, np.asarray(np.finfo(dtype).max, dtype), pulls, losses.get("squared"))
    np.testing.assert_array_equal(state.inverse.settle(), before)


def round_of(z=4, L=2, deg=1, next_m=4):
    """What the extension takes for a round of two matrices of two rows, of other sizes where asked."""
    four, two = np.zeros(4), np.zeros(2)
    return *[four] * 4, np.zeros(z), two, two, np.zeros(L), np.zeros(deg), 0.1, four, np.zeros(next_m)


def ending_of(lam=4, deg=1, q=2):
    """The same for the end of a round."""
    four = np.zeros(4)
    return four, four, np.zeros(lam), np.zeros(2), np.zeros(deg), 0.1, 1.0, four, np.zeros(q)


@needs_native
@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda it: it.times([np.zeros(3)] * 2, np.zeros(8), 1), "must fit"),
        (lambda it: it.times([np.zeros(4)] * 3, np.zeros(8), 1), "must fit"),
        (lambda it: it.times([np.zeros(4)] * 2, np.zeros(8), 0), "at least 1"),
        (lambda it: it.times([np.zeros(4)], np.zeros(4), 1), "two or three"),
        (lambda it: it.times([np.zeros(4)] * 4, np.zeros(16), 1), "two or three"),
        (lambda it: it.lower(np.zeros(5)), "must fit"),
        (lambda it: it.learn(*round_of(z=3), 1), "must fit"),
        (lambda it: it.learn(*round_of(L=4), 1), "must fit"),
        (lambda it: it.learn(*round_of(deg=3), 1), "deg must fit"),
        (lambda it: it.learn(*round_of(next_m=3), 1), "must fit"),
        (lambda it: it.learn(*round_of(), 0), "at least 1"),
        (lambda it: it.close(*ending_of(lam=3)), "must fit"),
        (lambda it: it.close(*ending_of(deg=0)), "deg must fit"),
        (lambda it: it.close(*ending_of(q=3)), "must fit"),
        (lambda it: it.replace(np.zeros(5)), "must fit"),
        (lambda it: it.resume(np.zeros(6), np.zeros(2 * 2 + 1)), "must fit"),
        (lambda it: type(it)(0, 3, isa="baseline"), "above 0"),
    ],
)
def test_the_extension_refuses_what_does_not_fit(act, message):
    from domkl.engines._native import _engine

    with pytest.raises(ValueError, match=message):
        act(_engine.Inverses64(2, 2, isa="baseline"))


def inverse_after(rounds, K, dtype, engine="numpy", seed=0):
    """P and M after many rounds of two kernels."""
    rng = np.random.default_rng(seed)
    pulls = second_order.SecondOrderPulls.of(np.asarray(2.0, dtype), RATES, losses.get("squared"))
    state = second_order.init(2, K, pulls, engines.make_inverse(engine))
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


@engine_names
@pytest.mark.parametrize(("dtype", "limit"), [(np.float64, 1e-10), (np.float32, 3e-6)])
def test_the_inverse_stays_symmetric_and_true_over_many_rounds(dtype, limit, engine):
    P, exact, state = inverse_after(10_000, 40, dtype, engine)
    assert P.dtype == dtype
    np.testing.assert_array_equal(P, np.swapaxes(P, -1, -2))
    assert np.linalg.norm(P - exact) / np.linalg.norm(exact) < limit
    assert np.isfinite(state.theta).all()


@engine_names
def test_forgetting_is_stable_and_equals_the_weighted_sum(engine):
    K, keep = 12, 0.9
    pulls = second_order.SecondOrderPulls.of(np.asarray(1.0), RATES, losses.get("squared"))
    state = second_order.init(1, K, pulls, engines.make_inverse(engine))
    rng, M = np.random.default_rng(0), np.eye(K) * pulls.c[0]
    for t in range(3000):
        z = rng.standard_normal((1, K)) * (t < 2000 or t % 2)  # a direction that is no longer excited too
        z[:, -1] *= t < 100
        learnt = second_order.local(
            state, z, first_order.predict(state, z)[0], z[0, 0], pulls, losses.get("squared")
        )
        state = second_order.merge(state, learnt, pulls.deg * learnt[0], learnt[1], pulls, 1.0)
        state = second_order.forget(state, keep, pulls)
        M = keep * (M + 2 * np.outer(z, z)) + (1 - keep) * pulls.c[0] * np.eye(K)
    P = state.inverse.settle()[0]
    np.testing.assert_allclose(P, np.linalg.inv(M), rtol=1e-8, atol=1e-10)
    assert np.linalg.eigvalsh(P).max() <= 1 / pulls.c[0] * (1 + 1e-9)


@needs_native
def test_a_native_inverse_can_be_read_where_nothing_was_built(monkeypatch):
    made, rng = inverses("native", 9, 3)
    made.lower(rng.standard_normal((2, 3, 9)) / 100)
    kept = pickle.dumps(made)
    monkeypatch.setattr(engines, "available", lambda: "the native engine was not built: no compiler")
    other = pickle.loads(kept)
    assert type(other) is second_order.Inverse
    z, b = rng.standard_normal((2, 2, 3, 9))
    for expected, found in zip(made.times(z, b), other.times(z, b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


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

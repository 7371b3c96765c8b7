"""The second-order step: the literal twin, its numbers over many rounds, what it is worth."""

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
import naive
import problems
from domkl import engines
from domkl.base.errors import InputError
from domkl.learning import first_order, losses, second_order

V = domkl.kernels.gaussian(2, D=20, sigma2=[0.3, 1.0])
RATES = domkl.Rates(rho=0.1, eta=0.02, eta_g=0.1)


needs_native = pytest.mark.skipif("native" not in problems.ENGINES, reason=str(engines.available()))
engine_names = pytest.mark.parametrize("engine", problems.ENGINES)


def check(problem, hedge, engine="auto"):
    X, y, graph, V, rates, loss, naive_loss = problem
    near = problems.neighbours_of(graph)
    twin = naive.newton(X, y, near, V, rates.rho, rates.eta, rates.eta_g, hedge=hedge, **naive_loss)
    common = {"kernels": V, "rates": rates, "loss": loss, "hedge": hedge, "step": "newton"}
    run = domkl.simulate(X, y, graph, engine=engine, **common)
    for name, expected in twin.items():
        np.testing.assert_allclose(getattr(run, name), expected, err_msg=name, rtol=1e-9, atol=1e-9)
    assert np.abs(run.lam.sum(0)).max() <= 1e-12 * max(1, np.abs(run.lam).max())


@settings(max_examples=60, deadline=None)
@given(problems.problems(), st.sampled_from(["neighbours", "local"]), st.sampled_from(problems.ENGINES))
def test_simulate_equals_the_literal_second_order_step(problem, hedge, engine):
    check(problem, hedge, engine)


@settings(max_examples=20, deadline=None)
@given(problems.problems(tree=True), st.sampled_from(problems.ENGINES))
def test_and_with_messages_on_trees(problem, engine):
    check(problem, "messages", engine)


def both(problem, hedge="neighbours", delay=0, memory=None, **options):
    X, y, graph, V, rates, loss, _ = problem
    common = {"kernels": V, "rates": rates, "loss": loss, "hedge": hedge, "delay": delay, "memory": memory}
    slow = domkl.simulate(X, y, graph, engine="numpy", step="newton", **common)
    return slow, domkl.simulate(X, y, graph, engine="native", step="newton", **common, **options)


def check_same(slow, fast, tolerance=1e-10):
    for name in ("y_hat", "mse", "cv", "kernel_mse", "kernel_cv", "theta", "lam", "L", "q"):
        expected = getattr(slow, name)
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(
            getattr(fast, name), expected, rtol=tolerance, atol=tolerance * scale, err_msg=name
        )


@needs_native
@settings(max_examples=80, deadline=None)
@given(
    problems.problems(),
    st.sampled_from(["neighbours", "local"]),
    st.integers(0, 4),
    st.sampled_from([None, 2.0, 20.0, 100.0]),
    st.integers(1, 3),
)
def test_native_equals_numpy(problem, hedge, delay, memory, threads):
    check_same(*both(problem, hedge, delay, memory, threads=threads))


@needs_native
@pytest.mark.parametrize("memory", [None, 100])
@pytest.mark.parametrize("D", [50, 130])  # fewer or more terms wait
def test_native_equals_numpy_over_many_rounds(D, memory):
    X, y = problems.streams(3, 60, 2)
    V = domkl.kernels.gaussian(2, D=D, sigma2=[0.3, 1.0])
    check_same(*both((X, y, "ring", V, RATES, "squared", None), memory=memory), tolerance=1e-9)


@needs_native
@settings(max_examples=30, deadline=None)
@given(
    problems.problems(), st.integers(1, 5), st.integers(0, 4), st.sampled_from([None, 20.0]), st.booleans()
)
def test_blocks_and_threads_of_any_number_give_the_same_bits(problem, length, delay, memory, keep_state):
    X, y, graph, V, rates, loss, _ = problem
    common = {"kernels": V, "rates": rates, "loss": loss, "delay": delay, "memory": memory, "step": "newton"}
    whole = domkl.simulate(X, y, graph, engine="native", threads=1, keep_state=keep_state, **common)
    cuts = range(0, y.shape[1], length)
    blocks = ((X[:, t : t + length], y[:, t : t + length]) for t in cuts)
    parts = domkl.simulate(blocks, None, graph, engine="native", threads=3, keep_state=keep_state, **common)
    for name in ("y_hat", "theta", "lam", "L", "q"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name), err_msg=name)


@needs_native
def test_threads_that_share_the_learners_of_a_round_give_the_same_bits():
    X, y = problems.streams(520, 12, 2)
    V = domkl.kernels.gaussian(2, D=3, sigma2=[0.3])
    runs = [
        domkl.simulate(X, y, "ring", kernels=V, rates=RATES, step="newton", engine="native", threads=n)
        for n in (1, 2)
    ]
    np.testing.assert_array_equal(runs[0].theta, runs[1].theta)
    np.testing.assert_array_equal(runs[0].y_hat, runs[1].y_hat)


@needs_native
@pytest.mark.parametrize("step", ["first", "newton"])
@pytest.mark.parametrize(("P", "T", "delay"), [(5, 1, 0), (5, 2, 0), (3, 7, 2), (7, 40, 0), (17, 23, 3)])
def test_kernels_that_are_left_over_are_shared_by_rounds_with_the_same_bits(P, T, delay, step):
    X, y = problems.streams(3, T, 2)
    V = domkl.kernels.gaussian(2, D=6, sigma2=np.linspace(0.1, 3, P))
    common = {"kernels": V, "rates": RATES, "delay": delay, "step": step, "engine": "native"}
    alone = domkl.simulate(X, y, "ring", threads=1, **common)
    for threads in (2, 3, 4, 6):
        run = domkl.simulate(X, y, "ring", threads=threads, **common)
        for name in ("y_hat", "theta", "lam", "L", "q"):
            np.testing.assert_array_equal(getattr(run, name), getattr(alone, name), err_msg=name)


def instruction_sets():
    if "native" not in problems.ENGINES:
        return []
    from domkl.engines._native import _engine

    return [isa for isa in ("baseline", "avx2", "avx512") if _engine.runs(isa)]


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("D", [1, 3, 7, 8, 17, 50])
def test_every_instruction_set_and_every_width(isa, dtype, D):
    from domkl.engines.native import NativeNewton

    X, y = problems.streams(4, 40, 3)
    V = domkl.kernels.check(domkl.kernels.gaussian(3, D=D, sigma2=[0.3, 3.0]), dtype=dtype)
    setting = engines.Setting(V, domkl.graph.named("ring", 4), RATES, losses.squared(), "neighbours", 0)
    engine = NativeNewton(setting, isa=isa)
    y_hat = engine.advance(X.astype(dtype), y.astype(dtype))
    slow = domkl.simulate(X, y, "ring", kernels=V, rates=RATES, engine="numpy", step="newton")
    np.testing.assert_allclose(y_hat, slow.y_hat, atol=1e-10 if dtype == np.float64 else 5e-3)
    P = np.empty((4, 2 * D, 2 * D), dtype)
    engine.network.inverse(1, P)
    assert np.isfinite(P).all()
    np.testing.assert_array_equal(P, np.swapaxes(P, -1, -2))


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
    z, b = rng.standard_normal((2, 2, 3, K))
    for expected, found in zip(slow.times(z, b), fast.times(z, b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * K)
    np.testing.assert_allclose(fast.settle(), slow.settle(), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(fast.settle(), np.swapaxes(fast.settle(), -1, -2))
    np.testing.assert_array_equal(fast.anew(slow.settle()).settle(), slow.settle())


@needs_native
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40) | st.integers(256, 260), st.integers(0, 99), st.booleans())
def test_the_native_inverse_learns_as_numpys(K, seed, good):
    rng = np.random.default_rng(seed)
    slow, fast = (engines.make_inverse(name, 2)(np.full((2, 3), 0.5), K) for name in ("numpy", "native"))
    for n in range(int(rng.integers(1, 40))):
        z, b = rng.standard_normal((2, 2, 3, K)) / np.sqrt(K)
        h, before = rng.uniform(0.1, 2, (2, 3)), fast.settle()
        pulls = second_order.Pulls.of(rng.uniform(0, 3, 2), RATES, losses.get("squared"))
        state = second_order.State(*rng.standard_normal((3, 2, 3, K)), h, h, b, fast)
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
    pulls = second_order.Pulls.of(np.asarray(deg), RATES, losses.get("squared"))
    slow, fast = (engines.make_inverse(name)(total, K) for name in ("numpy", "native"))
    args = lam, theta, theta_sum, total, pulls, 7.0
    for expected, found in zip(slow.merge(*args), fast.merge(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def products(inverse, rounds, seed=0):
    """All that comes out of some rounds, and the matrix in the end."""
    rng, out = np.random.default_rng(seed), []
    pulls = second_order.Pulls.of(np.asarray(2.0, inverse.dtype), RATES, losses.get("squared"))
    h = np.full(inverse.shape[:-1], 2, inverse.dtype)
    for _ in range(rounds):
        z, b, *three = rng.standard_normal((5, *inverse.shape)).astype(inverse.dtype) / 10
        state = second_order.State(*three, h, h, b, inverse)
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


@engine_names
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sample_that_overflows_leaves_the_inverse_as_it_was(engine, dtype):
    pulls = second_order.Pulls.of(np.asarray(1.0, dtype), RATES, losses.get("squared"))
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
        (lambda it: it.times(*[np.zeros(3)] * 4, 1), "must fit"),
        (lambda it: it.times(*[np.zeros(4)] * 4, 0), "at least 1"),
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


@pytest.mark.parametrize("name", ["squared", "huber", "logistic"])
def test_the_parabola_touches_the_loss_and_lies_above_it(name):
    loss, v = losses.get(name), np.linspace(-9, 9, 181)
    for s in (-6.0, -1.5, 1e-5, 0.4, 3.0):
        for y in (-1.0, 1.0):
            h, k = second_order.parabola(loss, np.array(s), np.array(y))
            above = h / 2 * (v**2 - s**2) - k * y * (v - s) + loss.value(np.array(s), np.array(y))
            assert (above - loss.value(v, np.full_like(v, y)) >= -1e-9).all()


def inverse_after(rounds, K, dtype, engine="numpy", seed=0):
    """P and M after many rounds of two kernels."""
    rng = np.random.default_rng(seed)
    pulls = second_order.Pulls.of(np.asarray(2.0, dtype), RATES, losses.get("squared"))
    state = second_order.init(2, K, pulls, engines.make_inverse(engine))
    V = rng.standard_normal((2, K // 2, 3)).astype(dtype)
    M, x = np.stack([np.eye(K) * float(pulls.c[0])] * 2), np.zeros(3, dtype)
    for _ in range(rounds):
        x = (0.95 * x + 0.3 * rng.standard_normal(3)).astype(dtype)
        z = first_order.features(V, x)
        learnt = second_order.local(
            state, z, second_order.predict(state, z)[0], x[0], pulls, losses.get("squared")
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
    pulls = second_order.Pulls.of(np.asarray(1.0), RATES, losses.get("squared"))
    state = second_order.init(1, K, pulls, engines.make_inverse(engine))
    rng, M = np.random.default_rng(0), np.eye(K) * pulls.c[0]
    for t in range(3000):
        z = rng.standard_normal((1, K)) * (t < 2000 or t % 2)  # a direction that is no longer excited too
        z[:, -1] *= t < 100
        learnt = second_order.local(
            state, z, second_order.predict(state, z)[0], z[0, 0], pulls, losses.get("squared")
        )
        state = second_order.merge(state, learnt, pulls.deg * learnt[0], learnt[1], pulls, 1.0)
        state = second_order.forget(state, keep, pulls)
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
        ({"step": "newton", "memory": -1}, "above 0"),
        ({"memory": 100}, "memory is for step='newton'"),
    ],
)
def test_wrong_steps_are_refused_in_one_line(wrong, message):
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match=message) as caught:
        domkl.simulate(X, y, "ring", kernels=V, rates=RATES, **wrong)
    assert "\n" not in str(caught.value)


def test_an_engine_without_the_step_is_refused():
    for make in (engines.make_inverse, lambda name: engines.make_newton(name, None)):
        with pytest.raises(InputError, match="'mpi' has no second-order step; expected"):
            make("mpi")


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

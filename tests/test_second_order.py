"""The second-order step: the literal twin, both engines, what it is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from domkl import engines
from domkl.base.errors import InputError
from domkl.learning import losses, second_order

V = domkl.kernels.gaussian(2, D=20, sigma2=[0.3, 1.0])
RATES = domkl.Rates(rho=0.1, eta=0.02, eta_g=0.1)


needs_native = pytest.mark.skipif("native" not in problems.ENGINES, reason=str(engines.available()))
engine_names = pytest.mark.parametrize("engine", problems.ENGINES)


def check(problem, hedge, engine="auto"):
    X, y, graph, V, rates, loss, naive_loss = problem
    near = problems.neighbours_of(graph)
    twin = naive.newton(X, y, near, V, rates.rho, rates.eta, rates.eta_g, hedge=hedge, **naive_loss)
    model = domkl.Paper(kernels=V, rates=rates, loss=loss, hedge=hedge, step="newton")
    run = domkl.simulate(X, y, graph, engine=engine, model=model)
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


def both(problem, hedge="neighbours", delay=0, **options):
    X, y, graph, V, rates, loss, _ = problem
    delay = min(delay, y.shape[1] - 1)
    common = {"kernels": V, "rates": rates, "loss": loss, "hedge": hedge, "delay": delay}
    slow = problems.simulate_paper(X, y, graph, engine="numpy", step="newton", **common)
    return slow, problems.simulate_paper(X, y, graph, engine="native", step="newton", **common, **options)


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
    st.integers(1, 3),
)
def test_native_equals_numpy(problem, hedge, delay, threads):
    check_same(*both(problem, hedge, delay, threads=threads))


@needs_native
@pytest.mark.parametrize("D", [50, 130])  # fewer or more terms wait
def test_native_equals_numpy_over_many_rounds(D):
    X, y = problems.streams(3, 60, 2)
    V = domkl.kernels.gaussian(2, D=D, sigma2=[0.3, 1.0])
    check_same(*both((X, y, "ring", V, RATES, "squared", None)), tolerance=1e-9)


@needs_native
@settings(max_examples=30, deadline=None)
@given(problems.problems(), st.integers(1, 5), st.integers(0, 4), st.booleans())
def test_blocks_and_threads_of_any_number_give_the_same_bits(problem, length, delay, keep_state):
    X, y, graph, V, rates, loss, _ = problem
    delay = min(delay, y.shape[1] - 1)
    common = {"kernels": V, "rates": rates, "loss": loss, "delay": delay, "step": "newton"}
    whole = problems.simulate_paper(X, y, graph, engine="native", threads=1, keep_state=keep_state, **common)
    cuts = range(0, y.shape[1], length)
    blocks = ((X[:, t : t + length], y[:, t : t + length]) for t in cuts)
    parts = problems.simulate_paper(
        blocks, None, graph, engine="native", threads=3, keep_state=keep_state, **common
    )
    for name in ("y_hat", "theta", "lam", "L", "q"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name), err_msg=name)


@needs_native
def test_threads_that_share_the_learners_of_a_round_give_the_same_bits():
    X, y = problems.streams(520, 12, 2)
    V = domkl.kernels.gaussian(2, D=3, sigma2=[0.3])
    runs = [
        problems.simulate_paper(
            X, y, "ring", kernels=V, rates=RATES, step="newton", engine="native", threads=n
        )
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
    alone = problems.simulate_paper(X, y, "ring", threads=1, **common)
    for threads in (2, 3, 4, 6):
        run = problems.simulate_paper(X, y, "ring", threads=threads, **common)
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
    from domkl.engines.native import NativeEngine

    X, y = problems.streams(4, 40, 3)
    V = domkl.kernels.check(domkl.kernels.gaussian(3, D=D, sigma2=[0.3, 3.0]), dtype=dtype)
    graph = domkl.graph.named("ring", 4)
    setting = engines.Setting(V, graph, engines.Algorithm(RATES, losses.squared(), step="newton"))
    engine = NativeEngine(setting, isa=isa)
    y_hat = engine.advance(X.astype(dtype), y.astype(dtype))
    slow = problems.simulate_paper(X, y, "ring", kernels=V, rates=RATES, engine="numpy", step="newton")
    np.testing.assert_allclose(y_hat, slow.y_hat, atol=1e-10 if dtype == np.float64 else 5e-3)


@pytest.mark.parametrize("name", ["squared", "huber", "logistic"])
def test_the_parabola_touches_the_loss_and_lies_above_it(name):
    loss, v = losses.get(name), np.linspace(-9, 9, 181)
    for s in (-6.0, -1.5, 1e-5, 0.4, 3.0):
        for y in (-1.0, 1.0):
            h, k = second_order.parabola(loss, np.array(s), np.array(y))
            above = h / 2 * (v**2 - s**2) - k * y * (v - s) + loss.value(np.array(s), np.array(y))
            assert (above - loss.value(v, np.full_like(v, y)) >= -1e-9).all()


def test_it_beats_the_first_order_step_at_the_same_message():
    X, y = problems.streams(5, 500, 2)
    first = [
        problems.simulate_paper(X, y, "ring", kernels=V, rates=domkl.Rates(k, k, 0.1)).mse.mean()
        for k in (0.02, 0.05, 0.1, 0.3, 1.0)
    ]
    run = problems.simulate_paper(X, y, "ring", kernels=V, rates=RATES, step="newton")
    assert run.mse.mean() < 0.75 * min(first)


def test_classification_and_float32():
    X, y = problems.streams(4, 400, 2, classify=True)
    common = {"kernels": V, "rates": RATES, "loss": "logistic", "step": "newton"}
    runs = [problems.simulate_paper(X, y, "ring", dtype=t, **common) for t in (np.float64, np.float32)]
    assert (np.sign(runs[0].y_hat) == y)[:, 200:].mean() > 0.9
    np.testing.assert_allclose(runs[0].mse, runs[1].mse, rtol=1e-2)


def test_a_delayed_label_changes_nothing_before_it_is_known():
    X, y = problems.streams(3, 20, 2)
    changed = y.copy()
    changed[:, 5] += 10
    runs = [
        problems.simulate_paper(X, labels, "ring", kernels=V, rates=RATES, step="newton", delay=4)
        for labels in (y, changed)
    ]
    np.testing.assert_array_equal(runs[0].y_hat[:, :10], runs[1].y_hat[:, :10])
    assert (runs[0].y_hat[:, 10] != runs[1].y_hat[:, 10]).all()
    assert (runs[0].y_hat[:, :5] == 0).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"step": "newten"}, "did you mean 'newton'"),
    ],
)
def test_wrong_steps_are_refused_in_one_line(wrong, message):
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match=message) as caught:
        problems.simulate_paper(X, y, "ring", kernels=V, rates=RATES, **wrong)
    assert "\n" not in str(caught.value)

"""The native engine gives NumPy's numbers, whatever the shape, the loss, the rule or the block."""

from __future__ import annotations

import importlib
import shutil
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import problems
from domkl import engines
from domkl.base.errors import InputError

needs_native = pytest.mark.skipif("native" not in problems.ENGINES, reason=str(engines.available()))


def instruction_sets():
    if "native" not in problems.ENGINES:
        return []
    from domkl.engines._native import _engine

    return [isa for isa in ("baseline", "avx2", "avx512") if _engine.runs(isa)]


def test_where_there_is_a_compiler_the_native_engine_was_built():
    if shutil.which("c++") is None and shutil.which("g++") is None:
        pytest.skip("no C++ compiler here")
    assert engines.available() is None


def both(problem, hedge="neighbours", delay=0, **options):
    X, y, graph, V, rates, loss, _ = problem
    delay = min(delay, y.shape[1] - 1)
    common = {"kernels": V, "rates": rates, "loss": loss, "hedge": hedge, "delay": delay}
    slow = problems.simulate_paper(X, y, graph, engine="numpy", **common)
    return slow, problems.simulate_paper(X, y, graph, engine="native", **common, **options)


def check_same(slow, fast, tolerance=1e-12, cv=1e-10):
    scale = max(1.0, np.abs(slow.y_hat).max())
    assert np.abs(fast.y_hat - slow.y_hat).max() <= tolerance * scale
    np.testing.assert_allclose(fast.mse, slow.mse, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(fast.cv, slow.cv, rtol=cv, atol=1e-14)
    np.testing.assert_allclose(fast.kernel_mse, slow.kernel_mse, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(fast.kernel_cv, slow.kernel_cv, rtol=1e-9, atol=1e-14)
    for name in ("theta", "lam", "L", "q"):
        np.testing.assert_allclose(
            getattr(fast, name), getattr(slow, name), rtol=1e-9, atol=1e-11, err_msg=name
        )


@needs_native
@settings(max_examples=80, deadline=None)
@given(problems.problems(), st.sampled_from(["neighbours", "local"]), st.integers(0, 4), st.integers(1, 3))
def test_native_equals_numpy(problem, hedge, delay, threads):
    check_same(*both(problem, hedge, delay, threads=threads))


@needs_native
@settings(max_examples=40, deadline=None)
@given(problems.problems(tree=True), st.integers(0, 4))
def test_native_equals_numpy_with_messages_on_trees(problem, delay):
    check_same(*both(problem, "messages", delay))


@needs_native
@settings(max_examples=30, deadline=None)
@given(problems.problems(), st.integers(1, 5), st.integers(0, 4))
def test_blocks_of_any_length_give_the_same_bits(problem, length, delay):
    X, y, graph, V, rates, loss, _ = problem
    delay = min(delay, y.shape[1] - 1)
    common = {"kernels": V, "rates": rates, "loss": loss, "delay": delay, "engine": "native"}
    whole = problems.simulate_paper(X, y, graph, **common)
    cuts = range(0, y.shape[1], length)
    blocks = ((X[:, t : t + length], y[:, t : t + length]) for t in cuts)
    parts = problems.simulate_paper(blocks, None, graph, **common)
    for name in ("y_hat", "theta", "lam", "L", "q"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name), err_msg=name)


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("D", [1, 3, 7, 8, 16, 17, 50])
def test_every_instruction_set_and_every_width(isa, dtype, D):
    from domkl.engines.native import NativeEngine

    X, y = problems.streams(4, 60, 3)
    V = domkl.kernels.check(domkl.kernels.gaussian(3, D=D, sigma2=[0.3, 3.0]), dtype=dtype)
    graph, rates = domkl.graph.named("ring", 4), domkl.Rates(0.5, 0.5, 1.0)
    engine = NativeEngine(engines.Setting(V, graph, engines.Algorithm(rates, domkl.losses.squared())), isa)
    y_hat = engine.advance(X.astype(dtype), y.astype(dtype))
    slow = problems.simulate_paper(X, y, graph, kernels=V, rates=rates, engine="numpy")
    np.testing.assert_allclose(y_hat, slow.y_hat, atol=1e-12 if dtype == np.float64 else 2e-5)


@needs_native
def test_at_the_papers_size_float64_and_float32():
    X, y = problems.streams(5, 400, 21)
    runs = {
        (engine, dtype): problems.simulate_paper(
            X, y, "complete", engine=engine, dtype=dtype, rates=domkl.Rates(1, 1, 5)
        )
        for engine in ("numpy", "native")
        for dtype in (np.float64, np.float32)
    }
    check_same(runs["numpy", np.float64], runs["native", np.float64])
    np.testing.assert_allclose(
        runs["native", np.float32].mse, runs["numpy", np.float64].mse, rtol=1e-4, atol=1e-6
    )


@needs_native
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e3, 1e6])
def test_angles_of_any_size(scale):
    """Range reduction in quarter turns; the error of an angle is its own rounding, no more."""
    X, y = problems.streams(2, 30, 2)
    V = domkl.kernels.gaussian(2, D=9, sigma2=1.0) * scale
    slow, fast = (
        problems.simulate_paper(X, y, "path", kernels=V, rates=domkl.Rates(1, 1, 1), engine=name)
        for name in ("numpy", "native")
    )
    np.testing.assert_allclose(fast.y_hat, slow.y_hat, atol=1e-13 * max(1, 10 * scale))


@needs_native
@pytest.mark.parametrize("degree", [1, 3, 4, 5, 8, 9, 13])
def test_every_degree(degree):
    J = degree + 1
    X, y = problems.streams(J, 12, 2)
    V, rates = domkl.kernels.gaussian(2, D=6, sigma2=[0.5, 2]), domkl.Rates(0.3, 0.6, 1)
    check_same(
        *(
            problems.simulate_paper(X, y, "star", kernels=V, rates=rates, engine=name, delay=2)
            for name in ("numpy", "native")
        )
    )


@pytest.mark.parametrize("engine", problems.ENGINES)
@pytest.mark.parametrize(
    "options", [{}, {"weights_every": 7}, {"progress": print}], ids=["", "weights", "progress"]
)
@pytest.mark.parametrize("delay", [0, 3])
def test_without_the_state_everything_else_is_the_same(engine, options, delay):
    X, y = problems.streams(4, 50, 2)
    V, rates = domkl.kernels.gaussian(2, D=6, sigma2=[0.5, 2]), domkl.Rates(0.3, 0.6, 1)
    common = {"kernels": V, "rates": rates, "engine": engine, "delay": delay, **options}
    whole = problems.simulate_paper(X, y, "ring", **common)
    light = problems.simulate_paper(X, y, "ring", keep_state=False, **common)
    halves = [(X[:, :20], y[:, :20]), (X[:, 20:], y[:, 20:])]
    stream = problems.simulate_paper(halves, None, "ring", keep_state=False, **common)
    assert light.theta.shape == (0, 2, 12)
    for name in ("y_hat", "mse", "cv", "L", "q", "kernel_mse", "kernel_cv"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(light, name), err_msg=name)
        np.testing.assert_allclose(getattr(whole, name), getattr(stream, name), rtol=1e-12, err_msg=name)


ALL = ("y_hat", "mse", "cv", "theta", "lam", "L", "q", "kernel_mse", "kernel_cv")


@needs_native
@pytest.mark.parametrize("hedge", ["neighbours", "local", "messages"])
@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("keep_state", [True, False])
def test_threads_that_share_the_learners_of_a_round_change_no_bit(hedge, delay, keep_state):
    X, y = problems.streams(800, 7, 2)
    V, rates = domkl.kernels.gaussian(2, D=5, sigma2=[0.5, 1, 2]), domkl.Rates(0.3, 0.6, 1)
    common = {"kernels": V, "rates": rates, "hedge": hedge, "delay": delay, "keep_state": keep_state}
    one, *others = (
        problems.simulate_paper(X, y, "path", engine="native", threads=n, **common) for n in (1, 2, 3, 5, 8)
    )
    for other in others:
        for name in ALL:
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name), err_msg=name)


@needs_native
def test_a_network_that_no_cache_holds():
    """Rows are asked for early, and threads share each kernel, as states of two would not fit."""
    J, rng = 55_000, np.random.default_rng(0)
    ring, chords = np.arange(J), rng.permutation(J)
    edges = [(j, (j + 1) % J) for j in ring] + list(zip(chords, np.roll(chords, 1), strict=True))
    hub = [(0, int(j)) for j in rng.choice(np.arange(2, J - 1), 40, replace=False)]
    graph = domkl.graph.as_graph({tuple(sorted(map(int, edge))) for edge in edges + hub}, J)
    X, y = problems.streams(J, 3, 2)
    common = {"kernels": domkl.kernels.gaussian(2, D=50, sigma2=1.0), "rates": domkl.Rates(0.3, 0.6, 1)}
    slow = problems.simulate_paper(X, y, graph, engine="numpy", keep_state=False, **common)
    one, two = (
        problems.simulate_paper(X, y, graph, engine="native", keep_state=False, threads=n, **common)
        for n in (1, 2)
    )
    check_same(slow, one)
    for name in ALL:
        np.testing.assert_array_equal(getattr(two, name), getattr(one, name), err_msg=name)


@pytest.mark.parametrize("engine", problems.ENGINES)
def test_memory_mapped_and_strided_streams(engine, tmp_path):
    X, y = problems.streams(3, 40, 4)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    plain = problems.simulate_paper(X, y, "ring", engine=engine)
    np.testing.assert_array_equal(
        problems.simulate_paper(mapped, y, "ring", engine=engine).y_hat, plain.y_hat
    )
    backwards = np.ascontiguousarray(X[..., ::-1])[..., ::-1]
    np.testing.assert_array_equal(
        problems.simulate_paper(backwards, y, "ring", engine=engine).y_hat, plain.y_hat
    )


@pytest.mark.parametrize("engine", problems.ENGINES)
def test_bad_values_in_a_later_block_are_told_in_the_whole_stream(engine):
    X, y = problems.streams(2, 9, 2)
    y[1, 7] = np.nan
    blocks = [(X[:, t : t + 3], y[:, t : t + 3]) for t in (0, 3, 6)]
    with pytest.raises(InputError, match=r"y\[1, 7\] is nan"):
        problems.simulate_paper(blocks, None, "path", rates=domkl.Rates(1, 1, 1), engine=engine)


def test_streams_of_blocks_are_checked():
    X, y = problems.streams(2, 9, 2)
    with pytest.raises(InputError, match="rho, eta, eta_g and horizon are not given"):
        problems.simulate_paper([(X, y)], None, "path")
    with pytest.raises(InputError, match="X holds no block"):
        problems.simulate_paper([], None, "path", rates=domkl.Rates(1, 1, 1))
    with pytest.raises(InputError, match="all blocks need the same form"):
        problems.simulate_paper([(X, y), (X[..., :1], y)], None, "path", rates=domkl.Rates(1, 1, 1))


def test_choosing_an_engine(monkeypatch):
    X, y = problems.streams(2, 5, 2)
    with pytest.raises(InputError, match=r"engine is 'natve'.*did you mean 'native'"):
        problems.simulate_paper(X, y, "path", engine="natve")
    with pytest.raises(InputError, match="threads is 0"):
        problems.simulate_paper(X, y, "path", threads=0)
    monkeypatch.setitem(sys.modules, "domkl.engines._native._engine", None)
    monkeypatch.delattr(importlib.import_module("domkl.engines._native"), "_engine", raising=False)
    assert "was not built" in engines.available()
    problems.simulate_paper(X, y, "path")  # "auto" falls back to NumPy
    with pytest.raises(InputError, match=r"native engine was not built.*install a C\+\+ compiler"):
        problems.simulate_paper(X, y, "path", engine="native")


@needs_native
@settings(max_examples=30, deadline=None)
@given(problems.losses(), st.integers(1, 30), st.integers(0, 5))
def test_omkl_is_the_same_on_both_engines(loss, N, delay):
    X, y = problems.streams(1, N, 2, classify=loss[0].classifies)
    V = domkl.kernels.gaussian(2, D=7, sigma2=[0.5, 2.0])
    slow, fast = (
        domkl.omkl(X[0], y[0], kernels=V, mu=0.3, eta_g=2.0, loss=loss[0], delay=delay, engine=name)
        for name in ("numpy", "native")
    )
    for name in ("y_hat", "mse", "theta", "L", "q", "kernel_mse"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), rtol=1e-11, atol=1e-12)

"""The naive transcription, the simulator and a set of Learners give the same numbers."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def check_naive(problem, hedge):
    X, y, graph, V, rates, loss, naive_loss = problem
    twin = naive.domkl(
        X, y, problems.neighbours_of(graph), V, rates.rho, rates.eta, rates.eta_g, hedge=hedge, **naive_loss
    )
    for engine in problems.ENGINES:
        run = problems.simulate_paper(
            X, y, graph, kernels=V, rates=rates, loss=loss, hedge=hedge, engine=engine
        )
        for name, expected in twin.items():
            np.testing.assert_allclose(getattr(run, name), expected, err_msg=f"{engine} {name}", **CLOSE)
        assert np.abs(run.lam.sum(0)).max() <= 1e-12 * max(1, np.abs(run.lam).max())


@settings(max_examples=60, deadline=None)
@given(problems.problems(), st.sampled_from(["neighbours", "local"]))
def test_simulate_equals_the_literal_algorithm(problem, hedge):
    check_naive(problem, hedge)


@settings(max_examples=40, deadline=None)
@given(problems.problems(tree=True))
def test_simulate_equals_the_literal_messages_on_trees(problem):
    check_naive(problem, "messages")


@pytest.mark.parametrize("engine", problems.ENGINES)
@settings(max_examples=40, deadline=None)
@given(problems.problems(tree=True), st.sampled_from(["neighbours", "local", "messages"]), st.randoms())
def test_learners_equal_simulate_bit_for_bit_on_trees(engine, problem, hedge, random):
    check_learners(problem, hedge, random, engine)


@pytest.mark.parametrize("engine", problems.ENGINES)
@settings(max_examples=60, deadline=None)
@given(problems.problems(), st.sampled_from(["neighbours", "local"]), st.randoms())
def test_learners_equal_simulate_bit_for_bit(engine, problem, hedge, random):
    check_learners(problem, hedge, random, engine)


def check_learners(problem, hedge, random, engine):
    X, y, graph, V, rates, loss, _ = problem
    model = domkl.Paper(kernels=V, rates=rates, loss=loss, hedge=hedge)
    run = domkl.simulate(X, y, graph, model=model, engine=engine)
    learners = problems.learners(graph, model, engine=engine)
    np.testing.assert_array_equal(problems.fed(learners, graph, X, y, random), run.y_hat)
    for name in ("theta", "lam", "L", "q"):
        np.testing.assert_array_equal(
            [getattr(learner.state, name) for learner in learners], getattr(run, name)
        )


@pytest.mark.parametrize("engine", problems.ENGINES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_bits_agree_at_the_papers_size_whatever_the_layout(engine, order):
    X, y = problems.streams(J=5, T=20, d=21)
    X = np.asarray(X, order=order)
    graph, V, rates = nx.complete_graph(5), domkl.kernels.gaussian(21), domkl.Rates.paper(20)
    model = domkl.Paper(kernels=V, rates=rates)
    run = domkl.simulate(X, y, graph, model=model, engine=engine)
    near = problems.neighbours_of(graph)
    learners = [domkl.Learner(model, near[j], engine=engine) for j in range(5)]  # without names
    y_hat = problems.fed(learners, graph, X, y, np.random.default_rng(0))
    np.testing.assert_array_equal(y_hat, run.y_hat)


@settings(max_examples=25, deadline=None)
@given(problems.graphs(most=4), problems.rates(), st.integers(0, 999))
def test_lemma_1_distributed_updates_equal_oadmm_with_explicit_matrices(graph, rates, seed):
    X, y = problems.streams(len(graph), 6, 2, seed)
    V = domkl.kernels.gaussian(2, D=3, seed=seed, sigma2=1.0)
    edges = [tuple(sorted(edge)) for edge in graph.edges]
    for t, (theta, lam) in enumerate(naive.oadmm(X, y, edges, V[0], rates.rho, rates.eta), start=1):
        run = problems.simulate_paper(X[:, :t], y[:, :t], graph, kernels=V, rates=rates)
        np.testing.assert_allclose(run.theta[:, 0], theta, **CLOSE)
        np.testing.assert_allclose(run.lam[:, 0], lam, **CLOSE)


@pytest.mark.parametrize("engine", problems.ENGINES)
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 15), st.floats(0.01, 1), st.floats(0.1, 10), st.sampled_from([0, 0.2])
)
def test_omkl_equals_its_twin(engine, d, N, mu, eta_g, reg):
    X, y = problems.streams(1, N, d)
    V, loss = domkl.kernels.gaussian(d, D=4, sigma2=[0.5, 2.0]), domkl.losses.ridge(reg)
    run = domkl.omkl(X[0], y[0], kernels=V, mu=mu, eta_g=eta_g, loss=loss, engine=engine)
    y_hat, theta, L = naive.omkl(X[0], y[0], V, mu, eta_g, reg)
    np.testing.assert_allclose(run.y_hat, y_hat, **CLOSE)
    np.testing.assert_allclose(run.theta, theta, **CLOSE)
    np.testing.assert_allclose(run.L, L, **CLOSE)
    assert run.mse == pytest.approx(np.mean((y_hat - y[0]) ** 2))


def test_one_run_of_domkl_holds_a_run_of_dokl_for_each_kernel():
    X, y = problems.streams(J=4, T=60, d=2)
    V, rates = domkl.kernels.gaussian(2, D=8, sigma2=[0.1, 1, 10]), domkl.Rates(1.0, 0.5, 2.0)
    run = problems.simulate_paper(X, y, "ring", kernels=V, rates=rates)
    for p in range(3):
        single = problems.simulate_paper(X, y, "ring", kernels=V[p : p + 1], rates=rates)
        np.testing.assert_allclose(run.kernel_mse[:, p], single.mse, rtol=1e-12)
        np.testing.assert_allclose(run.kernel_cv[:, p], single.cv, rtol=1e-9)

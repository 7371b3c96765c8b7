from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from domkl.learning import hedge


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20), st.floats(1e-3, 1e3), st.floats(0, 1e6))
def test_weights_sum_to_one_and_ignore_a_common_loss(losses, eta_g, common):
    total = np.array(losses)
    q = hedge.weights(total, eta_g)
    assert abs(q.sum() - 1) < 1e-12
    assert (q >= 0).all()
    assert q.argmax() in np.flatnonzero(total <= total.min() + eta_g * 1e-9)
    np.testing.assert_allclose(hedge.weights(total + common, eta_g), q, rtol=1e-2, atol=1e-6)


def test_weights_after_a_million_rounds_are_finite_and_right():
    np.testing.assert_allclose(hedge.weights(np.array([1e6, 1e6 + 1]), 1.0), [0.7310585786, 0.2689414214])


@settings(max_examples=30, deadline=None)
@given(problems.graphs(most=8, tree=True), st.integers(0, 999))
def test_messages_on_trees_equal_the_remarks_delayed_sums(tree, seed):
    """The remark: losses at distance zeta are counted up to round t - zeta."""
    J, T = len(tree), 12
    X, y = problems.streams(J, T, 2, seed)
    V, rates = domkl.kernels.gaussian(2, D=4, seed=seed, sigma2=[0.3, 3.0]), domkl.Rates(0.5, 0.5, 0.8)
    steps = dict(nx.all_pairs_shortest_path_length(tree))
    distance = np.array([[steps[j][i] for i in range(J)] for j in range(J)])
    runs = [
        problems.simulate_paper(X[:, :t], y[:, :t], tree, kernels=V, rates=rates, hedge="messages")
        for t in range(1, T + 1)
    ]
    L = np.array([np.zeros_like(runs[0].L), *(run.L for run in runs)])
    # Each round's losses come from runs that used the messages themselves; only the sums are re-made.
    per_round = np.diff(L, axis=0)
    for t, run in enumerate(runs, start=1):
        total = naive.delayed_sums(per_round, distance, t)
        expected = [naive.normalised(-total[j] / rates.eta_g) for j in range(J)]
        np.testing.assert_allclose(run.q, expected, atol=1e-11)


def test_on_a_long_path_everybodys_losses_arrive_with_messages_but_not_with_neighbours():
    X, y = problems.streams(6, 40, 2)
    y[0] += 5  # only learner 0 sees what tells the kernels apart
    V, rates = domkl.kernels.gaussian(2, D=10, sigma2=[0.01, 1.0]), domkl.Rates(0.01, 1.0, 20.0)
    far = {
        rule: problems.simulate_paper(X, y, "path", kernels=V, rates=rates, hedge=rule)
        for rule in hedge.RULES
    }
    head = {rule: run.q[0] for rule, run in far.items()}
    for rule, run in far.items():
        assert np.allclose(run.q.sum(1), 1), rule
    near_head = np.abs(far["messages"].q[5] - head["messages"]).max()
    assert near_head < np.abs(far["neighbours"].q[5] - head["neighbours"]).max()

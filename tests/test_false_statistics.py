"""One learner's false statistics do not spoil the scale that all share."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import problems
from auto_networks import learners, simulated
from domkl.exchange.network import Network
from domkl.learning.auto import AutoRows, C
from domkl.learning.auto.features import Stats, pooled, statistics
from domkl.learning.auto.message import check_statistics


def everybody(J):
    return np.ones((1, J), bool)


def samples(J, n, seed=0, d=2):
    return np.random.default_rng(seed).standard_normal((J, n, d)) * [1.0, 100.0][:d] + 5


def times(stats, j, factor):
    """Statistics in which learner j's values are so many times as large."""
    found = Stats(*(np.array(value, np.float64) for value in stats))
    for value in found[1:]:
        value[j] *= factor
    return found


def without(stats, j):
    return Stats(*(np.delete(value, j, 0) for value in stats))


@pytest.mark.parametrize("factor", [1e3, 1e6, 1e100, 1e300])
def test_a_learner_far_from_the_others_has_no_part_in_the_scale(factor):
    stats = statistics(samples(5, 32))
    lie = times(stats, 2, factor)
    for one, other in zip(pooled(lie, everybody(5)), pooled(without(stats, 2), everybody(4)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 60), st.integers(0, 999), st.sampled_from([1.0, 5.0, 1e3, 1e9]))
def test_who_counts_is_decided_as_the_constants_say(J, n, seed, factor):
    stats = times(statistics(samples(J, n, seed)), 0, factor)
    found = pooled(stats, everybody(J))
    for c in range(2):
        mean, sd = stats.mean[:, c], stats.sd[:, c]
        centre = np.median(mean)
        most = C.far_apart * (np.median(sd) + np.median(np.abs(mean - centre)))
        few = max(C.few_values / (J * n), 1)  # of few values only targets, the last column, are judged
        most, decides = few * most, J >= 3 and (few == 1 or c == 1) and most > 0
        used = [j for j in range(J) if not decides or (abs(mean[j] - centre) <= most and sd[j] <= most)]
        low, high = stats.low[used, c].min(), stats.high[used, c].max()
        if decides:
            low, high = max(low, centre - most), min(high, centre + most)
        assert found.n[0, c] == n * len(used)
        np.testing.assert_allclose(found.mean[0, c], mean[used].mean())
        np.testing.assert_allclose([found.low[0, c], found.high[0, c]], [low, high])


def test_honest_learners_of_different_seasons_all_count():
    """Blocks of a trend: nobody's values overlap."""
    X = samples(5, 64) + 500 * np.arange(5)[:, None, None]
    found = pooled(statistics(X), everybody(5))
    assert (found.n == 320).all()
    np.testing.assert_array_equal(found.low, X.min((0, 1))[None])
    np.testing.assert_array_equal(found.high, X.max((0, 1))[None])


def test_a_column_that_is_constant_at_most_learners_is_everybodys():
    X = samples(5, 64)
    X[1:, :, 0] = 3.0
    assert pooled(statistics(X), everybody(5)).n[0, 0] == 320


@pytest.mark.parametrize("n", [2.0**53, 1e9])
def test_nobody_counts_for_more_than_a_few(n):
    stats = statistics(samples(5, 32))
    lie = Stats(*(np.array(value, np.float64) for value in stats))
    lie.n[0], lie.mean[0], lie.high[0] = n, lie.high[0], 1e200
    found = pooled(lie, everybody(5))
    check_statistics(found)
    assert (found.n == 32 * (C.most_values + 4)).all()
    assert (found.high <= np.median(lie.mean, 0) + 2 * C.far_apart * stats.sd.max(0)).all()


class FalseStatistics(AutoRows):
    """Learner 0 sends statistics that are many times too large."""

    factor = 1.0

    def learn(self, *args):
        message = super().learn(*args)
        self.statistics = {t: times(stats, 0, self.factor) for t, stats in self.statistics.items()}
        return message


@pytest.mark.parametrize(("graph", "factor"), [(nx.cycle_graph(5), 1e3), (nx.complete_graph(5), 1e6)])
def test_false_statistics_cost_the_honest_at_most_a_tenth(graph, factor):
    X, y = problems.streams(5, 160, 3)
    honest = errors_beside(graph, X + 2, y + 2, 1.0)
    assert errors_beside(graph, X + 2, y + 2, factor) <= 1.10 * honest


def errors_beside(graph, X, y, factor):
    """Mean squared error of learners 1 to 4 from round 64 on."""
    network = Network(domkl.graph.as_graph(graph), domkl.Exchange())
    settings = domkl.Auto(size=100), 5, 3, network.neighbours.weight, 5, network.diameter
    rows, errors = FalseStatistics(*settings), []
    rows.factor = factor
    for t in range(y.shape[1]):
        prediction = rows.predict(X[:, t])
        errors.append((prediction.y_hat - y[:, t]) ** 2)
        rows.merge(network.exchange_round(rows, rows.learn(prediction, y[:, t])))
    return np.array(errors)[64:, 1:].mean()


def test_devices_leave_out_whom_the_simulator_leaves_out():
    graph = nx.cycle_graph(5)
    X, y = problems.streams(5, 80, 2)
    X[3] *= 1e6
    expected, rows = simulated(graph, X, y)
    assert rows.scale.inputs.high.max() < 10
    members = learners(graph, 2)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), expected)

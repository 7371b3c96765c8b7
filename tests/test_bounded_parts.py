"""The rules behind bounded effects, one by one: rounds, medians, scales, and what learners send."""

from __future__ import annotations

import copy
import functools
import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import domkl
import liars
import problems
from auto_networks import learners
from domkl.agent import rounds
from domkl.agent.config import RoundSection
from domkl.agent.neighbourhood import Neighbourhood, RoundRefused
from domkl.base.errors import InputError, PeerError
from domkl.exchange.combine import median
from domkl.learner.scales import headed
from domkl.learner.statistics import FIXED
from domkl.learning.auto import message as parts
from domkl.learning.auto import rescale
from domkl.learning.auto.features import statistics
from domkl.learning.auto.scale import scale_number
from inmemory import PAPER

# Rounds


def neighbourhood(*names, learnt=0):
    """Of a learner that has learnt some samples alone."""
    learner = domkl.Learner(PAPER, names, name="me", inputs=1)
    for _ in range(learnt):
        learner.observe([0.5], 1.0)
        learner.close()
    near = Neighbourhood(learner, RoundSection(), names, 0)
    if learnt:
        for name in names:
            claim(near, name, learnt)
        near.start()
    return near


def claim(near, name, round):
    """Whether a message of that round is believed."""
    try:
        near.believe(near.peers[name], 1, round, 0)
    except RoundRefused:
        return False
    return True


def offer(near, name, round, theta):
    """A sound update of that round."""
    learner, shapes = near.learner, near.learner.shapes
    claim(near, name, round)
    arrays = np.full(shapes.theta, theta), np.zeros(shapes.scalars)
    near.receive(near.peers[name], domkl.Update(round, *arrays, learner.fingerprint))


def test_one_neighbour_is_believed_at_a_plausible_rate_only():
    near = neighbourhood("a", "b", learnt=5)
    assert claim(near, "a", 5 + rounds.SLACK)
    assert not claim(near, "a", 5 + 10**6)
    near.peers["a"].level_at -= 30  # a network that was in two parts for so long
    assert claim(near, "a", 5 + 200_000)
    assert not claim(near, "a", 5 + 400_000)
    assert near.peers["a"].round == 5 + 200_000
    assert claim(near, "a", 5)  # level again, so its time counts from now
    assert not claim(near, "a", 5 + 10_000)


def test_rounds_that_most_neighbours_have_reached_are_believed():
    near = neighbourhood("a", "b", "c", learnt=5)
    assert claim(near, "c", 5)
    assert not claim(near, "a", 10**9)
    assert claim(near, "b", 10**9 + 3)
    assert claim(near, "a", 10**9 + 4)
    assert not claim(near, "c", 10**12)
    assert [near.peers[name].round for name in "abc"] == [10**9 + 4, 10**9 + 3, 5]


@pytest.mark.parametrize("round", [2**40 + 6, 2**51 + 1, 2**52 - 1])
def test_not_even_all_neighbours_together_are_believed_without_limit(round):
    near = neighbourhood("a", "b", learnt=5)
    assert not any(claim(near, name, round) for name in "abab")
    assert near.peers["a"].claimed == round
    assert near.peers["a"].round == 5


def test_a_newcomer_starts_where_most_are_and_a_liar_moves_it_nowhere():
    near = neighbourhood("a", "b", "c")
    for name, round, theta in (("a", 2**40, 1e6), ("b", 1000, 0.2), ("c", 1001, 0.3)):
        offer(near, name, round, theta)
    near.start()
    assert near.learner.round == 1002
    np.testing.assert_allclose(near.learner.state.theta, 0.2)
    assert near.peers["a"].latest is None
    assert not near.update(0)
    assert near.learner.round == 1002


def test_no_round_is_skipped_to_that_leaves_no_room():
    learner = domkl.Learner(PAPER, ["a"], name="me", inputs=1)
    with pytest.raises(InputError, match="is too late; expected at most"):
        learner.skip_to(2**51 + 1)
    learner.skip_to(2**51)
    learner.observe([0.5], 1.0)


def test_a_neighbour_without_old_updates_resets_its_own_edge_and_no_other():
    near = neighbourhood("a", "b", learnt=5)
    edges = near.learner.edges
    near.learner.observe([0.5], 1.0)
    lie = near.learner._pending._replace(round=40)
    near.receive_again(near.peers["a"], [lie])
    assert near.cut_off
    near.learner.close()
    near.update(5)
    assert near.learner.edges["b"].mine == edges["b"].mine


# Medians

values = hnp.arrays(float, 5, elements=st.floats(-1e300, 1e300))


@settings(max_examples=200, deadline=None)
@given(values, values, values)
def test_a_liar_moves_us_no_further_than_the_honest_one_beside_it(own, honest, liar):
    np.testing.assert_array_equal(median(own, [liar]), own)
    found = median(own, [liar, honest])
    assert (found >= np.minimum(own, honest)).all()
    assert (found <= np.maximum(own, honest)).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(values, min_size=2, max_size=8))
def test_the_median_is_numpys_or_the_middle_value_nearer_to_ours(given):
    own, *others = given
    found, stacked = median(own, others), np.sort(np.stack(given), 0)
    if len(given) % 2:
        np.testing.assert_array_equal(found, stacked[len(given) // 2])
    else:
        low, high = stacked[len(given) // 2 - 1], stacked[len(given) // 2]
        np.testing.assert_array_equal(found, np.where(own <= low, low, high))


# What is sent is inside what is accepted

labels = st.lists(st.floats(-1e100, 1e100) | st.sampled_from([0.0, 1e12, -1e60, 1e100]), min_size=1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("hedge", ["messages", "neighbours", "local"])
@pytest.mark.parametrize("step", ["first", "newton"])
@settings(max_examples=15, deadline=None)
@given(labels)
def test_paper_accepts_what_it_sends_whatever_its_labels(dtype, hedge, step, labels):
    model = liars.paper(hedge=hedge, step=step)
    one = domkl.Learner(model, ["b"], name="a", inputs=1, dtype=dtype)
    for t, y in enumerate(labels):
        try:
            update = one.observe([0.1 * (t % 10)], y)
        except InputError:
            continue
        one.check("b", update)
        one.receive("b", update._replace(theta=-update.theta))


@functools.cache
def taught(dtype, rounds):
    """Two learners of `Auto` after some rounds."""
    X, y = problems.streams(2, rounds, 2)
    members = learners(nx.path_graph(2), 2, dtype=dtype)
    problems.fed(members, nx.path_graph(2), X, y, random.Random(0))
    return members


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("at", [0, 66])
@settings(max_examples=5, deadline=None)
@given(labels, st.sampled_from([0.0, 1e9, -1e99]))
def test_auto_accepts_what_it_sends_whatever_its_labels(dtype, at, labels, far):
    members = copy.deepcopy(taught(dtype, at))
    X, y = problems.streams(2, len(labels), 2)
    y[0], X[0, :, 1] = labels, X[0, :, 1] + far
    for t in range(len(labels)):
        updates = [one.observe(X[j, t], y[j, t]) for j, one in enumerate(members)]
        assert np.isfinite(updates[0].theta).all()
        members[1].receive(0, updates[0])
        members[0].receive(1, updates[1])
    assert members[0].round == members[1].round == at + len(labels)
    assert np.isfinite(members[1].predict(X[1, 0]))


@pytest.mark.parametrize("column", [[1.7e9] * 40, [1e300] * 9, [-1e12, -1e12 + 1e-3] * 20, [np.nan] * 5])
def test_statistics_of_any_data_are_accepted(column):
    parts.check_statistics(statistics(np.array(column)[None, :, None]))


@pytest.mark.parametrize(
    "change",
    [{"mean": 9.0}, {"sd": 3.0}, {"low": -np.inf}, {"n": -1.0}, {"quantiles": [5.0, 6.0]}, {"high": -3.0}],
)
def test_statistics_of_no_data_are_refused(change):
    stats = statistics(np.array([-1.0, 0.0, 1.0])[None, :, None])
    changed = {
        name: np.full_like(getattr(stats, name), value)
        for name, value in change.items()
        if name != "quantiles"
    }
    if "quantiles" in change:
        changed["quantiles"] = np.resize(change["quantiles"], stats.quantiles.shape)
    with pytest.raises(PeerError, match="statistics of no data"):
        parts.check_statistics(stats._replace(**changed))


def test_statistics_that_do_not_fit_into_a_message_wait_whole_for_the_next(monkeypatch):
    one = learners(nx.path_graph(2), 2)[0]
    X, y = problems.streams(1, 4, 2)
    row = headed(9, 77, 1, parts.packed(statistics(X[:, :, :1].repeat(3, -1))), 3)
    one._row.post = [row] * 400
    while one._row.post:
        update = one.observe(X[0, 0], y[0, 0])
        one.check(1, update)
        assert len(update.more) <= one.shapes.more
        one.close()


# Scales


def with_scale(update, row, whole, count):
    """An update whose sender has another fixed scale, which it brings."""
    names = [part.name for part in row.layout.small for _ in range(part.size)]
    scalars = update.scalars.copy()
    scalars[names.index("scale")] = scale_number(whole)
    scalars[names.index("rank")] = count + parts.FIXED_RANK
    return update._replace(scalars=scalars, more=headed(update.round, FIXED, count, whole, row.model.d + 1))


@pytest.mark.parametrize("voices", [1, 2])
@pytest.mark.parametrize("fixed", [True, False])
def test_a_scale_that_a_neighbour_has_is_given_up_for_more_than_one_voice_only(voices, fixed):
    graph, T = nx.complete_graph(3), 10
    X, y = problems.streams(3, T + 1, 2)
    members = learners(graph, 2)
    problems.fed(members, graph, X[:, :T], y[:, :T], random.Random(0))
    row = members[0]._row
    if fixed:
        rescale.fix(row.model)
    before, theta, other = row._number, row.parameters.theta, 3 * row.model.scale.whole
    updates = [one.observe(X[j, T], y[j, T]) for j, one in enumerate(members)]
    for k in (1, 2):
        lie = with_scale(updates[k], members[k]._row, other, 2**16)
        members[0].receive(k, lie if k <= voices else updates[k])
    assert (row._number == before) == (voices == 1)
    assert np.abs(row.parameters.theta - theta).max() < 5

"""Neighbours are judged on one's own samples: who errs too much is left out until it errs no more."""

from __future__ import annotations

import functools
import math
import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from auto_networks import learners, simulated
from domkl.exchange import network
from domkl.exchange.combine import Neighbours, pull
from domkl.exchange.duals import NetworkDuals
from domkl.exchange.edges import outgrown
from domkl.exchange.graph import as_graph
from domkl.exchange.network import Network
from domkl.learning.auto import AutoRows, C
from domkl.learning.auto.judge import REACH, Judge, Seen
from naive import believes, believes_terms

SIZE = 80


def different(J=4, T=150, who=(0,)):
    """Streams of one function, but for those who have the opposite one."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (J, T, 2))
    y = np.sin(3 * X[..., 0]) + X[..., 1] ** 2 + rng.normal(0, 0.1, (J, T))
    y[list(who)] *= -1
    return X, y


# Judging


def filled(n, classifies=False, seed=0):
    rng = np.random.default_rng(seed)
    judge = Judge(classifies, np.float64)
    judge.reset(2, 5)
    noted = []
    for _ in range(n):
        z, y = rng.normal(size=(2, C.models, 5)), np.sign(rng.normal(size=2))
        alone = rng.normal(size=(2, 2))
        noted.append((z, y, alone))
        judge.note(z, y, alone)
    return judge, noted


def judged(judge, row, thetas, own):
    """Which neighbours one learner believes."""
    return judge.believes([row], thetas[None], own[None], judge.alone([row]))[0]


@pytest.mark.parametrize("classifies", [False, True])
@pytest.mark.parametrize("n", [1, C.judge_fewest, C.judge_samples + 7, C.judge_settled])
def test_neighbours_are_judged_as_the_literal_rule_says(n, classifies):
    judge, noted = filled(n, classifies)
    thetas = np.random.default_rng(9).normal(size=(20, C.models, 5)) * np.linspace(0, 2, 20)[:, None, None]
    thetas[-1] *= 1e6
    for row in range(2):
        expected = believes(noted, row, thetas, thetas[3], classifies)
        assert judged(judge, row, thetas, thetas[3]).tolist() == expected
        assert not expected[-1]


def test_one_worse_than_alone_and_than_most_others_is_refused_once_there_are_samples_enough():
    rng, truth = np.random.default_rng(0), np.ones((C.models, 5))
    judge, biased = Judge(False, np.float64), truth.copy()
    biased[:, 0] += 0.1  # its squared error is twice the noise's
    judge.reset(1, 5)
    for n in range(C.judge_settled):
        z = rng.normal(size=(1, C.models, 5))
        z[..., 0] = 1
        y = z.sum((1, 2)) / C.models + 0.1 * (-1) ** n
        judge.note(z, y, np.full((1, 2), y + 0.12))
        used = judged(judge, 0, np.stack([truth, biased]), truth).tolist()
        assert used == [True, n + 1 < C.judge_settled]
    assert judged(judge, 0, biased[None], truth).all()  # one word against another


def early_judge(n, alone=2.0):
    """A judge with n samples of the sum of the features, which alone misses by `alone`."""
    rng, judge = np.random.default_rng(0), Judge(False, np.float64)
    judge.reset(1, 5)
    for _ in range(n):
        z = rng.normal(size=(1, C.models, 5))
        judge.note(z, z.sum((1, 2)) / C.models, z.sum((1, 2))[:, None] / C.models + [[alone, alone]])
    return judge


def test_early_one_that_errs_far_more_than_the_best_neighbour_is_refused_before_alone_is_any_good():
    own = np.full((C.models, 5), 0.6)
    like, roughly, other = (np.full((C.models, 5), part) for part in (0.5, 0.4, -0.5))
    judge = early_judge(12)
    assert judged(judge, 0, np.stack([like, roughly, other]), own).tolist() == [True, True, False]
    assert judged(judge, 0, other[None], own).all()  # there is no better one
    assert judged(early_judge(12, 9.0), 0, np.stack([like, other]), own).all()  # alone is far worse still
    assert judged(early_judge(C.judge_fewest - 1), 0, np.stack([like, other]), own).all()


def test_early_a_liar_that_knows_a_learners_samples_cannot_make_it_refuse_the_others():
    judge, own, honest = early_judge(20), np.full((C.models, 5), 0.2), np.full((C.models, 5), -0.2)
    knows = np.ones((C.models, 5))  # errs not at all
    assert judged(judge, 0, np.stack([knows, honest]), own).all()
    assert not judged(judge, 0, np.stack([knows, honest]), knows).all()  # unless the learner knows as much


def test_early_of_many_neighbours_the_best_one_alone_is_no_standard():
    own, lucky = np.full((C.models, 5), 0.6), np.full((C.models, 5), 0.6)
    others = np.stack([np.full((C.models, 5), -0.5 - 0.01 * i) for i in range(C.judge_few)])
    judge = early_judge(12)
    few = [False] * (C.judge_few - 1)
    assert judged(judge, 0, np.stack([lucky, *others[1:]]), own).tolist() == [True, *few]
    assert judged(judge, 0, np.stack([lucky, *others]), own).all()
    assert not judged(judge, 0, np.stack([lucky, lucky, *others]), own).all()  # two agree


def judge_of(n):
    """A judge with n samples of noise 0.1, of which one, in sight, has a first feature; and their truth."""
    rng, truth = np.random.default_rng(0), np.ones((C.models, 5))
    judge = Judge(False, np.float64)
    judge.reset(1, 5)
    for t in range(n):
        z = rng.normal(size=(1, C.models, 5))
        z[..., 0] = t == n - 9
        y = z.sum((1, 2)) / C.models + 0.1 * (-1) ** t
        judge.note(z, y, np.full((1, 2), y + 0.1))
    return judge, truth


def test_one_that_errs_twice_as_much_in_a_single_sample_is_used():
    judge, truth = judge_of(C.judge_settled - 1)
    once = truth + 2 * np.eye(5)[0]
    errors = ((judge.z[0] * once).sum((1, 2)) / C.models - judge.y[0]) ** 2
    assert errors.mean() > 2 * C.judge_most * 0.01  # of alone: 0.01
    assert judged(judge, 0, np.stack([truth, once]), truth).all()


def test_one_that_errs_more_than_most_but_predicts_nearly_the_same_is_used():
    judge, truth = judge_of(C.judge_settled)
    noise = judge.y[0] - judge.z[0].sum((1, 2)) / C.models
    z = judge.z[0].reshape(C.judge_samples, -1)
    worst = -np.linalg.lstsq(z, noise, rcond=None)[0].reshape(C.models, 5)  # what errs most for its distance
    for size, is_used in ((1.0, True), (3.0, False)):
        each = truth + size * worst
        errors = ((z @ each.ravel()) / C.models - judge.y[0]) ** 2
        assert errors.mean() > C.judge_common * 0.01
        assert judged(judge, 0, np.stack([truth, each]), truth).tolist() == [True, is_used]


@pytest.mark.parametrize("classifies", [False, True])
def test_terms_are_judged_as_the_literal_rule_says(classifies):
    judge, noted = filled(50, classifies)
    rng = np.random.default_rng(4)
    samples = [(rng.normal(size=(2, 7)), y) for _, y, _ in noted[-32:]]
    nothing = Seen.nothing(2, 7)
    seen = [functools.reduce(lambda s, one: s.and_one(*one), samples[:n], nothing) for n in (32, 3)]
    terms = rng.normal(size=(30, 7)) * np.linspace(0, 3, 30)[:, None]
    alone = judge.misses[1].mean(0).min()
    expected = believes_terms(samples, alone, 1, terms, terms[9], classifies)
    given = [1], terms[None], terms[9:10], judge.alone([1])
    assert judge.believes_terms(seen[0], *given).tolist() == [expected]
    assert 0 < sum(expected) < 30
    assert judge.believes_terms(seen[1], *given).all()  # too few to tell


def test_without_samples_of_its_own_a_learner_believes_everybody():
    judge, _ = filled(0)
    assert judged(judge, 0, np.full((3, C.models, 5), 1e9), np.zeros((C.models, 5))).all()


def test_parameters_that_are_no_numbers_are_not_believed():
    judge, _ = filled(40)
    own = np.zeros((C.models, 5))
    assert not judged(judge, 0, np.full((1, C.models, 5), np.nan), own).any()
    like, other = np.full((C.models, 5), 0.5), np.full((C.models, 5), -0.5)
    none = np.full((C.models, 5), np.nan)
    assert judged(early_judge(12), 0, np.stack([none, like, other]), like).tolist() == [False, True, False]
    assert not judged(judge, 0, np.full((1, C.models, 5), REACH * 1e9), own).any()


def test_a_judges_state_is_whole_and_can_be_without_samples():
    judge, _ = filled(40)
    other = Judge(False, np.float64)
    other.restore(judge.state(), 2, 5)
    thetas = np.random.default_rng(1).normal(size=(50, C.models, 5))
    own = np.zeros((C.models, 5))
    np.testing.assert_array_equal(judged(other, 1, thetas, own), judged(judge, 1, thetas, own))
    judge.clear()
    assert judge.state().pop("since").tolist() == [0, 0]
    assert {**judge.state(), "since": None} == dict.fromkeys(("since", "z", "y", "misses")) | {"count": 0}
    other.restore(judge.state(), 2, 5)
    assert judged(other, 1, thetas, own).all()


# Networks


def test_learners_are_judged_alike_however_many_at_once(monkeypatch):
    graph, rows = as_graph(nx.wheel_graph(6)), [j for j in range(6) for _ in range(5 if j == 0 else 3)]
    whole = network._by_degree(graph, rows)
    monkeypatch.setattr(network, "AT_ONCE", 6)
    parts = network._by_degree(graph, rows)
    assert [len(group.who) for group in whole] == [5, 1]
    assert [len(group.who) for group in parts] == [2, 2, 1, 1]
    for name in ("who", "near", "ends"):
        one, other = ([getattr(group, name) for group in groups] for groups in (whole, parts))
        assert np.hstack([*map(np.ravel, one)]).tolist() == np.hstack([*map(np.ravel, other)]).tolist()


def test_who_learns_the_opposite_is_left_out_and_the_others_are_used():
    X, y = different()
    run = domkl.simulate(X, y, "complete", model=domkl.Auto(size=SIZE))
    among = run.trust[1:, 1:][~np.eye(3, dtype=bool)]
    assert run.trust[1:, 0].max() < 0.2
    assert among.min() > 0.8
    assert np.isnan(np.diag(run.trust)).all()


def test_the_others_do_as_well_as_without_the_one_that_learns_the_opposite():
    X, y = different()
    model, later = domkl.Auto(size=SIZE), slice(30, None)
    with_it = domkl.simulate(X, y, "complete", model=model).y_hat[1:] - y[1:]
    without = domkl.simulate(X[1:], y[1:], "complete", model=model).y_hat - y[1:]
    assert np.square(with_it[:, later]).mean() < 1.05 * np.square(without[:, later]).mean()


@pytest.mark.parametrize("screened", [False, True])
def test_devices_have_the_networks_bits_where_some_are_refused_and_used_again(screened):
    graph, T = nx.cycle_graph(4), 110
    X, y = different(T=T)
    y[0, 60:] *= -1  # from here on it learns what the others learn
    exchange = domkl.Exchange(screen=nearer) if screened else domkl.Exchange()
    expected, rows = simulated(graph, X, y, exchange=exchange)
    members = learners(graph, 2, exchange=exchange)
    found = problems.fed(members, graph, X, y, random.Random(0))
    np.testing.assert_array_equal(found, expected)
    lam = np.concatenate([member.state.lam for member in members])
    np.testing.assert_array_equal(lam, rows.parameters.lam)
    assert any(member.implausible for member in members)
    assert min(member.trust[i] for member in members for i in member.neighbours) < 0.7


def test_two_clusters_part_within_their_first_rounds():
    X, y = different(J=8, T=48, who=range(0, 8, 2))
    run = domkl.simulate(X, y, nx.random_regular_graph(4, 8, seed=2), model=domkl.Auto(size=SIZE))
    same = np.equal.outer(np.arange(8) % 2, np.arange(8) % 2)
    assert np.nanmean(run.trust[same]) > 0.95
    assert np.nanmean(run.trust[~same]) < 0.05


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_who_is_refused_counts_as_the_mean_of_the_others(dtype):
    rng, graph = np.random.default_rng(0), as_graph(nx.star_graph(3))
    near, sent = Neighbours.of(graph), rng.normal(size=(4, 1, 3)).astype(dtype)
    refused = np.array([False, True, False, False])
    found = pull(near, sent, sent, refused=refused)
    mean = (sent[2] + sent[3]) / 2
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-6)
    np.testing.assert_allclose(found.near[0], 3 * mean, rtol=1e-6)
    plain = pull(near, sent, sent)
    np.testing.assert_array_equal(found.near[1:], plain.near[1:])  # to these, nobody is refused
    np.testing.assert_array_equal(found.mean[1:], plain.mean[1:])
    nobody = pull(near, sent, sent, refused=np.ones(4, bool))
    np.testing.assert_array_equal(nobody.mean, sent)


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_a_dual_outgrows_those_of_most_other_edges(n, R, seed):
    rng = np.random.default_rng(seed)
    duals = rng.normal(size=(R, n, 2, 3)) * np.where(rng.random((R, n, 1, 1)) < 0.3, 5, 1)
    duals *= rng.random((R, n, 1, 1)) < 0.8
    found = outgrown(duals, np.full(R, 2.0))
    assert found.tolist() == [naive.outgrown(each, 2.0) for each in duals]
    one = [outgrown(duals[[k]], np.array([2.0]))[0].tolist() for k in range(R)]
    assert found.tolist() == one  # a device decides like a network in one process


def test_devices_refuse_duals_that_have_outgrown_the_others_as_a_network_in_one_process_does(monkeypatch):
    graph, (X, y), hits = nx.complete_graph(5), problems.streams(5, 180, 2), []
    y[0] += 0.3 * np.sin(4 * X[0, :, 0])  # a learner with a small part of its own
    monkeypatch.setattr(network, "outgrown", lambda *given: hits.append(outgrown(*given)) or hits[-1])
    expected, rows = simulated(graph, X, y)
    assert np.any(hits)
    members = learners(graph, 2)
    np.testing.assert_array_equal(problems.fed(members, graph, X, y, random.Random(0)), expected)
    lam = np.concatenate([member.state.lam for member in members])
    np.testing.assert_array_equal(lam, rows.parameters.lam)


class Stubborn(Network):
    """Learner 0 sends parameters that grow a little in every round, and never gives way."""

    def __init__(self, *given):
        super().__init__(*given)
        self.t = 0

    def delivered(self, own):
        self.t += 1
        grown = np.where(np.arange(self.graph.J) == 0, 1.01 ** max(self.t - 150, 0), 1)
        return own | {"theta": own["theta"] * grown[:, None, None]}


def test_who_never_gives_way_is_refused_before_its_errors_show_it():
    X, y = problems.streams(5, 190, 3)
    y = y + np.random.default_rng(0).normal(size=y.shape)  # of which single errors tell little
    first = []
    for limit in (C.judge_dual, math.inf):
        object.__setattr__(C, "judge_dual", limit)
        try:
            network = Stubborn(as_graph(nx.complete_graph(5)), domkl.Exchange())
            rows = AutoRows(domkl.Auto(size=SIZE), 5, 3, network.neighbours.weight, 5, network.diameter)
            for t in range(190):
                before = network.used[1:, 0].sum()
                rows.merge(network.exchange_round(rows, rows.learn(rows.predict(X[:, t]), y[:, t])))
                if t > 150 and network.used[1:, 0].sum() - before < 4:
                    break
            first.append(t)
        finally:
            object.__setattr__(C, "judge_dual", 2.0)
    assert first[0] < first[1]


def nearer(own, theirs):
    """Half of the way to each neighbour."""
    return own + (theirs - own) / 2


def test_duals_of_a_whole_network_sum_to_zero_once_both_ends_know_of_a_refusal():
    near = Neighbours.of(as_graph(nx.cycle_graph(5)))
    duals, rng = NetworkDuals(near), np.random.default_rng(0)
    lam = np.zeros((5, 1, 3))
    for t in range(60):
        theta = rng.normal(size=(5, 1, 3))
        refused = rng.random(10) < (0.2 if t < 50 else 0)
        back, moving = duals.settle(refused)
        lam -= 0 if back is None else back
        received = theta[duals.senders]
        duals.move(moving, theta, received)
        np.add.at(lam, duals.rows, np.where(moving[:, None, None], theta[duals.rows] - received, 0) / 2)
    np.testing.assert_allclose(lam.sum(0), 0, atol=1e-12)
    np.testing.assert_allclose(duals.dual, -duals.dual[duals.other], atol=1e-12)


def test_a_learner_that_refuses_a_neighbour_goes_on_from_its_checkpoint_with_the_same_bits():
    graph = nx.path_graph(3)
    X, y = different(3, 90)
    members = learners(graph, 2)
    problems.fed(members, graph, X[:, :60], y[:, :60], random.Random(0))
    saved = [member.save() for member in members]
    assert members[1].implausible
    again = learners(graph, 2)
    for member, (arrays, meta) in zip(again, saved, strict=True):
        member.load({name: array.copy() for name, array in arrays.items()}, meta)
        assert member.trust
    assert [member.trust for member in again] == [member.trust for member in members]
    rest = X[:, 60:], y[:, 60:], random.Random(1)
    expected = problems.fed(members, graph, *rest)
    np.testing.assert_array_equal(problems.fed(again, graph, *rest[:2], random.Random(1)), expected)
    assert [member.trust for member in again] == [member.trust for member in members]


def test_a_message_that_is_refused_came_all_the_same(monkeypatch):
    """Its sender must not close a round at once, as if the other had gone on without it."""
    members, (X, y) = learners(nx.path_graph(2), 2), different(2, 62, ())
    a, b = members
    problems.fed(members, nx.path_graph(2), X[:, :60], y[:, :60], random.Random(0))
    monkeypatch.setattr(AutoRows, "believes", lambda self, who, sent: np.zeros(sent["theta"].shape[:2], bool))
    b.receive(0, a.observe(X[0, 60], y[0, 60]))
    b.observe(X[1, 60], y[1, 60])  # which is lost, as the next is not
    assert (b.round, b.implausible) == (61, [0])
    a.receive(1, b.observe(X[1, 61], y[1, 61]))
    assert (a.missing, a.gone) == ((1,), {})


# Lies that are no parameters


def test_a_range_that_one_neighbour_makes_up_stays_within_a_few_widths():
    X, y = different(3, 90, who=())
    members = learners(nx.complete_graph(3), 2)
    for t in range(90):
        updates = [member.observe(X[j, t], y[j, t]) for j, member in enumerate(members)]
        updates[2] = wide(members[2], updates[2])
        for member in members:
            for i in member.neighbours:
                member.receive(i, updates[i])
    model = members[0]._row.model
    assert np.abs(model.low - model.scale.centre)[0] <= C.range_widths * model.scale.width[0]
    assert np.abs(members[0].predict(X[0, 0]) - y[0, 0]) < 1


def wide(member, update):
    """An update with the widest range that a message may hold, and parameters as they are."""
    row = member._row
    message = row._unpacked(update)
    message |= {"low": np.full(1, -1e30), "high": np.full(1, 1e30)}
    return update._replace(scalars=row.layout.pack(message)[1])


def test_a_message_on_another_scale_neither_counts_as_trusted_nor_moves_the_range():
    X, y = different(2, 100, who=())
    a, b = learners(nx.path_graph(2), 2)
    for t in range(100):
        from_a, from_b = a.observe(X[0, t], y[0, t]), b.observe(X[1, t], y[1, t])
        if t >= 80:
            message = b._row._unpacked(wide(b, from_b)) | {"scale": np.full(1, 7.0)}
            from_b = from_b._replace(scalars=b._row.layout.pack(message)[1])
        trust, low = a.trust.get(1), a._row.model.low[0]
        a.receive(1, from_b)
        b.receive(0, from_a)
        if t >= 80:
            assert a.trust.get(1) == trust
            assert a._row.model.low[0] == min(low, y[0, t])

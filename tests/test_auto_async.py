"""Learners without settings that were not told the network, or that have no common rounds."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np

import domkl
import problems
from auto_networks import duals, scales
from domkl.learning.auto.joint import Joint

MODEL = domkl.Auto(size=60)


# Nobody told them the network


def test_learners_who_were_not_introduced_find_the_network_and_one_scale():
    graph = nx.path_graph(4)
    X, y = problems.streams(len(graph), 80, 2)
    near = problems.neighbours_of(graph)
    strangers = [domkl.Learner(MODEL, near[j], name=j, inputs=2) for j in graph]
    assert not strangers[0].knows_network
    known = problems.learners(graph, MODEL, inputs=2)
    errors = [
        ((problems.fed(one, graph, X, y, random.Random(0)) - y) ** 2).mean() for one in (strangers, known)
    ]
    assert errors[0] < 1.5 * errors[1]
    assert all(one.knows_network for one in strangers)
    assert {one.topology.size for one in strangers} == {(len(graph), nx.diameter(graph))}
    assert len(scales(strangers)) == 1
    assert 0 not in scales(strangers)
    assert duals(strangers) < 1e-9


# They have no common round


def truth(X):
    return np.sin(2 * X[..., 0]) + X[..., 1]


def network(graph):
    near = problems.neighbours_of(graph)
    return [domkl.Learner(MODEL, near[j], name=j, inputs=2, asynchronous=True) for j in graph]


def at_different_speeds(learners, rounds, seed):
    """The j-th has j + 1 samples where the first has one; messages wait, and arrive in any order."""
    rng, noise, post = random.Random(seed), np.random.default_rng(seed), []
    X = noise.uniform(-1, 1, (len(learners), rounds, 2))
    y = truth(X) + 0.3 * noise.standard_normal(X.shape[:2])
    while max(one.round for one in learners) < rounds:
        one = rng.choices(learners, range(1, len(learners) + 1))[0]
        update = one.observe(X[one.name, one.round], y[one.name, one.round])
        post += [(one.name, name, update) for name in one.neighbours]
        rng.shuffle(post)
        while len(post) > 20 or (post and rng.random() < 0.5):
            sender, receiver, update = post.pop()
            learners[receiver].receive(sender, update)


def error(learners):
    """Mean squared distance from the truth."""
    X = np.random.default_rng(9).uniform(-1, 1, (100, 2))
    return np.mean([[(one.predict(x) - truth(x)) ** 2 for x in X] for one in learners])


def test_asynchronous_learners_find_one_scale_and_learn_together():
    together, alone = 0.0, 0.0
    for seed in range(2):
        learners, lonely = network(nx.cycle_graph(4)), network(nx.empty_graph(4))
        for ones in (learners, lonely):
            at_different_speeds(ones, 120, seed)
        assert len(scales(learners)) == 1
        assert 0 not in scales(learners)
        assert np.ptp([one.round for one in learners]) > 50
        together, alone = together + error(learners), alone + error(lonely)
    assert together < 0.9 * alone


def exchange(a, b, x, y):
    """A sample for each, not the same, and the updates of both delivered."""
    updates = a.observe(x, y), b.observe(1.1 * x[::-1], y)
    b.receive(a.name, updates[0])
    a.receive(b.name, updates[1])


def samples(n, seed=0):
    X, y = problems.streams(1, n, 2, seed)
    return zip(X[0], y[0], strict=True)


def test_a_scale_arrives_however_many_messages_are_overtaken_by_later_ones():
    fast, slow = network(nx.path_graph(2))
    for x, y in samples(70):
        slow.receive(0, fast.observe(x, y))
    for x, y in samples(3):
        fast.receive(1, slow.observe(x, y))
        for _ in range(10):
            slow.receive(0, fast.observe(x, y))
    assert scales([fast, slow]) == {fast._row._number}
    assert fast._row._number != 0


def test_learners_that_fix_a_scale_lose_nothing_of_what_they_know(monkeypatch, short_warm_up):
    """Only the one whose scale it is takes it again; the other keeps its samples until it has it."""
    monkeypatch.setattr(Joint, "adopt", None)  # without samples a learner would have to take others' theta
    a, b = network(nx.path_graph(2))
    before = None
    for t, (x, y) in enumerate(samples(short_warm_up + 5)):
        exchange(a, b, x, y)
        if t == short_warm_up - 2:
            before = scales([a, b])
    assert len(before) == len(scales([a, b])) == 1
    assert before != scales([a, b])
    assert [one._row.model.warm.over for one in (a, b)] == [True, True]
    assert sorted(one._row.model.warm.own for one in (a, b)) == [False, True]


def test_a_scale_of_a_learner_that_is_gone_is_fixed_in_the_end(short_warm_up):
    a, b = network(nx.path_graph(2))
    for x, y in samples(80):
        exchange(a, b, x, y)
    left = b if a._row.model.warm.own else a
    number, last = left._row._number, 2 * short_warm_up
    for x, y in samples(last - 80, seed=1):
        assert not left._row.model.warm.over
        left.observe(x, y)
    assert left._row.model.warm.over
    assert left._row._number == number
    assert not left._row.model.warm.samples


def test_old_messages_of_asynchronous_learners_are_not_taken_for_new_ones():
    a, b = network(nx.path_graph(2))
    old = []
    for x, y in samples(80):  # scales change in between
        old.append(a.observe(x, y))
        b.receive(0, old[-1])
        a.receive(1, b.observe(x, y))
    assert not any(b.receive(0, update) for update in old)

"""No message moves a learner further than a stated bound, and none ends it: one liar among honest agents."""

from __future__ import annotations

import asyncio

import networkx as nx
import numpy as np
import pytest

import domkl
import liars
import problems
from domkl.agent import wire
from inmemory import d

T = 40
models = pytest.mark.parametrize("model", liars.MODELS.values(), ids=liars.MODELS)


def as_undisturbed(graph, model, disturb):
    """Agents that end with the bits of an undisturbed network, whatever `disturb` sends meanwhile."""
    X, y = problems.streams(len(graph), T, d)
    agents, y_hat = liars.run_with(graph, X, y, model, disturb)
    np.testing.assert_array_equal(y_hat, domkl.simulate(X, y, graph, model=model).y_hat)
    assert [agent.learner.round for agent in agents] == [T] * len(graph)
    return agents


@models
@pytest.mark.parametrize("round", [2**52 - 1, 10**6])
def test_a_round_far_ahead_moves_nobody(model, round):
    async def disturb(agents):
        liars.send(agents[1], liars.lie(agents[1], round, theta=1e6))

    agents = as_undisturbed(nx.cycle_graph(3), model, disturb)
    assert [agent.refused["round"] for agent in agents] == [1, 0, 1]
    assert all(peer.round <= T and peer.durable <= T for peer in agents[0].peers.values())


@models
def test_an_only_neighbour_that_lies_about_its_round_moves_nobody_that_has_learnt(model):
    async def disturb(agents):
        for _ in range(20):
            liars.send(agents[1], liars.lie(agents[1], 2**40 - 1, theta=1e6))

    assert as_undisturbed(nx.path_graph(2), model, disturb)[0].refused["round"] == 20


@models
def test_a_hello_or_a_repeated_update_with_such_a_round_moves_nobody_either(model):
    async def disturb(agents):
        learner, life = agents[1].learner, agents[1].messages.identity.incarnation
        hello = wire.Hello(learner.fingerprint, life, 2**50, 2**50, {}, {}, True, 2**62)
        liars.send(agents[1], wire.encode(hello), "hello")
        again = wire.Again(learner.fingerprint, life, [liars.lie(agents[1], 2**50)])
        liars.send(agents[1], wire.encode(again), "to/l0")

    agents = as_undisturbed(nx.cycle_graph(3), model, disturb)
    assert [agent.refused["round"] for agent in agents] == [2, 0, 1]


@models
@pytest.mark.parametrize("theta", [1.01e100, -1e300])
def test_parameters_beyond_the_bound_are_refused_before_they_are_stored(model, theta):
    async def disturb(agents):
        agents[0].peers["l1"].latest = None
        liars.send(agents[1], liars.lie(agents[1], agents[1].learner.round, theta=theta))
        await asyncio.sleep(0)
        latest = agents[0].peers["l1"].latest
        assert latest is None or np.abs(latest.theta).max() < 1e6

    assert as_undisturbed(nx.path_graph(2), model, disturb)[0].refused["message"] == 1


@models
def test_a_fault_that_nobody_foresaw_is_a_refusal_of_its_sender(model, monkeypatch):
    async def disturb(agents):
        def break_down(*given):
            raise ZeroDivisionError("in the depths")

        with monkeypatch.context() as patch:
            patch.setattr(agents[0].neighbourhood, "receive", break_down)
            agents[0].messages.receive("domkl/net/l1/theta", liars.lie(agents[1], 0))

    agents = as_undisturbed(nx.path_graph(2), model, disturb)
    assert agents[0].refused["fault"] == 1


async def nothing(agents):
    pass


@models
@pytest.mark.parametrize(("at", "label"), [(1, 1e100), (70, -1e12)])
def test_one_huge_label_is_refused_by_no_neighbour(model, at, label):
    X, y = problems.streams(3, 80, d)
    y[0, at] = label
    agents, y_hat = liars.run_with(nx.path_graph(3), X, y, model, nothing)
    unused = sum(agent.refused.pop("implausible", 0) for agent in agents)  # absurd, and not used in a round
    assert [sum(agent.refused.values()) for agent in agents] == [0, 0, 0]
    assert [agent.progress.samples for agent in agents] == [80] * 3
    assert np.isfinite(y_hat).all()
    # The others stay with their own labels, at the latest on a scale in which that learner has no part.
    assert np.abs(y_hat[1:, 40:]).max() < 1e6 or not unused
    if model is liars.MODELS["auto"] and not unused:
        np.testing.assert_array_equal(y_hat, domkl.simulate(X, y, nx.path_graph(3), model=model).y_hat)


@models
def test_messages_with_any_values_in_their_fields_end_in_refusals_only(model):
    """Afterwards everybody still learns; what a liar does to errors is another matter."""
    rng, X_y = np.random.default_rng(0), problems.streams(3, T, d)

    async def disturb(agents):
        for _ in range(200):
            liars.send(agents[1], *liars.wild_message(agents[1], "l0", rng))
            await asyncio.sleep(0)
        for agent in agents:
            assert not agent.refused["fault"]

    agents, y_hat = liars.run_with(nx.cycle_graph(3), *X_y, model, disturb)
    assert [agent.progress.samples for agent in agents] == [T] * 3
    assert np.isfinite(y_hat).all()
    for agent in agents:
        assert not agent.refused["fault"]
        assert agent.learner.round < 10**6
        agent.learner.save()

"""Rubbish, forgeries, replays and strangers: refused, counted, and never fatal."""

from __future__ import annotations

import asyncio

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.agent import Agent, wire
from domkl.agent.incarnation import Incarnation
from domkl.agent.streams import aiter_of
from domkl.agent.transports.names import OPERATOR, topic
from domkl.exchange.edges import Held
from domkl.learning.auto.scale import Summary
from inmemory import AUTO, PAPER, configs, d, paced, until, y_hats

T = 90
OTHER = Incarnation(2**62, 1)
#: What once ended agents: too deep, infinite, too large.
CRUEL = (
    b"[" * 100_000,
    b'{"version": 1e400, "links": []}',
    b'{"version": 99999999999999999999999, "links": []}',
)


def pester(victim_neighbour):
    """Somebody who can publish under the name of a neighbour sends rubbish, old and foreign messages."""
    send = victim_neighbour.transport._hub.send
    for message in forgeries(victim_neighbour.learner, victim_neighbour.messages.identity.incarnation):
        send(topic("net", "l1", "theta"), message, False)
    for message in (b"no json", b"{}", b'{"version": "x", "links": 3}', *CRUEL):
        send(topic("net", OPERATOR, "graph"), message, False)
    send(topic("net", "nobody", "theta"), b"", False)


def forgeries(learner, life):
    shapes, mark = learner.shapes, learner.fingerprint
    theta, scalars = np.ones(shapes.theta), np.ones(shapes.scalars) if shapes.scalars else None
    update = domkl.Update(3, theta, scalars, mark)
    hello = wire.Hello(mark, OTHER, 0, 0, {}, {}, False, 0)
    return [
        b"",
        b"rubbish",
        wire.encode_update(update._replace(fingerprint="0" * 16), OTHER, 0),
        wire.encode_update(update._replace(theta=np.ones((1, 7))), OTHER, 0),
        wire.encode_update(update, OTHER, 0),  # right, but of an earlier life
        wire.encode(wire.Again(mark, life, [b"x", wire.encode(hello)])),
    ]


@pytest.mark.parametrize("model", [PAPER, AUTO], ids=["paper", "auto"])
def test_strangers_forgers_and_noise_are_refused_counted_and_never_fatal(model):
    X, y = problems.streams(2, T, d)
    outs, graph = [[], []], nx.path_graph(2)

    async def main():
        agents = [
            Agent(each, stream=aiter_of(paced(X[j], y[j], 0.001), d), out=outs[j].append)
            for j, each in enumerate(configs(graph, model=model))
        ]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: agents[0].learner.round > 10)
        pester(agents[1])
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return agents

    agents = asyncio.run(main())
    np.testing.assert_array_equal(y_hats(outs), domkl.simulate(X, y, graph, model=model).y_hat)
    assert agents[0].refused["message"] == 5
    assert agents[0].refused["replayed"] == 1
    assert agents[0].refused["graph"] == 6


def poisoned(agent, **changes):
    """What an agent of `Auto` might have sent in round 5, with other values in it."""
    learner, shapes = agent.learner, agent.learner.shapes
    edges = {"l0": Held()}
    update = domkl.Update(5, np.zeros(shapes.theta), np.zeros(shapes.scalars), learner.fingerprint, edges, 1)
    return wire.encode_update(update._replace(**changes), agent.messages.identity.incarnation, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"scalars": np.array([7.5])},
        {"news": {"l9": Summary.of(np.full((1, d + 1), 1e140), 512)}},
        {"news": {"l1": Summary.of(np.full((1, d + 1), -1e140), 512)}},
        {"news": {f"x{i}": Summary.of(np.full((1, d + 1), float(i))) for i in range(1000)}},
        {"news": {"l0": Summary.of(np.full((1, d + 1), 1e140), 512)}},
        {"news": {"l1": Summary.of(np.zeros((1, d + 1)), 513)}},
    ],
)
def test_what_a_forged_update_of_auto_says_of_samples_does_no_lasting_harm(changes):
    """Whoever forges its neighbour's updates can mislead it; it must not fail, and nobody speaks for it."""
    X, y = problems.streams(2, T, d)
    graph = nx.path_graph(2)

    async def main():
        agents = [
            Agent(each, stream=aiter_of(paced(X[j], y[j], 0.001), d), out=len)
            for j, each in enumerate(configs(graph, model=AUTO))
        ]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: agents[0].learner.round > 10)
        message = poisoned(agents[1], **changes)
        agents[1].transport._hub.send(topic("net", "l1", "theta"), message, False)
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return agents

    agents = asyncio.run(main())
    assert [agent.progress.samples for agent in agents] == [T, T]
    own = agents[0].learner._row.scale.known[0]["l0"]
    assert np.abs(own.high).max() < 100
    assert all(np.isfinite(agent.learner.predict(X[0, 0])) for agent in agents)

"""One neighbour, or one graph, cannot end an agent, mute it, keep it from being ready, or send it away."""

from __future__ import annotations

import asyncio
import dataclasses

import networkx as nx
import pytest

import problems
from domkl.agent import Agent, conversation, lives, wire
from domkl.agent.lives import QUIET, Identity, Life
from domkl.agent.serve import snapshot
from domkl.agent.streams import aiter_of
from inmemory import config, configs, d, paced, until
from liars import send

OTHER = Life(1, 99)


@pytest.fixture
def quick(monkeypatch):
    """Silence after a fraction of a second, and hellos as often."""
    monkeypatch.setattr(lives, "QUIET", 0.1)
    monkeypatch.setattr(conversation, "HELLO_EVERY", 0.03)


def agent_of(given, pause=0.002, T=2000):
    X, y = problems.streams(1, T, d)
    return Agent(given, stream=aiter_of(paced(X[0], y[0], pause), d), out=len)


def hello(agent, round=0, **more):
    """A hello under an agent's name."""
    life, mark = agent.post.identity.life, agent.learner.fingerprint
    return wire.encode(wire.Hello(mark, life, round, 0, {}, {}, False, 0, **more))


async def cancelled(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# Names


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("near", [["l1"], ["l1", "late"]])
def test_one_neighbour_that_names_another_life_does_not_end_an_agent(near):
    """It goes on, and reports it: to the log, to the metrics and, unless the others are absent, in /readyz."""

    async def main():
        rounds = dataclasses.replace(config("l0").rounds, start=0.3)
        victim, liar = agent_of(config("l0", near, rounds=rounds)), agent_of(config("l1", ["l0"]))
        await liar.transport.open()
        task = asyncio.create_task(victim.run())
        for _ in range(25):  # more than twice as long as a name has to be another's
            send(liar, hello(liar, lives={"l0": OTHER}), "hello")
            await asyncio.sleep(0.02)
        assert not task.done()
        assert victim.learner.round > 5
        found = snapshot(victim)["name_conflict"], bool(victim.status.faults)
        await cancelled(task)
        return found

    assert asyncio.run(main()) == (1.0, len(near) == 1)


def named_by(me, *names, until=2 * QUIET):
    """These neighbours name another life, for long enough."""
    for step in range(int(until) + 1):
        for name in names:
            me.note(name, OTHER, False, float(step))
    return until


@pytest.mark.parametrize(
    ("near", "voices", "is_taken"),
    [("b", "b", False), ("bc", "b", False), ("bc", "bc", True), ("bcde", "bc", False), ("bcde", "bcd", True)],
)
def test_a_name_is_taken_if_two_neighbours_and_most_of_all_name_another(near, voices, is_taken):
    me = Identity("a", 1)
    assert me.is_taken(named_by(me, *voices), near) == is_taken


@pytest.mark.usefixtures("quick")
def test_one_neighbour_cannot_keep_an_agent_from_being_ready():
    async def main():
        agents = [agent_of(each) for each in configs(nx.path_graph(3))]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: min(agent.learner.round for agent in agents) > 5)
        liar, victim = agents[:2]
        names = {"l1": OTHER}
        for _ in range(10):
            send(liar, hello(liar, liar.learner.round, lives=names, rivals=["l1"]), "hello")
            await asyncio.sleep(0.06)
            assert not victim.status.faults
        assert snapshot(victim)["name_conflict"] == 1  # it is reported all the same
        await cancelled(*tasks)

    asyncio.run(main())

"""Neighbours that come late, leave, are cut off, or do not wait: nobody is told who is in the network."""

from __future__ import annotations

import asyncio

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.agent import Agent
from domkl.agent import topology as graphs
from domkl.agent.config import RoundSection
from domkl.agent.streams import aiter_of
from domkl.agent.transports import MemoryTransport
from domkl.agent.transports.names import OPERATOR, topic
from inmemory import (
    AUTO,
    PAPER,
    CutHub,
    config,
    configs,
    d,
    duals,
    paced,
    paper,
    scale_number,
    transport,
    until,
    y_hats,
)

QUICK = RoundSection("sync", deadline=0.3, start=0.5, resend=0.05)
PAUSE = 0.004


def agent_of(given, X, y, seconds=PAUSE, hub=None):
    """An agent whose samples come one by one."""
    sent = None if hub is None else MemoryTransport(given.transport_settings(), hub)
    return Agent(given, sent, aiter_of(paced(X, y, seconds), d), len)


async def direct(links, version=7, dropped=()):
    """What an operator sends: another graph."""
    operator = transport(OPERATOR)
    await operator.open()
    graph = graphs.encode(version, links, {}, dropped)
    operator.publish(topic("net", OPERATOR, "graph"), graph, retain=True)


# Late


def test_a_latecomer_starts_from_what_its_neighbour_knows():
    X, y = problems.streams(2, 300, d)

    async def main():
        rounds = RoundSection("sync", deadline=0.3, start=0.2, resend=0.05)
        old = agent_of(config("a", ["b"], rounds=rounds), X[0], y[0])
        new = agent_of(config("b", ["a"], rounds=rounds), X[1, :60], y[1, :60])
        first = asyncio.create_task(old.run())
        await until(lambda: old.learner.round > 60)
        start = old.learner.round
        await asyncio.wait_for(asyncio.gather(first, new.run()), 30)
        return old, new, start

    old, new, start = asyncio.run(main())
    assert (old.progress.samples, new.progress.samples) == (300, 60)
    assert new.learner.round >= start + 60  # it counts the network's rounds, not its own
    assert np.abs(new.learner.state.theta).max() > 0
    assert duals((old, new)) < 1e-9


def test_a_latecomer_of_auto_takes_the_scale_of_the_others_and_learns_from_them():
    """a - b - c, and c comes when the others have had a common scale for long."""
    X, y = problems.streams(3, 900, d)
    out = []

    async def main():
        a, b = (
            agent_of(config(name, near, model=AUTO, rounds=QUICK), X[j], y[j])
            for j, (name, near) in enumerate({"a": ["b"], "b": ["a", "c"]}.items())
        )
        tasks = [asyncio.create_task(each.run()) for each in (a, b)]
        await until(lambda: a.learner.round > 150)
        given = config("c", ["b"], model=AUTO, rounds=QUICK)
        c = Agent(given, stream=aiter_of(paced(X[2], y[2], PAUSE), d), out=out.append)
        late = asyncio.create_task(c.run())
        await until(lambda: len({scale_number(each) for each in (a, b, c)} - {0}) == 1 and scale_number(c))
        await until(lambda: c.progress.samples > 20)
        for each in (a, b, c):
            each.stop()
        await asyncio.gather(*tasks, late)

    asyncio.run(main())
    alone = domkl.simulate(X[2:, :20], y[2:, :20], nx.empty_graph(1), model=AUTO).y_hat
    mine, apart = (np.mean((found - y[2, :20])[0, 2:] ** 2) for found in (y_hats([out[:20]]), alone))
    assert mine < 0.6 * apart


# Another graph


@pytest.mark.parametrize("model", [PAPER, paper(step="newton"), AUTO], ids=["first", "newton", "auto"])
def test_the_graph_changes_while_it_runs(model):
    X, y = problems.streams(3, 200, d)

    async def main():
        all_configs = configs(nx.path_graph(3), rounds=QUICK, model=model)
        agents = [agent_of(each, X[j], y[j]) for j, each in enumerate(all_configs)]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: agents[0].learner.round > 90)
        await direct([["l0", "l2"], ["l2", "l1"]])
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return agents

    agents = asyncio.run(main())
    assert [set(agent.peers) for agent in agents] == [{"l2"}, {"l2"}, {"l0", "l1"}]
    assert [agent.neighbourhood.graph for agent in agents] == [7, 7, 7]
    assert [agent.progress.samples for agent in agents] == [200, 200, 200]
    assert duals(agents) < 1e-9


def test_learners_of_auto_join_and_leave_and_have_one_scale_while_joined():
    X, y = problems.streams(4, 600, d)

    async def main():
        near = {"a": ["b"], "b": ["a"], "c": [], "d": []}
        made = {
            name: agent_of(config(name, others, model=AUTO, rounds=QUICK), X[j], y[j])
            for j, (name, others) in enumerate(near.items())
        }
        tasks = [asyncio.create_task(each.run()) for each in made.values()]
        a, b, c, e = made.values()
        await until(lambda: a.learner.round > 100)
        await direct([["a", "b"], ["b", "c"], ["c", "d"]])
        await until(lambda: len({scale_number(each) for each in (a, b, c, e)} - {0}) == 1)
        await direct([["a", "b"]], version=8, dropped=["c", "d"])
        await until(lambda: not c.learner.neighbours and not e.learner.neighbours)
        await until(lambda: b.learner.neighbours == ("a",))
        for each in made.values():
            each.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return a, b, c, e

    a, b, c, e = asyncio.run(main())
    assert duals((a, b)) < 1e-9
    assert max(duals((c,)), duals((e,))) < 1e-12


# Cut off


@pytest.mark.parametrize("model", [PAPER, AUTO], ids=["paper", "auto"])
def test_one_that_is_cut_off_goes_on_and_is_taken_in_again(model):
    X, y = problems.streams(3, 500, d)

    async def main():
        hub = CutHub()
        all_configs = configs(nx.path_graph(3), model=model, rounds=QUICK)
        agents = [agent_of(each, X[j], y[j], hub=hub) for j, each in enumerate(all_configs)]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: agents[0].learner.round > 100)
        hub.apart = {"l2"}
        await until(lambda: agents[1].learner.neighbours == ("l0",) and agents[2].learner.neighbours == ())
        rounds = agents[2].learner.round
        await until(lambda: agents[2].learner.round > rounds + 30)
        hub.apart = set()
        await until(lambda: len(agents[1].learner.neighbours) == 2 and len(agents[2].learner.neighbours) == 1)
        rounds = agents[0].learner.round
        await until(lambda: agents[0].learner.round > rounds + 30)
        for agent in agents:
            agent.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return agents

    agents = asyncio.run(main())
    assert duals(agents) < 1e-9
    assert agents[0].neighbourhood.incomplete <= 3  # one may stop some rounds before the other
    assert agents[2].neighbourhood.incomplete > 30  # all while it was alone
    if model is AUTO:
        assert len({scale_number(agent) for agent in agents}) == 1


# Without waiting


def learnt_while_one_is_held_back(mode, seconds):
    """How many samples two neighbours learn before the one between them has any."""
    X, y = problems.streams(3, 100, d)
    released = asyncio.Event()

    async def held_back():
        await released.wait()
        yield X[1, 0], y[1, 0]

    async def main():
        rounds = RoundSection(mode=mode, deadline=600.0, start=30.0)
        streams = [aiter_of(zip(X[0], y[0], strict=True), d), aiter_of(held_back(), d)]
        streams.append(aiter_of(zip(X[2], y[2], strict=True), d))
        all_configs = configs(nx.path_graph(3), rounds=rounds)
        agents = [Agent(each, stream=streams[j], out=len) for j, each in enumerate(all_configs)]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        free = agents[0], agents[2]
        try:
            await until(lambda: all(agent.progress.samples == 100 for agent in free), seconds)
        except TimeoutError:
            assert all(agent.status.ready for agent in agents)  # they have met, and wait
        found = [agent.progress.samples for agent in agents]
        released.set()
        for agent in agents:
            agent.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return found

    return asyncio.run(main())


def test_asynchronous_agents_do_not_wait_and_synchronous_ones_do():
    assert learnt_while_one_is_held_back("async", 30.0) == [100, 0, 100]
    assert learnt_while_one_is_held_back("sync", 1.0) == [1, 0, 1]


def test_asynchronous_agents_of_auto_learn_and_end_with_a_common_scale():
    """Three agents of quite different speeds on a path, which end at about the same time."""
    T, rounds = (240, 160, 100), RoundSection(mode="async", start=5.0)
    X, y = problems.streams(3, max(T), d)
    outs = [[], [], []]
    pauses = (0.005, 0.0075, 0.012)

    async def main():
        agents = [
            Agent(each, stream=aiter_of(paced(X[j, : T[j]], y[j, : T[j]], pauses[j]), d), out=outs[j].append)
            for j, each in enumerate(configs(nx.path_graph(3), model=AUTO, rounds=rounds))
        ]
        await asyncio.wait_for(asyncio.gather(*(agent.run() for agent in agents)), 60)
        return agents

    agents = asyncio.run(main())
    assert [agent.progress.samples for agent in agents] == list(T)
    assert len({scale_number(agent) for agent in agents} - {0}) == 1
    for j, agent in enumerate(agents):
        last = [record["y_hat"] for record in outs[j]][T[j] // 2 :]
        assert np.mean((last - y[j, T[j] // 2 : T[j]]) ** 2) < 0.1 * y.var()
        # One that has seen few samples may be of no use to another for a few messages.
        assert agent.refused.pop("implausible", 0) < 0.1 * T[j]
        agent.refused.pop("unconfirmed", 0)  # nobody waits at the start until incarnations are known
        assert not agent.refused


def test_an_edge_of_no_use_rests_without_a_dual_and_wakes_when_it_is_of_use(caplog):
    """Two devices with the same inputs and opposite labels, until both see the same."""
    X, y = problems.streams(2, 4000, d)
    X[1], y[1] = X[0], y[0]
    taken, sign = [0, 0], [1, -1]

    async def in_turn(j):
        for t in range(len(X[j])):
            while t > taken[1 - j] + 1:
                await asyncio.sleep(0)
            taken[j] = t
            yield X[j, t], sign[j] * y[j, t]
            await asyncio.sleep(0)

    async def main():
        agents = [
            Agent(each, stream=aiter_of(in_turn(j), d), out=len)
            for j, each in enumerate(configs(nx.path_graph(2), model=AUTO, rounds=RoundSection(start=5.0)))
        ]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: all(agent.neighbourhood.resting for agent in agents), 60)
        before, sent = min(taken), [agent.transport.counts.sent for agent in agents]
        await until(lambda: min(taken) > before + 200, 60)
        found = [agent.transport.counts.sent - had for agent, had in zip(agents, sent, strict=True)]
        for agent in agents:
            assert agent.summary()["neighbours_used"] == 0
            assert agent.refused["implausible"] > agent.report()["refused"]  # honest, so it is only not used
            assert not any(edge.dual.any() for edge in agent.learner._known.values())
        sign[1] = 1
        await until(lambda: not any(agent.neighbourhood.resting for agent in agents), 60)
        woken = min(taken)
        await until(lambda: all(agent.summary()["neighbours_used"] for agent in agents), 60)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return found, woken - before

    found, rounds = asyncio.run(main())
    told = [each.fields["reason"] for each in caplog.records if each.getMessage() == "not used"]
    assert {*told} == {"our own samples say otherwise"}
    assert max(found) < 100  # hellos and status lines among them
    assert rounds < 600

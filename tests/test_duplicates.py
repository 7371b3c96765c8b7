"""Two agents under one name: reported at both and by their neighbours, and the newcomer stops."""

from __future__ import annotations

import asyncio
import shutil

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.agent import Agent, incarnation, messages
from domkl.agent.config import CheckpointSection
from domkl.agent.streams import aiter_of
from domkl.agent.transports import make
from domkl.base.errors import InputError
from inmemory import PAPER, config, configs, d, paced, until, y_hats
from nets import KINDS, NETWORK, linked, network, own, run, settle

REASON = "another agent runs under this name: l0"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Silence after a third of a second, and hellos as often."""
    monkeypatch.setattr(incarnation, "QUIET", 0.3)
    monkeypatch.setattr(messages, "HELLO_EVERY", 0.05)


def agent_of(one, X, y, out, pause=0.004):
    return Agent(one, stream=aiter_of(paced(X, y, pause), d), out=out.append)


async def killed(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_newcomer_under_a_name_that_is_up_stops_and_both_are_told(caplog):
    graph = nx.star_graph(2)
    X, y = problems.streams(3, 500, d)
    outs, seen = [[], [], []], set()

    async def main():
        agents = [agent_of(one, X[j], y[j], outs[j]) for j, one in enumerate(configs(graph))]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: agents[0].learner.round > 10)
        second = agent_of(configs(graph)[0], X[0], y[0], [])
        newcomer = asyncio.create_task(second.run())
        while not newcomer.done():
            seen.update(agents[0].status.faults)
            await asyncio.sleep(0.01)
        with pytest.raises(InputError, match="under the name 'l0'; expected one; stop it or rename this one"):
            await newcomer
        assert second.learner.round == 0
        assert agents[0].learner.round < 490  # they are still learning
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return agents

    with caplog.at_level("ERROR", "domkl"):
        agents = asyncio.run(main())
    np.testing.assert_array_equal(y_hats(outs), domkl.simulate(X, y, graph, model=PAPER).y_hat)
    assert seen == {REASON}
    assert caplog.records[0].fields["name"] == "l0"
    assert all(agent.refused["duplicate name"] > 0 for agent in agents[1:])
    assert [agent.messages.identity.incarnation.starts for agent in agents] == [1, 1, 1]


def test_a_copy_of_a_state_directory_takes_over_without_flapping_and_both_report_it(tmp_path):
    """As when a memory card is copied: the copy has one start more than the original."""
    X, y = problems.streams(2, 4000, d)
    _, other = configs(nx.path_graph(2))
    original, copy = (
        config("l0", ["l1"], checkpoint=CheckpointSection(str(tmp_path / name), sync=False)) for name in "ab"
    )

    async def main():
        agents = [agent_of(each, X[j], y[j], []) for j, each in enumerate((original, other))]
        first, near = agents
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: near.learner.round > 20)
        shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("lock"))
        second = agent_of(copy, X[0], y[0], [])
        tasks.append(asyncio.create_task(second.run()))
        taken = set()
        await until(lambda: REASON in first.status.faults and REASON in second.status.faults)
        assert near.peers["l0"].incarnation == second.messages.identity.incarnation
        for _ in range(60):  # four times as long as a silence
            taken.add(near.peers["l0"].incarnation)
            await asyncio.sleep(0.02)
        assert taken == {second.messages.identity.incarnation}
        assert first.metrics()["name_conflict"] == second.metrics()["name_conflict"] == 1
        assert not any(task.done() for task in tasks)
        await killed(tasks[2])
        await until(lambda: near.peers["l0"].incarnation == first.messages.identity.incarnation, 3.0)
        await until(lambda: not first.status.faults, 3.0)
        for task in tasks:
            await killed(task)

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("kind", KINDS)
def test_every_transport_carries_the_messages_of_both_so_that_lives_decide(kind, authority):
    """A broker must not let the two disconnect each other in turns."""

    async def main(net):
        second = make(net.settings("a", listen=(), connect=(f"127.0.0.1:{net.ports['b']}",)))
        async with net.learners("a", "b") as (first, b):
            b.subscribe(f"domkl/{NETWORK}/a/#")
            await linked(first, b)
            await second.open()
            await linked(second, b)
            for _ in range(24):  # longer than the pause before a client connects again
                first.publish(own(first, "theta"), b"first")
                second.publish(own(second, "theta"), b"second")
                await asyncio.sleep(0.05)
            found = [payload for _, payload in await settle(b)]
            await second.close()
        return found.count(b"first"), found.count(b"second")

    with network(kind, authority) as net:
        assert run(main(net)) == (24, 24)

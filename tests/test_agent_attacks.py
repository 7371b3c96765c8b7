"""One neighbour, or one graph, cannot end an agent, mute it, keep it from being ready, or send it away."""

from __future__ import annotations

import asyncio
import dataclasses

import networkx as nx
import pytest

import problems
from domkl.agent import Agent, incarnation, messages, wire
from domkl.agent import topology as graphs
from domkl.agent.config import TransportSection
from domkl.agent.incarnation import QUIET, Identity, Incarnation
from domkl.agent.peers import first_round
from domkl.agent.streams import aiter_of
from domkl.agent.transports import MemoryTransport, TransportSettings
from domkl.agent.transports.names import MOST_NAMES
from domkl.base.errors import InputError
from inmemory import AUTO, PAPER, config, configs, d, paced, until
from liars import lie, send

OTHER = Incarnation(1, 99)


@pytest.fixture
def quick(monkeypatch):
    """Silence after a fraction of a second, and hellos as often."""
    monkeypatch.setattr(incarnation, "QUIET", 0.1)
    monkeypatch.setattr(messages, "HELLO_EVERY", 0.03)


def agent_of(given, pause=0.002, T=2000):
    X, y = problems.streams(1, T, d)
    return Agent(given, stream=aiter_of(paced(X[0], y[0], pause), d), out=len)


def hello(agent, round=0, **more):
    """A hello under an agent's name."""
    life, mark = agent.messages.identity.incarnation, agent.learner.fingerprint
    return wire.encode(wire.Hello(mark, life, round, 0, {}, {}, False, 0, **more))


async def cancelled(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# Names


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("near", [["l1"], ["l1", "late"]])
def test_one_neighbour_that_names_another_life_does_not_end_an_agent(near):
    """It goes on and reports it: in log and metrics, and in /readyz where that is the only neighbour."""

    async def main():
        rounds = dataclasses.replace(config("l0").rounds, start=0.3)
        victim, liar = agent_of(config("l0", near, rounds=rounds)), agent_of(config("l1", ["l0"]))
        await liar.transport.open()
        task = asyncio.create_task(victim.run())
        for _ in range(25):  # more than twice as long as a name has to be another's
            send(liar, hello(liar, incarnations={"l0": OTHER}), "hello")
            await asyncio.sleep(0.02)
        assert not task.done()
        assert victim.learner.round > 5
        found = victim.metrics()["name_conflict"], bool(victim.status.faults)
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
            send(liar, hello(liar, liar.learner.round, incarnations=names, rivals=["l1"]), "hello")
            await asyncio.sleep(0.06)
            assert not victim.status.faults
        assert victim.metrics()["name_conflict"] == 1  # it is reported all the same
        await cancelled(*tasks)

    asyncio.run(main())


# Graphs


def directed(agent, links, addresses=(), version=1):
    """An agent receives a graph."""
    payload = graphs.encode(version, links, dict(addresses), [])
    agent.messages.receive("domkl/net/operator/graph", payload)


@pytest.mark.parametrize("many", [MOST_NAMES, MOST_NAMES + 1])
@pytest.mark.parametrize("model", [PAPER, AUTO], ids=["paper", "auto"])
def test_a_graph_with_more_neighbours_than_a_hello_can_name_is_refused(many, model):
    """With as many as it can name, a hello can still be sent."""

    async def main():
        agent = agent_of(config("l0", ["n0"], model=model))
        await agent.transport.open()
        directed(agent, [("l0", f"n{i}") for i in range(many)])
        agent.neighbourhood.update(0)
        assert agent.refused["graph"] == (many > MOST_NAMES)
        assert len(agent.peers) == (1 if many > MOST_NAMES else many)
        agent.messages.hello(agent.neighbourhood.wants())

    asyncio.run(main())


def test_a_file_with_more_neighbours_than_a_hello_can_name_is_refused():
    with pytest.raises(InputError, match="neighbours has 1025 names; expected at most 1024"):
        config("l0", [f"n{i}" for i in range(MOST_NAMES + 1)])


@pytest.mark.parametrize("security", [{"insecure": True}, {"ca": "ca", "cert": "cert", "key": "key"}, {}])
@pytest.mark.parametrize("address", ["a b c", "x:99999", "[::1", "", "tcp/x:1", "\ud800:1"])
def test_a_graph_with_an_address_that_cannot_be_read_is_refused(address, security):
    settings = TransportSettings("zenoh", "net", "l0", **security)
    with pytest.raises(InputError, match=r"expected host:port|is unreadable"):
        graphs.decode(graphs.encode(1, [("l0", "l1")], {"l1": [address]}, []), settings)


class Picky(MemoryTransport):
    """A transport that cannot be opened with some addresses, as Zenoh with those it may not connect to."""

    async def admit(self, peers, connect=None):
        self.settings = dataclasses.replace(self.settings, peers=peers, connect=connect)
        if self._is_open:
            await self.close()
            await self.open()

    async def _connect(self):
        if "127.0.0.1:666" in self.settings.connect:
            raise InputError("these addresses cannot be used; expected others; change them")
        await super()._connect()


@pytest.mark.parametrize("correction", ["127.0.0.1:7", None])
def test_addresses_that_the_transport_cannot_use_do_not_mute_an_agent(correction):
    """It keeps those that worked, goes on learning, and takes the next that can be used."""
    X, y = problems.streams(1, 2000, d)

    async def main():
        given = config("l0", ["l1"], transport=TransportSection(kind="memory", connect=("127.0.0.1:1",)))
        transport = Picky(given.transport_settings())
        agent = Agent(given, transport, aiter_of(paced(X[0], y[0], 0.002), d), len)
        other = agent_of(config("l1", ["l0"]))
        tasks = [asyncio.create_task(each.run()) for each in (agent, other)]
        await until(lambda: agent.learner.round > 5)
        directed(agent, [("l0", "l1")], {"l1": ["127.0.0.1:666"]})
        await until(lambda: agent.connection._admitted[1] == {"127.0.0.1:1", "127.0.0.1:666"})
        before = agent.learner.round
        await until(lambda: agent.learner.round > before + 20, 2.0)
        assert transport.settings.connect == ("127.0.0.1:1",)
        if correction:
            directed(agent, [("l0", "l1")], {"l1": [correction]}, version=2)
            await until(lambda: transport.settings.connect == ("127.0.0.1:1", correction), 2.0)
        assert transport._is_open
        await cancelled(*tasks)

    asyncio.run(main())


def test_an_agent_whose_transport_cannot_be_opened_still_keeps_its_deadlines():
    async def main():
        rounds = dataclasses.replace(config("l0").rounds, deadline=0.2)
        given = config("l0", ["l1"], rounds=rounds)
        transport = Picky(given.transport_settings())
        X, y = problems.streams(1, 2000, d)
        agent = Agent(given, transport, aiter_of(paced(X[0], y[0], 0.002), d), len)
        tasks = [asyncio.create_task(each.run()) for each in (agent, agent_of(config("l1", ["l0"])))]
        await until(lambda: agent.learner.round > 5)

        async def fail():
            raise InputError("there is no network; expected one; connect it")

        transport._connect = fail
        directed(agent, [("l0", "l1")], {"l1": ["127.0.0.1:7"]})
        await until(lambda: not transport._is_open)
        before = agent.learner.round
        await until(lambda: agent.learner.round > before + 20, 2.0)
        assert agent.learner.neighbours == ()  # dropped at the deadline
        await cancelled(*tasks)

    asyncio.run(main())


# Rounds


@pytest.mark.parametrize(
    ("rounds", "absent", "start"),
    [
        ([], 2, 0),
        ([2**40], 1, 0),  # one of two: the other may be anywhere
        ([2**40, 500], 0, 500),
        ([2**40, 500], 1, 500),
        ([2**40, 500], 2, 0),
        ([5_000_000], 0, 5_000_000),  # an only neighbour
        ([2**28 + 1], 0, 0),
    ],
)
def test_a_new_learner_starts_where_most_of_all_its_neighbours_are(rounds, absent, start):
    assert first_round(rounds, absent) == start


def new_beside(near, round):
    """A learner without a state, and a neighbour of it that has come far."""
    quick = dataclasses.replace(config("v").rounds, start=0.2, deadline=0.5)
    new, old = agent_of(config("v", near, rounds=quick)), agent_of(config("h", ["v"], rounds=quick))
    old.learner.skip_to(round)
    old.neighbourhood.restored = True
    return new, old


def are_in_step(*agents):
    rounds = [agent.learner.round for agent in agents]
    return all(agent.learner.neighbours for agent in agents) and max(rounds) - min(rounds) <= 1


def test_one_neighbour_cannot_send_a_new_learner_away_from_those_that_come_later():
    async def main():
        (new, old), liar = new_beside(["liar", "h"], 500), agent_of(config("liar", ["v"]))
        await liar.transport.open()
        tasks = [asyncio.create_task(new.run())]
        while not new.status.ready:
            names = {"v": new.messages.identity.incarnation}
            send(liar, hello(liar, 2**40, incarnations=names), "hello")
            send(liar, lie(liar, 2**40))
            await asyncio.sleep(0.02)
        await until(lambda: new.learner.round > 5, 2.0)
        assert new.learner.round < 400
        tasks.append(asyncio.create_task(old.run()))
        await until(lambda: are_in_step(new, old), 3.0)
        assert 500 < new.learner.round < 1500
        assert not old.refused["round"]
        await cancelled(*tasks)

    asyncio.run(main())


@pytest.mark.parametrize(("near", "round"), [(["h"], 5_000_000), (["h", "late"], 1000)])
def test_a_latecomer_gets_into_step_with_the_one_neighbour_that_is_up(near, round):
    async def main():
        new, old = new_beside(near, round)
        tasks = [asyncio.create_task(agent.run()) for agent in (old, new)]
        await until(lambda: are_in_step(new, old), 3.0)
        assert new.learner.round > round
        await cancelled(*tasks)

    asyncio.run(main())

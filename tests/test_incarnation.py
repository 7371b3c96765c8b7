"""Incarnations of agents: restarts, recordings and forgeries are told apart without a clock."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import time

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.agent import Agent, incarnation, messages, transports, wire
from domkl.agent.config import CheckpointSection
from domkl.agent.incarnation import ENDED, LEAP, QUIET, Identity, Incarnation, Incarnations
from domkl.agent.streams import aiter_of
from inmemory import PAPER, config, configs, d, paced, stream, until, y_hats

OURS, OLD = Incarnation(3, 33), Incarnation(2, 22)
A, B = Incarnation(5, 1), Incarnation(5, 2)


def accepted(*all_of_them, now=0.0):
    """A neighbour's lives, the last of which is the current one."""
    found = Incarnations()
    for life in all_of_them:
        assert not found.judge(life, True, OURS, OURS, now)
        now += QUIET
    return found


# The rule


@pytest.mark.parametrize(("hello", "named"), [(False, None), (True, None), (True, OLD)])
def test_at_our_start_only_a_hello_that_names_our_life_is_accepted(hello, named):
    found = Incarnations()
    assert found.judge(A, hello, named, OURS, 0.0) == "unconfirmed"
    assert found.current is None
    assert found.known(0.0) == (A if hello else None)  # a greeting is answered with the life it has
    assert not found.judge(A, True, OURS, OURS, 0.1)
    assert found.current == A


def test_a_restart_with_more_starts_follows_at_once_and_one_with_as_many_after_silence():
    found = accepted(A)
    assert found.judge(B, True, OURS, OURS, 1.0) == "unconfirmed"
    assert found.judge(B, True, OURS, OURS, QUIET - 0.1) == "unconfirmed"
    assert not found.judge(B, True, OURS, OURS, QUIET)
    assert not found.judge(Incarnation(6, 3), True, OURS, OURS, QUIET)
    assert not found.judge(
        Incarnation(1, 4), True, OURS, OURS, 2 * QUIET
    )  # from an old copy of its directory
    assert found.judge(Incarnation(6, 3), True, OURS, OURS, 9 * QUIET) == "replayed"


@pytest.mark.parametrize("starts", [5 + LEAP + 1, 2**63 - 1])
def test_a_leap_of_starts_does_not_replace_a_neighbour_that_is_up(starts):
    found = accepted(A)
    assert found.judge(Incarnation(starts, 9), True, OURS, OURS, 1.0)
    assert not found.judge(A, False, None, OURS, 2.0)
    assert not found.judge(Incarnation(5 + LEAP, 9), True, OURS, OURS, 2.0)


def test_recordings_are_replayed_in_vain():
    found = accepted(A, Incarnation(6, 2))
    for hello, named in [(True, OURS), (True, OLD), (True, None), (False, None)]:
        assert found.judge(A, hello, named, OURS, 99.0) == "replayed"  # it has ended
    assert found.judge(B, False, None, OURS, 99.0) == "replayed"  # nobody has greeted with it
    assert found.judge(B, True, OLD, OURS, 99.0) == "replayed"  # recorded before we started
    assert found.current == Incarnation(6, 2)


def test_ended_lives_are_remembered_and_bounded():
    found = accepted(*(Incarnation(n, 1) for n in range(ENDED + 10)))
    assert found.judge(Incarnation(20, 1), True, OURS, OURS, 1e9) == "replayed"
    assert len(found._ended) == ENDED


def test_two_lives_at_once_are_two_agents_and_a_restart_is_not():
    found = accepted(A)
    assert found.judge(B, True, OURS, OURS, 1.0) == "unconfirmed"
    assert not found.has_rival(1.0)
    assert not found.judge(A, False, None, OURS, 1.5)
    assert found.judge(B, True, OURS, OURS, 1.6) == "duplicate name"
    assert found.has_rival(1.7)
    assert not found.has_rival(1.7 + QUIET)


def test_a_life_that_is_silent_is_not_named():
    found = accepted(A)
    assert found.known(QUIET / 2) == A
    assert found.known(QUIET) is None


def test_a_name_is_taken_if_most_neighbours_name_another_for_long_enough():
    me = Identity("a", 1)
    steps = np.arange(0.0, 3 * QUIET, 0.5)
    for now in steps[steps < 2 * QUIET]:
        me.note("b", A, False, now)
        me.note("c", A, False, now)
        me.note("d", None, False, now)
        assert not me.is_taken(now, "bcd")
    assert me.is_taken(2 * QUIET, "bcd")
    assert not me.is_taken(2 * QUIET, "bde")  # c is no neighbour
    me.note("b", None, False, 2 * QUIET)
    assert not me.is_taken(2 * QUIET, "bcd")
    me.note("b", me.incarnation, False, 2 * QUIET)
    me.note("b", A, False, 2 * QUIET)
    assert not any(me.is_taken(2 * QUIET + t, "bcd") for t in steps)  # who was known keeps its name


def test_a_neighbour_that_was_misled_gets_a_new_life_but_not_too_many():
    me = Identity("a", 7)
    me.note("b", me.incarnation, False, 0.0)
    assert me.note("b", B, False, 1.0)
    assert me.incarnation.starts == 8
    assert not me.note("b", B, False, 1.1)  # it has not named the new one yet
    me.note("b", me.incarnation, False, 1.2)
    assert not me.note("b", B, False, 1.3)
    assert me.note("b", B, False, 1.0 + incarnation.RENEWAL)


def test_starts_are_counted_from_one_again_before_they_do_not_fit():
    assert Incarnation.new(2**62).starts == 2**62
    assert Incarnation.new(2**62 + 1).starts == Incarnation.new(0).starts == Incarnation.new(-5).starts == 1


# Networks


@pytest.fixture
def quick(monkeypatch):
    """Silence after a third of a second, and hellos as often."""
    monkeypatch.setattr(incarnation, "QUIET", 0.3)
    monkeypatch.setattr(messages, "HELLO_EVERY", 0.05)


class Recorder(transports.Hub):
    """A hub that keeps what was sent."""

    def __init__(self):
        super().__init__()
        self.sent = []

    def send(self, topic, payload, retain):
        if topic.split("/")[3] in ("theta", "hello", "to"):
            self.sent.append((topic, payload))
        super().send(topic, payload, retain)


def agent_of(hub, one, X, y, out, pause=0.0):
    transport = transports.MemoryTransport(one.transport_settings(), hub)
    agent = Agent(one, transport, out=out.append)
    skip = agent.store.readings
    agent.stream = stream(X, y, skip) if not pause else aiter_of(paced(X, y, pause), d, skip)
    return agent


async def killed(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.usefixtures("quick")
def test_a_clock_that_is_set_back_does_not_matter(monkeypatch):
    """A device without checkpoint starts again, and its clock is a day behind."""
    X, y = problems.streams(2, 200, d)
    first, other = configs(nx.path_graph(2))

    async def main():
        hub = Recorder()
        near = agent_of(hub, other, X[1], y[1], [], pause=0.005)
        task = asyncio.create_task(near.run())
        device = asyncio.create_task(agent_of(hub, first, X[0], y[0], [], pause=0.005).run())
        await until(lambda: near.learner.round > 20)
        await killed(device)
        for name in ("time", "time_ns"):
            real = getattr(time, name)
            back = 86_400 * (10**9 if name == "time_ns" else 1)
            monkeypatch.setattr(time, name, lambda real=real, back=back: real() - back)
        again = agent_of(hub, first, X[0], y[0], [], pause=0.005)
        device = asyncio.create_task(again.run())
        start = time.monotonic()
        await until(lambda: near.peers["l0"].incarnation == again.messages.identity.incarnation, 20.0)
        assert time.monotonic() - start < 5.0
        await asyncio.wait_for(asyncio.gather(task, device), 30)
        return near, again

    near, again = asyncio.run(main())
    assert not near.refused["replayed"]
    assert again.neighbourhood.peers["l1"].met


async def restarted_under_recordings(hub, agents, tasks, j, start):
    """Agent j starts again and all that was ever sent is sent once more; those that were refused, and the
    messages of its life before."""
    await killed(tasks[j])
    recorded = list(hub.sent)
    agents[j], other = start(j), agents[1 - j]
    tasks[j] = asyncio.create_task(agents[j].run())
    await until(lambda: hub.members[-1] is agents[j].transport)
    for topic, payload in recorded:  # before any true hello
        transports.Hub.send(hub, topic, payload, False)
    await until(lambda: other.peers[f"l{j}"].incarnation == agents[j].messages.identity.incarnation)
    before = other.refused["replayed"]
    earlier = [message for message in recorded if message[0].startswith(f"domkl/net/l{j}/")]
    for topic, payload in earlier:
        transports.Hub.send(hub, topic, payload, False)
    await asyncio.sleep(0.05)
    return other.refused["replayed"] - before, len(earlier)


def test_recordings_of_all_messages_before_a_restart_change_nothing(tmp_path):
    graph = nx.path_graph(2)
    X, y = problems.streams(2, 150, d)
    outs, counts = [[], []], []

    async def main():
        hub = Recorder()

        def start(j):
            section = CheckpointSection(str(tmp_path / f"l{j}"), 10, sync=False)
            return agent_of(
                hub, config(f"l{j}", [f"l{1 - j}"], checkpoint=section), X[j], y[j], outs[j], 0.001
            )

        agents = [start(0), start(1)]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        for j, rounds in enumerate((40, 80)):
            while min(agent.learner.round for agent in agents) < rounds:
                await asyncio.sleep(0.001)
            counts.append(await restarted_under_recordings(hub, agents, tasks, j, start))
        await asyncio.wait_for(asyncio.gather(*tasks), 30)

    asyncio.run(main())
    for refused, replayed in counts:
        assert refused >= replayed > 40
    last = [{record["index"]: record["y_hat"] for record in out} for out in outs]
    y_hat = [[one[t] for t in range(150)] for one in last]
    np.testing.assert_array_equal(y_hat, domkl.simulate(X, y, graph, model=PAPER).y_hat)


@pytest.mark.usefixtures("quick")
def test_a_start_from_an_old_copy_of_the_directory_gives_the_same_bits(tmp_path):
    """The copy has fewer starts than the life before it: it is accepted when that has been silent."""
    graph = nx.path_graph(2)
    X, y = problems.streams(2, 150, d)
    one, other = configs(graph)
    one = dataclasses.replace(one, checkpoint=CheckpointSection(str(tmp_path / "a"), 10, sync=False))
    outs, starts = [[], []], []

    async def main():
        hub = Recorder()
        near = agent_of(hub, other, X[1], y[1], outs[1], 0.001)
        task = asyncio.create_task(near.run())
        for rounds in (40, 60, 80, 150):
            agent = agent_of(hub, one, X[0], y[0], outs[0], 0.001)
            starts.append(agent.messages.identity.incarnation.starts)
            life = asyncio.create_task(agent.run())
            while agent.learner.round < rounds:
                await asyncio.sleep(0.001)
            if rounds == 150:
                break
            await killed(life)
            if rounds == 40:
                shutil.copytree(tmp_path / "a", tmp_path / "copy")
            if rounds == 80:
                shutil.rmtree(tmp_path / "a")
                shutil.copytree(tmp_path / "copy", tmp_path / "a")
        await asyncio.wait_for(asyncio.gather(life, task), 30)

    asyncio.run(asyncio.wait_for(main(), 30))
    assert starts == [1, 2, 3, 2]
    last = [{record["index"]: record["y_hat"] for record in out} for out in outs]
    y_hat = [[each[t] for t in range(150)] for each in last]
    np.testing.assert_array_equal(y_hat, domkl.simulate(X, y, graph, model=PAPER).y_hat)


def forged(agent, life, names):
    """A hello under an agent's name, as anybody could send it who sees the network's messages."""
    return wire.encode(
        wire.Hello(agent.learner.fingerprint, life, 0, 0, {}, {}, False, 0, incarnations=names)
    )


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("more", [1, 2**63 - 2])
def test_a_forged_hello_mutes_a_neighbour_for_a_moment_at_most(more, caplog):
    graph = nx.path_graph(2)
    X, y = problems.streams(2, 400, d)
    outs = [[], []]

    async def main():
        hub = Recorder()
        agents = [agent_of(hub, one, X[j], y[j], outs[j], 0.002) for j, one in enumerate(configs(graph))]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: agents[1].learner.round > 20)
        life = Incarnation(agents[0].messages.identity.incarnation.starts + more, 666)
        names = {"l1": agents[1].messages.identity.incarnation}
        hub.send("domkl/net/l0/hello", forged(agents[0], life, names), False)
        await asyncio.sleep(0)
        await until(lambda: agents[1].peers["l0"].incarnation == agents[0].messages.identity.incarnation, 2.0)
        was = agents[1].learner.round
        await until(lambda: agents[1].learner.round > was + 20, 3.0)
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return agents

    with caplog.at_level("ERROR", "domkl"):
        agents = asyncio.run(main())
    np.testing.assert_array_equal(y_hats(outs), domkl.simulate(X, y, graph, model=PAPER).y_hat)
    reported = any(record.getMessage() == "another agent has our name" for record in caplog.records)
    assert reported or more != 1  # a leap is refused; if our own messages follow late, it is reported, too
    assert agents[0].messages.identity.incarnation.starts == (2 if more == 1 else 1)

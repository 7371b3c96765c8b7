"""Agents in one process, over the in-memory transport: what they do about each other and about strangers."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.agent import Agent, AgentConfig, checkpoint, transports, wire
from domkl.agent.config import (
    CheckpointSection,
    OutputSection,
    RoundSection,
    StreamSection,
    TransportSection,
)
from domkl.agent.streams import Reading, aiter_of
from domkl.agent.transports import topics
from domkl.base.errors import InputError
from domkl.learning.settings import KernelSpec

RATES = domkl.Rates(rho=0.5, eta=0.5, eta_g=1.0)
PAPER = domkl.Paper(kernels=KernelSpec(D=10, sigma2=(0.3, 3.0)), rates=RATES)
d = 3


def config(name, neighbours, **options):
    given = {
        "rounds": RoundSection(deadline=5.0, start=5.0, resend=0.1),
        "transport": TransportSection(kind="memory"),
        **options,
    }
    given = {"model": PAPER, **given}
    return AgentConfig(network="net", name=name, inputs=d, neighbours=tuple(neighbours), **given)


def configs(graph, **options):
    names = [f"l{j}" for j in graph]
    return [config(names[j], [names[i] for i in graph.neighbors(j)], **options) for j in graph]


def agents_of(all_configs, X, y, outs, **options):
    return [
        Agent(each, stream=aiter_of(zip(X[j], y[j], strict=True), d, **options), out=outs[j].append)
        for j, each in enumerate(all_configs)
    ]


async def together(*agents, seconds=30.0):
    await asyncio.wait_for(asyncio.gather(*(agent.run() for agent in agents)), seconds)


def transport(name):
    return transports.make(transports.TransportSettings("memory", "net", name))


def y_hats(outs):
    return np.array([[said["y_hat"] for said in out] for out in outs])


@pytest.mark.parametrize("hedge", ["neighbours", "messages", "local"])
@pytest.mark.parametrize("payload", ["float64", "float32"])
def test_agents_have_the_simulators_bits(hedge, payload):
    graph = nx.path_graph(4)
    X, y = problems.streams(4, 40, d)
    learning = dataclasses.replace(config("a", []).learning, hedge=hedge)
    outs = [[] for _ in graph]
    agents = agents_of(configs(graph, learning=learning, payload=payload), X, y, outs)
    asyncio.run(together(*agents))
    run = domkl.simulate(X, y, graph, kernels=KERNELS.draw(d), rates=RATES.rates(), hedge=hedge)
    if payload == "float64":
        np.testing.assert_array_equal(y_hats(outs), run.y_hat)
    else:
        np.testing.assert_allclose(y_hats(outs), run.y_hat, atol=1e-5)
    lam = sum(agent.learner.state.lam for agent in agents)
    assert np.abs(lam).max() < 1e-12
    assert not any(agent.refused for agent in agents)


@pytest.mark.parametrize(
    ("learning", "payload"),
    [
        (LearningSpec(step="newton"), "float64"),
        (LearningSpec(step="newton", memory=20, loss="logistic", hedge="messages"), "float64"),
        (LearningSpec(step="newton", memory=20), "float16"),
    ],
)
def test_second_order_agents_have_the_simulators_bits(learning, payload):
    graph = nx.path_graph(4)
    X, y = problems.streams(4, 40, d, classify=learning.loss == "logistic")
    outs = [[] for _ in graph]
    agents = agents_of(configs(graph, learning=learning, payload=payload), X, y, outs)
    asyncio.run(together(*agents))
    given = {key: getattr(learning, key) for key in ("loss", "hedge", "step", "memory")}
    run = domkl.simulate(X, y, graph, kernels=KERNELS.draw(d), rates=RATES.rates(), **given)
    if payload == "float64":
        np.testing.assert_array_equal(y_hats(outs), run.y_hat)
    else:
        np.testing.assert_allclose(y_hats(outs), run.y_hat, atol=0.02)
    lam = sum(agent.learner.state.lam for agent in agents)
    assert np.abs(lam).max() < 1e-12
    assert not any(agent.refused for agent in agents)


def test_labels_that_come_later_are_learnt_when_they_come():
    X, y = problems.streams(2, 20, d)
    graph, delay = nx.path_graph(2), 3

    async def events(j):
        for t in range(20):
            yield Reading(2 * t, X[j, t], None, str(t))
            if t >= delay:
                yield Reading(2 * t + 1, None, y[j, t - delay], str(t - delay))

    outs = [[], []]
    agents = [Agent(each, stream=events(j), out=outs[j].append) for j, each in enumerate(configs(graph))]
    asyncio.run(together(*agents))
    run = domkl.simulate(X, y, graph, kernels=KERNELS.draw(d), rates=RATES.rates(), delay=delay)
    np.testing.assert_array_equal(y_hats(outs), run.y_hat)


def test_a_learner_whose_neighbours_never_come_goes_on_alone():
    X, y = problems.streams(1, 30, d)
    rounds = RoundSection(deadline=0.2, start=0.2, resend=0.1)
    outs = [[]]
    (agent,) = agents_of([config("a", ["b", "c"], rounds=rounds)], X, y, outs)
    asyncio.run(together(agent))
    alone = domkl.Learner(KERNELS.draw(d), [], RATES.rates())
    for t in range(30):
        alone.observe(X[0, t], y[0, t])
    assert agent.learner.neighbours == ()
    assert len(outs[0]) == 30
    np.testing.assert_allclose(agent.learner.state.theta, alone.state.theta, atol=1e-12)


def test_a_latecomer_starts_from_what_its_neighbour_knows():
    X, y = problems.streams(2, 400, d)

    async def paced(j, count, seconds):
        for t in range(count):
            yield X[j, t], y[j, t]
            await asyncio.sleep(seconds)

    async def main():
        rounds = RoundSection(deadline=0.3, start=0.2, resend=0.05)
        old = Agent(config("a", ["b"], rounds=rounds), stream=aiter_of(paced(0, 300, 0.003), d), out=len)
        new = Agent(config("b", ["a"], rounds=rounds), stream=aiter_of(paced(1, 60, 0.003), d), out=len)

        async def late():
            await asyncio.sleep(0.6)
            await new.run()

        await asyncio.wait_for(asyncio.gather(old.run(), late()), 20)
        return old, new

    old, new = asyncio.run(main())
    assert (old.progress.samples, new.progress.samples) == (300, 60)
    assert new.learner.round > 60  # it counts the network's rounds, not its own
    lam = old.learner.state.lam + new.learner.state.lam
    assert np.abs(lam).max() < 1e-9


def test_asynchronous_agents_do_not_wait():
    X, y = problems.streams(2, 300, d)

    async def slow():
        for t in range(10):
            yield X[1, t], y[1, t]
            await asyncio.sleep(0.05)

    rounds = RoundSection(mode="async", deadline=5.0, start=2.0)
    a = Agent(config("a", ["b"], rounds=rounds), stream=aiter_of(zip(X[0], y[0], strict=True), d), out=len)
    b = Agent(config("b", ["a"], rounds=rounds), stream=aiter_of(slow(), d), out=len)
    asyncio.run(together(a, b))
    assert (a.progress.samples, b.progress.samples) == (300, 10)


@pytest.mark.parametrize("step", ["first", "newton"])
def test_the_graph_changes_while_it_runs(step):
    X, y = problems.streams(3, 200, d)

    async def paced(j):
        for t in range(200):
            yield X[j, t], y[j, t]
            await asyncio.sleep(0.004)

    async def main():
        rounds = RoundSection(deadline=0.5, start=2.0, resend=0.05)
        all_configs = configs(nx.path_graph(3), rounds=rounds, learning=LearningSpec(step=step))
        agents = [Agent(each, stream=aiter_of(paced(j), d), out=len) for j, each in enumerate(all_configs)]
        operator = transport(topics.OPERATOR)

        async def direct():
            await operator.open()
            await asyncio.sleep(0.4)
            links = [["l0", "l2"], ["l2", "l1"]]
            graph = json.dumps({"version": 7, "links": links}).encode()
            operator.publish(topics.topic("net", topics.OPERATOR, "graph"), graph, retain=True)

        await asyncio.wait_for(asyncio.gather(direct(), *(agent.run() for agent in agents)), 20)
        return agents

    agents = asyncio.run(main())
    assert [set(agent.peers) for agent in agents] == [{"l2"}, {"l2"}, {"l0", "l1"}]
    assert [agent.around.graph for agent in agents] == [7, 7, 7]
    assert [agent.progress.samples for agent in agents] == [200, 200, 200]
    assert np.abs(sum(agent.learner.state.lam for agent in agents)).max() < 1e-9


def test_strangers_forgers_and_noise_are_refused_counted_and_never_fatal():
    X, y = problems.streams(2, 60, d)
    outs = [[], []]

    async def paced(j):
        for t in range(60):
            yield X[j, t], y[j, t]
            await asyncio.sleep(0.004)

    async def main():
        all_configs = configs(nx.path_graph(2))
        agents = [
            Agent(each, stream=aiter_of(paced(j), d), out=outs[j].append)
            for j, each in enumerate(all_configs)
        ]
        await asyncio.wait_for(asyncio.gather(pester(agents[1]), *(agent.run() for agent in agents)), 20)
        return agents

    agents = asyncio.run(main())
    run = domkl.simulate(X, y, nx.path_graph(2), kernels=KERNELS.draw(d), rates=RATES.rates())
    np.testing.assert_array_equal(y_hats(outs), run.y_hat)
    assert agents[0].refused["message"] >= 3
    assert agents[0].refused["replayed"] >= 1
    assert agents[0].refused["graph"] >= 1


#: What once ended agents: too deep, infinite, too large.
CRUEL = (
    b"[" * 100_000,
    b'{"version": 1e400, "links": []}',
    b'{"version": 99999999999999999999999, "links": []}',
)


async def pester(victim_neighbour):
    """Somebody who can publish under the name of a neighbour sends rubbish, old and foreign messages."""
    await asyncio.sleep(0.1)
    hub = victim_neighbour.transport._hub
    learner = victim_neighbour.learner
    P, D, _ = learner.V.shape
    update = domkl.Update(3, np.ones((P, 2 * D)), np.zeros(P), learner.fingerprint)
    messages = [
        b"",
        b"rubbish",
        wire.encode_update(update._replace(fingerprint="0" * 16), 2**62, 0),
        wire.encode_update(update._replace(theta=np.ones((P, 2 * D + 1))), 2**62, 0),
        wire.encode_update(update, 1, 0),  # right, but of an earlier life
    ]
    for message in messages:
        hub.send(topics.topic("net", "l1", "theta"), message, False)
    operator_topic = topics.topic("net", topics.OPERATOR, "graph")
    for message in (b"no json", b"{}", b'{"version": "x", "links": 3}', *CRUEL):
        hub.send(operator_topic, message, False)
    hub.send(topics.topic("net", "nobody", "theta"), messages[-1], False)


def restarted(configurations, X, y, tmp_path, at):
    """Two agents, the first of which is killed at a round and starts again; both, and what they said."""
    outs = [[], []]
    section = [CheckpointSection(str(tmp_path / name), every_rounds=7, sync=False) for name in "ab"]
    both = [dataclasses.replace(each, checkpoint=section[j]) for j, each in enumerate(configurations)]

    async def main():
        first, other = agents_of(both, X, y, outs)
        task, life = (asyncio.create_task(each.run()) for each in (other, first))
        while first.learner.round < at:
            await asyncio.sleep(0)
        life.cancel()  # without a last word, as when it is killed
        await asyncio.gather(life, return_exceptions=True)
        again = Agent(both[0], out=outs[0].append)
        again._stream = aiter_of(list(zip(X[0], y[0], strict=True)), d, skip=saved_readings(tmp_path / "a"))
        await asyncio.wait_for(asyncio.gather(task, again.run()), 30)
        return again, other

    agents = asyncio.run(main())
    said = [{each["index"]: each["y_hat"] for each in out} for out in outs]
    return agents, np.array([[one[t] for t in range(y.shape[1])] for one in said])


def test_a_restart_goes_on_with_the_same_numbers(tmp_path):
    X, y = problems.streams(2, 60, d)
    graph = nx.path_graph(2)
    (again, other), y_hat = restarted(configs(graph), X, y, tmp_path, at=20)
    run = domkl.simulate(X, y, graph, kernels=KERNELS.draw(d), rates=RATES.rates())
    np.testing.assert_array_equal(y_hat, run.y_hat)
    np.testing.assert_array_equal(again.learner.state.theta, run.theta[0])
    assert not other.refused["message"]


def saved_readings(directory):
    return checkpoint.load(directory).meta["readings"]


def test_readings_that_cannot_come_again_are_noted_before_they_are_learnt(tmp_path):
    X, y = problems.streams(1, 30, d)
    stream = StreamSection(kind="stdin", journal=True)
    section = CheckpointSection(str(tmp_path / "a"), every_rounds=8, sync=False)
    one = config("a", [], stream=stream, checkpoint=section)
    outs = []

    async def live(first, last):
        for t in range(first, last):
            yield Reading(t, X[0, t], y[0, t], None)
        if last < 30:
            await asyncio.sleep(60)  # the sensor is silent, and the device is killed

    async def main():
        first = Agent(one, stream=live(0, 21), out=outs.append)
        life = asyncio.create_task(first.run())
        while first.learner.round < 21:
            await asyncio.sleep(0)
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        again = Agent(one, stream=live(21, 30), out=outs.append)
        await asyncio.wait_for(again.run(), 10)
        return again

    again = asyncio.run(main())
    alone = domkl.Learner(KERNELS.draw(d), [], RATES.rates())
    for t in range(30):
        alone.observe(X[0, t], y[0, t])
    assert again.memory.readings == 30
    np.testing.assert_array_equal(again.learner.state.theta, alone.state.theta)


def test_stopping_in_the_middle_saves_what_was_learnt(tmp_path):
    X, y = problems.streams(2, 200, d)
    section = CheckpointSection(str(tmp_path / "a"), every_rounds=1000, sync=False)

    async def endless():
        t = 0
        while True:
            yield X[0, t % 200], y[0, t % 200]
            t += 1
            await asyncio.sleep(0.001)

    async def main():
        agent = Agent(config("a", [], checkpoint=section), stream=aiter_of(endless(), d), out=len)
        task = asyncio.create_task(agent.run())
        await asyncio.sleep(0.3)
        agent.stop()
        await asyncio.wait_for(task, 5)
        return agent

    agent = asyncio.run(main())
    found = checkpoint.load(tmp_path / "a")
    assert found.round == agent.learner.round > 10
    assert found.meta["readings"] == agent.memory.readings


def test_readings_come_from_a_topic():
    X, y = problems.streams(1, 20, d)
    topic, outs = topics.topic("net", "sensor", "reading"), []

    async def main():
        agent = Agent(config("a", [], stream=StreamSection(kind="topic", topic=topic)), out=outs.append)
        sensor = transport("sensor")
        await sensor.open()
        task = asyncio.create_task(agent.run())
        await asyncio.sleep(0.2)
        for t in range(20):
            sensor.publish(topic, json.dumps({"x": X[0, t].tolist(), "y": y[0, t]}).encode())
        sensor.publish(topic, b'{"x": [1, 2]}')
        while agent.learner.round < 20:
            await asyncio.sleep(0.01)
        agent.stop()
        await asyncio.wait_for(task, 5)

    asyncio.run(main())
    alone = domkl.simulate(X, y, nx.empty_graph(1), kernels=KERNELS.draw(d), rates=RATES.rates())
    np.testing.assert_array_equal([said["y_hat"] for said in outs], alone.y_hat[0])


def test_a_sample_too_large_to_learn_is_refused_and_the_next_is_learnt():
    X, y = problems.streams(1, 5, d)
    y[0, 2] = 1e200
    outs = [[]]
    (agent,) = agents_of([config("a", [])], X, y, outs)
    asyncio.run(together(agent))
    assert (agent.refused["sample"], agent.progress.samples, len(outs[0])) == (1, 4, 5)


def test_a_broker_that_is_not_there_is_named():
    settings = TransportSection(kind="mqtt", broker="127.0.0.1:1")
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1"):
        asyncio.run(together(Agent(config("a", [], transport=settings), stream=aiter_of([], d), out=len)))


# Bounds


def test_predictions_have_bounds_that_hold_the_label_as_often_as_asked():
    T, graph = 300, nx.path_graph(2)
    X, y = problems.streams(2, T, d)
    outs = [[] for _ in graph]
    asyncio.run(together(*agents_of(configs(graph, output=OutputSection(coverage=0.8)), X, y, outs)))
    run = domkl.simulate(X, y, graph, kernels=KERNELS.draw(d), rates=RATES.rates())
    low, high = domkl.conformal.bounds(run.y_hat, y, 0.8)
    for j, out in enumerate(outs):
        assert out[0]["low"] is None
        found = [[-np.inf if said["low"] is None else said["low"] for said in out]]
        found += [[np.inf if said["high"] is None else said["high"] for said in out]]
        np.testing.assert_array_equal(found, [low[j], high[j]])
        assert abs(np.mean((low[j] <= y[j]) & (y[j] <= high[j])) - 0.8) < 0.1


def test_bounds_outlive_a_restart(tmp_path):
    X, y = problems.streams(2, 80, d)
    both = configs(nx.path_graph(2), output=OutputSection(coverage=0.8))
    agents, _ = restarted(both, X, y, tmp_path, at=40)
    assert [agent.memory.errors.n for agent in agents] == [79, 79]


# Preset auto


def automatic(graph, **options):
    names = tuple(f"l{j}" for j in graph)
    section = AutoSection(
        size=60, learners=names, diameter=domkl.graph.as_graph(graph).diameter, dtype="float64"
    )
    given = {"preset": "auto", "auto": section, "kernels": KernelSpec(), "rates": RateSection(), **options}
    return configs(graph, **given)


@pytest.mark.parametrize("delay", [0, 3])
def test_agents_of_preset_auto_have_the_simulators_bits(delay):
    T, graph = 90, nx.path_graph(3)
    X, y = problems.streams(3, T, d)
    X[1, ::6, 1] = np.nan

    async def events(j):
        for t in range(T):
            yield Reading(2 * t, X[j, t], None, str(t))
            if t >= delay:
                yield Reading(2 * t + 1, None, y[j, t - delay], str(t - delay))

    outs = [[] for _ in graph]
    agents = [Agent(each, stream=events(j), out=outs[j].append) for j, each in enumerate(automatic(graph))]
    asyncio.run(together(*agents))
    run = domkl.simulate(X, y, graph, preset="auto", size=60, delay=delay)
    np.testing.assert_array_equal(y_hats(outs), run.y_hat)
    assert not any(agent.refused for agent in agents)


def test_an_agent_of_preset_auto_restarts_with_the_same_numbers(tmp_path):
    X, y = problems.streams(2, 100, d)
    graph = nx.path_graph(2)
    _, y_hat = restarted(automatic(graph), X, y, tmp_path, at=75)
    np.testing.assert_array_equal(y_hat, domkl.simulate(X, y, graph, preset="auto", size=60).y_hat)


def test_agents_of_preset_auto_go_on_without_one_that_ends():
    graph, T = nx.cycle_graph(3), 120
    X, y = problems.streams(3, T, d)
    outs, ends = [[] for _ in graph], [T, T, 70]
    agents = [
        Agent(
            each, stream=aiter_of(zip(X[j, : ends[j]], y[j, : ends[j]], strict=True), d), out=outs[j].append
        )
        for j, each in enumerate(automatic(graph))
    ]
    asyncio.run(together(*agents))
    assert [len(out) for out in outs] == ends
    late = np.array([[said["y_hat"] for said in outs[j]][80:] for j in (0, 1)])
    assert ((late - y[:2, 80:]) ** 2).mean() < 0.2 * y.var()
    lam = sum(agent.learner.state.lam for agent in agents[:2])
    assert np.abs(lam).max() < 1e-9

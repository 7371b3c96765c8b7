"""Agents in one process: they have the simulator's bits, whatever the model, and they part in good order."""

from __future__ import annotations

import asyncio
import json

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.agent import Agent
from domkl.agent.config import OutputSection, RoundSection, StreamSection, TransportSection
from domkl.agent.streams import aiter_of
from domkl.agent.transports import names
from domkl.base.errors import InputError
from inmemory import (
    AUTO,
    PAPER,
    agents_of,
    config,
    configs,
    d,
    duals,
    late,
    paper,
    run_all,
    together,
    transport,
    y_hats,
)

PAYLOADS = ["float64", "float32", "float16"]


# The simulator's bits


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"hedge": "messages"},
        {"hedge": "local", "loss": "huber"},
        {"step": "newton"},
        {"step": "newton", "loss": "logistic", "hedge": "messages"},
    ],
)
def test_agents_of_the_paper_have_the_simulators_bits(settings, payload):
    model, graph = paper(**settings), nx.path_graph(4)
    X, y = problems.streams(4, 40, d, classify=model.loss == "logistic")
    agents, y_hat = run_all(configs(graph, model=model, payload=payload), X, y)
    run = domkl.simulate(X, y, graph, model=model, exchange=domkl.Exchange(payload=payload))
    np.testing.assert_array_equal(y_hat, run.y_hat)
    for j, agent in enumerate(agents):
        np.testing.assert_array_equal(agent.learner.state.theta, run.theta[j])
    assert duals(agents) < 1e-12
    assert not any(agent.refused for agent in agents)


@pytest.mark.parametrize(
    ("graph", "loss", "dtype", "payload"),
    [
        (nx.path_graph(4), "squared", "float64", "float64"),
        (nx.star_graph(3), "squared", "float32", "float64"),
        (nx.cycle_graph(4), "squared", "float32", "float16"),
        (nx.path_graph(3), "logistic", "float64", "float32"),
    ],
)
def test_agents_of_auto_have_the_simulators_bits(graph, loss, dtype, payload):
    model, J = domkl.Auto(size=60, loss=loss), len(graph)
    X, y = problems.streams(J, 80, d, classify=loss == "logistic")
    X = X * [1, 1e3, 1e-3] + 5
    X[1, ::6, 1] = np.nan
    agents, y_hat = run_all(configs(graph, model=model, dtype=dtype, payload=payload), X, y)
    run = domkl.simulate(X, y, graph, model=model, dtype=dtype, exchange=domkl.Exchange(payload=payload))
    np.testing.assert_array_equal(y_hat, run.y_hat)
    for j, agent in enumerate(agents):
        np.testing.assert_array_equal(agent.learner.state.theta[0], run.theta[j])
    assert duals(agents) < (1e-9 if dtype == "float64" else 1e-4)
    assert {kind for agent in agents for kind in agent.refused} <= {"implausible"}


@pytest.mark.parametrize("model", [PAPER, AUTO], ids=["paper", "auto"])
def test_labels_that_come_later_are_learnt_when_they_come(model):
    graph, delay, T = nx.path_graph(3), 3, 90
    X, y = problems.streams(3, T, d)
    outs, all_configs = [[] for _ in graph], configs(graph, model=model)
    agents = [
        Agent(each, stream=late(X[j], y[j], delay), out=outs[j].append) for j, each in enumerate(all_configs)
    ]
    asyncio.run(together(*agents))
    run = domkl.simulate(X, y, graph, model=model, delay=delay)
    np.testing.assert_array_equal(y_hats(outs), run.y_hat)
    without = domkl.simulate(X, y, graph, model=model)
    assert not np.array_equal(run.y_hat, without.y_hat)


def test_precision_is_the_models_unless_given():
    X, y = problems.streams(2, 70, d)
    graph = nx.path_graph(2)
    for model, dtype in ((PAPER, np.float64), (AUTO, np.float32)):
        agents, y_hat = run_all(configs(graph, model=model, dtype=None), X, y)
        assert {agent.learner.state.theta.dtype for agent in agents} == {np.dtype(dtype)}
        np.testing.assert_array_equal(y_hat, domkl.simulate(X, y, graph, model=model, dtype=dtype).y_hat)


# Streams


def test_readings_come_from_a_topic():
    X, y = problems.streams(1, 20, d)
    topic, out = names.topic("net", "sensor", "reading"), []

    async def main():
        agent = Agent(config("a", stream=StreamSection(kind="topic", topic=topic)), out=out.append)
        sensor = transport("sensor")
        await sensor.open()
        task = asyncio.create_task(agent.run())
        while not agent.status.ready:
            await asyncio.sleep(0.005)
        for t in range(20):
            sensor.publish(topic, json.dumps({"x": X[0, t].tolist(), "y": y[0, t]}).encode())
        sensor.publish(topic, b'{"x": [1, 2]}')
        while agent.learner.round < 20:
            await asyncio.sleep(0.005)
        agent.stop()
        await asyncio.wait_for(task, 30)

    asyncio.run(main())
    alone = domkl.simulate(X, y, nx.empty_graph(1), model=PAPER)
    np.testing.assert_array_equal(y_hats([out]), alone.y_hat)


def test_a_sample_too_large_to_learn_is_refused_and_the_next_is_learnt():
    X, y = problems.streams(1, 5, d)
    y[0, 2] = 1e200
    (agent,), y_hat = run_all([config("a")], X, y)
    assert (agent.rows["sample"], agent.progress.samples, y_hat.size) == (1, 4, 5)


def test_a_broker_that_is_not_there_is_named():
    settings = TransportSection(kind="mqtt", broker="127.0.0.1:1")
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1"):
        asyncio.run(together(Agent(config("a", transport=settings), stream=aiter_of([], d), out=len)))


# Bounds


def test_predictions_have_bounds_that_hold_the_label_as_often_as_asked():
    T, graph = 300, nx.path_graph(2)
    X, y = problems.streams(2, T, d)
    outs = [[] for _ in graph]
    section = OutputSection(coverage=0.8)
    asyncio.run(together(*agents_of(configs(graph, output=section), X, y, outs)))
    run = domkl.simulate(X, y, graph, model=PAPER)
    low, high = domkl.conformal.bounds(run.y_hat, y, 0.8)
    for j, out in enumerate(outs):
        assert out[0]["low"] is None
        found = [[-np.inf if record["low"] is None else record["low"] for record in out]]
        found += [[np.inf if record["high"] is None else record["high"] for record in out]]
        np.testing.assert_array_equal(found, [low[j], high[j]])
        assert abs(np.mean((low[j] <= y[j]) & (y[j] <= high[j])) - 0.8) < 0.1


# Neighbours that are not there, or end


def test_a_learner_whose_neighbours_never_come_goes_on_alone():
    X, y = problems.streams(1, 90, d)
    rounds = RoundSection("sync", deadline=0.2, start=0.2, resend=0.1)
    for model in (PAPER, AUTO):
        (agent,), y_hat = run_all([config("a", ["b", "c"], model=model, rounds=rounds)], X, y)
        alone = domkl.simulate(X, y, nx.empty_graph(1), model=model)
        assert agent.learner.neighbours == ()
        np.testing.assert_allclose(y_hat, alone.y_hat, atol=1e-9)


def test_agents_of_auto_go_on_without_one_that_ends():
    graph, T = nx.cycle_graph(3), 150
    X, y = problems.streams(3, T, d)
    outs, ends = [[] for _ in graph], [T, T, 70]
    agents = [
        Agent(
            each, stream=aiter_of(zip(X[j, : ends[j]], y[j, : ends[j]], strict=True), d), out=outs[j].append
        )
        for j, each in enumerate(configs(graph, model=AUTO))
    ]
    asyncio.run(together(*agents))
    assert [len(out) for out in outs] == ends
    after = np.array([[record["y_hat"] for record in outs[j]][80:] for j in (0, 1)])
    assert ((after - y[:2, 80:]) ** 2).mean() < 0.2 * y.var()
    assert duals(agents[:2]) < 1e-9
    assert [agent.learner.neighbours for agent in agents[:2]] == [("l1",), ("l0",)]

"""Networks whose learners start from a model that was taught alone."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import networkx as nx
import numpy as np
import pytest

from domkl.agent import Agent, AgentConfig
from domkl.agent.config import CheckpointSection, Handed, RoundSection, TransportSection
from domkl.agent.streams import aiter_of
from domkl.exchange.graph import as_graph
from domkl.exchange.message import Exchange
from domkl.exchange.network import Network
from domkl.learner import handed
from domkl.learning.auto import AutoRows
from taught import (
    MODELS,
    D,
    alone,
    feed,
    members,
    ordered,
    ring,
    samples,
    streams,
    taught,
    taught_in_river,
)

river = pytest.importorskip("domkl.river")

#: With equal degrees, so that devices know the weights of their edges before the first message.
GRAPHS = {"ring": nx.cycle_graph(5), "complete": nx.complete_graph(4)}


@pytest.fixture(scope="module")
def auto():
    return taught("auto", 150)


# The bits of one process


@pytest.mark.parametrize("graph", GRAPHS)
def test_devices_have_the_bits_of_a_network_in_one_process(auto, graph):
    graph, T = GRAPHS[graph], 40
    J = len(graph)
    _, group = members(auto, graph)
    network = Network(as_graph(graph), Exchange())
    near = network.neighbours
    rows = AutoRows(auto.settings, D, [*graph], near.weight, near.deg)
    state = auto.row().state()
    rows.restore(repeated(state, J))
    rows.reweigh(near.weight, near.deg)
    network.duals.restarts[:] = rows.restarts
    X, y = streams(J, T)
    for t in range(T):
        prediction = rows.predict(X[:, t])
        rows.merge(network.exchange_round(rows, rows.learn(prediction, y[:, t, None])))
        feed(group, graph, X[:, t], y[:, t], t)
        np.testing.assert_allclose([member.step.y_hat for member in group], prediction.y_hat[:, 0], rtol=1e-9)
    assert np.abs(sum(member.state.lam for member in group)).max() < 1e-12


def repeated(state, J):
    """The state of one row, J times."""
    if isinstance(state, dict):
        return {
            name: value if name in ("inputs", "targets") else repeated(value, J)
            for name, value in state.items()
        }
    return [[]] * J if isinstance(state, list) else np.concatenate([state] * J)


# They learn together


@pytest.mark.parametrize("kind", MODELS)
def test_a_taught_network_is_better_than_its_members_alone(kind):
    J, T = 5, 100
    model = taught(kind)
    graph, group = ring(model, J)
    singles = [alone(model) for _ in range(J)]
    X, y = streams(J, T)
    errors = []
    for t in range(T):
        feed(group, graph, X[:, t], y[:, t], t)
        for j, single in enumerate(singles):
            single.observe(X[j, t], y[j, t])
        errors.append([[each.step.y_hat - each.step.y for each in some] for some in (group, singles)])
    together, apart = np.square(errors[T // 2 :]).mean((0, 2))
    assert together < apart < 0.1 * y.var()
    assert np.abs(sum(member.state.lam for member in group)).max() < 1e-4


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("at", [0, 20])
def test_a_taught_learner_is_saved_and_goes_on_with_the_same_bits(kind, at):
    model = taught(kind, 100)
    graph, group = ring(model, 3)
    X, y = streams(3, 40)
    for t in range(at):
        feed(group, graph, X[:, t], y[:, t], t)
    saved = [member.save() for member in group]
    _, again = ring(model, 3)
    for member, (arrays, meta) in zip(again, saved, strict=True):
        member.load({key: value.copy() for key, value in arrays.items()}, json.loads(json.dumps(meta)))
    for t in range(at, 40):
        for some in (group, again):
            feed(some, graph, X[:, t], y[:, t], t)
        assert [one.step.y_hat for one in group] == [one.step.y_hat for one in again]


@pytest.mark.parametrize("kind", MODELS)
def test_learners_of_other_models_do_not_understand_each_other(kind):
    marks = [{member.fingerprint for member in ring(taught(kind, T), 3)[1]} for T in (100, 101)]
    assert [len(mark) for mark in marks] == [1, 1]
    assert marks[0] != marks[1]


def test_an_input_that_came_late_works_in_a_network():
    model, (X, y) = river.MultiKernelRegressor(MODELS["auto"]), samples(180)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        model.learn_one(dict(zip("abc" if t >= 140 else "ab", x, strict=False)), label)
    late = model._model.handed(tuple(model._columns.names))
    graph, group = ring(late, 3)
    X, y = streams(3, 30)
    for t in range(30):
        feed(group, graph, X[:, t], y[:, t], t)
    _, again = ring(late, 3)
    again[0].load(*group[0].save())
    assert again[0].predict(X[0, 0]) == group[0].predict(X[0, 0])
    assert np.abs(sum(member.state.lam for member in group)).max() < 1e-12


# Agents


def config(file, name, neighbours, **options):
    return AgentConfig(
        network="net",
        name=name,
        neighbours=tuple(neighbours),
        model=Handed(str(file)),
        dtype="float64",
        rounds=RoundSection("sync", deadline=5.0, start=5.0, resend=0.1),
        transport=TransportSection(kind="memory"),
        **options,
    )


@pytest.mark.parametrize("kind", MODELS)
def test_agents_start_where_the_model_ends(tmp_path, kind):
    """A path of four."""
    J, T, file = 4, 30, tmp_path / "a.model"
    taught_in_river(kind).hand_over(file)
    model, graph = handed.read(file), nx.path_graph(J)
    X, y = streams(J, T)
    X, outs = ordered(model, X), [[] for _ in graph]
    agents = [
        Agent(
            config(file, str(j), map(str, sorted(graph.neighbors(j)))),
            stream=aiter_of(zip(X[j], y[j], strict=True), D),
            out=outs[j].append,
        )
        for j in graph
    ]

    async def run():
        await asyncio.wait_for(asyncio.gather(*(agent.run() for agent in agents)), 30)

    asyncio.run(run())
    _, group = members(model, graph)
    for t in range(T):
        feed(group, graph, X[:, t], y[:, t], t)
        assert [out[t]["y_hat"] for out in outs] == [member.step.y_hat for member in group]
    assert agents[0].config.columns.features == model.names
    assert agents[0].config.inputs == D


@pytest.mark.parametrize("kind", MODELS)
def test_an_agent_that_is_killed_before_its_first_sample_starts_from_the_model_again(tmp_path, kind):
    file, (X, y) = tmp_path / "a.model", samples(3, seed=1)
    taught_in_river(kind, T=100).hand_over(file)
    section = CheckpointSection(str(tmp_path / "a.ckpt"), sync=False)
    first = Agent(config(file, "a", ["b"], checkpoint=section))
    first.store.save(first.learner)
    first.store.close()
    again = Agent(config(file, "a", ["b"], checkpoint=section))
    assert again.neighbourhood.restored
    other = Agent(dataclasses.replace(config(file, "a", ["b"])))
    for x, label in zip(X, y, strict=True):
        for agent in (again, other):
            agent.learner.observe(x, label)
            agent.learner.close()
        assert again.learner.step.y_hat == other.learner.step.y_hat
    np.testing.assert_array_equal(again.learner.state.theta, other.learner.state.theta)

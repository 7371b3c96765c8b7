"""Networks whose learners start from a model that was taught alone."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
from domkl import engines
from domkl.agent import Agent, AgentConfig
from domkl.agent.config import CheckpointSection, Handed, RoundSection, TransportSection
from domkl.agent.streams import aiter_of
from domkl.exchange.graph import as_graph
from domkl.exchange.message import Exchange
from domkl.exchange.network import Network
from domkl.faces.handing import handed_over
from domkl.learner import handed, introduce
from domkl.learning import second_order
from domkl.learning.auto import AutoRows, persistence
from domkl.learning.auto.joint import RATES
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
    taught_online,
)

river = pytest.importorskip("domkl.river")

GRAPHS = {"ring": nx.cycle_graph(5), "star": nx.star_graph(4), "path": nx.path_graph(3)}


@pytest.fixture(scope="module")
def auto():
    return taught("auto", 150)


# Evidence


def learnt_matrix(model, X):
    """Sum of 2 z z^T over all samples, literally. (models, K, K)"""
    z = model.rows.joint.features.of(X, model.rows.scale.inputs)
    return 2 * np.einsum("npk,npl->pkl", z, z)


@settings(max_examples=6, deadline=None)
@given(st.integers(2, 6), st.integers(64, 130))
def test_all_together_know_what_the_model_knew_once(J, T):
    model, (X, _) = taught_online(T), samples(T)
    model.fix_scale()
    _, group = ring(handed_over(model), J)
    learnt, before = learnt_matrix(model, X), model.rows.joint.state
    for member in group:
        M = np.linalg.inv(member.state.inverse.settle()[0])
        prior = RATES.eta / J + RATES.rho * member._row.model.joint.pulls.deg[0]
        np.testing.assert_allclose(M, learnt / J + prior * np.eye(M.shape[-1]), atol=1e-6 * learnt.max())
        np.testing.assert_allclose(member.state.theta, before.theta)
    parts = [member._row.model.memories.all[0]._data() for member in group]
    data = sum(parts)
    np.testing.assert_allclose(data, model.rows.memories.all[0]._data(), atol=1e-6 * np.abs(data).max())
    total = sum(member.state.m for member in group)
    np.testing.assert_allclose(total, before.m, atol=1e-12 * np.abs(total).max())


def test_the_part_is_right_also_where_the_networks_size_is_found_out_later(auto):
    graph = nx.path_graph(4)
    near = [sorted(graph.neighbors(j)) for j in graph]
    group = [domkl.Learner(auto, near[j], name=j) for j in graph]
    X, _ = samples(1, seed=9)
    early = [member.predict(X[0]) for member in group]  # with the part of the neighbours that it was told of
    parts = [float(np.abs(member.state.m).sum()) for member in group]
    introduce(group)
    _, right = members(auto, graph)
    whole = float(np.abs(alone(auto).state.m).sum())
    np.testing.assert_allclose(parts, [whole / 2, whole / 3, whole / 3, whole / 2])
    for member, other in zip(group, right, strict=True):
        assert np.array_equal(member.state.m, other.state.m)
        assert np.array_equal(member.state.inverse.settle(), other.state.inverse.settle())
        np.testing.assert_allclose(np.abs(member.state.m).sum(), whole / 4)
        assert member.predict(X[0]) == pytest.approx(early[0], rel=1e-9)  # parts do not change what is known


def test_parts_are_not_made_for_every_announcement(auto, monkeypatch):
    """Each costs O(K^3): hellos that tell nothing new must be free."""
    made = []
    real = persistence.inherit
    monkeypatch.setattr(persistence, "inherit", lambda *given: made.append(1) or real(*given))
    learner, (X, _) = domkl.Learner(auto, ["b"], name="a"), samples(2)
    for version in range(20):
        learner.take_links({"b": (version, ("a",))})
    assert len(made) == 0
    for x in X:
        learner.predict(x)
    assert len(made) == 1
    learner.take_links({"b": (30, ("a", "c"))})
    learner.predict(X[0])
    assert len(made) == 2


def test_shift_takes_a_part_of_a_matrix():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((1, 5, 5))
    M = 0.3 * np.eye(5) + A @ np.swapaxes(A, 1, 2)
    found = second_order.shift(second_order.Inverse(np.linalg.inv(M)), 0.3, 0.5, 0.25).settle()
    np.testing.assert_allclose(np.linalg.inv(found), 0.25 * M + 0.5 * np.eye(5))


# The bits of one process


def in_one_process(model, graph, dtype):
    """All rows of a network that starts from the model, and what exchanges their messages."""
    network = Network(as_graph(graph), Exchange())
    size = len(graph), network.diameter
    how = {"dtype": dtype, "diagonal": engines.make_inverse("auto")}
    rows = AutoRows(model.settings, len(graph), D, network.neighbours.weight, *size, **how)
    persistence.inherit(rows, model.alone())
    return rows, network


@pytest.mark.parametrize(
    ("graph", "dtype"), [("ring", np.float64), ("star", np.float32), ("path", np.float64)]
)
def test_devices_have_the_bits_of_a_network_in_one_process(auto, graph, dtype):
    graph, T = GRAPHS[graph], 40
    J = len(graph)
    _, group = members(auto, graph, dtype=dtype)
    rows, network = in_one_process(auto, graph, dtype)
    X, y = streams(J, T)
    for t in range(T):
        prediction = rows.predict(X[:, t])
        rows.merge(network.exchange_round(rows, rows.learn(prediction, y[:, t])))
        feed(group, graph, X[:, t], y[:, t], t)
        np.testing.assert_array_equal([member.step.y_hat for member in group], prediction.y_hat)
    lam = sum(member.state.lam.astype(np.float64) for member in group)
    assert np.abs(lam).max() < (1e-12 if dtype is np.float64 else 1e-4)


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


@pytest.mark.usefixtures("short_warm_up")
def test_an_input_that_came_late_works_in_a_network():
    model, (X, y) = river.MultiKernelRegressor(MODELS["auto"]), samples(180)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        model.learn_one(dict(zip("abc" if t >= 140 else "ab", x, strict=False)), label)
    late = handed_over(model._model.online, tuple(model._columns.names))
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
        rounds=RoundSection(deadline=5.0, start=5.0, resend=0.1),
        transport=TransportSection(kind="memory"),
        **options,
    )


@pytest.mark.parametrize("kind", MODELS)
def test_agents_start_where_the_model_ends(tmp_path, kind):
    """A path of four: nobody knows its size when the learners are made."""
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
    first.memory.save(first.learner)
    first.memory.close()
    again = Agent(config(file, "a", ["b"], checkpoint=section))
    assert again.neighbourhood.restored
    again.learner.take_links({"b": (1, ("a", "c")), "c": (0, ("b",))})
    other = Agent(dataclasses.replace(config(file, "a", ["b"])))
    other.learner.take_links({"b": (1, ("a", "c")), "c": (0, ("b",))})
    for x, label in zip(X, y, strict=True):
        for agent in (again, other):
            agent.learner.observe(x, label)
            agent.learner.close()
        assert again.learner.step.y_hat == other.learner.step.y_hat
    np.testing.assert_array_equal(again.learner.state.theta, other.learner.state.theta)

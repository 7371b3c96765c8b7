"""Agents that are killed, stopped, or start again: nothing is lost, and nothing is learnt twice."""

from __future__ import annotations

import asyncio
import dataclasses

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.agent import Agent, checkpoint
from domkl.agent.config import CheckpointSection, HttpSection, OutputSection, StreamSection
from domkl.agent.serve import service_of
from domkl.agent.streams import Reading, aiter_of
from domkl.base.errors import DataError
from inmemory import (
    AUTO,
    PAPER,
    config,
    configs,
    d,
    duals,
    paced,
    paper,
    restarted,
    run_all,
    saved_state,
    stream,
    until,
)

MODELS = {"paper": PAPER, "newton": paper(step="newton", hedge="messages"), "auto": AUTO}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("payload", ["float64", "float16"])
def test_a_kill_and_a_restart_give_the_same_bits(kind, payload, tmp_path):
    model, graph = MODELS[kind], nx.path_graph(3)
    X, y = problems.streams(3, 100, d)
    agents, y_hat = restarted(configs(graph, model=model, payload=payload), X, y, tmp_path, at=75)
    run = domkl.simulate(X, y, graph, model=model, exchange=domkl.Exchange(payload=payload))
    np.testing.assert_array_equal(y_hat, run.y_hat)
    for agent, theta in zip(agents, run.theta, strict=True):
        np.testing.assert_array_equal(agent.learner.state.theta.reshape(theta.shape), theta)
    assert duals(agents) < 1e-9
    assert not any(agent.refused["message"] for agent in agents)


def test_a_restart_while_the_scale_is_still_taken_gives_the_same_bits(tmp_path):
    graph = nx.path_graph(3)
    X, y = problems.streams(3, 30, d)
    for at in (5, 17):  # statistics of the common scale are under way, and known
        folder = tmp_path / str(at)
        _, y_hat = restarted(configs(graph, model=AUTO), X, y, folder, at=at, every=1)
        np.testing.assert_array_equal(y_hat, domkl.simulate(X, y, graph, model=AUTO).y_hat)


@pytest.mark.parametrize("kind", MODELS)
def test_a_restart_before_the_second_checkpoint_gives_the_same_bits(kind, tmp_path):
    """There is a checkpoint of round 0: who goes back to it is not new to the network."""
    graph = nx.path_graph(2)
    X, y = problems.streams(2, 30, d)
    _, y_hat = restarted(configs(graph, model=MODELS[kind]), X, y, tmp_path, at=4, every=100)
    np.testing.assert_array_equal(y_hat, domkl.simulate(X, y, graph, model=MODELS[kind]).y_hat)


def test_late_labels_outlive_a_restart(tmp_path):
    """What was predicted for an input is remembered until its label comes, by whoever judges experts."""
    X, y = problems.streams(1, 90, d)
    section = CheckpointSection(str(tmp_path), every_rounds=1, sync=False)
    one, outs = config("a", model=AUTO, checkpoint=section), []

    async def events(first, last):
        for n in range(first, last):
            t, is_label = divmod(n, 2)
            if not is_label:
                yield Reading(n, X[0, t], None, str(t))
            elif t >= 3:
                yield Reading(n, None, y[0, t - 3], str(t - 3))

    for first, last in ((0, 81), (81, 180)):
        agent = Agent(one, stream=events(first, last), out=outs.append)
        assert agent.store.readings == first
        asyncio.run(asyncio.wait_for(agent.run(), 30))
    run = domkl.simulate(X, y, nx.empty_graph(1), model=AUTO, delay=3)
    np.testing.assert_array_equal([record["y_hat"] for record in outs], run.y_hat[0])


def test_bounds_outlive_a_restart(tmp_path):
    X, y = problems.streams(2, 80, d)
    both = configs(nx.path_graph(2), output=OutputSection(coverage=0.8))
    agents, _ = restarted(both, X, y, tmp_path, at=40)
    assert [agent.store.errors.n for agent in agents] == [79, 79]


@pytest.mark.parametrize("kind", ["paper", "auto"])
def test_readings_that_cannot_come_again_are_noted_before_they_are_learnt(kind, tmp_path):
    X, y = problems.streams(1, 30, d)
    X[0, 12, 1] = np.nan if kind == "auto" else 0.5
    section = CheckpointSection(str(tmp_path / "a"), every_rounds=8, sync=False)
    stream = StreamSection(kind="stdin", journal=True)
    one = config("a", model=MODELS[kind], stream=stream, checkpoint=section)

    async def live(first, last):
        for t in range(first, last):
            yield Reading(t, X[0, t], y[0, t], None)
        if last < 30:
            await asyncio.sleep(60)  # the sensor is silent, and the device is killed

    async def main():
        first = Agent(one, stream=live(0, 21), out=len)
        life = asyncio.create_task(first.run())
        while first.learner.round < 21:
            await asyncio.sleep(0)
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        again = Agent(one, stream=live(21, 30), out=len)
        assert again.learner.round < 21
        await asyncio.wait_for(again.run(), 10)
        return again

    again = asyncio.run(main())
    alone = domkl.simulate(X, y, nx.empty_graph(1), model=MODELS[kind])
    assert again.store.readings == 30
    np.testing.assert_array_equal(np.reshape(again.learner.state.theta, alone.theta[0].shape), alone.theta[0])


def test_stopping_in_the_middle_saves_what_was_learnt(tmp_path):
    X, y = problems.streams(1, 5000, d)
    section = CheckpointSection(str(tmp_path / "a"), every_rounds=10_000, sync=False)

    async def main():
        agent = Agent(config("a", checkpoint=section), stream=aiter_of(paced(X[0], y[0], 0.001), d), out=len)
        task = asyncio.create_task(agent.run())
        await until(lambda: agent.learner.round > 20)
        agent.stop()
        await asyncio.wait_for(task, 30)
        return agent

    agent = asyncio.run(main())
    assert checkpoint.load(tmp_path / "a").round == agent.learner.round > 20
    assert saved_state(tmp_path / "a")["readings"] == agent.store.readings


def test_stopping_in_an_open_round_keeps_readings_that_cannot_come_again(tmp_path):
    """All devices of a folder are stopped at once: most are then in the middle of a round."""
    X, y = problems.streams(2, 40, d)
    section = CheckpointSection(str(tmp_path / "a"), every_rounds=10_000, sync=False)
    a, b = config("a", "b", checkpoint=section), config("b", "a")

    async def main():
        slow = aiter_of(paced(X[1], y[1], 60.0), d)  # one reading, and then none
        agents = Agent(a, stream=stream(X[0], y[0]), out=len), Agent(b, stream=slow, out=len)
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: agents[0].learner.round == 1 and agents[0].learner.waiting)
        for agent in agents:
            agent.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return agents[0]

    agent = asyncio.run(main())
    assert checkpoint.load(tmp_path / "a").round == agent.learner.round == 2
    assert saved_state(tmp_path / "a")["readings"] == 2


# Checkpoints that do not fit


def shown(given, X, y, first, last):
    """Run an agent with a page on some readings; what that shows of the last hour in the end."""

    async def main():
        readings = (Reading(t, X[t], y[t], None, time=60.0 * t) for t in range(first, last))
        agent = Agent(given, stream=aiter_all(readings), out=len)
        with service_of(agent, ("127.0.0.1", 0)) as service:
            await asyncio.wait_for(agent.run(), 30)
            return service.feed.document("a", "hour")

    return asyncio.run(main())


async def aiter_all(readings):
    for each in readings:
        yield each


@pytest.mark.parametrize("publish", ["full", "errors", "counts"])
def test_what_the_page_shows_outlives_a_restart(tmp_path, publish):
    (X,), (y,) = problems.streams(1, 60, d)
    section = CheckpointSection(str(tmp_path), sync=False)
    given = config("a", checkpoint=section, http=HttpSection(publish=publish))
    before, after = shown(given, X, y, 0, 40), shown(given, X, y, 40, 60)
    assert ("samples" in after["detail"]) == (publish == "full")
    if publish == "full":
        assert after["detail"]["samples"][0] == [*range(60)]
        assert after["detail"]["samples"][5] == y.tolist()
        assert [each[:40] for each in after["detail"]["samples"]] == before["detail"]["samples"]
    if publish != "counts":
        assert after["detail"]["errors"][0] == [*range(1, 60)]
        assert [each[:39] for each in after["detail"]["errors"]][1] == before["detail"]["errors"][1]


def test_a_past_that_no_agent_wrote_is_refused_in_one_line(tmp_path):
    (X,), (y,) = problems.streams(1, 10, d)
    given = config("a", checkpoint=CheckpointSection(str(tmp_path), sync=False))
    shown(given, X, y, 0, 10)
    found = checkpoint.load(tmp_path)
    name = "agent.past.predictions.times"
    assert name in found.arrays
    arrays = {**found.arrays, name: np.full((4, 10**5), 1e9)}
    checkpoint.save(tmp_path, found.round, arrays, found.meta, sync=False)
    with pytest.raises(DataError, match=r"'agent' is not whole .*History\.times is float64") as error:
        Agent(given)
    assert "\n" not in str(error.value)


def stopped(folder, **options):
    """The configuration of an agent that has learnt a little and was saved."""
    X, y = problems.streams(1, 10, d)
    section = CheckpointSection(str(folder), sync=False)
    given = config("a", checkpoint=section, **options)
    run_all([given], X, y)
    return given


@pytest.mark.parametrize(
    ("changes", "use"),
    [
        ({"model": paper(hedge="local")}, "kernels, rates, loss, step, hedge and payload"),
        ({"payload": "float32"}, "kernels, rates, loss, step, hedge and payload"),
        ({"model": AUTO}, "model, inputs, targets, dtype and payload"),
    ],
)
def test_the_state_of_another_learner_is_refused_in_one_line(tmp_path, changes, use):
    given = dataclasses.replace(stopped(tmp_path), **changes)
    with pytest.raises(DataError, match=f"the saved learner has fingerprint .* use the {use}") as error:
        Agent(given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("part", ["learner", "agent"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 9}, "'{part}' has version 9 of its schema; expected .*; use the domkl that wrote it"),
        ({"version": 0}, "'{part}' has version 0 of its schema; expected "),
        ({"state": {"fields": {}}}, "'{part}' is not whole"),
        ({"schema": "model"}, "has schema 'model'; expected '{part}'"),
    ],
)
def test_the_state_of_another_version_is_refused_in_one_line(tmp_path, part, change, message):
    given = stopped(tmp_path)
    found = checkpoint.load(tmp_path)
    meta = {**found.meta, part: {**found.meta[part], **change}}
    checkpoint.save(tmp_path, found.round, found.arrays, meta, sync=False)
    with pytest.raises(DataError, match=message.format(part=part)) as error:
        Agent(given)
    assert "\n" not in str(error.value)

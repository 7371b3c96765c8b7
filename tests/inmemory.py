"""Agents in one process over the in-memory transport, for tests of what they do about each other."""

from __future__ import annotations

import asyncio
import dataclasses

import numpy as np

import domkl
from domkl.agent import Agent, AgentConfig, checkpoint, transports
from domkl.agent.config import CheckpointSection, RoundSection, TransportSection
from domkl.agent.streams import Reading, aiter_of
from domkl.agent.transports import Hub, sender_of
from domkl.learner import schema
from domkl.models.settings import KernelSpec

RATES = domkl.Rates(rho=0.5, eta=0.5, eta_g=1.0)
PAPER = domkl.Paper(kernels=KernelSpec(D=10, sigma2=(0.3, 3.0)), rates=RATES)
AUTO = domkl.Auto(size=60)
#: Inputs of a sample.
d = 3


def paper(**settings):
    return dataclasses.replace(PAPER, **settings)


def config(name, neighbours=(), **options):
    given = {
        "model": PAPER,
        "dtype": "float64",
        "rounds": RoundSection("sync", deadline=5.0, start=5.0, resend=0.1),
        "transport": TransportSection(kind="memory"),
        "inputs": d,
        **options,
    }
    return AgentConfig(network="net", name=name, neighbours=tuple(neighbours), **given)


def names_of(graph):
    return [f"l{j}" for j in graph]


def configs(graph, **options):
    """One for each learner; neighbours stand in the simulator's order."""
    names = names_of(graph)
    return [config(names[j], [names[i] for i in sorted(graph.neighbors(j))], **options) for j in graph]


def agents_of(all_configs, X, y, outs):
    return [Agent(each, stream=stream(X[j], y[j]), out=outs[j].append) for j, each in enumerate(all_configs)]


def stream(X, y, skip=0):
    """Samples as a stream; those with missing inputs as readings, which may hold NaN."""
    if np.isnan(X).any():
        return readings(X, y)
    return aiter_of(zip(X, y, strict=True), X.shape[-1], skip)


async def readings(X, y):
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        yield Reading(t, x, label, None)


async def together(*agents, seconds=60.0):
    await asyncio.wait_for(asyncio.gather(*(agent.run() for agent in agents)), seconds)


def run_all(all_configs, X, y):
    """Run agents to the end of their streams; the agents, and their predictions (J, T)."""
    outs = [[] for _ in all_configs]
    agents = agents_of(all_configs, X, y, outs)
    asyncio.run(together(*agents))
    return agents, y_hats(outs)


def y_hats(outs):
    return np.array([[record["y_hat"] for record in out] for out in outs])


def transport(name):
    return transports.make(transports.TransportSettings("memory", "net", name))


async def paced(X, y, seconds):
    """Samples (x, y) with a pause after each."""
    for x, label in zip(X, y, strict=True):
        yield x, label
        await asyncio.sleep(seconds)


async def late(X, y, delay):
    """Readings whose labels come `delay` rounds later; those of the last rounds never do."""
    for t in range(len(y)):
        yield Reading(2 * t, X[t], None, str(t))
        if t >= delay:
            yield Reading(2 * t + 1, None, y[t - delay], str(t - delay))


async def until(fact, seconds=30.0):
    """Wait for a fact."""

    async def wait():
        while not fact():
            await asyncio.sleep(0.002)

    await asyncio.wait_for(wait(), seconds)


def duals(agents):
    """How far the duals of all agents are from cancelling."""
    return np.abs(sum(agent.learner.state.lam.astype(np.float64) for agent in agents)).max()


def saved_state(directory):
    """What the last checkpoint of an agent holds beside the learner."""
    found = checkpoint.load(directory)
    return schema.read("agent", found.arrays, found.meta["agent"])


def restarted(all_configs, X, y, folder, at, every=7):
    """Agents of which the first is killed at round `at` and starts again from its checkpoint.

    Returns them all, the first in its second life, and their predictions (J, T).
    """
    outs = [[] for _ in all_configs]
    ours = [
        dataclasses.replace(each, checkpoint=CheckpointSection(str(folder / each.name), every, sync=False))
        for each in all_configs
    ]

    async def main():
        first, *others = agents_of(ours, X, y, outs)
        tasks = [asyncio.create_task(each.run()) for each in (first, *others)]
        while first.learner.round < at:
            await asyncio.sleep(0)
        tasks[0].cancel()  # without a last message, as when it is killed
        await asyncio.gather(tasks[0], return_exceptions=True)
        again = Agent(ours[0], out=outs[0].append)
        assert again.neighbourhood.restored
        assert again.learner.round <= at
        again.stream = stream(X[0], y[0], skip=again.store.readings)
        await asyncio.wait_for(asyncio.gather(again.run(), *tasks[1:]), 60)
        return [again, *others]

    agents = asyncio.run(main())
    last = [{record["index"]: record["y_hat"] for record in out} for out in outs]
    return agents, np.array([[one[t] for t in range(y.shape[1])] for one in last])


class CutHub(Hub):
    """A hub through which nothing passes between the learners in `apart` and the others."""

    def __init__(self):
        super().__init__()
        self.apart = set()

    def send(self, topic, payload, retain):
        for member in tuple(self.members):
            if (sender_of(topic) in self.apart) == (member.settings.name in self.apart):
                member.take(topic, payload)


def scale_number(agent):
    """Which scale a learner of `Auto` has; 0 before its first label."""
    return int(agent.learner._row.scale.number[0])

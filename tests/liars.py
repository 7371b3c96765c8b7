"""Neighbours with valid certificates that send what no honest learner would."""

from __future__ import annotations

import asyncio

import numpy as np

import domkl
from domkl.agent import Agent, wire
from domkl.agent.streams import aiter_of
from domkl.agent.transports.names import topic
from domkl.exchange.edges import Held
from domkl.learning.auto.scale import QUANTILES, Summary
from inmemory import PAPER, configs, d, paced, paper, until, y_hats

#: Every kind of learner: what it is called, and its model.
MODELS = {"first": PAPER, "newton": paper(step="newton"), "auto": domkl.Auto(size=60)}
LARGE = (0, 1, 5, 2**31, 2**40, 2**51, 2**52 - 1)
WILD = (0.0, -1.0, 0.5, 3.0, 1e3, 1e8, -1e8, 1e9, 1e40, -1e100, 1e300, -1.7e308, 2.0**53)


def lie(agent, round, theta=0.0, **changes):
    """An update under the name of an agent, of any round and with any parameters."""
    learner, shapes = agent.learner, agent.learner.shapes
    scalars = np.zeros(shapes.scalars) if shapes.scalars else None
    update = domkl.Update(round, np.full(shapes.theta, theta), scalars, learner.fingerprint, {}, 1)
    return wire.encode_update(update._replace(**changes), agent.messages.identity.incarnation, 0)


def send(agent, message, channel="theta"):
    """Publish under the name of an agent."""
    agent.transport._hub.send(topic("net", agent.config.name, *channel.split("/")), message, False)


def run_with(graph, X, y, model, disturb, after=10):
    """Agents on a graph, disturbed at round `after`; they, and their predictions (J, T)."""
    outs = [[] for _ in graph]

    async def main():
        agents = [
            Agent(each, stream=aiter_of(paced(X[j], y[j], 0.001), d), out=outs[j].append)
            for j, each in enumerate(configs(graph, model=model))
        ]
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: min(agent.learner.round for agent in agents) > after)
        await disturb(agents)
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        return agents

    agents = asyncio.run(main())
    return agents, y_hats(outs)


def wild_message(agent, to, rng):
    """A message in an agent's name whose frame is right and whose fields are anywhere in their range."""
    kind = rng.integers(3)
    if kind == 0:
        return wild_hello(agent, to, rng), "hello"
    updates = [wild_update(agent, to, rng) for _ in range(kind + 1)]
    if kind == 1:
        return updates[0], "theta"
    again = wire.Again(agent.learner.fingerprint, agent.messages.identity.incarnation, updates)
    return wire.encode(again), f"to/{to}"


def any_round(agent, rng):
    near = agent.learner.round + int(rng.integers(-3, 70))
    return max(0, near) if rng.random() < 0.6 else int(rng.choice(LARGE))


def wild_edges(agent, to, rng):
    held = agent.learner.edges.get(to, Held())
    changes = {name: any_round(agent, rng) for name in Held._fields if rng.random() < 0.2}
    return {to: held._replace(**changes)} if rng.random() < 0.8 else {}


def wild_hello(agent, to, rng):
    round = any_round(agent, rng)
    durable, done = int(rng.integers(0, round + 1)), bool(rng.random() < 0.1)
    head = agent.learner.fingerprint, agent.messages.identity.incarnation, round, durable
    wants, ended = {to: any_round(agent, rng)}, {to: any_round(agent, rng)}
    edges, graph = wild_edges(agent, to, rng), int(rng.choice(LARGE))
    return wire.encode(wire.Hello(*head, wants, edges, done, graph, ended))


def wild_update(agent, to, rng):
    shapes = agent.learner.shapes
    changes = {"edges": wild_edges(agent, to, rng), "degree": int(rng.choice([0, 1, 2, 1024]))}
    if shapes.columns and rng.random() < 0.5:
        changes["news"] = {str(rng.choice(["l0", "l1", "l9"])): wild_summary(shapes.columns, rng)}
    for name, size in (("theta", shapes.theta), ("scalars", shapes.scalars)):
        values = rng.normal(size=size)
        wild = rng.random(values.shape) < rng.choice([0.0, 0.1, 1.0])
        changes[name] = np.where(wild, rng.choice(WILD, values.shape), values) if values.size else None
    if shapes.columns and rng.random() < 0.7:  # so that some pass the checks
        changes["scalars"] = np.round(np.abs(rng.normal(size=shapes.scalars)) * 1e6)
    return lie(agent, any_round(agent, rng), **changes)


def wild_summary(columns, rng):
    """A summary of the right form."""
    edges = np.sort(rng.normal(size=(2, columns)) * rng.choice([1e-300, 1.0, 1e149, 1e300]), 0)
    shape = rng.integers(0, 2**16, (QUANTILES, columns)).astype(np.uint16)
    return Summary(int(rng.choice([1, 2, 64, 512])), edges[0], edges[1], shape)

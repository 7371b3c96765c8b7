"""Zenoh connects neighbours only, and new neighbours when the graph changes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses

import numpy as np
import pytest

import brokers
import inmemory
from domkl import cli
from domkl.agent import Agent
from domkl.agent.config import CheckpointSection, TransportSection
from domkl.agent.transports import TransportSettings, make
from domkl.agent.transports.security import announced
from domkl.cli import graph

pytest.importorskip("zenoh")


def peers_of(transport):
    return len(list(transport._session.info.peers_zid()))


def test_a_ring_stays_a_ring_and_the_operator_finds_all_of_it():
    async def main():
        ports = brokers.free_ports(6)
        places = [f"127.0.0.1:{port}" for port in ports]
        ring = [
            make(TransportSettings("zenoh", "net", f"l{i}", listen=(place,), connect=(places[i - 1],)))
            for i, place in enumerate(places)
        ]
        async with contextlib.AsyncExitStack() as stack:
            for each in ring:
                await each.open()
                stack.push_async_callback(each.close)
            await inmemory.until(lambda: [*map(peers_of, ring)] == [2] * 6)
            await asyncio.sleep(0.5)  # in which gossip would connect the others
            assert [*map(peers_of, ring)] == [2] * 6
            operator = make(TransportSettings("zenoh", "net", "operator", connect=(places[0],)))
            await operator.open()
            stack.push_async_callback(operator.close)
            await inmemory.until(lambda: peers_of(operator) == 6)

    asyncio.run(main())


def agents_on_a_path(folder):
    """a - b - c over Zenoh; a and c know no address of each other."""
    places = {name: f"127.0.0.1:{port}" for name, port in zip("abc", brokers.free_ports(3), strict=True)}
    near = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
    rng = np.random.default_rng(0)
    found = {}
    for name in near:
        connect = tuple(places[other] for other in near[name])
        section = TransportSection(listen=(places[name],), connect=connect)
        config = inmemory.config(
            name,
            near[name],
            transport=section,
            checkpoint=CheckpointSection(str(folder / name), sync=False),
        )
        X, y = rng.uniform(size=(3000, inmemory.d)), rng.uniform(size=3000)
        stream = inmemory.aiter_of(inmemory.paced(X, y, 0.02), inmemory.d)
        found[name] = Agent(config, stream=stream, out=lambda said: None)
    return found, places


def test_a_new_link_connects_two_that_had_none_and_is_known_after_a_restart(tmp_path):
    async def main():
        agents, places = agents_on_a_path(tmp_path)
        tasks = [asyncio.create_task(agent.run()) for agent in agents.values()]
        await inmemory.until(lambda: all(agent.learner.round > 3 for agent in agents.values()))
        options = ["--network", "net", "--connect", places["b"], "--yes"]
        args = cli.parser().parse_args(["graph", "a-b,b-c,c-a", *options])
        await graph._change(graph._transport(args), graph.parse(args.links), args)
        await inmemory.until(lambda: {"b", "c"} == {*agents["a"].learner.neighbours})
        await inmemory.until(lambda: {"a", "b"} == {*agents["c"].learner.neighbours})
        before = agents["a"].learner.round
        await inmemory.until(lambda: agents["a"].learner.round > before + 5)
        assert not agents["a"].peers["c"].lost
        for agent in agents.values():
            agent.stop()
        await asyncio.gather(*tasks)
        again = Agent(agents["a"].config, out=lambda said: None)
        assert again.neighbourhood.addresses == {"b": (places["b"],), "c": (places["c"],)}
        assert list(again.peers) == ["b", "c"]

    asyncio.run(main())


def test_addresses_that_others_can_use_are_announced():
    given = TransportSettings("zenoh", "net", "a", listen=("0.0.0.0:7447", "[::]:7447", "10.0.0.7:7447"))
    assert announced(given) == ("10.0.0.7:7447",)
    assert announced(dataclasses.replace(given, announce=("gate.example:7000",))) == ("gate.example:7000",)

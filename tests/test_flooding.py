"""Neighbours that send much, or what takes long to handle: time and memory stay bounded."""

from __future__ import annotations

import asyncio
import tracemalloc

import networkx as nx
import numpy as np
import pytest

import domkl
from domkl.agent import Agent, wire
from domkl.agent.lives import Life
from domkl.agent.transports.base import Counts, TransportSettings
from domkl.agent.transports.inbox import MOST_AT_ONCE, MOST_LONGEST, Inbox
from domkl.base.errors import InputError, PeerError
from domkl.exchange.topology import MOST_ALL_LINKS, MOST_LEARNERS, MOST_LINKS, MOST_NEWS, Topology
from inmemory import configs

LIFE = Life(1, 2)
#: As many unreachable learners as one message may name.
NOISE = 1000


def noise(k, links=0):
    """Announcements of learners that nobody is linked to."""
    return {f"x{k}-{j}": (1, tuple(f"y{i}" for i in range(links))) for j in range(NOISE)}


def path(length, version=1):
    """Announcements of a path that begins at the neighbour b of a."""
    names = ["a", "b", *(f"n{j}" for j in range(length))]
    near = zip(names, names[1:-1], names[2:], strict=False)
    return {name: (version, (before, after)) for before, name, after in near}


def auto(*neighbours):
    return domkl.Learner(domkl.Auto(size=40), neighbours, name="a", inputs=2)


def counted(monkeypatch, name):
    """How often a method of `Topology` is called."""
    calls, method = [], getattr(Topology, name)
    monkeypatch.setattr(Topology, name, lambda self: calls.append(1) or method(self))
    return calls


# Time


def test_the_networks_size_is_found_when_a_round_opens_and_not_for_each_message(monkeypatch):
    learner = auto("b")
    calls = counted(monkeypatch, "_diameter")
    for k in range(20):
        learner.take_links(path(50 + k, version=k))
    assert not calls
    learner.observe([0.1, 0.2], 0.3)
    assert len(calls) == 1
    assert learner._row.model.warm.learners == learner.topology.size[0] == 71
    learner.take_links({"n9": (100, ("n8", "n10"))})  # nothing new but the version
    assert learner.topology.size[0] == 71
    assert len(calls) == 1


def test_a_full_table_looks_once_a_round_for_learners_that_have_left(monkeypatch):
    node = Topology("a", ["b"])
    node.receive({"b": (0, tuple(f"x{j}" for j in range(MOST_LINKS)))})
    full = {f"x{j}": (0, ("b", *(f"y{j}-{i}" for i in range(13)))) for j in range(MOST_LINKS)}
    node.receive(full)
    node.take_news()
    calls = counted(monkeypatch, "_reach")
    for k in range(3):
        node.receive({name: (1 + k, (*near, f"z{k}")) for name, (_, near) in full.items()})
    assert len(calls) == 1


@pytest.mark.parametrize("length", [1, 2, 64, 65, 130])
def test_the_diameter_of_a_network(length):
    graph = nx.path_graph(length)
    node = Topology(0, sorted(graph.neighbors(0)))
    node.receive({name: (0, tuple(graph.neighbors(name))) for name in graph if name})
    assert node.size == (len(graph), nx.diameter(graph))


def test_messages_are_handled_in_batches_between_which_others_have_their_turn():
    batches, turns = [], []

    async def main():
        inbox = Inbox(TransportSettings("memory", "net", "a"), Counts())
        inbox.open()
        inbox.deliver(lambda messages: batches.append([payload for _, payload in messages]))
        for k in range(3 * MOST_AT_ONCE):
            inbox.add("t", bytes([k]))
        for payload in (bytes(2**20), bytes(2**20)):
            inbox.add("t", payload)
        while sum(map(len, batches)) < 3 * MOST_AT_ONCE + 2:
            await asyncio.sleep(0)
            turns.append(len(batches))

    asyncio.run(asyncio.wait_for(main(), 30))
    assert [len(batch) for batch in batches] == [MOST_AT_ONCE] * 3 + [1, 1]
    assert [payload[0] for batch in batches[:3] for payload in batch] == list(range(3 * MOST_AT_ONCE))
    assert set(turns) >= {1, 2, 3, 4, 5}


# Memory


def test_messages_that_wait_are_limited_by_their_bytes():
    async def main():
        counts = Counts()
        inbox = Inbox(TransportSettings("memory", "net", "a", max_bytes=100), counts)
        inbox.open()
        for _ in range(20):
            inbox.add("t", bytes(100))
        assert (counts.received, counts.refused) == (MOST_LONGEST, 20 - MOST_LONGEST)
        assert len(await inbox.receive()) == MOST_LONGEST
        inbox.add("t", bytes(100))
        assert counts.received == MOST_LONGEST + 1
        inbox.add("t" * 60_000, b"1")  # a broker's topics may be that long
        assert (counts.received, counts.refused) == (MOST_LONGEST + 1, 21 - MOST_LONGEST)

    asyncio.run(main())


def test_news_wait_only_of_learners_that_are_known():
    node = Topology("a", ["b"])
    for k in range(20):
        node.receive(noise(k))
        assert node.news.keys() <= node.known.keys()
        assert len(node.known) <= MOST_LEARNERS


def test_all_links_that_are_known_fit_into_a_message_also_with_more_of_our_own():
    node = Topology("a", ["b"])
    node.receive(noise(0, links=16))
    node.set_neighbours([f"n{j}" for j in range(MOST_LINKS)])
    assert sum(len(near) for _, near in node.known.values()) <= MOST_ALL_LINKS


def test_updates_that_wait_for_their_round_do_not_keep_links():
    a, b = auto("b"), domkl.Learner(domkl.Auto(size=40), ["a"], name="b", inputs=2)
    update = b.observe([0.1, 0.2], 0.3)._replace(round=5, links=path(30))
    assert a.receive("b", update)
    assert "n29" not in a.links
    assert "n20" in a.links
    assert not a._inbox[5]["b"].links


def decoder(learner):
    return wire.Decoder.of(learner.shapes, learner.fingerprint)


def hello(learner, links):
    return wire.Hello(learner.fingerprint, LIFE, 1, 0, {}, {}, False, 1, {}, links)


def test_a_message_with_too_many_links_is_refused_before_they_take_memory():
    learner = auto("b")
    near = [f"{j:04}" for j in range(MOST_LINKS)]
    for learners in (17, MOST_LEARNERS):
        message = wire._sealed(hello(learner, {f"x{j}": (0, near) for j in range(learners)}))
        tracemalloc.start()
        with pytest.raises(PeerError, match=r"too many links|malformed"):
            decoder(learner).decode(message)
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
        tracemalloc.stop()
    with pytest.raises(InputError, match="this message cannot be sent: a message has too many links"):
        wire.encode(hello(learner, {f"x{j}": (0, near) for j in range(17)}))


def test_the_largest_network_fits_into_a_hello():
    learner = auto("b")
    names = [f"{j:064}" for j in range(MOST_LEARNERS)]
    links = dict.fromkeys(names, (2**62, names[: MOST_ALL_LINKS // MOST_LEARNERS]))
    lives = dict.fromkeys(names, Life(2**62, 2**62))
    held = {name: domkl.exchange.edges.Held(*[2**50] * 5) for name in names}
    full = hello(learner, links)
    full = wire.msgspec.structs.replace(full, wants=dict.fromkeys(names, 2**51), edges=held, lives=lives)
    full = wire.msgspec.structs.replace(full, ended=dict.fromkeys(names, 2**51), rivals=names)
    assert decoder(learner).decode(wire.encode(full)) == full


# What one neighbour sends does not make others refuse us


def test_an_update_passes_on_no_more_than_others_accept_and_the_rest_with_the_next():
    learner = auto("b")
    learner.take_links(noise(0))
    learner.take_links(noise(1))
    learner.take_links({"b": (1, ("a", "c"))})
    known, sent = {}, []
    while learner.topology.news:
        update = learner.observe([0.1, 0.2], 0.3)
        learner.close()
        sent.append(sum(1 + len(near) for _, near in update.links.values()))
        known |= decoder(learner).decode(wire.encode_update(update, LIFE, 0)).update.links
    assert known == learner.links
    assert "b" in known
    assert max(sent) <= MOST_NEWS


def test_a_learner_with_very_many_links_still_announces_them():
    node = Topology("a", [f"n{j}" for j in range(MOST_LINKS)])
    node.receive({"n0": (0, ("a",))})
    assert [*node.take_news()] == ["a"]
    assert [*node.take_news()] == ["n0"]


@pytest.mark.parametrize("learners", [MOST_LEARNERS + 1, 17])
def test_an_update_that_others_would_refuse_is_not_sent(learners):
    near = ("b",) * MOST_LINKS if learners == 17 else ()
    update = domkl.Update(1, np.zeros((1, 2)), None, "f00d", {}, 1, None)
    update = update._replace(links={f"x{j}": (0, near) for j in range(learners)})
    with pytest.raises(InputError, match="edges or links are too many; expected 1024 learners and 16384"):
        wire.encode_update(update, LIFE, 0)


# A stream that has ended


def test_a_neighbour_whose_stream_has_ended_does_not_go_on_in_the_same_life():
    agent = Agent(next(iter(configs(nx.path_graph(2), model=domkl.Auto(size=40)))))
    peer, learner = agent.peers["l1"], agent.learner
    for done, round in [(False, 3), (True, 4), (False, 4), (True, 9)]:
        said = hello(learner, {})
        agent.conversation._receive_hello(peer, wire.msgspec.structs.replace(said, done=done, round=round))
    assert peer.done == 4
    peer.note_message(Life(2, 2), 0, 0)
    assert peer.done is None

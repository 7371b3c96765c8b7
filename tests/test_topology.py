"""What learners find out about the network: who is in it, how far apart, and what liars can do about it."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings

import problems
from domkl.base.errors import PeerError
from domkl.exchange import topology
from domkl.exchange.topology import (
    MOST_AHEAD,
    MOST_ALL_LINKS,
    MOST_DIAMETER,
    MOST_LEARNERS,
    MOST_LINKS,
    MOST_VERSION,
    Topology,
)
from domkl.learning.auto import C
from domkl.learning.auto.warmup import WarmUp


def network(graph):
    return {name: Topology(name, sorted(graph.neighbors(name))) for name in graph}


def flood(nodes, rounds):
    """Rounds in which every learner tells its neighbours its news, all at once."""
    for _ in range(rounds):
        news = {name: node.take_news() for name, node in nodes.items()}
        for name, node in nodes.items():
            for neighbour in node.known[name][1]:
                if neighbour in nodes:
                    nodes[neighbour].receive(news[name])


@settings(max_examples=60, deadline=None)
@given(problems.graphs(most=9))
def test_after_as_many_rounds_as_its_diameter_everybody_knows_the_network(graph):
    nodes, diameter = network(graph), nx.diameter(graph)
    flood(nodes, diameter)
    for node in nodes.values():
        assert node.is_complete
        assert node.size == (len(graph), diameter)
        assert node.members == sorted(graph)
    flood(nodes, 1)
    assert not any(node.news for node in nodes.values())


@settings(max_examples=20, deadline=None)
@given(problems.graphs(most=9).filter(lambda graph: nx.diameter(graph) > 1))
def test_before_that_somebody_does_not(graph):
    nodes = network(graph)
    flood(nodes, nx.diameter(graph) - 1)
    assert not all(node.is_complete for node in nodes.values())


def test_names_are_in_one_order_everywhere():
    graph = nx.relabel_nodes(nx.path_graph(12), lambda j: f"n{j}")
    nodes = network(graph)
    flood(nodes, 11)
    assert {tuple(node.members) for node in nodes.values()} == {tuple(f"n{j}" for j in range(12))}


def set_edges(nodes, graph, *names):
    for name in names:
        nodes[name].set_neighbours(sorted(graph.neighbors(name)))


def test_who_joins_is_told_everything_and_who_leaves_is_forgotten():
    graph = nx.path_graph(4)
    nodes = network(graph)
    flood(nodes, 4)
    graph.add_edge(3, 4)
    nodes[4] = Topology(4, [3])
    set_edges(nodes, graph, 3)
    flood(nodes, 4)
    assert {node.size for node in nodes.values()} == {(5, 4)}
    graph.add_edge(4, 0)
    set_edges(nodes, graph, 0, 4)
    flood(nodes, 4)
    assert {node.size for node in nodes.values()} == {(5, 2)}
    graph.remove_node(2)
    del nodes[2]  # it is gone without a word
    set_edges(nodes, graph, 1, 3)
    flood(nodes, 4)
    assert {node.size for node in nodes.values()} == {(4, 3)}
    assert all(node.is_complete for node in nodes.values())


def test_who_starts_again_without_its_state_outruns_its_past():
    graph = nx.path_graph(3)
    nodes = network(graph)
    flood(nodes, 2)
    graph.remove_edge(0, 1)
    for links in ([0], [0, 2], [2]):
        nodes[1].set_neighbours(links)
    flood(nodes, 2)
    nodes[1] = Topology(1, [0, 2])
    nodes[0].set_neighbours([1])
    nodes[1].receive(nodes[2].known)
    flood(nodes, 3)
    assert {node.known[1][1] for node in nodes.values()} == {(0, 2)}


@pytest.mark.parametrize("ahead", [0, 1, 1000, MOST_AHEAD, MOST_AHEAD + 1, MOST_VERSION])
def test_forged_links_of_ones_own_do_not_win_whatever_their_version(ahead):
    nodes = network(nx.path_graph(4))
    flood(nodes, 4)
    for _ in range(3):
        forged = min(nodes[1].known[1][0] + ahead, MOST_VERSION), ("mallory",)
        nodes[3].receive({1: forged})
        flood(nodes, 8)
    assert {node.known[1][1] for node in nodes.values()} == {(0, 2)}
    assert {node.size for node in nodes.values()} == {(4, 3)}
    assert not any(node.news for node in nodes.values())  # and the quarrel has an end


def test_old_announcements_change_nothing():
    nodes = network(nx.path_graph(3))
    flood(nodes, 3)
    nodes[0].set_neighbours([1, 2])
    nodes[0].set_neighbours([1])
    flood(nodes, 3)
    nodes[2].receive({0: (1, (1, 2))})
    assert nodes[2].known[0] == (2, (1,))
    assert not nodes[2].news


@pytest.mark.parametrize(
    "links",
    [
        (2**63 - 1, ("b",)),
        (MOST_VERSION + 1, ("b",)),
        (-1, ("b",)),
        (1.0, ("b",)),
        (True, ("b",)),
        ("1", ("b",)),
        (1,),
        (1, "bc"),
        (1, None),
        (1, ([],)),
        (1, tuple(range(MOST_LINKS + 1))),
        None,
    ],
)
def test_what_is_no_announcement_is_refused_in_one_line_and_nothing_of_it_is_kept(links):
    node = Topology("a", ["b"])
    node.take_news()
    with pytest.raises(PeerError, match=r"links of 'c' are .*; expected a version and names;") as error:
        node.receive({"b": (0, ("a", "c")), "c": links})
    assert "\n" not in str(error.value)
    assert set(node.known) == {"a"}
    assert not node.news


def test_memory_and_time_are_bounded_whatever_is_announced():
    node = Topology("a", ["b"])
    node.receive({"b": (0, tuple(f"x{j}" for j in range(MOST_LINKS)))})
    for k in range(20):
        many = {f"x{100 * k + j}": (0, tuple(f"y{k}-{j}-{i}" for i in range(9))) for j in range(100)}
        node.receive(many)
    assert len(node.known) == MOST_LEARNERS
    assert node.size == (MOST_LEARNERS, 2)
    assert len(node.members) == MOST_LEARNERS


def test_all_links_together_are_bounded_so_that_they_fit_into_a_message():
    node = Topology("a", ["b"])
    node.receive({"b": (0, tuple(f"x{j}" for j in range(MOST_LINKS)))})
    for j in range(100):
        node.receive({f"x{j}": (0, tuple(f"y{j}-{i}" for i in range(MOST_LINKS)))})
    assert MOST_ALL_LINKS - MOST_LINKS < sum(len(near) for _, near in node.known.values()) <= MOST_ALL_LINKS


def test_a_forged_diameter_cannot_make_the_warm_up_longer():
    node = Topology("x0", ["x1"])
    node.receive({f"x{j}": (0, (f"x{j - 1}", f"x{j + 1}")) for j in range(1, MOST_LEARNERS)})
    assert node.size == (MOST_LEARNERS, MOST_DIAMETER)
    assert WarmUp(1, *node.size).fixed == WarmUp(1, 2, 1).fixed == C.warm_up


def test_learners_that_have_left_make_room_for_others(monkeypatch):
    monkeypatch.setattr(topology, "MOST_LEARNERS", 4)
    node = Topology("a", ["b"])
    for k in range(20):
        node.receive({"b": (k, ("a", f"c{k}")), f"c{k}": (0, ("b",))})
        assert node.members == ["a", "b", f"c{k}"]
        assert node.is_complete
        node.take_news()  # once for each message of ours


def test_a_restored_topology_knows_what_it_knew_and_tells_it_again():
    node = Topology("a", ["b"])
    node.receive({"b": (3, ("a", "c"))})
    again = Topology("a", ["z"])
    again.restore(node.state())
    assert again.known == node.known == again.take_news()
    assert again.size == (3, 2)

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

import problems
from domkl.base.errors import InputError
from domkl.exchange import graph


@given(problems.graphs())
def test_every_description_of_a_graph_means_the_same(network):
    expected = tuple(tuple(n) for n in problems.neighbours_of(network))
    J = len(network)
    adjacency = nx.to_numpy_array(network, nodelist=range(J))
    for description in (
        network,
        adjacency,
        adjacency.astype(bool),
        list(network.edges),
        np.array(network.edges),
        *([adjacency.astype(int).tolist(), tuple(adjacency)] if J > 2 else []),
    ):
        assert graph.as_graph(description, J).neighbours == expected


def test_sparse_adjacencies_are_read():
    class Sparse:  # all that we ask of a scipy matrix
        def toarray(self):
            return np.array([[0, 1], [1, 0]])

    assert graph.as_graph(Sparse()).edges == [(0, 1)]


def test_a_square_array_is_read_by_the_number_of_learners():
    two_edges = np.array([[0, 1], [1, 2]])
    for edges in (two_edges, two_edges.astype(float)):
        assert graph.as_graph(edges, 3).edges == [(0, 1), (1, 2)]
    with pytest.raises(InputError, match="values other than 0 and 1"):
        graph.as_graph(two_edges)
    both = np.array([[0, 1], [1, 0]])
    assert graph.as_graph(both).edges == graph.as_graph(both, 2).edges == [(0, 1)]
    with pytest.raises(InputError, match="the graph has 4 learners but the data has 3"):
        graph.as_graph(nx.to_numpy_array(nx.cycle_graph(4)), 3)
    with pytest.raises(InputError, match="not symmetric"):
        graph.as_graph([[0, 1, 0], [0, 0, 1], [0, 1, 0]], 3)


def test_sparse_adjacencies_must_be_square():
    class Sparse:
        def toarray(self):
            return np.ones((2, 3))

    with pytest.raises(InputError, match=r"the adjacency is \(2, 3\); expected \(J, J\)"):
        graph.as_graph(Sparse(), 3)


def test_whole_number_nodes_are_learners_by_number_whatever_their_order():
    assert graph.as_graph(nx.Graph([(2, 0), (0, 1)])).neighbours == ((1, 2), (0,), (0,))


def test_named_nodes_keep_their_order():
    network = graph.as_graph([("ewr", "jfk"), ("jfk", "lga")])
    assert network.names == ("ewr", "jfk", "lga")
    assert network.is_tree


def test_shapes():
    assert graph.named("ring", 2).edges == [(0, 1)]
    assert len(graph.named("complete", 5).edges) == 10
    assert graph.named("star", 4).deg.tolist() == [3, 1, 1, 1]
    assert graph.named("path", 1).neighbours == ((),)


def test_the_papers_networks_are_marked_as_inferred():
    networks = [graph.paper(n) for n in (1, 2, 3, 4)]
    assert [n.note for n in networks] == ["inferred"] * 4
    assert [n.deg.tolist() for n in networks] == [[2, 2, 2], [2, 1, 1], [4] * 5, [1, 4, 1, 1, 1]]
    assert graph.as_graph("paper4", 5) == networks[3]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (nx.Graph([(0, 1), (2, 3)]), "not connected: no path leads from learner 0 to 2"),
        (nx.Graph([(0, 0), (0, 1)]), "learner 0 is linked to itself"),
        ([(0, 1)], "learner 2 has no neighbour"),
        (nx.DiGraph([(0, 1), (1, 2)]), "directed"),
        (np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]]), "not symmetric"),
        (np.array([[0, 0.5, 0], [0.5, 0, 1], [0, 1, 0]]), "values other than 0 and 1"),
        (np.eye(3), "linked to itself"),
        (7, "cannot be read"),
        ([(0, 1, 2)], "cannot be read"),
        ([], "learner 0 has no neighbour"),
        (nx.Graph(), "no learners"),
        ("rign", "graph is 'rign'.*did you mean 'ring'"),
        (nx.cycle_graph(4), "the graph has 4 learners but the data has 3"),
    ],
)
def test_graphs_that_no_network_can_be_are_refused(bad, message):
    with pytest.raises(InputError, match=message):
        graph.as_graph(bad, J=3)


def test_other_refusals():
    with pytest.raises(InputError, match="needs a number of learners"):
        graph.as_graph("ring")
    with pytest.raises(InputError, match="paper network is 'paper5'"):
        graph.paper(5)

"""Random problems for the tests: graphs, streams, kernels, rates."""

from __future__ import annotations

import dataclasses

import networkx as nx
import numpy as np
from hypothesis import strategies as st

import domkl
from domkl import engines

#: The engines that can run here.
ENGINES = ["numpy"] if engines.available() else ["numpy", "native"]
#: The kinds of the paper's learner: of every engine, and of the second order.
DEVICES = [{"engine": engine, **order} for engine in ENGINES for order in ({}, {"step": "newton"})]
#: What `domkl.Paper` takes; the rest is for `simulate` and `Learner`.
OF_PAPER = {field.name for field in dataclasses.fields(domkl.Paper)}


@st.composite
def graphs(draw, most=6, tree=False):
    """A random connected graph of 2..most learners."""
    J = draw(st.integers(2, most))
    graph = nx.from_edgelist([(j, draw(st.integers(0, j - 1))) for j in range(1, J)])
    if not tree:
        pairs = [(j, i) for j in range(J) for i in range(j)]
        graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), max_size=6)))
    return graph


@st.composite
def rates(draw):
    positive = st.floats(0.05, 20)
    return domkl.Rates(rho=draw(positive), eta=draw(positive), eta_g=draw(positive))


@st.composite
def losses(draw):
    """A loss of domkl, with the arguments the naive twin wants."""
    kind = draw(st.sampled_from(["squared", "ridge", "huber", "logistic"]))
    reg = draw(st.floats(0.001, 1)) if kind == "ridge" else draw(st.sampled_from([0.0, 0.1]))
    if kind == "huber":
        delta = draw(st.floats(0.1, 2))
        return domkl.losses.huber(delta, reg), {"kind": "huber", "delta": delta, "reg": reg}
    if kind == "logistic":
        return domkl.losses.logistic(reg), {"kind": "logistic", "reg": reg}
    return domkl.losses.squared(reg), {"kind": "squared", "reg": reg}


@st.composite
def dictionaries(draw, d):
    make = draw(st.sampled_from([domkl.kernels.gaussian, domkl.kernels.laplacian, domkl.kernels.cauchy]))
    sigma2 = draw(st.lists(st.floats(0.1, 10), min_size=1, max_size=4))
    return make(d, D=draw(st.integers(1, 6)), seed=draw(st.integers(0, 99)), sigma2=sigma2)


def streams(J, T, d, seed=0, classify=False):
    """A smooth function of d inputs plus noise; labels of -1 and +1 where `classify`."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(J, T, d))
    y = np.sin(2 * X[..., 0]) + X.sum(-1) / d + 0.1 * rng.standard_normal((J, T))
    return X, np.where(y > 0, 1.0, -1.0) if classify else y


@st.composite
def problems(draw, tree=False):
    """Everything `simulate` takes, and the same for the naive twin."""
    graph = draw(graphs(tree=tree))
    d, T = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    loss, naive_loss = draw(losses())
    X, y = streams(len(graph), T, d, draw(st.integers(0, 9999)), loss.classifies)
    X = np.asarray(X, order=draw(st.sampled_from("CF")))
    return X, y, graph, draw(dictionaries(d)), draw(rates()), loss, naive_loss


def paper(**options):
    """The paper's model, and the options that are not its own but of `simulate` or `Learner`."""
    own = {name: value for name, value in options.items() if name in OF_PAPER}
    return domkl.Paper(**own), {name: value for name, value in options.items() if name not in own}


def simulate_paper(X, y, graph, **options):
    """`simulate` of the paper's model, all options in one."""
    model, how = paper(**options)
    return domkl.simulate(X, y, graph, model=model, **how)


def learners(graph, model, **options):
    """A learner for each node of a graph 0..J-1."""
    near = neighbours_of(graph)
    return [domkl.Learner(model, near[j], name=j, **options) for j in range(len(near))]


def taught(model, X, y):
    """A model's predictions, each made before its label is learnt."""
    y_hat = []
    for x, label in zip(X, y, strict=True):
        y_hat.append(model.predict(x))
        model.learn(x, label)
    return np.array(y_hat)


def neighbours_of(graph):
    return [sorted(graph.neighbors(j)) for j in range(len(graph))]


def feed(learners, names, graph, x, y, rng):
    """One round of a set of Learners, with updates delivered in random order."""
    updates = {j: learners[j].observe(x[j], y[j]) for j in range(len(learners))}
    post = [(j, i) for j in range(len(learners)) for i in graph.neighbors(j)]
    rng.shuffle(post)
    for sender, receiver in post:
        learners[receiver].receive(names[sender], updates[sender])


def fed(learners, graph, X, y, rng):
    """What learners predict in rounds in which nothing is lost. (J, T)"""
    y_hat = np.empty_like(y)
    for t in range(y.shape[1]):
        feed(learners, range(len(learners)), graph, X[:, t], y[:, t], rng)
        y_hat[:, t] = [learner.step.y_hat for learner in learners]
    return y_hat


def online(graph, d, **settings):
    """Rows of `Auto` over a graph, a round at a time; of one device where the graph is None."""
    from domkl.faces.online import OnlineRows

    network = {} if graph is None else {"graph": domkl.graph.as_graph(graph)}
    return OnlineRows(domkl.Auto(**{"size": 160, **settings}), d, **network)

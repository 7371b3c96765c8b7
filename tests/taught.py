"""Models that were taught alone, and learners that start from them."""

from __future__ import annotations

import networkx as nx
import numpy as np

import domkl
import problems
from domkl.learner import handed

D = 3
NAMES = ("wind", "hour", "rain")
MODELS = {"auto": domkl.Auto(size=120), "paper": domkl.Paper()}
#: The paper's learner hands over, and goes on, in float32.
ROUNDING = {"auto": 1e-9, "paper": 1e-4}


def samples(T, seed=0, classify=False):
    """In units of their own: inputs in the thousands, targets far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1000, size=(T, D)) * [1, 1e-3, 1e3]
    y = np.sin(X[:, 0] / 200) + X[:, 1] + 0.05 * rng.standard_normal(T)
    return (X, (y > 1).astype(int)) if classify else (X, 5000 + 300 * y)


def streams(J, T, seed=3):
    """Samples of J learners: X (J, T, D) and y (J, T)."""
    return tuple(np.reshape(v, (J, T, *v.shape[1:])) for v in samples(J * T, seed))


def rows(X):
    """Samples as dictionaries."""
    return [dict(zip(NAMES, x, strict=True)) for x in X]


def taught_in_river(kind, T=300, classify=False, model=None):
    from domkl import river

    face = river.MultiKernelClassifier if classify else river.MultiKernelRegressor
    made = face(MODELS[kind] if model is None else model)
    X, y = samples(T, classify=classify)
    for x, label in zip(rows(X), y.tolist(), strict=True):
        made.learn_one(x, label)
    return made


def taught(kind, T=300):
    """A model as the learners of a network get it; its inputs have no names."""
    model, (X, y) = domkl.DOMKL(model=MODELS[kind]), samples(T)
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
    return model._learning.handed()


def read_back(model, folder):
    """The model as it comes out of its file."""
    model.hand_over(folder / "a.model")
    return handed.read(folder / "a.model")


def ordered(model, X):
    """Columns as the model has them."""
    return X[..., [NAMES.index(name) for name in model.names]]


def alone(model, **options):
    return domkl.Learner(model, name="a", **options)


def ring(model, J, **options):
    """J learners that begin with it."""
    return members(model, nx.cycle_graph(J), **options)


def members(model, graph, **options):
    near = problems.neighbours_of(graph)
    made = [domkl.Learner(model, near[j], name=j, **options) for j in graph]
    return graph, made


def feed(group, graph, x, y, t):
    problems.feed(group, [*graph], graph, x, y, np.random.default_rng(t))

"""Networks of small learners without settings, on devices and in one process."""

from __future__ import annotations

import numpy as np

import domkl
import problems
from domkl import engines
from domkl.exchange.network import Network
from domkl.learning.auto import AutoRows

SIZE = 60


def learners(graph, d, **options):
    """Learners called 0, 1, ... who know the whole network."""
    given = {"size": SIZE, **options}
    model = domkl.Auto(**{name: given.pop(name) for name in [*given] if name in ("size", "loss", "seed")})
    return problems.learners(graph, model, inputs=d, **given)


def simulated(graph, X, y, engine="auto", loss="squared", exchange=None):
    """The same network in one process: what it predicts, and its rows."""
    network = Network(domkl.graph.as_graph(graph), exchange or domkl.Exchange())
    about = domkl.Auto(size=SIZE, loss=loss), len(y), X.shape[-1], network.neighbours.weight
    rows = AutoRows(*about, len(y), network.diameter, diagonal=engines.make_inverse(engine))
    y_hat = np.empty_like(y)
    for t in range(y.shape[1]):
        prediction = rows.predict(X[:, t])
        y_hat[:, t] = prediction.y_hat
        rows.merge(network.exchange_round(rows, rows.learn(prediction, y[:, t])))
    return y_hat, rows


def duals(members):
    return np.abs(np.concatenate([member.state.lam for member in members]).sum(0)).max()


def scales(members):
    return {member._row._number for member in members}

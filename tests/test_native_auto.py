"""The native `Auto` against the NumPy form, which is the reference: same numbers, whatever happens."""

from __future__ import annotations

import numpy as np
import pytest

import domkl
from domkl.engines import available
from domkl.exchange.graph import as_graph
from domkl.exchange.message import Exchange
from domkl.exchange.network import Network
from domkl.learning.auto import AutoRows

if available():
    pytest.skip("the native engine was not built", allow_module_level=True)

from domkl.engines.native_auto import NativeAuto


def rounds(kind, settings, X, y, graph="ring", delay=0, dtype=np.float64, each=None):
    """Every round's predictions, whole and apart (T, 2, J, m), and the rows."""
    J, T, d = X.shape
    network = Network(as_graph(graph, J), Exchange())
    near = network.neighbours
    rows = kind(settings, d, network.graph.names, near.weight, near.deg, dtype, y.shape[2])
    found, waiting = [], []
    for t in range(T):
        prediction = rows.predict(X[:, t])
        found.append([prediction.whole.y, prediction.apart.y])
        waiting.append((prediction, X[:, t], y[:, t]))
        if t >= delay:
            earlier, x, label = waiting.pop(0)
            now = rows.predict(x) if delay else earlier
            rows.merge(network.exchange_round(rows, rows.learn(now, label, earlier)))
        if each is not None:
            each(rows, t)
    return np.array(found), rows


def stream(seed, J, T, d, m, missing=0.0):
    """Inputs of odd scales, some constant or missing, a world that changes, and labels that are wrong."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((J, T, d)) * 10.0 ** rng.integers(-3, 4, d)
    X[..., 0] = np.round(X[..., 0])
    W = rng.standard_normal((2, m, d)) / X.std((0, 1)).clip(1e-3)
    y = np.einsum("jtd,md->jtm", X, W[0]) + 0.1 * rng.standard_normal((J, T, m))
    y[:, T // 2 :] = np.einsum("jtd,md->jtm", X[:, T // 2 :], W[1])
    y[rng.random(y.shape) < 0.01] += 1e4
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


@pytest.mark.parametrize("seed", range(6))
def test_it_predicts_what_numpy_does(seed):
    rng = np.random.default_rng(seed)
    J, d, m, delay = (int(rng.integers(low, high)) for low, high in ((1, 5), (1, 7), (1, 4), (0, 4)))
    size, loss = int(rng.integers(16, 150)), "squared" if seed % 3 else "logistic"
    X, y = stream(seed, J, 330, d, m, missing=0.05 * (seed % 2))
    y = np.sign(y - np.median(y)) if loss == "logistic" else y
    settings = domkl.Auto(size=size, loss=loss, seed=seed)
    expected, numpy = rounds(AutoRows, settings, X, y, delay=delay)
    found, native = rounds(NativeAuto, settings, X, y, delay=delay)
    # Labels that the first samples predict without any error are divided by their noise, which is none.
    close = 1e-9 if loss == "squared" else 1e-6
    np.testing.assert_allclose(found, expected, rtol=0, atol=close * np.ptp(y))
    assert native.restarts.tolist() == numpy.restarts.tolist()
    assert native.restarts.min() > 0

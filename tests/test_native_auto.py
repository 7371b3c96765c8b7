"""The native `Auto` against the NumPy form, which is the reference: same numbers, whatever happens."""

from __future__ import annotations

import pickle

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
from domkl.models.settings import Means, make_rows


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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_and_questions_in_between_change_no_bit(dtype):
    X, y = stream(0, 1, 300, 3, 1)
    one_by_one, asked = rounds(
        NativeAuto, domkl.Auto(size=60), X, y, "path", dtype=dtype, each=lambda rows, t: rows.predict(X[:, 0])
    )
    rows = NativeAuto(domkl.Auto(size=60), 3, dtype=dtype)
    found = np.hstack([rows.rounds(X[:, t : t + 70], y[:, t : t + 70]).y_hat for t in range(0, 300, 70)])
    assert found[0, :, 0].tolist() == one_by_one[:, 0, 0, 0].tolist()
    assert np.array_equal(rows.predict(X[:, 0]).y_hat, asked.predict(X[:, 0]).y_hat)


def test_a_state_goes_on_with_the_same_bits_and_moves_to_numpy():
    X, y = stream(1, 3, 120, 2, 2)
    settings, network = domkl.Auto(size=50), Network(as_graph("ring", 3), Exchange())
    near = network.neighbours
    given = settings, 2, network.graph.names, near.weight, near.deg, np.float64, 2
    _, taught = rounds(NativeAuto, settings, X, y)
    native, numpy, copied = NativeAuto(*given), AutoRows(*given), pickle.loads(pickle.dumps(taught))
    for rows in (native, numpy):
        rows.restore(taught.state())
    for t in range(40):
        expected, *others = (rows.predict(X[:, t]) for rows in (taught, native, copied, numpy))
        assert expected.whole.y.tolist() == others[0].whole.y.tolist() == others[1].whole.y.tolist()
        np.testing.assert_allclose(others[2].whole.y, expected.whole.y, rtol=0, atol=1e-9 * np.ptp(y))
        for rows, prediction in zip((taught, native, copied, numpy), (expected, *others), strict=True):
            rows.learn(prediction, y[:, t])


def test_the_engine_is_chosen():
    for engine, kind in (("auto", NativeAuto), ("native", NativeAuto), ("numpy", AutoRows)):
        assert type(make_rows(domkl.Auto(size=16), 1, 1, np.float64, 1, Means(engine))) is kind

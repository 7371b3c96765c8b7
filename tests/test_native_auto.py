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
from domkl.models.settings import Means
from domkl.simulator.driver import connected


class Liars(Network):
    """Device 0 sends another sign."""

    def delivered(self, own):
        theta = own["theta"].copy()
        theta[0] *= -1
        return {**own, "theta": theta}


def rounds(kind, settings, X, y, graph="ring", delay=0, dtype=np.float64, each=None, network=Network):
    """Every round's predictions, whole and apart (T, 2, J, m), and the rows."""
    J, T, d = X.shape
    network = network(as_graph(graph, J), Exchange())
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


def test_it_does_not_believe_whom_numpy_does_not():
    X, y = stream(2, 4, 200, 3, 1)
    expected, numpy = rounds(AutoRows, domkl.Auto(size=60), X, y, "complete", network=Liars)
    found, native = rounds(NativeAuto, domkl.Auto(size=60), X, y, "complete", network=Liars)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.ptp(y))
    np.testing.assert_allclose(native.consensus.lam, numpy.consensus.lam, atol=1e-9)


def simulated(engine, X, y, graph, pieces=(), dtype=np.float64, threads=1):
    """A network's stream in pieces of so many rounds, or round by round: predictions, those alone and gaps
    (T, 3, J, m), the rows and the network."""
    network = Network(as_graph(graph, len(X)), Exchange())
    rows = connected(domkl.Auto(size=60), X.shape[2], network, dtype, y.shape[2], Means(engine, threads))
    found, start = [], 0
    for piece in pieces:
        seen = rows.rounds(X[:, start : start + piece], y[:, start : start + piece], network)
        found += [*np.stack([seen.y_hat, seen.alone, seen.gaps[..., 0]]).transpose(2, 0, 1, 3)]
        start += piece
    for t in range(start, X.shape[1]):
        prediction = rows.predict(X[:, t])
        gaps = network.gaps(rows, prediction)[..., 0]
        found.append([prediction.y_hat, rows.alone(prediction), gaps])
        rows.merge(network.exchange_round(rows, rows.learn(prediction, y[:, t])))
    return np.array(found), rows, network


def turning(seed, J, m):
    """A stream in which nobody can believe device 0 for a while."""
    X, y = stream(seed, J, 330, 3, m)
    y[0, 100:140] *= -1
    return X, y


@pytest.mark.parametrize("loss", ["squared", "classes"])
@pytest.mark.parametrize("J", [1, 3])
def test_missing_labels_weights_and_classes_are_learnt_as_in_numpy(J, loss):
    X, y = stream(7, J, 250, 3, 3)
    rng = np.random.default_rng(0)
    y = np.eye(3)[y.argmax(-1)] if loss == "classes" else y
    y[rng.random(y.shape) < 0.2] = np.nan
    y[0, 50:60] = np.nan
    weights = rng.integers(0, 3, (250, J)).astype(float)
    found = []
    for engine in ("numpy", "native"):
        network = Network(as_graph("path", J), Exchange())
        rows = connected(domkl.Auto(size=60, loss=loss), 3, network, np.float64, 3, Means(engine))
        for t in range(250):
            prediction = rows.predict(X[:, t])
            found.append(prediction.y_hat)
            weight = weights[t] if t > 150 else None
            rows.merge(network.exchange_round(rows, rows.learn(prediction, y[:, t], None, weight)))
    expected, found = np.reshape(found, (2, -1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.nanmax(np.abs(y)))


@pytest.mark.parametrize(("graph", "J", "m"), [("ring", 5, 1), ("complete", 7, 2), ("star", 4, 1)])
def test_a_network_at_once_is_that_of_numpy(graph, J, m):
    X, y = turning(J, J, m)
    expected, numpy, slow = simulated("numpy", X, y, graph)
    found, native, fast = simulated("native", X, y, graph, [1, 99, 230])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.ptp(y))
    np.testing.assert_allclose(native.consensus.lam, numpy.consensus.lam, atol=1e-9)
    np.testing.assert_allclose(fast.duals.dual, slow.duals.dual, atol=1e-8)
    assert fast.used.tolist() == slow.used.tolist()
    assert 0 < fast.believed.min() < 1
    assert (fast.judged, fast.sent, fast.bytes) == (slow.judged, slow.sent, slow.bytes)
    assert [ends.tolist() for ends in fast.duals.ends] == [ends.tolist() for ends in slow.duals.ends]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_network_at_once_has_the_bits_of_messages_in_numpy(dtype):
    X, y = turning(3, 4, 2)
    y[np.random.default_rng(0).random(y.shape) < 0.1] = np.nan
    expected, alike, _ = simulated("native", X, y, "complete", dtype=dtype)
    found, rows, _ = simulated("native", X, y, "complete", [40] * 8, dtype=dtype, threads=2)
    assert found[:, :2].tolist() == expected[:, :2].tolist()
    assert rows.consensus.lam.tolist() == alike.consensus.lam.tolist()


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
        assert type(domkl.Auto(size=16).make(1, 1, np.float64, 1, Means(engine))) is kind


@pytest.mark.parametrize("make", [lambda n: np.empty(n, np.float32), lambda n: np.empty(2 * n)[::2]])
def test_what_is_written_to_is_no_copy(make):
    """Numbers written to one would be lost."""
    _, rows = rounds(NativeAuto, domkl.Auto(size=20), *stream(0, 1, 5, 2, 1))
    with pytest.raises(TypeError):
        rows.native.predict(np.zeros((1, 2)), make(rows.native.size))
    rows.native.predict(np.zeros((1, 2), np.float32), np.empty(rows.native.size))

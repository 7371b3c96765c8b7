"""Messages that are changed on their way: simulator and devices have the same bits, for every model."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest

import domkl
import problems
from domkl.base.errors import InputError

PAPER = domkl.Paper(kernels=domkl.kernels.gaussian(2, 5, sigma2=[0.3, 3.0]), rates=domkl.Rates(0.1, 0.1, 1.0))
MODELS = {"auto": domkl.Auto(size=60), "paper": PAPER}


def clipped(own, others):
    """A screen: nobody's parameters count as further away than this."""
    return own + np.clip(others - own, -0.05, 0.05)


def devices(model, graph, X, y, exchange):
    near = problems.neighbours_of(graph)
    common = {"inputs": X.shape[-1], "engine": "numpy", "exchange": exchange}
    learners = [domkl.Learner(model, near[j], name=j, **common) for j in range(len(near))]
    domkl.introduce(learners)
    y_hat = np.empty_like(y)
    for t in range(y.shape[1]):
        problems.feed(learners, range(len(near)), graph, X[:, t], y[:, t], random.Random(t))
        y_hat[:, t] = [learner.step.y_hat for learner in learners]
    return y_hat


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "exchange",
    [domkl.Exchange("float32"), domkl.Exchange("float16"), domkl.Exchange(screen=clipped)],
    ids=["float32", "float16", "screen"],
)
def test_devices_have_the_simulators_bits_whatever_is_done_to_messages(kind, exchange):
    graph, model = nx.cycle_graph(5), MODELS[kind]
    X, y = problems.streams(5, 90, 2)
    run = domkl.simulate(X, y, graph, model=model, exchange=exchange, engine="numpy")
    np.testing.assert_array_equal(devices(model, graph, X, y, exchange), run.y_hat)
    plain = domkl.simulate(X, y, graph, model=model, engine="numpy")
    assert not np.array_equal(plain.y_hat, run.y_hat)
    assert np.abs(plain.y_hat - run.y_hat).max() < 1


def test_engines_that_send_messages_as_they_are_say_so():
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match="sends messages as they are"):
        domkl.simulate(X, y, "ring", model=PAPER, exchange=domkl.Exchange("float16"), engine="native")


@pytest.mark.parametrize("kind", MODELS)
def test_bytes_follow_the_payload(kind):
    X, y = problems.streams(3, 20, 2)
    full, half = (
        domkl.simulate(X, y, "ring", model=MODELS[kind], exchange=domkl.Exchange(payload))
        for payload in ("float64", "float32")
    )
    assert full.sent == half.sent > 0
    assert full.bytes == pytest.approx(8 * full.sent)
    assert half.bytes < 0.8 * full.bytes


def test_an_unknown_payload_is_refused():
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match="payload is 'float8'"):
        domkl.simulate(X, y, "ring", exchange=domkl.Exchange("float8"))


def test_labels_with_a_target_axis_keep_it():
    X, y = problems.streams(3, 20, 2)
    run = domkl.simulate(X, y[..., None], "ring", model=MODELS["auto"])
    assert run.y_hat.shape == (3, 20, 1)
    np.testing.assert_array_equal(run.y_hat[..., 0], domkl.simulate(X, y, "ring", model=MODELS["auto"]).y_hat)
    with pytest.raises(InputError, match="y has 2 targets; expected one"):
        domkl.simulate(X, np.stack([y, y], -1), "ring")

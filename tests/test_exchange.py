"""What leaves a learner and how it is combined: rounded, screened, and by every rule."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import problems
from domkl import engines
from domkl.base.errors import InputError
from domkl.exchange.combine import Neighbours
from domkl.exchange.graph import as_graph
from domkl.exchange.message import Layout
from domkl.learning import losses
from domkl.learning.model import Part

V = domkl.kernels.gaussian(2, D=5, sigma2=[0.3, 3.0])
RATES = domkl.Rates(0.5, 0.5, 1.0)


def near_by(own, others):
    """Keeps what others send within a short distance."""
    return own + np.clip(others - own, -0.02, 0.02)


MODELS = {
    "first": domkl.Paper(kernels=V, rates=RATES),
    "messages": domkl.Paper(kernels=V, rates=RATES, hedge="messages"),
    "newton": domkl.Paper(kernels=V, rates=RATES, step="newton"),
    "auto": domkl.Auto(size=60),
}
EXCHANGES = {
    "float32": domkl.Exchange("float32"),
    "float16": domkl.Exchange("float16"),
    "screen": domkl.Exchange(screen=near_by),
    "both": domkl.Exchange("float16", near_by),
}


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
@pytest.mark.parametrize("name", MODELS)
def test_devices_have_the_simulators_bits_whatever_happens_to_messages(name, exchange):
    graph, model, T = nx.star_graph(3), MODELS[name], 70 if name == "auto" else 25
    X, y = problems.streams(4, T, 2)
    options = {"exchange": exchange, "engine": "auto" if name == "auto" else "numpy"}
    run = domkl.simulate(X, y, graph, model=model, **options)
    learners = problems.learners(graph, model, inputs=2, **options)
    np.testing.assert_array_equal(problems.fed(learners, graph, X, y, random.Random(0)), run.y_hat)
    for field in ("theta", "lam"):
        found = np.reshape([getattr(one.state, field) for one in learners], getattr(run, field).shape)
        np.testing.assert_array_equal(found, getattr(run, field))
    plain = domkl.simulate(X, y, graph, model=model, engine=options["engine"])
    assert not np.array_equal(plain.y_hat, run.y_hat)
    if exchange.screen is None:  # rounding changes little
        np.testing.assert_allclose(plain.y_hat, run.y_hat, atol=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_rounding_halves_the_bytes_and_keeps_duals_that_cancel(name):
    X, y = problems.streams(4, 100, 2)
    runs = [
        domkl.simulate(X, y, "path", model=MODELS[name], exchange=domkl.Exchange(p))
        for p in ("float64", "float32")
    ]
    assert runs[0].sent == runs[1].sent
    assert runs[1].bytes < 0.8 * runs[0].bytes
    assert np.abs(runs[1].lam.sum(0)).max() < 1e-6 * np.abs(runs[1].lam).max()


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
@pytest.mark.parametrize("engine", ["native", "mpi"])
def test_engines_that_send_messages_as_they_are_refuse_others(engine, exchange):
    graph = domkl.graph.named("ring", 3)
    setting = engines.Setting(V, graph, engines.Algorithm(RATES, losses.squared()), exchange=exchange)
    with pytest.raises(
        InputError, match=f"engine '{engine}' takes messages and labels as they are; expected 'auto'"
    ) as error:
        engines.make(engine, setting)
    assert "\n" not in str(error.value)


def test_settings_of_an_exchange_that_are_none_are_refused():
    with pytest.raises(InputError, match="payload is 'float8'"):
        domkl.Exchange("float8")
    with pytest.raises(InputError, match=r"screen is 0\.02; expected a function or None"):
        domkl.Exchange(screen=0.02)
    for run in (
        lambda: domkl.simulate(*problems.streams(3, 5, 2), "path", exchange="float16"),
        lambda: domkl.Learner(name="a", inputs=2, exchange="float16"),
    ):
        with pytest.raises(InputError, match=r"exchange is 'float16'; expected domkl.Exchange\("):
            run()


@pytest.mark.parametrize("name", ["first", "newton", "auto"])
def test_with_a_screen_edges_hold_what_the_models_duals_are_made_of(name):
    """So that a move which did not stand at the other end is taken back as far as it went."""
    graph, rng = nx.cycle_graph(3), random.Random(0)
    X, y = problems.streams(3, 90, 2)
    learners = problems.learners(graph, MODELS[name], inputs=2, exchange=domkl.Exchange(screen=near_by))
    for t in range(90):
        updates = [one.observe(X[j, t], y[j, t]) for j, one in enumerate(learners)]
        for j, one in enumerate(learners):
            for i in graph.neighbors(j):
                if t < 70 or rng.random() < 0.7:
                    one.receive(i, updates[i])
        for one in learners:
            if one.waiting:
                one.close()
    rho = RATES.rho if name != "auto" else learners[0]._row.consensus.rho
    for one in learners:
        duals = sum(neighbour.dual for neighbour in one._known.values())
        lam = np.reshape(one.state.lam, duals.shape)
        assert np.abs(lam).max() > 1e-4
        np.testing.assert_allclose(lam, rho / 2 * duals, atol=1e-12)


# Rules


@settings(max_examples=30, deadline=None)
@given(problems.graphs(), st.integers(0, 999), st.booleans())
def test_a_pull_is_a_weighted_sum_over_neighbours(graph, seed, screened):
    rng = np.random.default_rng(seed)
    theta, moves = rng.standard_normal((len(graph), 2, 3)), rng.uniform(size=len(graph)) < 0.7
    linked = Neighbours.of(as_graph(graph))
    received = theta[linked.senders]
    if screened:
        received = domkl.Exchange(screen=near_by).screened(linked.rows, theta, received)
    found = linked.pull(theta, received, moves[linked.senders])
    for j, near in enumerate(problems.neighbours_of(graph)):
        seen = near_by(theta[j], theta[near]) if screened else theta[near]
        w = np.array([1 / min(len(near), len(list(graph.neighbors(i)))) for i in near])
        total = np.tensordot(w, seen, 1)
        np.testing.assert_allclose(found.near[j], total)
        np.testing.assert_allclose(found.mean[j], total / w.sum())
        np.testing.assert_allclose(found.moved[j], np.tensordot(w * moves[near], seen, 1), atol=1e-15)
        assert found.moving[j] == pytest.approx((w * moves[near]).sum())


@given(st.lists(st.sampled_from([(), (2,), (2, 3)]), min_size=1, max_size=5), st.integers(0, 99))
def test_a_layout_packs_every_part_and_unpacks_it_again(shapes, seed):
    parts = [Part(f"p{k}", shape, "pull" if len(shape) == 2 else "mix") for k, shape in enumerate(shapes)]
    rng = np.random.default_rng(seed)
    message = {part.name: np.asarray(rng.standard_normal((1, *part.shape))) for part in parts}
    layout = Layout(parts)
    theta, scalars = layout.pack(message)
    assert theta.shape == layout.shape
    assert (0 if scalars is None else len(scalars)) == layout.sizes[1]
    found = layout.unpack(theta, scalars, np.float64)
    assert found.keys() == message.keys()
    for name, value in message.items():
        np.testing.assert_array_equal(found[name], value)

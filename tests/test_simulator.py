from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import problems
from domkl.base.errors import InputError
from domkl.exchange.graph import Links

V = domkl.kernels.gaussian(2, D=5, sigma2=[0.3, 3.0])
RATES = domkl.Rates(0.5, 0.5, 1.0)
MODEL = domkl.Paper(kernels=V, rates=RATES)


def test_the_network_learns_and_agrees():
    X, y = problems.streams(5, 800, 2)
    run = problems.simulate_paper(X, y, "ring", rates=domkl.Rates(0.05, 0.05, 1.0))
    late = ((run.y_hat - y) ** 2)[:, 400:].mean(1)
    assert late.max() < 0.03  # the noise alone is 0.01, the labels' variance 0.6
    assert run.cv.max() < 0.1


@pytest.mark.parametrize("engine", problems.ENGINES)
def test_a_delayed_label_is_learnt_when_it_is_known(engine):
    """By hand: predict now, learn the sample of `delay` rounds ago."""
    X, y = problems.streams(3, 12, 2)
    graph, delay = nx.complete_graph(3), 4
    run = domkl.simulate(X, y, graph, model=MODEL, delay=delay, engine=engine)
    near = problems.neighbours_of(graph)
    devices = [domkl.Learner(MODEL, near[j], engine=engine) for j in range(3)]
    for t in range(12):
        assert [device.predict(X[j, t]) for j, device in enumerate(devices)] == run.y_hat[:, t].tolist()
        if t >= delay:
            past = X[:, t - delay], y[:, t - delay]
            problems.feed(devices, range(3), graph, *past, np.random.default_rng(t))
    assert (run.y_hat[:, : delay + 1] == 0).all()


@given(st.integers(0, 9), st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_no_prediction_depends_on_a_label_that_is_not_known_yet(delay, t):
    X, y = problems.streams(2, 10, 2)
    changed = y.copy()
    changed[:, t] += 100
    runs = [domkl.simulate(X, labels, "path", model=MODEL, delay=delay) for labels in (y, changed)]
    known = t + delay + 1
    np.testing.assert_array_equal(runs[0].y_hat[:, :known], runs[1].y_hat[:, :known])
    if known < 10:
        assert (runs[0].y_hat[:, known] != runs[1].y_hat[:, known]).all()


@settings(max_examples=30, deadline=None)
@given(problems.graphs(most=7), st.integers(0, 99))
def test_links_sum_over_neighbours(graph, seed):
    network = domkl.graph.as_graph(graph)
    values = np.random.default_rng(seed).standard_normal((network.J, 3))
    links = Links(network)
    expected = nx.to_numpy_array(graph, nodelist=range(network.J)) @ values
    np.testing.assert_allclose(links.sum(values), expected, atol=1e-12)
    np.testing.assert_allclose(links.sum_edges(values[links.source]), expected, atol=1e-12)
    np.testing.assert_array_equal(links.source[links.reverse][links.reverse], links.source)


def test_duals_sum_to_zero_over_a_long_run():
    X, y = problems.streams(5, 500, 2)
    run = domkl.simulate(X, y, "star", model=MODEL)
    assert np.abs(run.lam.sum(0)).max() <= 1e-12


def test_one_learner_alone():
    X, y = problems.streams(1, 30, 2)
    run = domkl.simulate(X, y, nx.empty_graph(1), model=MODEL)
    assert run.cv.tolist() == [0.0]
    assert (run.lam == 0).all()


def test_float32_stays_near_float64():
    X, y = problems.streams(4, 300, 2)
    runs = [problems.simulate_paper(X, y, "ring", rates=RATES, dtype=t) for t in (np.float64, np.float32)]
    np.testing.assert_allclose(runs[0].mse, runs[1].mse, rtol=1e-4)


def test_the_paths_of_the_weights_are_kept_on_request():
    X, y = problems.streams(3, 10, 2)
    run = domkl.simulate(X, y, "ring", model=MODEL, weights_every=4)
    assert run.q_rounds.tolist() == [0, 4, 8]
    assert run.q_path.shape == (3, 3, 2)
    np.testing.assert_array_equal(run.q_path[0], 0.5)
    assert domkl.simulate(X, y, "ring", model=MODEL).q_path.shape == (0, 3, 2)


def test_progress_is_told_after_each_round():
    X, y = problems.streams(2, 3, 2)
    seen = []
    domkl.simulate(X, y, "path", model=MODEL, progress=lambda done, T: seen.append((done, T)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_classification_separates_two_classes():
    X, y = problems.streams(4, 600, 2, classify=True)
    model = domkl.Paper(loss="logistic", rates=domkl.Rates(0.02, 0.02, 1.0))
    run = domkl.simulate(X, y, "ring", model=model)
    assert (np.sign(run.y_hat) == y)[:, 300:].mean() > 0.9
    zeros = domkl.simulate(X, (y + 1) / 2, "ring", model=model)
    np.testing.assert_array_equal(run.y_hat, zeros.y_hat)


def test_huber_shrugs_off_outliers():
    X, y = problems.streams(3, 600, 2)
    spoilt = y.copy()
    spoilt[:, ::20] += 50
    clean = np.arange(600) % 20 != 0
    rates = domkl.Rates(0.2, 0.2, 1.0)
    runs = {n: problems.simulate_paper(X, spoilt, "ring", rates=rates, loss=n) for n in ("squared", "huber")}
    errors = {name: ((run.y_hat - y) ** 2)[:, clean].mean() for name, run in runs.items()}
    assert errors["huber"] < errors["squared"] / 10


@pytest.mark.parametrize("model", [MODEL, domkl.Auto(size=40)])
def test_one_target_may_have_an_axis_of_its_own(model):
    X, y = problems.streams(3, 6, 2)
    flat, deep = (domkl.simulate(X, labels, "ring", model=model).y_hat for labels in (y, y[..., None]))
    np.testing.assert_array_equal(deep, flat[..., None])


def test_without_a_model_it_is_auto():
    X, y = problems.streams(2, 4, 2)
    runs = [domkl.simulate(X, y, "path", **given) for given in ({}, {"model": domkl.Auto()})]
    np.testing.assert_array_equal(runs[0].theta, runs[1].theta)
    assert runs[0].theta.shape[-1] > 500


def good():
    X, y = problems.streams(3, 5, 2)
    return {"X": X, "y": y, "graph": "ring"}


def with_value(name, where, value):
    case = good()
    case[name][where] = value
    return case


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (with_value("X", (2, 4, 1), np.nan), r"X\[2, 4, 1\] is nan; expected finite numbers; drop or fill"),
        (with_value("X", (0, 0, 0), -np.inf), r"X\[0, 0, 0\] is -inf"),
        (with_value("y", (1, 3), np.inf), r"y\[1, 3\] is inf"),
        (good() | {"X": np.zeros((3, 5))}, r"X has shape \(3, 5\); expected \(J, T, d\)"),
        (good() | {"X": np.zeros((3, 0, 2))}, r"X has shape \(3, 0, 2\)"),
        (good() | {"y": np.zeros((3, 4))}, r"y has shape \(3, 4\); expected \(3, 5\)"),
        (good() | {"X": [[["a"]]]}, "X cannot be read as numbers"),
        (good() | {"kernels": np.zeros((1, 4, 3))}, "kernels are for 3 features but x has 2"),
        (good() | {"hedge": "messages"}, r'hedge="messages" counts losses again.*expected a tree'),
        (good() | {"hedge": "message"}, "hedge is 'message'.*did you mean 'messages'"),
        (good() | {"loss": "square"}, "loss is 'square'.*did you mean 'squared'"),
        (good() | {"loss": "logistic"}, "y holds the label"),
        (good() | {"delay": -1}, "delay is -1; expected a whole number of at least 0"),
        (good() | {"delay": 5}, "delay is 5 in 5 rounds, so no label is learnt; expected more rounds than"),
        (good() | {"weights_every": 0.5}, "weights_every is 0.5"),
        (good() | {"graph": "paper3"}, "the graph has 5 learners but the data has 3"),
        (good() | {"rates": (1, 1, 1)}, r"rates is \(1, 1, 1\); expected domkl.Rates"),
        (good() | {"y": np.zeros((3, 5, 2))}, "y has 2 targets; expected one with domkl.Paper"),
        (good() | {"delta": 0.5}, "delta is 0.5 but the loss is 'squared'"),
        (good() | {"dtype": int}, "dtype is int64; expected float64 or float32"),
        (good() | {"X": np.ma.masked_less(good()["X"], 0)}, "X has masked values"),
        (good() | {"y": good()["y"] * 1e200}, "too large to be squared; expected at most 1e.100 up or down"),
    ],
)
@pytest.mark.parametrize("engine", problems.ENGINES)
def test_bad_input_is_named_in_one_line(case, message, engine):
    with pytest.raises(InputError, match=message) as error:
        problems.simulate_paper(**case, engine=engine)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: domkl.simulate(**good(), model="atuo"),
            "model is 'atuo'; expected one of auto, paper; did you mean 'auto'",
        ),
        (lambda: domkl.simulate(**good(), model=domkl.Auto), 'expected "auto", "paper", domkl.Auto'),
        (lambda: domkl.simulate(**good(), delay=5), "delay is 5 in 5 rounds, so no label is learnt"),
        (lambda: domkl.Rates(0, 1, 1), "rho is 0; expected a finite number above 0"),
        (lambda: domkl.Rates("1", 1, 1), "rho is '1'; expected a finite number above 0"),
        (lambda: domkl.Rates(1, None, 1), "eta is None"),
        (lambda: domkl.Rates(1, np.inf, 1), "eta is inf"),
        (lambda: domkl.Rates.paper(0), "T is 0"),
        (lambda: domkl.omkl(np.zeros(3), np.zeros(3)), r"X has shape \(3,\); expected \(N, d\)"),
        (lambda: domkl.omkl(np.zeros((3, 1)), np.zeros(2)), r"y has shape \(2,\)"),
        (lambda: domkl.omkl(np.full((3, 1), np.nan), np.zeros(3)), r"X\[0, 0\] is nan"),
        (lambda: domkl.omkl(np.zeros((3, 1)), np.zeros(3), mu=0), "mu is 0"),
    ],
)
def test_other_bad_requests(call, message):
    with pytest.raises(InputError, match=message):
        call()

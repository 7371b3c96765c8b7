"""The learner without settings: scales, missing values, late inputs, intervals, networks."""

from __future__ import annotations

import copy
import math
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from domkl.base.errors import InputError
from domkl.exchange.graph import as_graph
from domkl.learning import auto, losses
from domkl.learning.auto import Model, echo, learners
from domkl.learning.auto.additive import Memory, Terms
from domkl.learning.auto.experts import UNTRIED
from domkl.learning.auto.features import FEW, STEPS, Stats, pooled, scaled, statistics
from domkl.learning.auto.ties import Ties
from problems import taught


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Networks of small models: the same code, quicker."""
    make = auto.Network.__init__
    monkeypatch.setattr(auto.Network, "__init__", lambda self, *a, **k: make(self, *a, **{"size": 160, **k}))


def stream(n, d=3, seed=0, classify=False):
    X, y = problems.streams(1, n, d, seed, classify)
    return X[0], y[0]


def test_a_network_learns_from_raw_data_without_any_setting():
    X, y = problems.streams(5, 400, 3)
    run = domkl.simulate(1e4 * X + 3e5, 5000 * y - 7e4, "ring", preset="auto")
    assert ((run.y_hat - (5000 * y - 7e4)) ** 2)[:, 100:].mean() < 0.03 * 5000**2
    assert run.theta.shape == run.lam.shape == (5, 2, 60)  # 21 of the additive model, 17 others
    assert 0 < run.cv.max() < 0.05 * 5000**2
    assert 150 < run.sent <= 165
    assert np.abs(run.lam.sum(0)).max() < 1e-10


@settings(max_examples=10, deadline=None)
@given(problems.graphs(most=5), st.integers(0, 99))
def test_the_joint_models_are_the_literal_second_order_admm(graph, seed):
    X, y = problems.streams(len(graph), 90, 2, seed)
    network = auto.Network(as_graph(graph), 2, losses.get("squared"), size=40, seed=seed)
    sums = domkl.engines.Sums.zero(len(graph), 2)
    list(auto.rounds(network, [(X, y)], 0, sums, lambda _: None))
    Z = network.features.of(X, network.stats)
    target = (y - network.centre[:, None]) / network.width[:, None]
    rates = learners.RATES
    for p in range(2):
        theta, lam = naive.auto_joint(
            Z[:, :, p], target, problems.neighbours_of(graph), rates.rho, rates.eta / len(graph), kept=63
        )
        np.testing.assert_allclose(network.state.theta[:, p], theta, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(network.state.lam[:, p], lam, rtol=1e-7, atol=1e-8)


def test_exchange_pays():
    X, y = problems.streams(5, 300, 3)
    together = domkl.simulate(X, y, "ring", preset="auto")
    alone = [domkl.simulate(X[[j]], y[[j]], nx.empty_graph(1), preset="auto").mse[0] for j in range(5)]
    assert together.mse.mean() < 0.8 * np.mean(alone)


@pytest.mark.skipif("native" not in problems.ENGINES, reason="the native engine was not built")
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_engines_give_the_same_numbers(loss):
    X, y = problems.streams(3, 150, 3, classify=loss == "logistic")
    X[1, ::7, 2] = np.nan
    common = {"preset": "auto", "loss": loss}
    slow, fast, two = (
        domkl.simulate(X, y, "path", engine=name, threads=n, **common)
        for name, n in (("numpy", 1), ("native", 1), ("native", 2))
    )
    for name in ("y_hat", "theta", "lam", "mse", "cv"):
        expected = getattr(slow, name)
        atol = 1e-8 * np.abs(expected).max()
        np.testing.assert_allclose(getattr(fast, name), expected, rtol=1e-8, atol=atol, err_msg=name)
        np.testing.assert_array_equal(getattr(two, name), getattr(fast, name), err_msg=name)


def test_an_engine_that_cannot_run_it_is_refused():
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match="'mpi' has no second-order step"):
        domkl.simulate(X, y, "path", preset="auto", engine="mpi")


@pytest.mark.parametrize("graph", ["star", "complete", "path"])
def test_any_graph(graph):
    X, y = problems.streams(8, 200, 2)
    run = domkl.simulate(X, y, graph, preset="auto")
    assert ((run.y_hat - y) ** 2)[:, 100:].mean() < 0.04


def test_scale_does_not_matter():
    X, y = problems.streams(3, 200, 4)
    size, shift = np.array([1e-3, 1e6, 1.0, 50.0]), np.array([5.0, -3e6, 0.0, 1.0])
    runs = [domkl.simulate(data, y, "ring", preset="auto") for data in (X, X * size + shift)]
    np.testing.assert_allclose(runs[0].y_hat, runs[1].y_hat, atol=1e-4)
    large = domkl.simulate(X, 4000 * y + 9000, "ring", preset="auto")
    np.testing.assert_allclose(large.y_hat[:, 1:], 4000 * runs[0].y_hat[:, 1:] + 9000, rtol=1e-4)


def test_raw_columns_of_any_size_do_as_well_as_scaled_ones():
    rng = np.random.default_rng(1)
    X, y = problems.streams(3, 500, 3)
    tails = rng.standard_t(1.5, size=(3, 500, 1))
    X = np.concatenate([X, np.ones((3, 500, 1)), tails], -1)
    y = 3000 + 700 * (y + 0.1 * np.tanh(tails[..., 0]))
    raw = X * np.array([1e-3, 1e6, 50.0, 7.0, 1e4]) + np.array([5.0, -3e6, 0.0, 0.0, 1e3])
    flat = raw.reshape(-1, 5)
    ready = (raw - flat.min(0)) / np.maximum(np.ptp(flat, 0), 1e-9)
    run, best = (domkl.simulate(data, y, "ring", preset="auto", start=3000.0) for data in (raw, ready))
    assert np.isfinite(run.y_hat).all()
    assert run.mse.mean() < 1.05 * best.mse.mean()
    assert ((run.y_hat - y) ** 2)[:, 250:].mean() < 0.1 * y.var()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 40), st.floats(0, 0.9), st.integers(0, 10**6))
def test_pooled_statistics_are_those_of_all_samples(J, n, missing, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((J, n, 2)) * [1e-3, 1e6] + [5.0, 0.0]
    X[rng.uniform(size=X.shape) < missing] = np.nan
    found = pooled(statistics(X), np.ones((1, J), bool))
    whole = statistics(X.reshape(1, J * n, 2))
    for one, other in zip(found[:5], whole[:5], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert found.quantiles.shape == (1, min(max(n - 1, 1), FEW) + 1, 2)
    slack = 1e-9 * (1 + np.abs(found.high))
    assert (np.diff(found.quantiles, axis=1) >= -slack).all()
    assert (found.quantiles >= found.low - slack).all()
    assert (found.quantiles <= found.high + slack).all()


def test_ranks_are_straight_between_quantiles_and_half_at_ties():
    rng = np.random.default_rng(0)
    X = np.stack([rng.standard_exponential(160), rng.uniform(size=160) < 0.5], -1)
    stats = statistics(X)
    np.testing.assert_allclose(stats.quantiles, np.quantile(X, np.linspace(0, 1, STEPS + 1), axis=0))
    x = rng.standard_exponential(50)
    expected = np.interp(x, stats.quantiles[:, 0], np.linspace(0, 1, STEPS + 1))
    ranks = scaled(np.stack([x, np.ones(50)], -1), stats)[..., 4:] / 1.9 + 0.5
    np.testing.assert_allclose(ranks[:, 0], expected)
    assert 0.5 < ranks[0, 1] < 1
    shares = scaled(X, stats)[..., 4:] / 1.9 + 0.5
    np.testing.assert_allclose(shares.mean(0), 0.5, atol=0.05)


def test_before_the_scale_is_common_neighbours_know_of_each_other_and_others_do_not():
    X, y = problems.streams(4, 2, 2)
    y[:, 0] = [0.0, 30.0, 90.0, 50.0]
    y_hat = domkl.simulate(X, y, "path", preset="auto").y_hat
    for learner, heard in ((2, True), (3, False)):
        changed = y.copy()
        changed[learner, 0] += 50
        other = domkl.simulate(X, changed, "path", preset="auto").y_hat
        assert (other[1, 1] != y_hat[1, 1]) == heard


def test_learners_who_live_in_different_seasons_trust_themselves_before_the_average():
    """Each learner has its own level of inputs and targets: the average of all theta is far off at first."""
    rng, J, T = np.random.default_rng(0), 8, 48
    level = rng.uniform(0, 10, (J, 1))
    walk = level + rng.normal(0, 0.2, (J, T))
    X, y = np.stack([walk, rng.uniform(size=(J, T))], -1), level + np.sin(walk) + rng.normal(0, 0.1, (J, T))
    network = auto.Network(as_graph("complete", J), 2, losses.get("squared"))
    experts, y_hat = [], []
    for t in range(T):
        look = network.look(X[:, t])
        experts.append((look.experts - y[:, [t]]) ** 2)
        y_hat.append((look.y_hat - y[:, t]) ** 2)
        network.learn(look, y[:, t])
    own, averaged = np.mean(experts[8:], (0, 1))
    assert averaged > 2 * own
    assert np.mean(y_hat[8:]) < 1.2 * own


def test_one_expert_is_a_blend_and_new_experts_begin_with_little_weight():
    X, y = problems.streams(3, 66, 3)
    network = auto.Network(as_graph("ring", 3), 3, losses.get("squared"), forgets=True)
    for t in range(64):
        network.learn(network.look(X[:, t]), y[:, t])
    look, w = network.look(X[:, 64]), network.experts.weights()
    blend = (1 - learners.BLEND) * look.experts[:, 1] + learners.BLEND * look.experts[:, 2]
    assert np.allclose(look.experts[:, 5], blend)
    assert np.allclose(w[:, 2:].sum(-1), UNTRIED, atol=2e-3)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 140), st.sampled_from([math.inf, 200.0, 60.0]), st.integers(0, 99))
def test_a_memory_is_its_literal_twin(d, T, memory, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, d))
    y = np.tanh(X[:, 0]) / 2 + 0.1 * rng.standard_normal(T)
    terms, stats = Terms(60, d), statistics(X)
    Z = terms.of(X, Stats(*(value[None] for value in stats)))
    found = Memory(terms, np.zeros(1), 1, losses.get("squared"), memory)
    for z, target in zip(Z, y, strict=True):
        found.replay(z[None], np.array([target]))
    b, v = naive.additive(Z, y, terms.group, memory)
    np.testing.assert_allclose(found.mean[0, 0], b, atol=1e-7)
    np.testing.assert_allclose(found.v[0], v, rtol=1e-6)


@given(st.integers(1, 3), st.integers(1, 40), st.integers(0, 99))
def test_an_echo_is_a_regression_over_all_errors_so_far(J, T, seed):
    errors = np.random.default_rng(seed).standard_normal((J, T)).cumsum(-1) / 3
    found, expected = echo.Echo(J), np.zeros((J, T))
    for t in range(T):
        expected[:, t] = found.expected()
        found.learn(found.last, errors[:, t])
    for j in range(J):
        literal = naive.echo(errors[j], echo.FADE, echo.DOUBT, echo.FEW)
        np.testing.assert_allclose(expected[j], literal, atol=1e-9)


@given(st.integers(1, 30), st.floats(0.1, 10), st.integers(0, 99))
def test_an_echo_changes_units_with_the_scale(T, ratio, seed):
    errors = np.random.default_rng(seed).uniform(-0.2, 0.2, (1, T)).cumsum(-1) / T
    changed, other = echo.Echo(1), echo.Echo(1)
    for t in range(T):
        changed.learn(changed.last, errors[:, t])
        other.learn(other.last, errors[:, t] * ratio)
    expected = changed.expected()
    changed.rescale(np.array([ratio]))
    np.testing.assert_allclose(changed.expected(), ratio * expected)
    np.testing.assert_allclose(changed.last, other.last)
    for found, wanted in ((changed.M, other.M), (changed.m, other.m), (changed.size, other.size)):
        np.testing.assert_allclose(found, wanted)


def test_the_scale_may_change_under_an_echo():
    """A walk whose steps grow: the width of the targets is another one after round 512."""
    rng = np.random.default_rng(0)
    steps = rng.normal(0, 1, 600) * np.where(np.arange(600) < 300, 1, 20)
    X, y = rng.uniform(size=(600, 2)), np.cumsum(steps)
    model, echoes = Model(2, size=60), []
    for t in range(600):
        if 505 < t < 520:
            echoes.append(abs(model.alone.echo.expected()[0] * model.alone.width[0]))
        model.learn(X[t], y[t])
    assert max(echoes[7:]) < 3 * max(echoes[:7])


@pytest.mark.parametrize(("stays", "best"), [(0.9, 0.325), (0.97, 0.135)])
def test_classes_that_stay_are_told_with_probabilities(stays, best):
    rng = np.random.default_rng(0)
    y = np.cumprod(np.where(rng.uniform(size=900) < stays, 1, -1))
    model, losses_ = Model(2, loss="logistic", size=60), []
    for x, label in zip(rng.uniform(-1, 1, (900, 2)), y, strict=True):
        losses_.append(-math.log((1 + label * model.predict(x)) / 2))
        model.learn(x, label)
    assert np.mean(losses_[300:]) < best + 0.06


def slow(T, slowness, seed=0):
    """A function of x, and beside it a level that moves, slowly or at once."""
    rng = np.random.default_rng(seed)
    X, level = rng.uniform(size=(1, T, 2)), np.zeros(T)
    for t in range(1, T):
        level[t] = slowness * level[t - 1] + rng.normal(0, 0.3)
    return X, (np.sin(3 * X[..., 0]) + X[..., 1] + level)


@pytest.mark.parametrize(("delay", "gain"), [(0, 0.5), (3, 0.8)])
def test_errors_that_come_again_are_expected(delay, gain):
    X, y = slow(1200, 0.98)
    network = auto.Network(as_graph("ring", 1), 2, losses.get("squared"), size=120, forgets=True)
    looks, waiting = [], []
    for t in range(1200):
        looks.append(network.look(X[:, t]))
        waiting.append(t)
        if t >= delay:
            s = waiting.pop(0)
            network.learn(network.look(X[:, s]), y[:, s], looks[s])
    errors = {name: [] for name in ("blend", "echo", "all")}
    for t in range(600, 1200):
        errors["blend"].append((looks[t].experts[0, 5] - y[0, t]) ** 2)
        errors["echo"].append((looks[t].experts[0, 6] - y[0, t]) ** 2)
        errors["all"].append((looks[t].y_hat[0] - y[0, t]) ** 2)
    found = {name: np.mean(values) for name, values in errors.items()}
    assert found["echo"] < gain * found["blend"]
    assert found["all"] < 1.05 * found["echo"]


def test_an_echo_costs_next_to_nothing_where_there_is_none():
    X, y = slow(800, 0.0)
    run = domkl.simulate(X, y, "ring", preset="auto", size=120)
    network = auto.Network(as_graph("ring", 1), 2, losses.get("squared"), size=120, forgets=True)
    network.echo.expected = lambda: np.zeros(1)
    without = np.array([_told(network, X[:, t], y[:, t]) for t in range(800)])
    with_echo, none = (np.mean((found - y[0]) ** 2) for found in (run.y_hat[0], without))
    assert with_echo < 1.01 * none


def _told(network, x, y):
    look = network.look(x)
    network.learn(look, y)
    return float(look.y_hat[0])


def test_constant_missing_and_heavy_tailed_columns_stay_finite():
    rng = np.random.default_rng(0)
    X, y = problems.streams(3, 300, 2)
    X = np.concatenate([X, np.full((3, 300, 1), 7.0), rng.standard_cauchy((3, 300, 1)) ** 5], -1)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    X[:, :20, 1] = np.nan
    run = domkl.simulate(X, y, "ring", preset="auto")
    assert np.isfinite(run.y_hat).all()
    assert ((run.y_hat - y) ** 2)[:, 150:].mean() < 0.5 * y.var()


def test_no_prediction_depends_on_a_label_that_is_not_known_yet():
    X, y = problems.streams(3, 90, 2)
    for t in (0, 3, 7, 8, 63, 64, 80):
        changed = y.copy()
        changed[:, t] += 1
        for delay in (0, 2):
            runs = [domkl.simulate(X, labels, "path", preset="auto", delay=delay) for labels in (y, changed)]
            known = t + delay + 1
            np.testing.assert_array_equal(runs[0].y_hat[:, :known], runs[1].y_hat[:, :known])


def test_float32_and_blocks():
    X, y = problems.streams(3, 150, 2)
    whole = domkl.simulate(X, y, "ring", preset="auto")
    blocks = domkl.simulate([(X[:, :70], y[:, :70]), (X[:, 70:], y[:, 70:])], None, "ring", preset="auto")
    np.testing.assert_array_equal(whole.y_hat, blocks.y_hat)
    small = domkl.simulate(X, y, "ring", preset="auto", dtype=np.float32)
    np.testing.assert_allclose(small.mse, whole.mse, rtol=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"preset": "autos"}, "did you mean 'auto'"),
        ({"preset": "auto", "rates": domkl.Rates(1, 1, 1)}, "rates is given with preset='auto'"),
        ({"preset": "auto", "kernels": np.ones((1, 2, 2))}, "kernels is given"),
    ],
)
def test_wrong_presets_are_refused(wrong, message):
    X, y = problems.streams(3, 5, 2)
    with pytest.raises(InputError, match=message):
        domkl.simulate(X, y, "ring", **wrong)


def test_infinite_inputs_are_refused():
    X, y = problems.streams(3, 5, 2)
    X[0, 2, 1] = np.inf
    with pytest.raises(InputError, match="infinite"):
        domkl.simulate(X, y, "ring", preset="auto")


def test_regret_against_the_best_fixed_function_grows_slower_than_the_rounds():
    X, y = problems.streams(3, 800, 2)
    y = y + 0.2 * np.random.default_rng(0).standard_normal(y.shape)
    network = auto.Network(domkl.graph.as_graph("ring", 3), 2, domkl.losses.get("squared"), size=80)
    sums = domkl.engines.Sums.zero(3, 2)
    y_hat = np.stack(list(auto.rounds(network, [(X, y)], 0, sums, lambda _: None)), 1)
    regret = []
    for T in (200, 800):
        z = network.features.of(X[:, :T], network.stats).reshape(3 * T, 2, -1)
        labels = y[:, :T].ravel()
        best = min(((z[:, p] @ np.linalg.lstsq(z[:, p], labels)[0] - labels) ** 2).sum() for p in (0, 1))
        regret.append(((y_hat - y)[:, :T] ** 2).sum() - best)
    assert regret[0] > 0
    assert regret[1] < 4**0.6 * regret[0]


# One device


def test_a_model_is_a_network_of_one():
    X, y = stream(150)
    run = domkl.simulate(X[None], y[None], nx.empty_graph(1), preset="auto")
    np.testing.assert_array_equal(taught(Model(3, size=160), X, y), run.y_hat[0])


def test_models_copy_pickle_and_repeat():
    X, y = stream(120)
    for n in (0, 10, 100):
        model = Model(3, size=160)
        taught(model, X[:n], y[:n])
        twins = [model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        y_hat = [taught(one, X[n:], y[n:]) for one in twins]
        np.testing.assert_array_equal(y_hat[0], y_hat[1])
        np.testing.assert_array_equal(y_hat[0], y_hat[2])


def test_memory_stays_constant_after_the_warm_up():
    X, y = stream(auto.WARM_UP + 250)
    model, sizes = Model(3, size=160), []
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
        sizes.append(len(pickle.dumps(model)))
    sizes = sizes[auto.WARM_UP + 210 :]
    assert max(sizes) - min(sizes) <= 16  # counters may need a byte more


def test_classification_gives_scores():
    X, y = stream(500, classify=True)
    scores = taught(Model(3, loss="logistic", size=160), X, y)
    assert np.abs(scores).max() <= 1
    assert (np.sign(scores) == y)[250:].mean() > 0.9
    zeros = taught(Model(3, loss="logistic", size=160), X, (y + 1) / 2)
    np.testing.assert_array_equal(scores, zeros)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_intervals_are_calibrated(coverage):
    X, y = stream(1500)
    y[700:] += np.random.default_rng(1).standard_normal(800) * 0.3  # the noise grows
    model, hits = Model(3, size=80), []
    for x, label in zip(X, y, strict=True):
        low, high = model.interval(x, coverage)
        hits.append(low <= label <= high)
        model.learn(x, label)
    assert abs(np.mean(hits[100:]) - coverage) < 0.05
    assert abs(np.mean(hits[-500:]) - coverage) < 0.05


def test_an_interval_without_knowledge_is_infinite():
    assert Model(2, size=40).interval([1.0, 2.0]) == (-np.inf, np.inf)
    with pytest.raises(InputError, match="coverage is 1"):
        Model(2, size=40).interval([1.0, 2.0], 1)


@pytest.mark.parametrize("when", [10, 150, auto.WARM_UP + 40])
def test_inputs_that_come_later_help_and_change_nothing_before(when):
    X, y = stream(when + 750, d=3)
    y = y + 2 * X[:, 2]
    model, twin = Model(2, size=160), Model(2, size=160)
    early = taught(model, X[:when, :2], y[:when])
    np.testing.assert_array_equal(early, taught(twin, X[:when, :2], y[:when]))
    before = model.predict(X[when, :2])
    model.grow(3)
    assert model.d == 3
    if when > auto.WARM_UP:
        assert model.predict([*X[when, :2], np.nan]) == pytest.approx(before, abs=1e-9)
        assert model.predict(X[when]) == pytest.approx(before, abs=1e-9)  # its scale is not known yet
    late = taught(model, X[when:], y[when:])
    without = taught(twin, X[when:, :2], y[when:])
    assert ((late - y[when:]) ** 2)[-300:].mean() < 0.3 * ((without - y[when:]) ** 2)[-300:].mean()


@pytest.mark.parametrize("J", [1, 4])
def test_the_past_is_dropped_when_it_misleads(J):
    X, y = problems.streams(J, 1300, 3)
    y[:, 700:] *= -1
    errors, networks = {}, {}
    for forgets in (False, True):
        graph = domkl.graph.as_graph(nx.cycle_graph(J) if J > 1 else nx.empty_graph(1))
        network = auto.Network(graph, 3, domkl.losses.get("squared"), forgets=forgets)
        sums = domkl.engines.Sums.zero(J, 2)
        y_hat = np.stack(list(auto.rounds(network, [(X, y)], 0, sums, lambda _: None)), 1)
        errors[forgets], networks[forgets] = (y_hat - y) ** 2, network
    assert networks[False].restarts == 0 < networks[True].restarts <= 2
    assert errors[True][:, :700].mean() < 1.03 * errors[False][:, :700].mean()
    assert errors[True][:, 900:].mean() < 0.3 * errors[False][:, 900:].mean()
    assert np.abs(networks[True].state.lam.sum(0)).max() < 1e-9


def test_a_given_memory_follows_a_change():
    X, y = stream(1400)
    y[700:] *= -1
    errors = {
        memory: ((taught(Model(3, size=160, forgetting=memory), X, y) - y) ** 2)[1000:].mean()
        for memory in ("none", 120.0, "auto")
    }
    assert errors[120.0] < 0.3 * errors["none"]
    assert errors["auto"] < 0.3 * errors["none"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Model(0), "d is 0"),
        (lambda: Model(2, loss="huber"), "loss is 'huber'"),
        (lambda: Model(2, forgetting="never"), "forgetting is 'never'"),
        (lambda: Model(2, size=40).predict([1.0]), "x has shape"),
        (lambda: Model(2, size=40).predict([1.0, np.inf]), "infinite"),
        (lambda: Model(2, size=40).learn([1.0, 2.0], np.nan), "y is nan"),
        (lambda: Model(2, size=40).grow(1), "at least 2"),
        (lambda: Model(2, size=40, loss="logistic").learn([1.0, 2.0], 3), "label 3"),
    ],
)
def test_wrong_use_is_refused_in_one_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# Drift


def friedman(J, T, order=(0, 1, 2, 3, 4), seed=0):
    """Friedman's function of 6 inputs, 5 of which matter; the noise has variance 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(J, T, 6))
    a, b, c, d, e = (X[..., k] for k in order)
    y = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return X, y + rng.standard_normal(y.shape)


def joined(*parts):
    return tuple(np.concatenate(values, 1) for values in zip(*parts, strict=True))


def mean_errors(run, y, *spans):
    return [((run.y_hat - y)[:, a:b] ** 2).mean() for a, b in spans]


@pytest.mark.parametrize("delay", [0, 5])
def test_errors_are_back_at_their_level_200_rounds_after_a_change(delay, monkeypatch):
    monkeypatch.setattr(auto.learners, "PART", 0.6)  # room for all pairs in a small model
    X, y = joined(friedman(4, 400), friedman(4, 300, order=(3, 5, 1, 2, 0), seed=1))
    run = domkl.simulate(X, y, "ring", preset="auto", delay=delay)
    before, at_once, after = mean_errors(run, y, (250, 400), (400, 410), (600, 700))
    assert at_once > 8 * before
    assert after < 1.15 * before


def test_what_returns_is_known_at_once(monkeypatch):
    monkeypatch.setattr(auto.learners, "PART", 0.6)
    old, new = (0, 1, 2, 3, 4), (3, 5, 1, 2, 0)
    parts = [friedman(4, n, order, seed) for n, order, seed in ((300, old, 0), (200, new, 1), (60, old, 2))]
    X, y = joined(*parts)
    run = domkl.simulate(X, y, "ring", preset="auto")
    before, again = mean_errors(run, y, (200, 300), (530, 560))
    assert again < 1.5 * before


def test_missing_values_do_not_look_like_a_change():
    X, y = problems.streams(3, 400, 3)
    X[:, 200:][np.random.default_rng(0).uniform(size=(3, 200, 3)) < 0.02] = np.nan
    errors = [
        mean_errors(domkl.simulate(X, y, "ring", preset="auto", forgets=forgets), y, (100, 400))[0]
        for forgets in (True, False)
    ]
    assert errors[0] < 1.03 * errors[1]


def test_a_memory_that_exchanges_seldom_stays_small_on_inputs_that_are_nearly_equal():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((4, 606)), 1) / 10
    X, y = np.stack([walk[:, 5 - k : -1 - k] for k in range(5)], -1), np.sin(walk[:, 6:]) / 2
    ties = Ties.of(domkl.graph.as_graph("ring", 4))
    terms, stats = Terms(100, 5), statistics(X.reshape(1, -1, 5))
    memory = Memory(terms, ties.weight, 4, domkl.losses.get("squared"), rounds=100)
    for t in range(600):
        z = terms.of(X[:, t], stats)
        if t % 4 == 0:
            said = memory.tell(z, y[:, t])
            memory.hear(ties.near(said), ties.mean(said, ties.near(said)), ties.weight)
        else:
            memory.note(z, y[:, t])
    assert np.abs(memory.state.theta).max() < 5
    assert np.abs(memory.state.lam.sum(0)).max() < 1e-8
    assert ((memory.score(terms.of(X[:, -1], stats)) - y[:, -1]) ** 2).mean() < 0.1


def test_a_late_input_may_change_everything():
    X, y = stream(900, d=3)
    y[500:] = 3 * X[500:, 2]
    model = Model(2, size=160)
    taught(model, X[:300, :2], y[:300])
    model.grow(3)
    late = taught(model, X[300:], y[300:])
    assert ((late - y[300:]) ** 2)[-100:].mean() < 0.1 * y[500:].var()


def test_labels_that_turn_round_are_followed():
    X, y = problems.streams(3, 700, 2, classify=True)
    y[:, 350:] *= -1
    run = domkl.simulate(X, y, "ring", loss="logistic", preset="auto")
    assert (np.sign(run.y_hat) == y)[:, 250:350].mean() > 0.9
    assert (np.sign(run.y_hat) == y)[:, 500:].mean() > 0.9

"""The second-order step on devices: the simulator's bits, edges that come and go, restarts, refusals."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from domkl import engines
from domkl.base.errors import DataError, InputError, PeerError
from domkl.learner import files

V = domkl.kernels.gaussian(2, D=5, sigma2=[0.3, 3.0])
RATES = domkl.Rates(0.5, 0.1, 1.0)
every_engine = pytest.mark.parametrize("engine", problems.ENGINES)
needs_native = pytest.mark.skipif(engines.available() is not None, reason="needs the native engine")


def network(graph, payload="float64", **options):
    """Second-order learners called "0", "1", ..."""
    model, how = problems.paper(**{"kernels": V, "rates": RATES, "step": "newton", **options})
    near = problems.neighbours_of(graph)
    return [
        domkl.Learner(model, [*map(str, near[j])], name=str(j), exchange=domkl.Exchange(payload), **how)
        for j in range(len(near))
    ]


def simulate(X, y, graph, **options):
    return problems.simulate_paper(X, y, graph, **{"kernels": V, "rates": RATES, "step": "newton", **options})


def play(learners, X, y, rounds, heard=lambda t, a, b: True):
    """Rounds in which some messages are lost; returns what was predicted."""
    y_hat = []
    for t in rounds:
        updates = [one.observe(X[j, t], y[j, t]) for j, one in enumerate(learners)]
        y_hat.append([one.step.y_hat for one in learners])
        for j, one in enumerate(learners):
            for name in one.neighbours:
                if heard(t, j, int(name)) and str(j) in learners[int(name)].neighbours:
                    learners[int(name)].receive(str(j), updates[j])
        for one in learners:
            if one.waiting:
                one.close()
    return np.array(y_hat).T


def state(one):
    """All that a learner keeps, to the last bit."""
    arrays, meta = one.save()
    return {name: array.tobytes() for name, array in arrays.items()}, meta


@every_engine
@settings(max_examples=40, deadline=None)
@given(problems.problems(), st.sampled_from(["neighbours", "local"]), st.randoms())
def test_naive_simulator_and_learners_are_the_same(engine, problem, hedge, random):
    X, y, graph, V, rates, loss, naive_loss = problem
    near = problems.neighbours_of(graph)
    common = {"kernels": V, "rates": rates, "loss": loss, "hedge": hedge, "engine": engine}
    twin = naive.newton(X, y, near, V, rates.rho, rates.eta, rates.eta_g, hedge=hedge, **naive_loss)
    run = simulate(X, y, graph, **common)
    np.testing.assert_allclose(run.theta, twin["theta"], rtol=1e-9, atol=1e-9)
    model, how = problems.paper(**common, step="newton")
    learners = problems.learners(graph, model, **how)
    np.testing.assert_array_equal(problems.fed(learners, graph, X, y, random), run.y_hat)
    same_state(learners, run)


def same_state(learners, run):
    for name in ("theta", "lam", "L", "q"):
        np.testing.assert_array_equal([getattr(one.state, name) for one in learners], getattr(run, name))


@every_engine
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_learners_have_the_simulators_bits_whatever_is_forgotten(engine, data):
    """Long enough for terms to be subtracted, of any precision, graph, rule and number of threads."""
    draw = data.draw
    hedge = draw(st.sampled_from(["neighbours", "local", "messages"]))
    graph = draw(problems.graphs(tree=hedge == "messages"))
    d, T = draw(st.integers(1, 3)), draw(st.integers(1, 70))
    loss, _ = draw(problems.losses())
    X, y = problems.streams(len(graph), T, d, draw(st.integers(0, 9999)), loss.classifies)
    common = {
        "kernels": draw(problems.dictionaries(d)),
        "rates": draw(problems.rates()),
        "loss": loss,
        "hedge": hedge,
        "dtype": draw(st.sampled_from([np.float64, np.float32])),
        "engine": engine,
    }
    threads = draw(st.integers(1, 3)) if engine == "native" else 1
    run = simulate(X, y, graph, threads=threads, **common)
    learners = network(graph, **common)
    np.testing.assert_array_equal(play(learners, X, y, range(T)), run.y_hat)
    same_state(learners, run)


@every_engine
@pytest.mark.parametrize(("dtype", "loss"), [(np.float64, "squared"), (np.float32, "logistic")])
@pytest.mark.parametrize("hedge", ["messages", "neighbours"])
def test_bits_agree_beyond_the_waiting_terms(engine, dtype, loss, hedge):
    X, y = problems.streams(4, 110, 2, classify=loss == "logistic")
    common = {"loss": loss, "hedge": hedge, "dtype": dtype, "engine": engine}
    graph = nx.path_graph(4)
    run = simulate(X, y, graph, **common)
    learners = network(graph, **common)
    np.testing.assert_array_equal(play(learners, X, y, range(110)), run.y_hat)
    assert learners[0].state.theta.dtype == dtype
    same_state(learners, run)


@needs_native
@pytest.mark.parametrize("isa", ["baseline", "avx2"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_agree_on_every_processor(isa, dtype, monkeypatch):
    from domkl.engines._native import _engine

    if not _engine.runs(isa):
        pytest.skip(f"this processor does not run {isa}")
    monkeypatch.setattr(_engine, "best", lambda: isa)
    X, y = problems.streams(4, 60, 2)
    common = {"loss": "huber", "dtype": dtype, "engine": "native"}
    graph = nx.star_graph(3)
    run = simulate(X, y, graph, **common)
    learners = network(graph, **common)
    np.testing.assert_array_equal(play(learners, X, y, range(60)), run.y_hat)
    same_state(learners, run)


@every_engine
@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(0, 999))
def test_edges_that_come_go_and_fall_silent_are_counted_exactly(engine, data, seed):
    J, T = 4, 14
    X, y = problems.streams(J, T, 2, seed)
    pairs = [(a, b) for a in range(J) for b in range(a + 1, J)]
    subsets = st.lists(st.sampled_from(pairs), unique=True)
    changes = data.draw(st.dictionaries(st.integers(1, T - 1), subsets, max_size=4))
    silent = data.draw(st.dictionaries(st.integers(0, T - 1), subsets, max_size=5))
    edges, heard, now = [], [], set(pairs[:4])
    for t in range(T):
        now = set(changes.get(t, now))
        edges.append(now)
        heard.append(now - set(silent.get(t, ())))
    theta, lam = naive.newton_on_changing_edges(
        X, y, V, RATES.rho, RATES.eta, edges.__getitem__, heard.__getitem__
    )
    learners = network(nx.empty_graph(J), engine=engine)
    for t in range(T):
        change_edges(learners, edges[t])
        play(learners, X, y, [t], lambda t, a, b: (min(a, b), max(a, b)) in heard[t])
    np.testing.assert_allclose([one.state.theta for one in learners], theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose([one.state.lam for one in learners], lam, rtol=1e-9, atol=1e-9)


def change_edges(learners, edges):
    """Both ends of each edge take it up or let it go; old edges have the numbers of their first lives."""
    wanted = [
        {str(b) for a, b in [*edges, *(e[::-1] for e in edges)] if a == j} for j in range(len(learners))
    ]
    for one, names in zip(learners, wanted, strict=True):
        for name in set(one.neighbours) - names:
            one.leave(name)
        for name in sorted(names - set(one.neighbours)):
            one.join(name)


@every_engine
@pytest.mark.parametrize("step", ["first", "newton"])
def test_a_neighbour_that_has_not_sent_yet_does_not_pull(engine, step):
    X, y = problems.streams(1, 60, 2)
    one = network(nx.empty_graph(1), step=step, engine=engine)[0]
    for t in range(60):
        one.observe(X[0, t], y[0, t])
    before = one.state.theta
    x, expected = X[0, 0], one.predict(X[0, 0])
    one.join("1", number=3)
    np.testing.assert_allclose(one.state.theta_sum, before)
    one.observe(x, expected)  # a sample that has nothing to teach
    assert np.abs(one.state.theta - before).max() < 0.05 * np.abs(before).max()


@every_engine
@pytest.mark.parametrize("payload", ["float64", "float16"])
def test_a_file_goes_on_with_the_same_bits_from_any_round(engine, payload):
    X, y = problems.streams(3, 80, 2)
    options = {"payload": payload, "engine": engine}
    moments = (0, 6, 7, 8, 30, 31, 32, 59)  # terms wait, are as many as may wait, are subtracted
    whole, kept = network(nx.path_graph(3), **options), {}
    for t in range(80):
        play(whole, X, y, [t])
        if t in moments:
            kept[t] = files.content({}, *whole[1].save())
    end = state(whole[1])
    undisturbed = network(nx.path_graph(3), **options)
    play(undisturbed, X, y, range(80))
    assert state(undisturbed[1]) == end  # to save changes nothing
    for t in moments:
        again = network(nx.path_graph(3), **options)
        play(again, X, y, range(t + 1))
        about, arrays = files.parsed(kept[t])
        again[1] = network(nx.path_graph(3), **options)[1]
        again[1].load(arrays, files.meta(about))
        play(again, X, y, range(t + 1, 80))
        assert state(again[1]) == end


@needs_native
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("before", "after"), [("numpy", "native"), ("native", "numpy")])
def test_a_checkpoint_moves_to_the_other_engine(before, after, dtype):
    X, y = problems.streams(2, 60, 2)
    for t in (5, 8, 16, 30, 31):
        ends = []
        for engine in (before, after):
            learners = network(nx.path_graph(2), engine=before, dtype=dtype)
            play(learners, X, y, range(t))
            moved = network(nx.path_graph(2), engine=engine, dtype=dtype)
            for old, new in zip(learners, moved, strict=True):
                new.load(*old.save())
            play(moved, X, y, range(t, 60))
            ends.append(np.array([one.state.theta for one in moved]))
        tolerance = 1e-11 if dtype == np.float64 else 2e-3
        np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=tolerance * np.abs(ends[0]).max())


@every_engine
def test_what_is_saved_does_not_change_while_the_learner_goes_on(engine):
    one = network(nx.empty_graph(1), engine=engine)[0]
    X, y = problems.streams(1, 90, 2)
    play([one], X, y, range(20))
    saved, _ = one.save()
    before = {name: array.copy() for name, array in saved.items()}
    play([one], X, y, range(20, 90))
    for name, array in saved.items():
        np.testing.assert_array_equal(array, before[name])


@every_engine
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("looked", [True, False])
def test_refused_samples_leave_a_learner_as_it_was(engine, dtype, looked):
    options = {"payload": "float16", "engine": engine, "dtype": dtype, "rates": domkl.Rates(1e-3, 1e-3, 1.0)}
    one, twin = (network(nx.path_graph(2), **options)[0] for _ in range(2))
    X, labels = problems.streams(1, 40, 2)
    huge = 1e200 if dtype == np.float64 else 3e38
    for t in range(40):
        before = state(one) if looked else None
        for y, reason in (
            (1e6, "too large for payload 'float16'"),
            (huge, "overflow|too large to be squared"),
            (np.nan, "y"),
        ):
            with pytest.raises(InputError, match=reason):
                one.observe([0.1, 0.2], y)
            assert not looked or state(one) == before
        for each in (one, twin):
            each.observe(X[0, t], labels[0, t])
            each.close()
    assert state(one) == state(twin)


@needs_native
def test_the_extension_refuses_what_does_not_fit():
    from domkl.engines._native import _engine

    rates = _engine.Rates(0.1, 0.1, 1.0, 0.0, "squared", 1.0, 0.0, "local")
    first, second = (_engine.Device64(V, 0, rates, newton=newton, isa="baseline") for newton in (False, True))
    for act, size in ((first.past, 20), (second.past, 10), (second.resume_past, 30)):
        with pytest.raises(ValueError, match=r"m must be \(P, 2D\)"):
            act(np.zeros(size))
    with pytest.raises(ValueError, match="only the second-order step has matrices"):
        first.inverses()


def test_learners_of_another_step_do_not_understand_each_other():
    learners = [network(nx.path_graph(2), **kind)[0] for kind in ({"step": "first"}, {})]
    assert learners[0].fingerprint != learners[1].fingerprint
    with pytest.raises(PeerError, match="the same kernels, rates, loss, step"):
        learners[0].receive("1", learners[1].observe([0.1, 0.2], 1.0))
    with pytest.raises(DataError, match="fingerprint"):
        learners[1].load(*learners[0].save())


@every_engine
def test_a_network_that_lost_messages_comes_back_to_the_undisturbed_one(engine):
    X, y = problems.streams(3, 200, 2)
    rng = np.random.default_rng(0)
    calm, rough = (network(nx.complete_graph(3), engine=engine) for _ in range(2))
    play(calm, X, y, range(200))
    play(rough, X, y, range(200), lambda t, a, b: t >= 130 or rng.random() < 0.7)
    size = np.abs(calm[0].state.theta).max()
    for a, b in zip(calm, rough, strict=True):
        assert np.abs(a.state.theta - b.state.theta).max() < 0.05 * size


def test_learners_at_unequal_rates_learn_what_they_do_not_see():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2, 300, 2))
    X[0, :, 0], X[1, :, 0] = -np.abs(X[0, :, 0]), np.abs(X[1, :, 0])  # each sees one half
    y = np.sin(2 * X[..., 0]) + X[..., 1]
    a, b = network(nx.path_graph(2))
    alone = network(nx.empty_graph(1))[0]
    for t in range(300):
        b.receive("0", a.observe(X[0, t], y[0, t]))
        alone.observe(X[0, t], y[0, t])
        if t % 3 == 0:
            a.receive("1", b.observe(X[1, t], y[1, t]))
    assert a.round >= 299
    assert b.round >= 99

    def error(one):
        return np.mean([(one.predict(x) - label) ** 2 for x, label in zip(X[1], y[1], strict=True)])

    assert error(a) < 0.8 * error(alone)


@pytest.mark.parametrize("step", ["first", "newton"])
def test_an_engine_that_has_no_devices_is_refused(step):
    with pytest.raises(InputError, match="engine 'mpi' is for simulate"):
        network(nx.path_graph(2), step=step, engine="mpi")

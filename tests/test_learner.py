from __future__ import annotations

import contextlib

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import problems
from domkl.base.errors import InputError, PeerError
from domkl.learner.learner import EARLIEST

V = domkl.kernels.gaussian(2, D=5, sigma2=[0.3, 3.0])
RATES = domkl.Rates(0.5, 0.5, 1.0)
MODEL = domkl.Paper(kernels=V, rates=RATES)


def learner(neighbours=("b", "c"), **options):
    model, how = problems.paper(**{"kernels": V, "rates": RATES, **options})
    return domkl.Learner(model, list(neighbours), **how)


def snapshot(one):
    """Everything that a refused call must leave as it was."""
    inbox = {(name, r): u.theta.tobytes() for name, x in one._known.items() for r, u in x.inbox.items()}
    return one.round, one.waiting, one.missing, [a.tobytes() for a in one.state], inbox


def test_a_round_closes_when_the_last_neighbour_is_in():
    a, b, c = learner(), learner("ac"), learner("ab")
    update = a.observe([0.1, 0.2], 1.0)
    assert (update.round, a.round, a.waiting, a.missing) == (0, 0, True, ("b", "c"))
    assert a.receive("c", c.observe([0.3, 0.4], 0.5))
    assert a.missing == ("b",)
    assert a.receive("b", b.observe([0.5, 0.6], 0.7))
    assert (a.round, a.waiting, a.missing) == (1, False, ())


def test_updates_may_come_early_twice_and_late():
    a, b, c = learner(), learner("ac"), learner("ab")
    from_b, from_c = b.observe([0.5, 0.6], 0.7), c.observe([0.3, 0.4], 0.5)
    assert a.receive("b", from_b)  # before our own round has begun
    assert not a.receive("b", from_b._replace(theta=from_b.theta + 1))  # a second time: the first counts
    a.observe([0.1, 0.2], 1.0)
    a.receive("c", from_c)
    assert a.round == 1
    before = snapshot(a)
    assert not a.receive("b", from_b)  # late
    assert snapshot(a) == before


@pytest.mark.parametrize("engine", problems.ENGINES)
@settings(max_examples=25, deadline=None)
@given(problems.graphs(most=5), st.randoms())
def test_neighbours_one_round_ahead_change_nothing(engine, graph, random):
    """Each learner goes on as soon as its own round is closed; messages wait in random order."""
    J, T = len(graph), 6
    X, y = problems.streams(J, T, 2)
    run = domkl.simulate(X, y, graph, model=MODEL, engine=engine)
    near = problems.neighbours_of(graph)
    devices = [domkl.Learner(MODEL, near[j], engine=engine) for j in range(J)]
    post = []
    while any(device.round < T for device in devices):
        ready = [j for j, device in enumerate(devices) if not device.waiting and device.round < T]
        if ready and (not post or random.random() < 0.5):
            j = random.choice(ready)
            update = devices[j].observe(X[j, devices[j].round], y[j, devices[j].round])
            post += [(j, i, update) for i in near[j]] * random.choice([1, 2])
        else:
            sender, receiver, update = post.pop(random.randrange(len(post)))
            devices[receiver].receive(sender, update)
    np.testing.assert_array_equal([device.state.theta for device in devices], run.theta)
    np.testing.assert_array_equal([device.state.q for device in devices], run.q)


def test_close_goes_on_without_the_missing():
    a, b = learner(), learner("ac")
    theta_b = b.observe([0.5, 0.6], 0.7).theta
    update = a.observe([0.1, 0.2], 1.0)
    a.receive("b", domkl.Update(0, theta_b, np.zeros(2), a.fingerprint))
    a.close()
    np.testing.assert_allclose(a.state.lam, RATES.rho / 2 * (update.theta - theta_b))
    np.testing.assert_array_equal(a.state.theta_sum, theta_b + update.theta)  # c pulls nowhere
    assert (a.round, a.waiting) == (1, False)


def test_a_round_in_which_both_ends_miss_each_other_keeps_the_duals_in_balance():
    X, y = problems.streams(2, 8, 2)
    a, b = learner("b"), learner("a")
    for t in range(8):
        from_a, from_b = a.observe(X[0, t], y[0, t]), b.observe(X[1, t], y[1, t])
        if t in (2, 5):
            a.close(), b.close()
        else:
            a.receive("b", from_b), b.receive("a", from_a)
    assert np.abs(a.state.lam).max() > 0.01
    np.testing.assert_allclose(a.state.lam + b.state.lam, 0, atol=1e-14)


def test_predict_then_observe_computes_the_features_once(monkeypatch):
    alone, calls = learner((), engine="numpy"), []
    real = domkl.learning.first_order.features
    monkeypatch.setattr("domkl.learning.first_order.features", lambda V, x: calls.append(x) or real(V, x))
    predicted = alone.predict([0.1, 0.2])
    alone.observe([0.1, 0.2], 1.0)
    assert alone.step.y_hat == predicted
    assert len(calls) == 1
    alone.predict([0.1, 0.3])
    assert len(calls) == 2


def test_a_changed_array_is_not_taken_for_the_old_one():
    alone, x = learner(()), np.array([0.1, 0.2])
    alone.observe(x, 1.0)
    first = alone.predict(x)
    x[0] = 0.9
    assert alone.predict(x) != first


def test_a_learner_without_neighbours_learns_alone():
    alone = learner(())
    for _ in range(50):
        alone.observe([0.1, 0.2], 1.0)
    assert alone.predict([0.1, 0.2]) == pytest.approx(1.0, abs=1e-3)
    assert alone.round == 50


def test_losses_stay_on_the_device_with_local_hedge():
    assert learner(hedge="local").observe([0.1, 0.2], 1.0).scalars is None
    assert learner(hedge="neighbours").observe([0.1, 0.2], 1.0).scalars is not None


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.1, np.nan], 1.0, r"x\[1\] is nan; expected finite numbers; drop or fill"),
        ([np.inf, 0.1], 1.0, r"x\[0\] is inf"),
        ([0.1, 0.2], np.nan, "y is nan"),
        ([0.1, 0.2, 0.3], 1.0, r"x has shape \(3,\); expected \(2,\); every sample needs the features"),
        ([[0.1, 0.2]], 1.0, r"x has shape \(1, 2\)"),
        ([0.1, 0.2], [1.0, 2.0], r"y has shape \(2,\); expected \(\); give one label at a time"),
        (["a", "b"], 1.0, "x cannot be read as numbers"),
        ([1j, 0.2], 1.0, "x cannot be read as numbers"),
        ([0.1, 0.2], 1e200, "y is 1e.200, too large to be squared"),
    ],
)
@pytest.mark.parametrize("engine", problems.ENGINES)
def test_bad_samples_are_named_and_change_nothing(x, y, message, engine):
    one = learner(engine=engine)
    one.observe([0.1, 0.2], 1.0)
    one.close()
    before = snapshot(one)
    with pytest.raises(InputError, match=message) as error:
        one.observe(x, y)
    assert "\n" not in str(error.value)
    assert snapshot(one) == before
    assert one.observe([0.1, 0.2], 1.0).round == 1


def test_a_wrong_label_for_classification_changes_nothing():
    one = learner(loss="logistic")
    before = snapshot(one)
    with pytest.raises(InputError, match="label 3"):
        one.observe([0.1, 0.2], 3.0)
    assert snapshot(one) == before


@pytest.mark.parametrize("model", [MODEL, domkl.Auto(size=60)], ids=["paper", "auto"])
def test_observing_never_waits(model):
    """A round that is still open ends with what has arrived; a bad sample ends none."""
    one, other = (domkl.Learner(model, [b], name=a, inputs=2) for a, b in ("ab", "ba"))
    one.observe([0.1, 0.2], 1.0)
    with pytest.raises(InputError):
        one.observe([0.1, np.inf], 1.0)
    assert (one.round, one.waiting) == (0, True)
    for t in range(1, 4):
        assert one.observe([0.1, 0.2 * t], 1.0).round == t
    assert (one.round, one.missing) == (3, ("b",))
    for t in range(4):
        assert one.receive("b", other.observe([0.3, 0.1 * t], 0.5))
    assert (one.round, one.waiting) == (4, False)
    with pytest.raises(InputError, match="no round is open"):
        one.close()


def test_unequal_rates_lose_no_news():
    """The slow one drops most of what it hears between two samples."""
    X = np.random.default_rng(0).uniform(0, 9, (3, 640, 2))
    for seed, rates in enumerate([(1, 5, 20), (20, 1, 5)]):
        rng = np.random.default_rng(seed)
        near = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
        all_of = {x: domkl.Learner(domkl.Auto(size=16), near[x], name=x, inputs=2) for x in near}
        for t in range(640):
            for j, (name, one) in enumerate(all_of.items()):
                if t % rates[j] == 0:
                    update = one.observe(X[j, t], X[j, t].sum())
                    for other in rng.permutation(near[name]):
                        all_of[other].receive(name, update)
        maps = [one._row.scale.known[0] for one in all_of.values()]
        for name in near:
            assert len({found[name].key() for found in maps}) == 1
        assert not any(one.faults for one in all_of.values())


def test_a_late_update_pulls_and_moves_no_dual():
    a, b = learner("b", name="a"), learner("a", name="b")
    first = b.observe([0.5, 0.6], 0.7)
    a.observe([0.1, 0.2], 1.0), a.close()
    assert a.receive("b", first)  # of a round that is over
    update = a.observe([0.3, 0.2], 1.0)
    a.close()
    np.testing.assert_array_equal(a.state.theta_sum, first.theta)
    assert not a.state.lam.any()
    assert not a.receive("b", first)
    a.observe([0.3, 0.2], 1.0), a.close()
    np.testing.assert_array_equal(a.state.theta_sum, a.state.theta)  # nothing new: no pull
    assert update.edges["b"].seen == -1


def other_kernels():
    return learner("a", kernels=V + 1e-9).observe([0.1, 0.2], 1.0)


def other_rates():
    return learner("a", rates=domkl.Rates(0.6, 0.5, 1.0)).observe([0.1, 0.2], 1.0)


def tampered(**changes):
    return lambda: learner(["a"]).observe([0.1, 0.2], 1.0)._replace(**changes)


@pytest.mark.parametrize(
    ("sender", "make", "message"),
    [
        ("mallory", tampered(), r"'mallory' is not a neighbour; expected one of \('b', 'c'\)"),
        (
            "b",
            other_kernels,
            "'b' sent fingerprint .*; give all learners the same kernels, rates, loss, step, hedge",
        ),
        ("b", other_rates, "'b' sent fingerprint"),
        ("b", tampered(theta=np.zeros((2, 9))), r"theta of 'b' is not \(2, 10\) finite numbers"),
        ("b", tampered(theta=np.full((2, 10), np.nan)), "theta of 'b' is not"),
        ("b", tampered(scalars=None), "scalars of 'b' is not"),
        ("b", tampered(scalars=np.array([1.0, np.inf])), "scalars of 'b' is not"),
        ("b", tampered(round=-1), "'b' sent no update"),
        ("b", lambda: None, "'b' sent no update"),
        ("b", tampered(round=None), "'b' sent no update"),
        ("b", tampered(round=0.5), "'b' sent no update"),
        ("b", tampered(theta=np.zeros((2, 10), complex)), "theta of 'b' is not"),
        ("b", tampered(theta="theta"), "theta of 'b' is not"),
    ],
)
def test_bad_updates_are_refused_and_change_nothing(sender, make, message):
    one = learner()
    one.observe([0.1, 0.2], 1.0)
    before = snapshot(one)
    with pytest.raises(PeerError, match=message):
        one.receive(sender, make())
    assert snapshot(one) == before


def test_memory_for_updates_is_bounded_and_the_newest_is_kept():
    one = learner()
    good = learner(["a"]).observe([0.1, 0.2], 1.0)
    rounds = [*range(EARLIEST + 3), 500, 400, 10**6]
    taken = [one.receive("b", good._replace(round=r)) for r in rounds]
    assert [r for r, kept in zip(rounds, taken, strict=True) if not kept] == [400]
    assert len(one._known["b"].inbox) == EARLIEST + 2
    assert max(one._known["b"].inbox) == 10**6


def test_neighbours_must_have_different_names():
    for bad in (["b", "b"], "bc", None):
        with pytest.raises(InputError, match="expected a list of different names"):
            domkl.Learner(MODEL, bad)


@pytest.mark.parametrize("engine", problems.ENGINES)
def test_float32_learners_equal_the_float32_simulator(engine):
    X, y = problems.streams(3, 10, 2)
    run = domkl.simulate(X, y, "complete", model=MODEL, dtype=np.float32, engine=engine)
    near = problems.neighbours_of(nx.complete_graph(3))
    devices = [domkl.Learner(MODEL, near[j], dtype=np.float32, engine=engine) for j in range(3)]
    for t in range(10):
        problems.feed(devices, range(3), nx.complete_graph(3), X[:, t], y[:, t], np.random.default_rng(t))
    np.testing.assert_array_equal([device.state.theta for device in devices], run.theta)
    assert run.theta.dtype == np.float32
    assert devices[0].state.theta.dtype == np.float32


@pytest.mark.parametrize("engine", problems.ENGINES)
def test_what_is_done_to_an_update_does_not_reach_the_learner(engine):
    one = learner(engine=engine)
    update = one.observe([0.1, 0.2], 1.0)
    with contextlib.suppress(ValueError):  # read-only is as good
        update.theta[:] = 99
    one.close()
    assert np.abs(one.state.theta).max() < 99


def test_equal_settings_have_equal_fingerprints_and_others_not():
    def fingerprint(rates=RATES, **options):
        return learner((), rates=rates, **options).fingerprint

    assert fingerprint(domkl.Rates(3, 3, 3)) == fingerprint(domkl.Rates(3.0, np.float64(3), np.int64(3)))
    losses = [domkl.losses.huber(1.0), domkl.losses.huber(1.0000001), domkl.losses.squared()]
    others = {"hedge": "local"}, {"exchange": domkl.Exchange("float32")}
    found = {fingerprint(loss=loss) for loss in losses} | {fingerprint(**other) for other in others}
    assert len(found) == 5


def test_learners_with_names_count_losses_right_after_a_one_sided_loss():
    a, b = (learner(x, hedge="messages", name=y) for x, y in ("ba", "ab"))
    X, y = problems.streams(2, 6, 2)
    for t in range(6):
        from_a, from_b = a.observe(X[0, t], y[0, t]), b.observe(X[1, t], y[1, t])
        a.receive("b", from_b)
        if t == 2:
            b.close()
        else:
            b.receive("a", from_a)
    for one, other in ((a, b), (b, a)):
        np.testing.assert_allclose(other._row.near[one.name].received, one.state.L, rtol=1e-12)


@pytest.mark.parametrize("engine", problems.ENGINES)
def test_huge_inputs_never_leave_a_state_that_is_not_finite(engine):
    one = learner((), engine=engine)
    for x in ([1e308, -1e308], [1e300, 1e300], [1e16, -1e16]):
        with contextlib.suppress(InputError):
            one.observe(x, 1.0)
        assert all(np.isfinite(part).all() for part in one.state)


def test_a_sample_without_known_inputs_or_a_name_is_refused_where_they_are_needed():
    with pytest.raises(InputError, match="inputs is not given"):
        domkl.Learner(domkl.Paper(rates=RATES), ["b"])
    with pytest.raises(InputError, match="inputs is not given"):
        domkl.Learner(domkl.Auto(), ["b"], name="a")
    with pytest.raises(InputError, match=r"name is not given; expected one with model Auto\(\)"):
        domkl.Learner(neighbours=["b"], inputs=2)
    with pytest.raises(InputError, match="payload is 'float8'"):
        learner(exchange=domkl.Exchange("float8"))
    assert domkl.Learner(domkl.Paper(rates=RATES), ["b"], inputs=2).shapes.theta == (17, 100)


# Rounds without a sample


def spread(learners, sender, update):
    """Everybody receives, and follows."""
    for name in learners[sender].neighbours:
        learners[name].receive(sender, update)
    for name in learners[sender].neighbours:
        if (more := learners[name].follow()) is not None:
            spread(learners, name, more)


def test_a_device_with_few_samples_learns_from_neighbours_between_them():
    near = {"quick": ["slow"], "slow": ["quick"], "alone": []}
    model = domkl.Auto(size=100)
    learners = {name: domkl.Learner(model, some, name=name, inputs=1) for name, some in near.items()}
    rng, errors = np.random.default_rng(0), {"slow": [], "alone": []}
    for t in range(400):
        x = rng.uniform(-3, 3, size=(2, 1))
        spread(learners, "quick", learners["quick"].observe(x[0], np.sin(x[0, 0])))
        if t % 20 == 0:
            y = np.sin(x[1, 0])
            for name, found in errors.items():
                found.append((learners[name].predict(x[1]) - y) ** 2)
            spread(learners, "slow", learners["slow"].observe(x[1], y))
            learners["alone"].observe(x[1], y)
    assert not any(one.faults for one in learners.values())
    assert abs(learners["quick"].round - learners["slow"].round) <= 1
    first = 1  # what it says before that rests on a single sample of its neighbour
    assert np.mean(errors["slow"][first:]) < 0.5 * np.mean(errors["alone"][first:])


def test_invented_rounds_are_followed_a_bounded_number_of_times():
    a, b = (domkl.Learner(domkl.Auto(size=50), [other], name=me, inputs=1) for me, other in ("ab", "ba"))
    update, followed = b.observe([1.0], 1.0), 0
    a.observe([1.0], 1.0)
    for k in range(1, 500):
        a.receive("b", update._replace(round=1000 * k))
        followed += a.follow() is not None
    assert followed <= 64
    a.observe([2.0], 2.0)
    a.receive("b", update._replace(round=10**6))
    assert a.follow() is not None
    assert not a.faults

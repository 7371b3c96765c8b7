"""Whatever is lost, both ends of every edge agree on its dual; and a learner's state survives a restart."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import problems
from domkl.exchange.edges import NEVER, Edge, Held, next_number

V = domkl.kernels.gaussian(2, D=5, sigma2=[0.3, 3.0])
RATES = domkl.Rates(0.5, 0.5, 1.0)


def learner(neighbours, name, payload="float64", **options):
    model, how = problems.paper(**{"kernels": V, "rates": RATES, **options})
    return domkl.Learner(model, list(neighbours), name=name, exchange=domkl.Exchange(payload), **how)


def network(graph, **options):
    return [learner(map(str, graph.neighbors(j)), str(j), **options) for j in sorted(graph)]


def deliver(learners, updates, lost, random):
    """Every update to every neighbour, in random order, but for the lost ones."""
    post = [(one.name, to) for one in learners for to in one.neighbours if one.name in updates]
    random.shuffle(post)
    for sender, receiver in post:
        if not lost(sender, receiver):
            learners[int(receiver)].receive(sender, updates[sender])


def play(learners, X, y, rounds, lost, random):
    for t in rounds:
        updates = {one.name: one.observe(X[j, t], y[j, t]) for j, one in enumerate(learners)}
        deliver(learners, updates, lambda a, b, t=t: lost(t, a, b), random)
        for one in learners:
            if one.waiting:
                one.close()


def assert_in_balance(learners):
    for one in learners:
        for name, neighbour in one._known.items():
            other = learners[int(name)]._known[one.name]
            np.testing.assert_array_equal(neighbour.dual, -other.dual)
            assert neighbour.moved == other.moved
        shares = sum(neighbour.dual for neighbour in one._known.values())
        np.testing.assert_allclose(one.state.lam, RATES.rho / 2 * shares, atol=1e-12)
    np.testing.assert_allclose(sum(one.state.lam for one in learners), 0, atol=1e-12)


@pytest.mark.parametrize("device", problems.DEVICES, ids=str)
@settings(max_examples=12, deadline=None)
@given(
    problems.graphs(most=5),
    st.sampled_from([0.0, 0.1, 0.5, 0.95]),
    st.sampled_from(["float64", "float32", "float16"]),
    st.randoms(),
)
def test_duals_cancel_whatever_is_lost(device, graph, loss, payload, random):
    X, y = problems.streams(len(graph), 26, 2)
    learners = network(graph, **device, payload=payload)
    play(learners, X, y, range(26), lambda t, *_: t < 25 and random.random() < loss, random)
    assert_in_balance(learners)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 200), st.randoms())
def test_one_way_silence_of_any_length_is_settled(length, random):
    """b hears a all the time, a hears nothing of b for a while."""
    X, y = problems.streams(2, length + 6, 2)
    learners = network(nx.path_graph(2))
    silent = range(3, 3 + length)
    play(learners, X, y, range(length + 6), lambda t, a, b: t in silent and a == "1", random)
    assert_in_balance(learners)
    assert learners[0]._known["1"].moved == length + 5


def test_rounds_that_only_one_end_held_do_not_count():
    X, y = problems.streams(2, 6, 2)
    learners = network(nx.path_graph(2))
    rng = np.random.default_rng(0)
    play(learners, X, y, range(6), lambda t, a, b: t in (2, 3) and a == "1", rng)
    whole = network(nx.path_graph(2))
    play(whole, X, y, range(6), lambda *_: False, rng)
    moves = [one._known[name] for one, name in zip(learners, "10", strict=True)]
    assert [edge.moved for edge in moves] == [5, 5]
    assert not np.allclose(learners[0].state.lam, whole[0].state.lam)


def test_a_move_is_taken_back_when_the_other_end_did_not_move():
    edge = Edge((1, 2), np.float64)
    edge.move(4, np.array([[1.0, 2.0]]), hoping=True)
    assert edge.settle(Held(moved=3), known=3) is None  # it cannot know yet
    np.testing.assert_array_equal(edge.settle(Held(moved=3), known=4), [[1.0, 2.0]])
    assert (edge.moved, edge.dual.tolist()) == (NEVER, [[0.0, 0.0]])
    assert edge.settle(Held(moved=3), known=5) is None  # only once


def test_what_neighbours_say_besides_their_updates_moves_no_dual():
    """A number is learnt before the first update; after that, only the round's update counts."""
    X, y = problems.streams(2, 6, 2)
    learners, rng = [learner("1", "0", number=7), learner("0", "1", number=8)], np.random.default_rng(0)
    a, b = learners
    a.meet("1", b.edges["0"]), b.meet("0", a.edges["1"])
    play(learners, X, y, range(5), lambda t, sender, _: (t, sender) == (4, "0"), rng)
    assert [a._known["1"].moved, b._known["0"].moved] == [4, 3]  # b does not know of a's last
    before = a.save()[0]
    a.meet("1", b.edges["0"]), a.meet("1", Held(mine=99))
    for name, array in a.save()[0].items():
        np.testing.assert_array_equal(array, before[name])
    assert a.edges["1"].theirs == 8
    play(learners, X, y, range(5, 6), lambda *_: False, rng)
    assert_in_balance(learners)


def test_news_of_later_rounds_than_a_restarted_learner_knows_takes_nothing_back():
    edge = Edge((1, 1), np.float64)
    edge.move(4, np.array([[1.0]]), hoping=True)
    assert edge.settle(Held(moved=20, before=19), known=20) is None
    assert edge.settle(Held(moved=5, before=4), known=5) is None
    assert not edge.hoping
    assert edge.moved == 4


def test_a_new_life_at_either_end_resets_the_edge():
    X, y = problems.streams(2, 12, 2)
    learners, rng = network(nx.path_graph(2)), np.random.default_rng(0)
    play(learners, X, y, range(4), lambda *_: False, rng)
    learners[1] = learner("0", "1", number=77)
    learners[1].skip_to(4)
    play(learners, X, y, range(4, 6), lambda *_: False, rng)
    assert learners[0]._known["1"].theirs == 77
    play(learners, X, y, range(6, 10), lambda *_: False, rng)
    assert_in_balance(learners)
    learners[0].reset_edges(5)
    assert np.abs(learners[0].state.lam).max() < 1e-15
    play(learners, X, y, range(10, 12), lambda *_: False, rng)
    assert_in_balance(learners)


@pytest.mark.parametrize("device", problems.DEVICES, ids=str)
@pytest.mark.parametrize("hedge", ["neighbours", "local", "messages"])
@pytest.mark.parametrize("payload", ["float64", "float16"])
def test_a_saved_learner_goes_on_with_the_same_bits(device, hedge, payload):
    X, y = problems.streams(3, 12, 2)
    options = {**device, "hedge": hedge, "payload": payload}
    kept, again = network(nx.path_graph(3), **options), network(nx.path_graph(3), **options)
    rng = np.random.default_rng(1)

    def lost(t, a, b):
        return (t, a) == (3, "1")

    play(kept, X, y, range(6), lost, rng)
    for old, new in zip(kept, again, strict=True):
        new.load(*old.save())
    play(kept, X, y, range(6, 12), lost, rng)
    play(again, X, y, range(6, 12), lost, rng)
    for old, new in zip(kept, again, strict=True):
        assert old.round == new.round == 12
        for a, b in zip(old.state, new.state, strict=True):
            np.testing.assert_array_equal(a, b)
        assert old.edges == new.edges


@pytest.mark.skipif(len(problems.ENGINES) < 2, reason="the native engine was not built")
def test_a_learner_saved_by_one_engine_goes_on_in_the_other():
    X, y = problems.streams(2, 8, 2)
    rng = np.random.default_rng(0)
    old, new = network(nx.path_graph(2), engine="native"), network(nx.path_graph(2), engine="numpy")
    play(old, X, y, range(4), lambda *_: False, rng)
    for one, other in zip(old, new, strict=True):
        other.load(*one.save())
    play(old, X, y, range(4, 8), lambda *_: False, rng)
    play(new, X, y, range(4, 8), lambda *_: False, rng)
    for one, other in zip(old, new, strict=True):
        np.testing.assert_allclose(one.state.theta, other.state.theta, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("device", problems.DEVICES, ids=str)
def test_a_loaded_learner_forgets_what_it_predicted_before(device):
    x, old, new = [0.3, 0.4], *network(nx.path_graph(2), **device)
    for _ in range(5):
        old.observe(x, 1.0), old.close()
    new.predict(x)
    saved, meta = old.save()
    new.load(saved, meta)
    assert new.predict(x) == old.predict(x) != 0
    assert new.observe(x, 1.0).scalars.tolist() == old.observe(x, 1.0).scalars.tolist()


def test_a_saved_learner_of_other_settings_is_refused():
    one, other = network(nx.path_graph(2))
    saved = one.save()
    stranger = learner("1", "0", rates=domkl.Rates(0.5, 0.5, 2.0))
    with pytest.raises(domkl.errors.DataError, match="the saved learner has fingerprint"):
        stranger.load(*saved)
    assert other.round == 0


@pytest.mark.parametrize("device", problems.DEVICES, ids=str)
def test_a_neighbour_that_leaves_takes_its_dual_along_and_one_that_joins_brings_none(device):
    X, y = problems.streams(3, 20, 2)
    learners, rng = network(nx.complete_graph(3), **device), np.random.default_rng(0)
    play(learners, X, y, range(8), lambda *_: False, rng)
    learners[0].leave("2"), learners[2].leave("0")
    assert_in_balance(learners)
    assert learners[0].neighbours == ("1",)
    play(learners, X, y, range(8, 14), lambda *_: False, rng)
    assert_in_balance(learners)
    learners[0].join("2", number=9), learners[2].join("0", number=4)
    play(learners, X, y, range(14, 20), lambda *_: False, rng)
    assert_in_balance(learners)
    assert learners[0]._known["2"].moved > 14


def test_a_straggler_goes_on_where_the_others_are():
    X, y = problems.streams(2, 300, 2)
    a, b = network(nx.path_graph(2))
    for t in range(200):
        update = a.observe(X[0, t], y[0, t])
        a.close()
        if t % 50 == 49:
            b.receive("0", update)  # far ahead, and without us
    assert b.round == 0
    assert b.ahead == 199
    b.skip_to(b.ahead)
    assert b.round == 199
    b.observe(X[1, 0], y[1, 0])
    assert (b.round, b.waiting) == (200, False)
    with pytest.raises(domkl.errors.InputError, match="round 3 is over"):
        b.skip_to(3)


def test_who_is_only_ahead_has_not_gone_on_without_us():
    one = network(nx.path_graph(2))[0]
    update = learner("0", "1").observe([0.1, 0.2], 1.0)
    one.receive("1", update._replace(round=100, edges={"0": Held(seen=99)}))
    assert one.ahead == 0
    one.receive("1", update._replace(round=101, edges={"0": Held(seen=99)}))
    assert one.ahead == 101


def test_a_newcomer_starts_from_what_two_neighbours_know_and_not_from_one():
    X, y = problems.streams(2, 30, 2)
    old = learner("1", "0")
    for t in range(30):
        update = old.observe(X[0, t], y[0, t])
        old.close()
    new = learner("0", "1", number=3)
    new.adopt([update])
    assert not new.state.theta.any()
    assert not new.state.L.any()
    new.adopt([update, update], share=0.5)
    np.testing.assert_allclose(new.state.theta, update.theta / 2)
    new.adopt([update, update])
    np.testing.assert_array_equal(new.state.L, old.state.L)
    assert new.predict(X[0, 0]) == pytest.approx(old.predict(X[0, 0]), rel=0.1)


def test_losses_that_a_neighbour_never_acknowledges_do_not_fill_the_memory():
    X, y = problems.streams(1, 200, 2)
    one = learner("1", "0", hedge="messages")
    for t in range(200):
        update = one.observe(X[0, t], y[0, t])
        one.receive("1", update._replace(edges={"0": Held()}))
    assert len(one._row.near["1"].sent) <= 65


@pytest.mark.parametrize("number", [2**63 - 1, 2**62, 0])
def test_numbers_of_edges_stay_in_the_range_of_messages(number):
    edge = Edge((1, 2), float, 5)
    edge.settle(Held(mine=number), 0)
    for _ in range(3):
        edge.restart(next_number(edge.number), next_number(edge.theirs))
        assert all(0 <= each < 2**63 for each in edge.held[:2])


def test_a_faster_neighbours_newest_update_pulls_once_and_moves_no_dual():
    X, y = problems.streams(2, 30, 2)
    a, b = network(nx.path_graph(2))
    updates = [b.observe(X[1, t], y[1, t]) for t in range(5)]
    assert [a.receive("1", updates[t]) for t in (0, 3, 2, 3, 1, 4)] == [True, True, True, False, True, True]
    a.observe(X[0, 0], y[0, 0])
    np.testing.assert_array_equal(a.state.theta_sum, updates[4].theta)
    assert not a.receive("1", updates[4])
    a.observe(X[0, 1], y[0, 1]), a.close()
    np.testing.assert_array_equal(a.state.theta_sum, a.state.theta)  # nothing new: no pull
    assert np.abs(a.state.lam).max() == 0
    reborn = learner("0", "1", number=5)
    assert a.receive("1", reborn.observe(X[1, 0], y[1, 0]))


def test_learners_learn_together_without_waiting():
    rng = np.random.default_rng(0)
    a, b = network(nx.path_graph(2))
    for t in range(400):
        x = rng.random(2)
        b.receive("0", a.observe(x, float(np.sin(3 * x[0]) + x[1])))
        if t % 10 == 0:  # b has a tenth of the data
            x = rng.random(2)
            a.receive("1", b.observe(x, float(np.sin(3 * x[0]) + x[1])))
    assert a.round >= 399
    assert b.round >= 39
    alone = learner((), None)
    rng = np.random.default_rng(1)
    for _ in range(40):
        x = rng.random(2)
        alone.observe(x, float(np.sin(3 * x[0]) + x[1]))
    tests = rng.random((200, 2))
    truth = np.sin(3 * tests[:, 0]) + tests[:, 1]

    def error(one):
        return np.mean([(one.predict(x) - y) ** 2 for x, y in zip(tests, truth, strict=True)])

    assert error(b) < error(alone)


def test_a_payload_too_small_for_the_estimate_is_refused():
    one = learner("b", "a", rates=domkl.Rates(1e-3, 1e-3, 1.0), payload="float16")
    with pytest.raises(domkl.errors.InputError, match="too large for payload 'float16'"):
        one.observe([0.1, 0.2], 1e6)
    assert not one.waiting
    one.observe([0.1, 0.2], 1.0)
    assert one.waiting

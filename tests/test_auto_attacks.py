"""What one lying neighbour can do to learners without settings, and that it ends there."""

from __future__ import annotations

import copy
import functools
import random

import networkx as nx
import numpy as np
import pytest

import domkl
import inmemory
import liars
import problems
from auto_networks import learners
from domkl.exchange.network import Network
from domkl.learner.auto_row import MOST_TAKEN
from domkl.learner.scales import headed, name_number
from domkl.learner.statistics import FIXED, is_alike
from domkl.learning.auto import AutoRows, C
from domkl.learning.auto import message as parts
from domkl.learning.auto.scale import scale_number

#: A neighbour called 1 that claims to be the end of a long path.
PATH = {1: (9, (0, 2)), **{k: (1, (k - 1, k + 1)) for k in range(2, 12)}}


def pair(rounds):
    """Two learners that have learnt together for some rounds, and the samples they go on with."""
    return copy.deepcopy(_pair(rounds))


@functools.cache
def _pair(rounds):
    X, y = problems.streams(2, rounds + 50, 2)
    graph = nx.path_graph(2)
    members = learners(graph, 2)
    problems.fed(members, graph, X[:, :rounds], y[:, :rounds], random.Random(0))
    return members, X[:, rounds:], y[:, rounds:]


def changed(learner, update, **small):
    """The update with other values of parts besides the parameters."""
    row = learner._row
    parts = {**row._unpacked(update), **{name: np.array(value, float) for name, value in small.items()}}
    return update._replace(scalars=row.layout.pack(parts)[1])


def go_on(a, b, x, y, lie=lambda update: update):
    """A round of two learners in which the second may lie."""
    from_a, from_b = a.observe(x[0], y[0]), b.observe(x[1], y[1])
    a.receive(1, lie(from_b))
    b.receive(0, from_a)


# Rounds end


@pytest.mark.parametrize("rounds", [3, 7])
def test_a_network_that_grows_in_an_open_round_does_not_break_it(rounds):
    (a, b), X, y = pair(rounds)
    from_a, from_b = a.observe(X[0, 0], y[0, 0]), b.observe(X[1, 0], y[1, 0])
    a.take_links(PATH)
    a.receive(1, from_b)
    b.receive(0, from_a)
    assert not a.waiting
    assert not a.faults
    assert a._row.model.warm.diameter > 5  # from the next round on
    a.observe(X[0, 1], y[0, 1])
    a.close()
    assert a.round == rounds + 2


@pytest.mark.parametrize("model", liars.MODELS.values(), ids=liars.MODELS)
@pytest.mark.parametrize("where", ["merge", "after", "believes"])
def test_whatever_a_message_breaks_its_round_ends_and_the_fault_is_counted(model, where, monkeypatch):
    a, b = (domkl.Learner(model, [other], name=name, inputs=2) for name, other in ("ab", "ba"))
    X, y = problems.streams(2, 20, 2)
    real = getattr(a._row, where)

    def broken(*given):
        if a.round == 5 and where != "after" and any(given[1] if where == "merge" else given[0]):
            raise KeyError(5)
        if a.round == 6 and where == "after":
            raise ZeroDivisionError("in the depths")
        return real(*given)

    monkeypatch.setattr(a._row, where, broken)
    for t in range(20):
        from_a, from_b = a.observe(X[0, t], y[0, t]), b.observe(X[1, t], y[1, t])
        a.receive("b", from_b)
        b.receive("a", from_a)
        assert not a.waiting
    assert a.round == b.round == 20
    assert len(a.faults) == 1
    assert np.isfinite(a.predict(X[0, 0]))


def test_an_agent_counts_such_a_fault_and_goes_on():
    X, y = problems.streams(2, 30, inmemory.d)

    async def disturb(agents):
        row = agents[0].learner._row
        real, row.merge = row.merge, lambda *given: 1 / 0
        await inmemory.until(lambda: agents[0].learner.faults or agents[0].refused["fault"])
        row.merge = real

    agents, _ = liars.run_with(nx.path_graph(2), X, y, inmemory.AUTO, disturb)
    assert [agent.progress.samples for agent in agents] == [30, 30]
    assert agents[0].refused["fault"] > 0
    assert not agents[0].learner.faults


def test_a_round_that_was_opened_by_a_row_that_failed_is_closed():
    X, y = problems.streams(2, 30, inmemory.d)

    async def disturb(agents):
        learner = agents[0].learner
        real = learner.observe

        def observe(*given):
            learner.observe = real
            real(*given)
            raise ZeroDivisionError("after the round was opened")

        learner.observe = observe

    agents, _ = liars.run_with(nx.path_graph(2), X, y, inmemory.AUTO, disturb)
    assert agents[0].learner.round == 30
    assert agents[0].rows.used == 29


# Memories


def test_no_neighbour_makes_a_learner_forget():
    (a, b), X, y = pair(110)
    model = a._row.model
    memories, resets, restarts = model.memories, model.joint.resets, model.memories.restarts
    assert memories
    young = []
    for t in range(40):
        now = a.round + 1
        lie = {"alarm": [[now, -1e9]], "restart": [[now, -3]]} if t % 3 else {"restart": [[now, -3]]}
        go_on(a, b, X[:, t], y[:, t], lambda update, lie=lie: changed(b, update, **lie))
        young.append(memories.all[1].samples)
    assert model.joint.resets == resets
    assert model.joint.restarts.tolist() == [0]
    assert memories.restarts <= restarts + 2
    assert min(young) >= 2
    assert memories.all[0].samples >= C.watch_lasting
    assert not a.faults


def test_a_device_follows_few_decisions_that_its_own_errors_do_not_confirm():
    (a, b), X, y = pair(110)
    memories = a._row.model.memories
    rounds = (1000, 1100, 1200, 1300, 1499, 1500, 1501)
    assert [*map(memories.follow_unconfirmed, rounds)] == [True, True, True, False, False, True, False]
    for t in range(40):  # these rounds are before those above: none is left
        lie = {"alarm": [[a.round + 1, -1e9]]}
        go_on(a, b, X[:, t], y[:, t], lambda update, lie=lie: changed(b, update, **lie))
        assert memories.detector.rounds_of_level > 0


def test_a_decision_that_own_errors_confirm_is_followed_whatever_was_before():
    (a, b), X, y = pair(110)
    memories = a._row.model.memories
    memories.unconfirmed = np.full(C.unconfirmed_most, float(a.round))
    go_on(a, b, X[:, 0], y[:, 0], lambda update: changed(b, update, alarm=[[a.round + 1, -1e9]]))
    assert memories.detector.rounds_of_level > 0
    memories.detector.own_surplus[:] = C.watch_alarm
    go_on(a, b, X[:, 1], y[:, 1], lambda update: changed(b, update, alarm=[[a.round + 1, -1e9]]))
    assert memories.detector.rounds_of_level == 0


@pytest.mark.parametrize(
    ("young", "past", "verdict", "before", "is_followed"),
    [
        (3.0, 3.0, -2, 0, False),
        (0.9, 0.9, -2, 0, True),
        (0.9, 0.9, -2, 1, False),
        (0.5, 3.0, -2, 1, True),
        (3.0, 0.5, -2, 0, False),  # the past memory is better, but the young one would take the place
        (3.0, 0.5, -3, 1, True),
        (0.5, 3.0, -3, 0, False),
    ],
)
def test_a_restart_is_followed_as_far_as_own_errors_allow(young, past, verdict, before, is_followed):
    """`young`, `past`: errors of memories over the long one's; `before`: others were followed lately."""
    (a, b), X, y = pair(110)
    memories = a._row.model.memories
    if before:
        memories.unconfirmed = np.full(C.unconfirmed_most, float(a.round))
    for t in range(C.watch_lasting):
        memories.detector.own_errors[:] = [1.0, 1.0, 1.0, young, past]
        lie = {"restart": [[a.round + 1, verdict]]} if t == C.watch_lasting - 1 else {}
        go_on(a, b, X[:, t], y[:, t], lambda update, lie=lie: changed(b, update, **lie))
    assert memories.restarts == is_followed
    assert a._row.model.joint.restarts.tolist() == [0]


class Decides(Network):
    """Learner 1 tells everybody, from some round on, that the joint models mislead."""

    since = 150

    def __init__(self, graph, exchange):
        super().__init__(graph, exchange)
        self.t = 0

    def delivered(self, own):
        self.t += 1
        lie = np.array([self.t + self.diameter, -2.0])
        restart = np.where((np.arange(self.graph.J) == 1)[:, None], lie, own["restart"])
        return own | {"restart": restart} if self.t > self.since else own


@pytest.mark.usefixtures("short_warm_up")
def test_nobody_gives_up_what_was_learnt_jointly_on_anothers_word():
    X, y = problems.streams(4, 260, 3)  # where the memories soon predict best
    network = Decides(domkl.graph.as_graph(nx.cycle_graph(4)), domkl.Exchange())
    rows = AutoRows(domkl.Auto(size=160), 4, 3, network.neighbours.weight, 4, network.diameter)
    doubts = 0
    for t in range(260):
        rows.merge(network.exchange_round(rows, rows.learn(rows.predict(X[:, t]), y[:, t])))
        doubts += rows.experts.doubt_joint().any() if t > 150 else 0
    assert doubts > 0  # by the experts' weights alone some would
    assert rows.memories.restarts > 1
    assert rows.joint.restarts.tolist() == [0] * 4


@pytest.mark.parametrize("since", [-1e300, 1e300, 2.0**53])
def test_an_alarm_leaves_some_samples_whatever_it_claims(since):
    (a, b), X, y = pair(110)
    go_on(a, b, X[:, 0], y[:, 0], lambda update: changed(b, update, alarm=[[a.round + 1, since]]))
    assert not a.faults
    assert 2 <= a._row.model.memories.all[1].samples <= C.young_rounds


# Scales

#: Statistics of no column of these tests: what they are around, and how wide.
NONSENSE = {"far": (1e6, 1e-3), "wide": (0.0, 1e9), "narrow": (0.0, 1e-9), "somewhat wide": (0.0, 1e3)}


def statistics_around(centre, width, columns=3):
    """Of a scale, in a row."""
    edges = np.tile((centre + width * np.linspace(-0.5, 0.5, 17))[:, None], (1, columns))
    about = [np.full(columns, value) for value in (100.0, centre, width / 4)]
    return np.vstack([*about, edges[0], edges[-1], edges]).ravel()


def with_scale(learner, update, whole):
    """The update of a sender that claims a fixed scale of as many learners as there can be."""
    rank = {"scale": [scale_number(whole)], "rank": [parts.FIXED_RANK + parts.MOST_COUNT]}
    row = headed(update.round, FIXED, parts.MOST_COUNT, whole, 3)
    return changed(learner, update, **rank)._replace(more=row)


@pytest.mark.parametrize("rounds", [20, 50])
@pytest.mark.parametrize("kind", NONSENSE)
def test_a_scale_that_own_samples_do_not_fit_is_not_kept(kind, rounds):
    (a, b), X, y = pair(rounds)
    whole = statistics_around(*NONSENSE[kind])
    for t in range(20):
        go_on(a, b, X[:, t], y[:, t], lambda update: with_scale(b, update, whole))
        assert a._row._number != scale_number(whole)
    for t in range(20, 50):  # until a scale is due
        go_on(a, b, X[:, t], y[:, t])
    assert a._row._number == b._row._number != 0
    assert not a.faults


def test_the_only_neighbours_scale_is_taken_once_no_other_is_due_if_it_fits():
    (a, b), X, y = pair(50)
    whole = statistics_around(0.0, 5.0)
    for t in range(30):
        go_on(a, b, X[:, t], y[:, t], lambda update: with_scale(b, update, whole))
        assert (a._row._number == scale_number(whole)) == (a.round >= a._row.model.warm.looks)
    assert not a._row.model.warm.over  # whatever it claims, one of everybody's statistics is still due


def no_deviations(one, update):
    """The liar's scale, of the highest rank, in which all inputs seem constant."""
    scale = one._row.model.scale
    if scale is None or not len(scale.whole) or not 33 <= update.round < 76:
        return update
    false = scale.whole.reshape(-1, 3).copy()
    false[2, :-1] = 0.0
    return with_scale(one, update, false.ravel())


@pytest.mark.parametrize(
    ("row", "is_near"),
    [
        ([0.0] * 5 + [0.1, 0.2, 0.2, 0.1, 0.0], True),
        ([0.0, 0.6, 0, 0, 0] + [0.0] * 5, False),  # the mean, in spans
        ([0.0, 0, -0.2, 0, 0] + [0.0] * 5, False),  # the deviation, of 0.25 spans
        ([0.0, 0, 0, 0, 0.8, 0, 0, 0, 0, 0.8], False),  # the highest value
        ([0.0] * 5 + [0, -0.25, -0.5, -0.75, 0], False),  # quantiles, all of them near the lowest
    ],
)
def test_scales_are_nearly_the_same_in_all_that_features_depend_on(row, is_near):
    one = np.array([9, 0.5, 0.25, 0.0, 1.0, 0.0, 0.25, 0.5, 0.75, 1.0])
    few = np.array([9, 0.5, 0.25, 0.0, 1.0, 0.0, 0.5, 1.0])  # with fewer quantiles
    two = one + np.array(row)
    assert is_alike(parts.unpacked(one, 1), parts.unpacked(two, 1)) == is_near
    assert is_alike(parts.unpacked(two, 1), parts.unpacked(few, 1)) == is_near
    assert is_alike(parts.unpacked(0 * one, 1), parts.unpacked(0 * few, 1))


def test_a_scale_in_which_inputs_seem_constant_is_not_nearly_the_same():
    members, _ = ring_with_liar(no_deviations, T=90)
    assert all((one._row.model.scale.inputs.sd > 0).all() for one in members)
    assert not any(one._row.model.warm.over for one in members)


def test_an_only_neighbour_makes_few_scales_anew():
    (a, b), X, y = pair(70)
    numbers = set()
    for t in range(30):
        whole = statistics_around(0.0, 5.0 + t / 100)
        go_on(a, b, X[:, t], y[:, t], lambda update, whole=whole: with_scale(b, update, whole))
        numbers.add(a._row._number)
    assert 1 < len(numbers) <= 1 + MOST_TAKEN


def test_a_newcomer_prefers_the_scale_of_most_neighbours_to_a_higher_rank():
    graph = nx.complete_graph(4)
    X, y = problems.streams(4, 3, 2)
    members, whole = learners(graph, 2), [statistics_around(0.0, width) for width in (1e9, 4.0)]
    new = members[0]
    new.skip_to(600)
    for t in range(3):
        own = new.observe(X[0, t], y[0, t])
        honest = changed(new, own, scale=[scale_number(whole[1])], rank=[parts.FIXED_RANK + 4])
        honest = honest._replace(more=headed(own.round, FIXED, 4, whole[1], 3))
        for k, update in ((1, with_scale(new, own, whole[0])), (2, honest), (3, honest)):
            new.receive(k, update)
    assert new._row._number == scale_number(whole[1])
    assert new._row.model.warm.over


def ring_with_liar(lie, T=80, J=5):
    """Devices on a ring; learner 0 sends what `lie` makes of its updates."""
    graph = nx.cycle_graph(J)
    X, y = problems.streams(J, T, 2)
    members = learners(graph, 2)
    for t in range(T):
        updates = [one.observe(X[j, t], y[j, t]) for j, one in enumerate(members)]
        updates[0] = lie(members[0], updates[0])
        for one in members:
            for i in one.neighbours:
                one.receive(i, updates[i])
    return members, y


def false_statistics(names):
    """Those of learner 0, a thousand times too large, in these names."""

    def lie(learner, update):
        warm = learner._row.model.warm
        if not warm.samples:
            return update
        found = parts.packed(warm.statistics()).reshape(-1, 3)
        false = np.vstack([found[:1], 1000 * found[1:]]).ravel()
        rounds = range(update.round, update.round + 4)
        rows = [headed(r, name_number(name), 1, false, 3) for r in rounds for name in names]
        return update._replace(more=np.concatenate(rows))

    return lie


@pytest.mark.parametrize("names", [[0], range(5)])
def test_nobody_makes_up_statistics_of_others(names):
    members, y = ring_with_liar(false_statistics(names))
    widths = [one._row.model.scale.width[0] for one in members[1:]]
    assert max(widths) < 2 * (y.max() - y.min())
    assert not any(one.faults for one in members)


@pytest.mark.parametrize("rounds", [4, 20, 70])
def test_a_scale_that_a_neighbour_shares_is_not_given_up_for_one_voice(rounds):
    whole = statistics_around(0.0, 50.0)
    lie = lambda one, update: with_scale(one, update, whole) if update.round >= rounds else update  # noqa: E731
    members, y = ring_with_liar(lie)
    assert all(one._row._number != scale_number(whole) for one in members)
    assert max(one._row.model.scale.width[0] for one in members) < 2 * (y.max() - y.min())


def told_of_scales(wholes, times=1):
    """A learner whose two neighbours bring these scales, each as often in one message; or none of its own."""
    members, _ = ring_with_liar(lambda one, update: update, J=3)
    a, X = members[0], problems.streams(3, 1, 2)
    a.observe(X[0][0, 0], X[1][0, 0])
    for k, whole in zip((1, 2), wholes, strict=True):
        update = members[k].observe(X[0][k, 0], X[1][k, 0])
        if whole is not None:
            update = with_scale(members[k], update, whole)
            update = update._replace(more=np.tile(update.more, times))
        a.receive(k, update)
    return a._row


def test_two_voices_of_two_replace_a_scale_that_may_still_change():
    whole = statistics_around(0.0, 5.0)
    assert told_of_scales([whole, whole])._number == scale_number(whole)


def test_one_voice_that_says_so_twice_replaces_none():
    whole = statistics_around(0.0, 50.0)
    assert told_of_scales([whole, None], times=2)._number != scale_number(whole)


def test_a_scale_with_the_number_of_another_has_no_part_in_its_voices(monkeypatch):
    """A checksum is soon forged: whoever forges one speaks for itself alone."""
    true, forged = statistics_around(0.0, 5.0), statistics_around(0.0, 5000.0)
    number, real = scale_number(true), scale_number
    forge = lambda whole: number if whole[3] == 0.0 else real(whole)  # noqa: E731
    for module in ("domkl.learner.statistics", __name__):
        monkeypatch.setattr(f"{module}.scale_number", forge)
    row = told_of_scales([forged, true])
    assert row.model.scale.width[0] < 100


def test_statistics_that_a_neighbour_sends_of_itself_replace_what_others_send_of_it():
    members = learners(nx.complete_graph(3), 2)
    a, X = members[0], problems.streams(3, 4, 2)
    updates = [one.observe(X[0][j, 0], X[1][j, 0]) for j, one in enumerate(members)]
    true = next(row for row in a._row._rows(updates[2]) if int(row[1]) == name_number(2))
    false = np.concatenate([true[:4], 7 * true[4:]])
    for order in ({1: [false], 2: [true]}, {2: [true], 1: [false]}):
        a._row.table.restore([])
        a._row.note_statistics({k: updates[k]._replace(more=np.concatenate(v)) for k, v in order.items()})
        np.testing.assert_array_equal(a._row.table.rows[int(true[0])][2], true[4:])
    state = a._row.state()
    a._row.restore(state)
    assert a._row.table.first_hand == {(int(true[0]), 2)}


# The warm-up


@pytest.mark.parametrize(("at", "to"), [(30, 132), (0, 3000)])
def test_the_warm_up_ends_and_samples_are_dropped_also_where_its_last_round_was_skipped(
    at, to, short_warm_up
):
    one = domkl.Learner(domkl.Auto(size=16), [1], name=0, inputs=1)
    X, y = problems.streams(1, 2 * short_warm_up, 1)
    kept = []
    for t in range(2 * short_warm_up):
        if t == at:
            one.skip_to(to)
        if one.round == 2 * short_warm_up - 1:
            one.skip_to(2 * short_warm_up + 20)
        one.observe(X[0, t], y[0, t])
        one.close()
        kept.append(len(one._row.model.warm.samples))
        if kept[-5:] == [0] * 5:
            break
    assert one._row.model.warm.over
    assert kept[-1] == 0
    assert max(kept) < 2 * short_warm_up
    assert abs(one.predict([0.5]) - np.sin(1.0) - 0.5) < 0.5
    assert not one.faults


# The range of the targets


@pytest.mark.parametrize("rounds", [3, 20])
def test_no_neighbour_takes_the_range_of_the_targets_away(rounds):
    (a, b), X, y = pair(rounds)
    lie = {"low": [-1.7e308], "high": [1.7e308]}
    go_on(a, b, X[:, 0], y[:, 0], lambda update: changed(b, update, **lie))
    for t in range(1, 40):
        go_on(a, b, X[:, t], y[:, t])
    for model in (a._row.model, b._row.model):
        assert model.high[0] < 1e5 * np.ptp(y)
        assert model.low[0] > -1e5 * np.ptp(y)

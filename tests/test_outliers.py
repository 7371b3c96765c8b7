"""Labels that cannot be believed: bounded before the model learns them, refused where bounds are given."""

from __future__ import annotations

import json
import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import domkl
import naive
import problems
from auto_networks import SIZE, learners, simulated
from domkl.base.errors import InputError
from domkl.learning import losses, second_order
from domkl.learning.auto import C
from domkl.learning.auto.label_unit import LabelUnit
from domkl.learning.auto.outliers import NOTHING, Fenced, LabelGate, RowGate
from domkl.learning.auto.own import Own
from domkl.learning.auto.own_watch import OwnWatch
from domkl.learning.auto.warmup import WarmUp


def stream(T, J=3):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(J, T, 2))
    return X, np.sin(4 * X[..., 0]) + X[..., 1] + 0.05 * rng.standard_normal((J, T))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.3]))
def test_the_gate_is_its_literal_twin(seed, smooth):
    rng = np.random.default_rng(seed)
    y = np.round(rng.standard_normal(150) * rng.choice([smooth, 1e3], 150, p=[0.9, 0.1]), rng.integers(4))
    y_hat = rng.standard_normal(150) * 0.1
    alone = y_hat + rng.standard_normal(150) * rng.choice([0.1, 30], 150, p=[0.9, 0.1])
    gate, each = RowGate(), zip(y_hat.tolist(), alone.tolist(), y.tolist(), strict=True)
    found = []
    for t, three in enumerate(each):
        inside = (min(found), max(found)) if found else NOTHING
        found.append(gate.bound(*three, t > 0, inside))
    expected = naive.believed(y.tolist(), y_hat.tolist(), alone.tolist(), C)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(3.0, 1.0), (1e3, 1.0), (0.0, 1e3), (-2.0, 0.5)]),
    st.sampled_from([0, 20]),
)
def test_own_samples_are_watched_as_by_the_literal_twin(seed, unit, late):
    """Labels change their unit now and then, or, where predictions come late, something else happens."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((2, 360))
    changed = np.repeat(rng.random((2, 3)) < 0.5, 120, axis=1)
    y = np.where(changed, unit[0] + unit[1] * truth, truth)
    alone = np.concatenate([np.zeros((2, late)), truth[:, : 360 - late]], 1) + 0.1 * rng.standard_normal(
        y.shape
    )
    watch, inside, found, unit_now = OwnWatch(2), np.array([[-3.0] * 2, [3.0] * 2]), [], LabelUnit(2)
    for t in range(360):
        found.append(watch.observe(alone[:, t], unit_now.first(y[:, t]), inside, unit_now))
        unit_now.change(found[-1].shift, found[-1].factor)
    for j in range(2):
        lost, units = naive.own_watch(y[j].tolist(), alone[j].tolist(), -3.0, 3.0, C)
        assert np.flatnonzero([each.lost[j] for each in found]).tolist() == lost
        seen = [(t, c.shift[j], c.factor[j], c.span[j]) for t, c in enumerate(found) if c.of_unit[j]]
        np.testing.assert_allclose(seen, units, rtol=1e-9, atol=1e-9)


def watched(y, guesses, inside=(-4.0, 4.0)):
    """Changes that one learner's labels show beside what its own samples predict."""
    watch, bounds, unit = OwnWatch(1), np.array(inside)[:, None], LabelUnit(1)
    return [
        watch.observe(np.array([g]), np.array([v]), bounds, unit) for g, v in zip(guesses, y, strict=True)
    ]


def test_own_samples_are_dropped_after_a_change_and_not_for_some_wrong_labels():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(400)
    y[100:290][rng.random(190) < 0.05] = 1e6
    y[300:] += 100
    lost = [bool(change.lost[0]) for change in watched(y, np.zeros(400), (-1e9, 1e9))]
    assert np.flatnonzero(lost).tolist() == [300 + C.own_last // 2]


@pytest.mark.parametrize(("shift", "factor"), [(0, 1000), (-2.0, 5 / 9), (273.15, 1), (32, 1.8)])
def test_another_unit_is_recognised_after_nine_labels_or_some_more_and_no_sample_is_dropped(shift, factor):
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(161)
    y, guesses = truth.copy(), truth + 0.1 * rng.standard_normal(161)
    y[150:] = shift + factor * truth[150:]
    found = watched(y, guesses, (-3.0, 3.0))
    assert not any(change.lost[0] for change in found)
    (change,) = [change for change in found if change.of_unit[0]][:1]
    led = change.shift[0] + change.factor[0] * truth
    np.testing.assert_allclose(led, shift + factor * truth, atol=0.4 * factor)


@pytest.mark.parametrize("seed", range(20))
def test_labels_from_before_the_change_are_not_told_again(seed):
    """Large errors of before, which long tails have now and then, are in the old unit."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(170)
    y, guesses = truth / np.where(np.arange(170) < 150, 1, 1000), truth + 0.1 * rng.standard_t(3, 170)
    for t, change in enumerate(watched(y, guesses)):
        assert change.span[0] <= max(t + 1 - 150, 0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_unit_that_comes_back_is_followed_also_where_errors_resemble_each_other(seed):
    rng = np.random.default_rng(seed)
    X, noise = rng.uniform(size=(3, 460, 2)), rng.standard_normal((3, 460))
    for t in range(1, 460):
        noise[:, t] = 0.6 * noise[:, t - 1] + 0.8 * noise[:, t]
    y = np.sin(4 * X[..., 0]) + X[..., 1] + 0.1 * noise
    given = y.copy()
    given[0, 200:280] *= 1000
    run = domkl.simulate(X, given, "ring", model=domkl.Auto(size=SIZE))
    assert ((run.y_hat - y)[0, 360:] ** 2).mean() < 0.2 * y.var()


def test_consensus_and_alone_are_in_the_unit_of_the_labels():
    X, y = stream(300)
    given = y.copy()
    given[0, 150:] *= 1000
    clean, run = (domkl.simulate(X, labels, "ring", model=domkl.Auto(size=SIZE)) for labels in (y, given))
    assert 1e4 < run.cv[0] / clean.cv[0] < 1e8
    assert 1e4 < run.alone[0] / clean.alone[0] < 1e8
    assert (run.cv[1:] < 10 * clean.cv[1:]).all()


def test_a_learner_that_kept_all_labels_from_some_round_on_goes_on_in_its_unit():
    X, y = stream(240, 1)
    y[0, 150:] = 32 + 1.8 * y[0, 150:]
    (one,), other = (
        learners(nx.empty_graph(1), 2),
        domkl.Learner(domkl.Auto(size=SIZE, outliers="keep"), [], name="l0", inputs=2),
    )
    for t in range(200):
        one.observe(X[0, t], y[0, t])
    other.load(*one.save())
    errors = []
    for t in range(200, 240):
        errors.append(other.predict(X[0, t]) - y[0, t])
        other.observe(X[0, t], y[0, t])
    assert np.mean(np.square(errors)) < 0.3 * y[0, 200:].var()


def test_a_front_is_no_other_unit():
    """Errors that grow and pass, inside the range of labels, and resemble each other at other times too."""
    rng = np.random.default_rng(0)
    noise = np.convolve(rng.standard_normal(400), np.ones(8) / 8, "same") * 0.3
    season = np.sin(np.arange(400) / 20)
    y = season + noise
    y[300:330] += 0.9 * np.hanning(30)
    assert not any(change.of_unit[0] for change in watched(y, season))


def test_own_samples_are_dropped_for_one_learner_and_no_other_bit_changes():
    own = Own(losses.get("squared"), np.float64, second_order.Inverse.diagonal)
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((12, 3, C.models, 5)), rng.standard_normal((12, 3))
    own.reset(3, 5)
    for row, label in zip(z, y, strict=True):
        own.learn(row, label, np.zeros((3, C.models, 5)))
    before, fresh = own.scores(z[0], z[1]), Own(own.loss, np.float64, own.diagonal)
    fresh.reset(3, 5)
    own.drop(np.array([False, True, False]))
    after, empty = own.scores(z[0], z[1]), fresh.scores(z[0], z[1])
    for now, then, new in zip(after, before, empty, strict=True):
        np.testing.assert_array_equal(now[[0, 2]], then[[0, 2]])
        np.testing.assert_array_equal(now[1], new[1])


@pytest.mark.parametrize(
    ("shift", "factor", "at", "is_fixed"), [(0, 1000, 150, True), (-0.9, 5 / 9, 200, False)]
)
def test_a_change_of_unit_at_one_learner_is_followed(shift, factor, at, is_fixed, request):
    """After the scale is fixed, and before."""
    if is_fixed:
        request.getfixturevalue("short_warm_up")
    X, y = stream(at + 300)
    given = y.copy()
    given[0, at:] = shift + factor * y[0, at:]
    runs = [domkl.simulate(X, label, "ring", model=domkl.Auto(size=SIZE)).y_hat for label in (y, given)]
    clean, changed = ((runs[0] - y)[0, at + 200 :] ** 2, (runs[1] - given)[0, at + 200 :] ** 2)
    assert changed.mean() < 1.5 * factor**2 * clean.mean()


def test_labels_within_reach_are_kept_to_the_last_bit():
    y = np.random.default_rng(0).standard_normal((500, 2))
    gate = LabelGate(2)
    found = np.array([gate.bound(0.1 * row, 0.1 * row, row, True)[0] for row in y])
    assert (found == y).mean() > 0.99


@pytest.mark.parametrize(("at", "by"), [(4, 1e2), (4, 1e12), (40, 1e12), (150, 1e2)])
def test_one_wrong_label_hardly_matters(at, by):
    X, y = stream(at + 101)
    given = y.copy()
    given[0, at] += by
    model = domkl.Auto(size=SIZE)
    clean, wrong = (domkl.simulate(X, label, "ring", model=model).y_hat for label in (y, given))
    errors = [((found - y)[:, at + 1 :] ** 2).mean() for found in (clean, wrong)]
    assert errors[1] < (1.2 if at < 10 else 1.1) * errors[0]  # of four labels little is known


def test_kept_labels_do_great_harm():
    X, y = stream(141)
    y[0, 40] += 1e6
    run = domkl.simulate(X, y, "ring", model=domkl.Auto(size=SIZE, outliers="keep"))
    assert np.abs(run.y_hat - y)[:, 41:].max() > 1e3


def test_a_change_that_lasts_is_let_through_soon():
    gate, rng = RowGate(), np.random.default_rng(0)
    for y in rng.standard_normal(200).tolist():
        gate.bound(0.0, 0.0, y, True)
    after = [gate.bound(0.0, 0.0, 1000 + y, True) for y in rng.standard_normal(20).tolist()]
    assert after[0] == 0.0
    assert min(after[C.label_last // 2 + 1 :]) > 900


def test_a_target_that_is_mostly_one_value_has_events_and_no_outliers():
    gate, rng = RowGate(), np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.05, 7.0, 0.0).tolist()
    assert [gate.bound(0.01, 0.01, label, True) for label in y] == y


@pytest.mark.parametrize(
    ("labels", "expected", "wild"),
    [
        ([1.0, 2.0, 1e9], [1.0, 2.0, 1e9], []),
        ([1.0, 2.0, 1e9, 3.0, 2.5], [1.0, 2.0, 2.5, 3.0, 2.5], [2]),
        ([1.0, 2.0, 40.0, 3.0, 2.5], [1.0, 2.0, 40.0, 3.0, 2.5], []),  # few labels tell little
        ([1.0, 2.0, 200.0, 3.0, 2.5], [1.0, 2.0, 3.0, 3.0, 2.5], []),
        ([1.0, 2.0, 2.0, 1e9], [1.0, 2.0, 2.0, 2.0], [3]),
        ([1.0] * 20 + [1e9], [1.0] * 20 + [1e9], []),  # the later ones have been judged
        ([1.0, 1.0, 1.0, 5.0], [1.0, 1.0, 1.0, 5.0], []),
    ],
)
def test_first_labels_are_compared_with_each_other(labels, expected, wild):
    found = Fenced.of(labels)
    assert found.labels == expected
    assert np.flatnonzero(found.wild).tolist() == wild


def test_of_a_wild_first_label_the_inputs_are_not_kept_either():
    warm = WarmUp(1, 1, 0, fenced=True)
    warm.samples = [(np.full((1, 2), x), np.array([y])) for x, y in enumerate([1.0, 2.0, 1e9, 3.0, 2.5])]
    kept = warm.believed()
    assert [bool(np.isnan(x).all()) for x, _ in kept] == [False, False, True, False, False]


def test_a_rare_peak_that_has_been_seen_before_is_believed():
    gate, rng = RowGate(), np.random.default_rng(0)
    for y in rng.standard_normal(200).tolist():
        gate.bound(y + 0.01, y + 0.01, y, True)  # good predictions: a peak is many deviations away
    assert gate.bound(0.0, 0.0, 4.0, True, (-3.0, 20.0)) == 4.0
    assert gate.bound(0.0, 0.0, 4.0, True, (-3.0, 3.0)) == 0.0
    assert gate.bound(0.0, 0.0, 1e6, True, (-3.0, 20.0)) == 0.0
    assert gate.bound(0.0, 0.0, 1e6, True, (-3.0, 1e6)) == 0.0  # a fault that lasted some rounds, long ago


def test_a_label_near_its_prediction_is_believed_though_it_is_the_greatest_so_far():
    gate, rng = RowGate(), np.random.default_rng(0)
    for y in rng.standard_normal(200).tolist():
        gate.bound(y + 0.01, y + 0.01, y, True)
    assert gate.bound(3.0, 3.0, 5.0, True, (-3.0, 3.0)) == 5.0
    assert gate.bound(3.0, 3.0, 7.0, True, (-3.0, 3.0)) == 3.0
    assert gate.bound(3.0, 3.0, 7.0, True, (-3.0, 1e6)) == 3.0  # a fault in the range widens nothing


@pytest.mark.parametrize(("predicted", "learnt"), [(2.9, 2.9), (-1e9, 2.0)])
def test_a_wild_label_of_the_first_counts_as_its_prediction_or_as_the_median_if_that_is_no_better(
    predicted, learnt
):
    gate = RowGate()
    for y in (1.0, 2.0, 3.0, 2.5, 1.5):
        gate.bound(2.0, 2.0, y, True)
    assert gate.bound(predicted, predicted, 1e9, True) == learnt


def test_classes_are_never_bounded():
    X, y = problems.streams(2, 5, 2, classify=True)
    _, rows = simulated(nx.path_graph(2), X, y, loss="logistic")
    assert rows.gate is None


def test_a_saved_learner_knows_its_errors_and_one_that_kept_all_labels_starts_without():
    X, y = stream(60, 1)
    y[0, 50] = 1e6
    (one,), (two,), (three,) = (learners(nx.empty_graph(1), 2) for _ in range(3))
    for t in range(40):
        one.observe(X[0, t], y[0, t])
    arrays, meta = one.save()
    two.load(arrays, json.loads(json.dumps(meta)))
    meta["state"]["fields"]["row"]["fields"]["model"]["fields"]["gate"] = None
    three.load(arrays, meta)
    assert three._row.model.gate.rows[0].is_new
    watches = [learner._row.model.own_watch for learner in (one, two)]
    np.testing.assert_array_equal(watches[0].errors, watches[1].errors)
    assert watches[0].since == watches[1].since == 39
    for t in range(40, 60):
        for learner in (one, two, three):
            learner.observe(X[0, t], y[0, t])
    assert one.predict(X[0, 0]) == two.predict(X[0, 0])


NEWTON = domkl.Paper(
    kernels=domkl.KernelSpec(D=6, sigma2=(0.3, 3.0)),
    rates=domkl.Rates(0.3, 0.01, 1.0),
    step="newton",
    outliers="bound",
)


def test_the_second_order_step_bounds_labels_on_devices_as_in_one_process():
    graph, (X, y) = nx.cycle_graph(3), stream(165)
    given = y.copy()
    given[0, 60] += 1e6
    clean, wrong = (domkl.simulate(X, label, graph, model=NEWTON).y_hat for label in (y, given))
    errors = [((found - y)[:, 61:161] ** 2).mean() for found in (clean, wrong)]
    assert errors[1] < 1.1 * errors[0]
    members = problems.learners(graph, NEWTON, inputs=2)
    np.testing.assert_array_equal(problems.fed(members, graph, X, given, random.Random(0)), wrong)


def test_a_saved_second_order_learner_knows_its_errors():
    X, y = stream(60, 1)
    y[0, 50] = 1e6
    one, two = (domkl.Learner(NEWTON, name="a", inputs=2) for _ in range(2))
    for t in range(40):
        one.observe(X[0, t], y[0, t])
    two.load(*one.save())
    for t in range(40, 60):
        one.observe(X[0, t], y[0, t]), two.observe(X[0, t], y[0, t])
    assert one.predict(X[0, 0]) == two.predict(X[0, 0]) < 10


@pytest.mark.parametrize("given", [{"step": "first"}, {"step": "newton", "loss": "logistic"}])
def test_the_papers_step_and_classes_are_taken_as_they_are(given):
    with pytest.raises(InputError, match="outliers is 'bound'; expected step='newton'"):
        domkl.Paper(outliers="bound", **given)


MODELS = {
    "auto": domkl.Auto(size=SIZE, bounds=(-50, 60)),
    "paper": domkl.Paper(kernels=domkl.KernelSpec(D=4), rates=domkl.Rates(0.5, 0.5, 1.0), bounds=(-50, 60)),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_impossible_targets_are_refused_where_bounds_are_given(model):
    X, y = stream(5)
    message = "y holds the target 61; expected -50 to 60"
    learner = domkl.Learner(model, name="a", inputs=2)
    learner.observe(X[0, 0], 60.0)
    with pytest.raises(InputError, match=message):
        learner.observe(X[0, 1], 61.0)
    assert learner.round == 1
    y[1, 3] = 61
    with pytest.raises(InputError, match=message):
        domkl.simulate(X, y, "ring", model=model)


@pytest.mark.parametrize("bounds", [(1, 0), (0, float("nan")), (1,), "ab", 3])
def test_bounds_are_two_numbers(bounds):
    with pytest.raises(InputError, match="expected two finite numbers"):
        domkl.Auto(bounds=bounds)


def test_classes_have_no_bounds():
    with pytest.raises(InputError, match="targets are classes"):
        domkl.Paper(loss="logistic", bounds=(-1, 1))


def test_learners_with_other_bounds_understand_each_other():
    models = domkl.Auto(), domkl.Auto(bounds=(0, 1)), domkl.Auto(outliers="keep"), domkl.Auto(size=100)
    prints = [domkl.Learner(model, name="a", inputs=2).fingerprint for model in models]
    assert prints[0] == prints[1] == prints[2] != prints[3]

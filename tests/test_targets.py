"""Several targets: columns of one right-hand side, from the simulator to files."""

from __future__ import annotations

import numpy as np
import pytest

import domkl
import problems
from domkl.base.errors import InputError, PeerError
from domkl.faces.online import OnlineRows
from domkl.learner import handed

MODEL = domkl.Auto(size=60)
M = 3


def streams(J=3, T=200, gaps=0.0):
    """Inputs (J, T, 2) and targets (J, T, 3) of quite different sizes, and the same with labels missing."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(J, T, 2))
    a, b = X[..., 0], X[..., 1]
    y = np.stack([np.sin(a) + b, 1e4 + 1e3 * a * b, 1e-3 * (a - b)], -1)
    y += 0.05 * y.std((0, 1)) * rng.standard_normal(y.shape)
    return X, y, np.where(rng.uniform(size=y.shape) < gaps, np.nan, y)


def late(y_hat, y):
    """Squared errors of the second half, in variances of the targets. (m,)"""
    half = y.shape[1] // 2
    return ((y_hat - y)[:, half:] ** 2).mean((0, 1)) / y.var((0, 1))


def test_three_targets_are_learnt_about_as_well_as_each_by_itself():
    X, y, _ = streams()
    run = domkl.simulate(X, y, "ring", model=MODEL)
    single = [domkl.simulate(X, y[..., k], "ring", model=MODEL) for k in range(M)]
    assert run.y_hat.shape == y.shape
    assert run.mse.shape == run.alone.shape == run.cv.shape == (3, M)
    np.testing.assert_allclose(run.mse, ((run.y_hat - y) ** 2).mean(1))
    assert (late(run.y_hat, y) < 1.2 * late(np.stack([one.y_hat for one in single], -1), y)).all()


@pytest.mark.parametrize("delay", [0, 3])
def test_labels_that_are_missing_cost_little_and_are_no_errors(delay):
    X, y, some = streams(T=300, gaps=0.3)
    some[1] = np.where(np.arange(300)[:, None] % 2, np.nan, y[1])  # a learner with half of the samples
    run = domkl.simulate(X, some, "ring", model=MODEL, delay=delay)
    whole = domkl.simulate(X, y, "ring", model=MODEL, delay=delay)
    assert np.isfinite(run.y_hat).all()
    np.testing.assert_allclose(run.mse, np.nanmean((run.y_hat - some) ** 2, axis=1))
    assert (late(whole.y_hat, y) < 0.01).all()
    assert (late(run.y_hat, y) < 0.05).all()


@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_another_unit_is_noticed_where_labels_are_missing(engine):
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(1, 500, 2))
    y = np.stack([np.sin(3 * X[..., 0]) + X[..., 1], X[..., 0] - X[..., 1]], -1)
    y += 0.05 * rng.standard_normal(y.shape)
    y[0, 300:, 1] *= 1000
    some = y.copy()
    some[0, 1::2, 1] = np.nan
    run = domkl.simulate(X, some, "path", model=domkl.Auto(size=100), engine=engine)
    missed = (run.y_hat - y)[0, 350:390:2, 1] / 1000
    assert np.sqrt((missed**2).mean()) < 0.3  # 0.44 where a missing label counts as one that was predicted


def test_a_sample_without_a_label_teaches_nothing():
    X, y, _ = streams(J=1, T=150)
    model, other = domkl.DOMKL(model=MODEL), domkl.DOMKL(model=MODEL)
    for x, label in zip(X[0], y[0], strict=True):
        model.learn(x, label)
        other.learn(x, label)
    for x in 3 * X[0, :20]:
        other.learn(x, np.full(M, np.nan))
    at = X[0, :50]
    before, after = (np.array([one.predict(x) for x in at]) for one in (model, other))
    np.testing.assert_allclose((after - before) / y.std((0, 1)), 0, atol=0.02)


def test_a_target_whose_labels_come_late_is_learnt_then():
    X, y, _ = streams(J=2, T=400)
    some = y.copy()
    some[:, :150, 1] = np.nan
    run = domkl.simulate(X, some, "path", model=MODEL)
    assert late(run.y_hat, y)[1] < 0.1


def test_devices_have_the_numbers_of_the_simulator_and_go_on_from_a_file():
    X, _, y = streams(T=60, gaps=0.2)
    run = domkl.simulate(X, y, "ring", model=MODEL)
    near = domkl.graph.as_graph("ring", J=3).neighbours
    learners = [domkl.Learner(MODEL, near[j], name=j, inputs=2, targets=M) for j in range(3)]
    for t in range(60):
        if t == 30:
            arrays, meta = learners[1].save()
            learners[1] = domkl.Learner(MODEL, near[1], name=1, inputs=2, targets=M)
            learners[1].load(arrays, meta)
        updates = [one.observe(X[j, t], y[j, t]) for j, one in enumerate(learners)]
        # Rounds with missing labels are computed in NumPy, which differs by rounding.
        np.testing.assert_allclose([one.step.y_hat for one in learners], run.y_hat[:, t], rtol=1e-9)
        for j, one in enumerate(learners):
            for i in near[j]:
                one.receive(i, updates[i])


def test_learners_with_other_targets_refuse_each_other():
    two, three = (domkl.Learner(MODEL, ["b"], name="a", inputs=2, targets=m) for m in (2, 3))
    with pytest.raises(PeerError, match="targets"):
        two.receive("b", three.observe([0.0, 1.0], [1.0, 2.0, 3.0]))


@pytest.mark.parametrize("graph", [None, "ring"])
def test_the_front_door_saves_bounds_and_hands_over_several_targets(graph, tmp_path):
    X, _, y = streams(T=120, gaps=0.1)
    samples = (X[0], y[0]) if graph is None else (X.swapaxes(0, 1), y.swapaxes(0, 1))
    model = domkl.DOMKL(graph, model=MODEL)
    inside = []
    for t, (x, label) in enumerate(zip(*samples, strict=True)):
        assert np.shape(model.predict(x)) == (np.shape(label) if t else np.shape(label)[:-1])
        if t > 60:
            low, high = model.interval(x, 0.8)
            inside.append(np.where(np.isnan(label), np.nan, (low <= label) & (label <= high)))
        model.learn(x, label)
    assert 0.65 < np.nanmean(inside) < 0.98
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(domkl.DOMKL.load(tmp_path / "model").predict(x), model.predict(x))
    if graph is None:
        model.hand_over(tmp_path / "handed")
        device = domkl.Learner(handed.read(tmp_path / "handed"), ["b"], name="a")
        moved = device.predict(x) - model.predict(x)
        np.testing.assert_allclose(moved / np.nanstd(y, (0, 1)), 0, atol=0.05)


def test_effects_are_of_the_target_that_is_asked_for():
    rng = np.random.default_rng(0)
    model = domkl.DOMKL(model=MODEL)
    for x in rng.uniform(size=(150, 2)):
        model.learn(x, [5 * x[0], 3 * x[1]])
    assert [model.explain(target=k).rows()[0]["input"] for k in range(2)] == ["x0", "x1"]


def test_one_target_has_the_same_bits_whether_its_labels_have_an_axis_or_not():
    X, y = problems.streams(3, 60, 2)
    flat, deep = (domkl.simulate(X, labels, "ring", model=MODEL) for labels in (y, y[..., None]))
    for name in ("y_hat", "mse", "alone", "cv"):
        np.testing.assert_array_equal(getattr(deep, name)[..., 0], getattr(flat, name))


def classes(J=3, T=250, k=4):
    """Inputs (J, T, 2) and the quadrant that they lie in (J, T)."""
    X = np.random.default_rng(1).uniform(-1, 1, size=(J, T, 2))
    return X, (X[..., 0] > 0) + 2 * (X[..., 1] > 0)


def test_classes_are_predicted_with_probabilities_and_better_together():
    X, y = classes()
    model = domkl.Auto(size=60, loss="classes")
    run = domkl.simulate(X, y, "ring", model=model)
    np.testing.assert_allclose(run.y_hat.sum(-1), 1)
    assert run.y_hat.min() >= 0
    alone = [domkl.simulate(X[[j]], y[[j]], "path", model=model).y_hat[0] for j in range(3)]
    right = [(y_hat.argmax(-1) == y)[:, 50:].mean() for y_hat in (run.y_hat, np.array(alone))]
    assert right[0] > max(0.85, right[1])


def test_devices_of_classes_have_the_bits_of_the_simulator():
    X, y = classes(T=40)
    model = domkl.Auto(size=60, loss="classes")
    run = domkl.simulate(X, y, "ring", model=model)
    near = domkl.graph.as_graph("ring", J=3).neighbours
    learners = [domkl.Learner(model, near[j], name=j, inputs=2, targets=4) for j in range(3)]
    for t in range(40):
        updates = [one.observe(X[j, t], y[j, t]) for j, one in enumerate(learners)]
        # Rounds with missing labels are computed in NumPy, which differs by rounding.
        np.testing.assert_allclose([one.step.y_hat for one in learners], run.y_hat[:, t], rtol=1e-9)
        for j, one in enumerate(learners):
            for i in near[j]:
                one.receive(i, updates[i])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full((2, 5), 1.5), "y holds the class 1.5; expected 0 to 1"),
        (np.full((2, 5, 2), 3.0), "y holds 3"),
    ],
)
def test_labels_that_are_no_classes_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        domkl.simulate(np.zeros((2, 5, 1)), y, "path", model=domkl.Auto(size=16, loss="classes"))


def test_a_sample_of_weight_n_counts_as_n_samples():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 1, 1))
    slope = np.where(rng.uniform(size=200) < 0.5, 1.0, -1.0)
    found = []
    for heavy in (0.0, 1.0, 9.0):
        rows = OnlineRows(MODEL, 1)
        for x, s in zip(X, slope, strict=True):
            rows.learn(x, s * x, [heavy if s > 0 else 1.0])
        found.append(float(rows.predict([[0.8]])[0, 0]))
    np.testing.assert_allclose(found, [-0.8, 0.0, 0.64], atol=0.25)


def blocks(T=400, J=3, seed=0):
    """Labels of blocks of 20 rounds are known when the block ends, and some never."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(J, T, 2))
    delays = np.tile(19.0 - np.arange(T) % 20, (J, 1))
    delays[rng.uniform(size=(J, T)) < 0.2] = np.inf
    return X, np.sin(3 * X[..., 0]) + X[..., 1], delays


def test_labels_at_times_of_their_own_are_learnt_then_and_not_sooner():
    X, y, delays = blocks()
    found = domkl.simulate(X, y, "path", model=MODEL, delay=delays, dtype=np.float64)
    changed = y.copy()
    unknown = np.arange(400) + delays >= 200  # what is not known before round 200, or never
    changed[unknown] += 5
    again = domkl.simulate(X, changed, "path", model=MODEL, delay=delays)
    np.testing.assert_array_equal(found.y_hat[:, :200], again.y_hat[:, :200])
    assert (found.y_hat[:, 201:] != again.y_hat[:, 201:]).any()
    assert ((found.y_hat - y)[:, 200:] ** 2).mean() < 0.1 * y.var()
    assert (found.y_hat[:, :20] == found.y_hat[0, 0]).all()  # nothing is known yet


def test_one_delay_for_each_label_is_the_same_as_one_for_all():
    X, y, _ = blocks(150)
    runs = [domkl.simulate(X, y, "path", model=MODEL, delay=delay).y_hat for delay in (4, np.full(150, 4.0))]
    np.testing.assert_allclose(*runs, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"delay": np.full(150, -1.0)}, "below 0, or no whole one"),
        ({"delay": np.full(150, np.nan)}, "no label is known before the last round"),
        ({"delay": np.zeros(7)}, "delay has shape"),
        ({"delay": np.zeros(150), "model": domkl.Paper()}, "the model is not Auto"),
        ({"delay": np.zeros(150), "horizon": "3 rows"}, "and no horizon"),
    ],
)
def test_delays_that_cannot_be_are_refused(options, wrong):
    X, y, _ = blocks(150)
    with pytest.raises(InputError, match=wrong):
        domkl.simulate(X, y, "path", **{"model": MODEL, **options})

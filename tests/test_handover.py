"""Models taught in River, scikit-learn or Python, handed to a device."""

from __future__ import annotations

import numpy as np
import pytest

import domkl
from domkl.base.errors import DataError, InputError
from domkl.faces.saved import About
from domkl.learner import handed
from taught import (
    MODELS,
    NAMES,
    ROUNDING,
    alone,
    feed,
    ordered,
    read_back,
    ring,
    rows,
    samples,
    streams,
    taught_in_river,
)

river = pytest.importorskip("domkl.river")
sklearn = pytest.importorskip("domkl.sklearn")
pandas = pytest.importorskip("pandas")

#: Samples after which a model knows its classes.
TAUGHT = {"auto": 200, "paper": 700}


# It goes on like the model


def test_a_device_alone_goes_on_like_the_model(tmp_path):
    model = taught_in_river("auto", T=140)  # whose scale is fixed
    learner, (X, y) = alone(read_back(model, tmp_path)), samples(60, seed=1)
    names = model._columns.names
    for x, label in zip(rows(X), y, strict=True):
        z = [x[name] for name in names]
        assert learner.predict(z) == pytest.approx(model.predict_one(x), rel=1e-9)
        model.learn_one(x, label)
        learner.observe(z, label)


def test_the_model_of_a_run_is_refused_by_devices_until_handed_over(tmp_path):
    X, y = samples(150)
    run = domkl.simulate(X[None], y[None], "complete", model=domkl.Auto(size=60), keep_model=True)
    model = domkl.DOMKL.from_run(run, y[None])
    model.about = About(inputs=tuple(NAMES[: X.shape[1]]))
    saved, given = str(tmp_path / "saved"), str(tmp_path / "given")
    model.save(saved)
    with pytest.raises(DataError, match=r"which holds samples; expected one of hand_over\(\); write it with"):
        handed.read(saved)
    domkl.DOMKL.load(saved).hand_over(given)
    taught = handed.read(given)
    assert taught.names == model.about.inputs
    theirs = [float(model.predict(x[None])[0]) for x in X[:20]]
    np.testing.assert_allclose([alone(taught).predict(x) for x in X[:20]], theirs, atol=0.02 * y.std())


def test_a_device_of_the_paper_keeps_estimate_and_scale(tmp_path):
    model = taught_in_river("paper", T=700)
    taught = read_back(model, tmp_path)
    learner, (X, y) = alone(taught), samples(400, seed=1)
    theirs = [model.predict_one(x) for x in rows(X)]
    ours = [learner.predict(z) for z in ordered(taught, X)]
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * y.std())
    errors = []
    for x, z, label in zip(rows(X), ordered(taught, X), y, strict=True):
        errors.append([learner.predict(z) - label, model.predict_one(x) - label])
        update = learner.observe(z, label)
        assert learner.step.y_hat == pytest.approx(errors[-1][0] + label)
        assert learner.step.y == label
        model.learn_one(x, label)
    mine, its = np.mean(np.square(errors), 0)
    assert update.fingerprint == learner.fingerprint
    assert mine < 1.05 * its < 0.1 * y.var()


@pytest.mark.parametrize("kind", MODELS)
def test_classes_keep_their_meaning(tmp_path, kind):
    model = taught_in_river(kind, T=TAUGHT[kind], classify=True)
    taught = read_back(model, tmp_path)
    learner, (X, y) = alone(taught), samples(200, seed=1, classify=True)
    scores = np.array([learner.predict(z) for z in ordered(taught, X)])
    theirs = np.array([model.predict_one(x) for x in rows(X)])
    assert ((scores > 0) == (theirs == 1)).mean() > 0.99
    assert ((scores > 0) == (y == 1)).mean() > 0.9


@pytest.mark.parametrize(("labels", "kind"), [((0, 1), "paper"), ((-1, 1), "auto"), ((False, True), "paper")])
def test_scikit_learn_hands_over_classes(tmp_path, kind, labels):
    X, y = samples(200)
    classes = np.where(y > y.mean(), *labels[::-1])
    classifier = sklearn.MultiKernelClassifier(MODELS[kind]).fit(X, classes)
    taught = read_back(classifier, tmp_path)
    assert taught.names == ()
    learner = alone(taught)
    scores = np.array([learner.predict(x) for x in X])
    assert ((scores > 0) == (classifier.predict(X) == labels[1])).mean() > 0.99


@pytest.mark.parametrize("kind", MODELS)
def test_scikit_learn_hands_over_numbers(tmp_path, kind):
    X, y = samples(300)
    table = pandas.DataFrame(X, columns=NAMES)
    regressor = sklearn.MultiKernelRegressor(MODELS[kind]).fit(table, y)
    taught = read_back(regressor, tmp_path)
    assert taught.names == NAMES
    learner = alone(taught)
    found = [learner.predict(x) for x in X[:20]]
    np.testing.assert_allclose(found, regressor.predict(table[:20]), atol=0.01 * y.std())


@pytest.mark.parametrize("kind", MODELS)
def test_domkl_hands_over_too(tmp_path, kind):
    model, (X, y) = domkl.DOMKL(model=MODELS[kind]), samples(140)
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
    learner = alone(read_back(model, tmp_path))
    found = [learner.predict(x) for x in X]
    np.testing.assert_allclose(found, [model.predict(x) for x in X], rtol=ROUNDING[kind])


@pytest.mark.parametrize("forgetting", ["none", "auto"])
def test_a_model_with_any_forgetting_goes_on_in_a_network(tmp_path, forgetting):
    model, (X, y) = domkl.DOMKL(model=domkl.Auto(size=60, forgetting=forgetting)), samples(140)
    for x, label in zip(X, y, strict=True):
        model.learn(x, label)
    made = read_back(model, tmp_path)
    assert made.settings.forgetting == forgetting
    graph, group = ring(made, 3)
    np.testing.assert_allclose([one.predict(X[0]) for one in group], model.predict(X[0]), rtol=1e-3)
    more, labels = streams(3, 5)
    for t in range(5):
        feed(group, graph, more[:, t], labels[:, t], t)
    assert all(abs(one.step.y_hat - one.step.y) < 300 for one in group)


@pytest.mark.parametrize("kind", MODELS)
def test_inputs_that_came_late_and_values_that_are_missing(tmp_path, kind):
    model = river.MultiKernelRegressor(MODELS[kind])
    X, y = samples(180)
    for t, (x, label) in enumerate(zip(rows(X), y, strict=True)):
        model.learn_one(x if t >= 160 else {name: x[name] for name in NAMES[:2]}, label)
    taught = read_back(model, tmp_path)
    assert set(taught.names) == set(NAMES)
    learner = alone(taught)
    for x, z, label in zip(rows(X[:10]), ordered(taught, X[:10]), y, strict=False):
        z[taught.names.index("hour")], x["hour"] = np.nan, None
        assert learner.predict(z) == pytest.approx(model.predict_one(x), rel=0.01)
        learner.observe(z, label)
        model.learn_one(x, label)


def test_numbers_are_names_too(tmp_path):
    model, (X, y) = river.MultiKernelRegressor(MODELS["auto"]), samples(140)
    for x, label in zip(X, y, strict=True):
        model.learn_one(dict(enumerate(x)), label)
    taught = read_back(model, tmp_path)
    assert sorted(taught.names) == ["0", "1", "2"]
    x = X[0, [int(name) for name in taught.names]]
    assert alone(taught).predict(x) == pytest.approx(model.predict_one(dict(enumerate(X[0]))), rel=1e-5)


# What cannot be handed over


def odd_names():
    model = river.MultiKernelRegressor(MODELS["auto"])
    for k in range(70):
        model.learn_one({"0": float(k), 0: 1.0}, k)
    return model


def classes_of(*labels):
    model = river.MultiKernelClassifier(MODELS["auto"])
    for k in range(9):
        model.learn_one({"a": float(k)}, labels[k % len(labels)])
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: river.MultiKernelRegressor(), "has learnt 0 samples; expected 64 or more"),
        (lambda: river.MultiKernelRegressor(domkl.Paper()), "has learnt 0 samples; expected 64 or more"),
        (lambda: taught_in_river("auto", T=63), "has learnt 63 samples; expected 64 or more"),
        (lambda: taught_in_river("paper", T=63), "has learnt 63 samples; expected 64 or more"),
        (odd_names, "inputs are called .*; expected different texts or whole numbers"),
        (lambda: classes_of(0, 1, 2), "classes are .* expected 0 and 1, or -1 and 1"),
        (lambda: classes_of("no", "yes"), "classes are .* expected 0 and 1, or -1 and 1"),
        (lambda: domkl.DOMKL(), "no model of one device"),
        (lambda: domkl.DOMKL("ring"), "no model of one device"),
    ],
)
def test_what_cannot_be_handed_over_is_refused_in_one_line(tmp_path, model, message):
    with pytest.raises(InputError, match=message) as error:
        model().hand_over(tmp_path / "a.model")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", MODELS)
def test_a_handed_model_is_for_devices_alone(tmp_path, kind):
    taught, (X, y) = read_back(taught_in_river(kind, T=100), tmp_path), samples(9)
    with pytest.raises(InputError, match=r"expected domkl.Auto\(...\) or domkl.Paper\(...\); write one"):
        domkl.simulate(X[None], y[None], "complete", model=taught)
    for given in ({"inputs": 9}, {"targets": 2}):
        with pytest.raises(InputError, match="as taught; leave it out"):
            domkl.Learner(taught, name="a", **given)


@pytest.mark.parametrize("kind", MODELS)
def test_handing_over_changes_nothing_in_the_model(tmp_path, kind):
    one, other = taught_in_river(kind, T=110), taught_in_river(kind, T=110)
    one.hand_over(tmp_path / "a.model")
    X, y = samples(40, seed=6)
    for x, label in zip(rows(X), y, strict=True):
        assert one.predict_one(x) == other.predict_one(x)
        one.learn_one(x, label), other.learn_one(x, label)


def test_a_model_that_cannot_be_written_leaves_what_was_there(tmp_path):
    model = taught_in_river("paper", T=100)
    model.hand_over(tmp_path / "a.model")
    before = (tmp_path / "a.model").read_bytes()
    with pytest.raises(DataError, match="cannot be written"):
        model.hand_over(tmp_path / "no" / "a.model")
    model.hand_over(tmp_path / "a.model")
    assert (tmp_path / "a.model").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.model"]

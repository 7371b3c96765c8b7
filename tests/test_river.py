"""The River facade: River's own checks, and what a stream of dictionaries may bring."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

pytest.importorskip("river")
pytest.importorskip("sklearn")  # River's checks take a dataset from it
pytest.importorskip("pandas")  # and compare mini-batches

from river import checks, datasets, metrics

from domkl import engines
from domkl.base.errors import InputError
from domkl.faces import PRESETS
from domkl.learning.auto import Model
from domkl.river import MultiKernelClassifier, MultiKernelRegressor

MODELS = [MultiKernelRegressor, MultiKernelClassifier]
# The classifier on "auto" passes too, but takes half a minute, for it is a model a class.
CHECKED = [(kind, preset) for kind in MODELS for preset in PRESETS]
CHECKED.remove((MultiKernelClassifier, "auto"))


def stream(n=600, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    y = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2]
    return [dict(zip("abcde", map(float, x), strict=False)) for x in X], y.tolist()


def errors(model, X, y):
    found = []
    for x, label in zip(X, y, strict=True):
        found.append(model.predict_one(x) - label)
        model.learn_one(x, label)
    return np.array(found)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("kind", "preset"), CHECKED)
def test_river_checks_pass_without_skips(kind, preset):
    model = kind(preset=preset, size=100)
    assert model._unit_test_skips() == set()
    checks.check_estimator(model)


def test_mini_batches_are_among_the_checks():
    names = {check.__name__ for check in checks.yield_checks(MultiKernelRegressor())}
    assert {"check_learn_many_matches_learn_one", "check_predict_many_matches_predict_one"} <= names


def test_it_learns_a_nonlinear_function():
    X, y = stream(3000)
    assert np.mean(errors(MultiKernelRegressor(), X, y)[-1000:] ** 2) < 0.1 * np.var(y)


def test_order_of_features_changes_no_bit():
    X, y = stream()
    turned = [dict(reversed(x.items())) for x in X]
    assert np.array_equal(errors(MultiKernelRegressor(), X, y), errors(MultiKernelRegressor(), turned, y))


def test_unscaled_inputs_and_targets_are_learnt_as_well_as_scaled_ones():
    X, y = stream()
    size = dict(zip("abcde", (1e-3, 1e6, 1.0, 50.0, 1e-6), strict=True))
    wild = [{name: size[name] * value - size[name] * 7 for name, value in x.items()} for x in X]
    tame = errors(MultiKernelRegressor(), X, y)
    large = errors(MultiKernelRegressor(), wild, [5000 * label for label in y]) / 5000
    assert np.mean(large[100:] ** 2) == pytest.approx(np.mean(tame[100:] ** 2), rel=0.02)


def test_native_and_numpy_agree(monkeypatch):
    X, y = stream(200)
    there = errors(MultiKernelRegressor(), X, y)
    make = engines.make_device
    monkeypatch.setattr(engines, "make_device", lambda name, *rest: make("numpy", *rest))
    assert np.allclose(there, errors(MultiKernelRegressor(), X, y), atol=1e-3)


def test_dictionaries_and_arrays_give_the_same():
    X, y = stream(300)
    usual, other = MultiKernelRegressor(), MultiKernelRegressor()
    other._model.ask, other._model.tell = lambda x: None, lambda x, y: False
    assert np.allclose(errors(usual, X, y), errors(other, X, y), atol=1e-5)


@pytest.mark.parametrize("odd", [None, float("nan"), float("inf"), -float("inf"), 1e300])
def test_what_is_missing_or_huge_leaves_predictions_finite(odd):
    X, y = stream(300)
    model = MultiKernelRegressor()
    errors(model, X, y)
    assert np.isfinite(model.predict_one({**X[0], "a": odd}))
    model.learn_one({**X[0], "a": odd}, y[0])
    assert np.isfinite(errors(model, X, y)).all()


def test_a_feature_that_comes_later_changes_no_prediction_until_it_varies():
    X, y = stream(100)
    model = MultiKernelRegressor()
    errors(model, X, y)
    assert model.predict_one({**X[0], "z": 3.0}) == pytest.approx(model.predict_one(X[0]), abs=1e-5)


def test_changing_a_dictionary_after_predicting_is_noticed():
    X, y = stream(100)
    models = MultiKernelRegressor(), MultiKernelRegressor()
    for model in models:
        errors(model, X, y)
    x = dict(X[0])
    models[0].predict_one(x)
    x["a"] += 0.5
    for model in models:
        model.learn_one(x, 1.0)
    assert models[0].predict_one(X[3]) == models[1].predict_one(X[3])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_go_on_with_the_same_bits(copied):
    X, y = stream(200)
    model = MultiKernelRegressor()
    errors(model, X[:100], y[:100])
    again = copied(model)
    assert np.array_equal(errors(model, X[100:], y[100:]), errors(again, X[100:], y[100:]))


def test_text_and_labels_that_are_no_numbers_are_refused_in_one_line():
    model = MultiKernelRegressor()
    with pytest.raises(InputError, match=r"feature 'a' is 'red'; expected a number; encode it"):
        model.predict_one({"a": "red"})
    with pytest.raises(InputError, match=r"y is nan; expected a finite number"):
        model.learn_one({"a": 1.0}, float("nan"))
    with pytest.raises(InputError, match="preset is 'fast'"):
        MultiKernelRegressor(preset="fast")


def test_classes_may_appear_at_any_time():
    model, right = MultiKernelClassifier(), metrics.Accuracy()
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    for x, y in datasets.ImageSegments().take(1000):
        right.update(y, model.predict_one(x))
        model.learn_one(x, y)
    assert right.get() > 0.75
    assert sum(model.predict_proba_one(x).values()) == pytest.approx(1)


def test_probabilities_of_auto_are_those_of_its_model():
    rng = np.random.default_rng(0)
    facade, model = MultiKernelClassifier(preset="auto", size=40), Model(1, loss="logistic", size=40)
    for a in rng.uniform(size=200).tolist():
        facade.learn_one({"a": a}, a > 0.5)
        model.learn([a], 1 if facade._model.classes[a > 0.5] == 0 else -1)
    first = next(iter(facade._model.classes))
    for a in (0.1, 0.45, 0.9):
        expected = (1 + model.predict([a])) / 2
        assert facade.predict_proba_one({"a": a})[first] == pytest.approx(expected, abs=1e-6)


def test_the_third_class_keeps_what_the_first_two_knew():
    rng = np.random.default_rng(0)
    model = MultiKernelClassifier()
    for a in rng.uniform(size=500):
        model.learn_one({"a": float(a)}, "high" if a > 0.5 else "low")
    model.learn_one({"a": 0.5}, "new")
    assert model.predict_one({"a": 0.1}) == "low"
    assert model.predict_one({"a": 0.9}) == "high"

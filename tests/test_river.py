"""The River facade: River's own checks, and what a stream of dictionaries may bring."""

from __future__ import annotations

import copy
import itertools
import pickle
from datetime import datetime, timedelta

import numpy as np
import pytest

pytest.importorskip("river")
pytest.importorskip("sklearn")  # River's checks take a dataset from it
pytest.importorskip("pandas")  # and compare mini-batches

from river import checks, datasets, metrics

from domkl import Auto, KernelSpec, Paper, Rates, RateSpec, engines, kernels
from domkl.base.errors import InputError
from domkl.faces.online import OnlineRows
from domkl.river import (
    MultiKernelClassifier,
    MultiKernelForecaster,
    MultiKernelMultiRegressor,
    MultiKernelRegressor,
)

BOTH = pytest.mark.parametrize("settings", [Auto(size=60), Paper()], ids=["auto", "paper"])


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


@pytest.fixture
def short_streams(monkeypatch):
    """What River's checks read of its streams; in full they pass too, and take a minute."""
    for kind in (datasets.TrumpApproval, datasets.Phishing, datasets.ImageSegments):
        monkeypatch.setattr(kind, "take", lambda self, n: itertools.islice(self, n // 20))


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("short_streams")
@pytest.mark.parametrize(
    "model",
    [MultiKernelRegressor(Auto(size=16)), MultiKernelRegressor(Paper()), MultiKernelClassifier(Paper())],
    ids=["regressor-auto", "regressor-paper", "classifier-paper"],
)
def test_river_checks_pass_without_skips(model):
    assert model._unit_test_skips() == set()
    checks.check_estimator(model)


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("short_streams")
def test_river_checks_pass_for_a_model_of_auto_for_each_class():
    checks.check_estimator(MultiKernelClassifier(Auto(size=16)))


@BOTH
@pytest.mark.parametrize("kind", [MultiKernelRegressor, MultiKernelClassifier])
def test_a_clone_has_the_same_settings_and_has_learnt_nothing(kind, settings):
    model = kind(settings)
    model.learn_one({"a": 1.0}, 1)
    again = model.clone()
    assert again.model == settings
    assert again._get_params() == {"model": settings}
    assert not again._columns.names


def test_auto_is_the_default():
    X, y = stream(40)
    assert np.array_equal(
        errors(MultiKernelRegressor(), X, y), errors(MultiKernelRegressor(model=Auto()), X, y)
    )


def test_mini_batches_are_among_the_checks():
    names = {check.__name__ for check in checks.yield_checks(MultiKernelRegressor())}
    assert {"check_learn_many_matches_learn_one", "check_predict_many_matches_predict_one"} <= names


@pytest.mark.parametrize(("settings", "n"), [(Auto(size=200), 400), (Paper(), 3000)])
def test_it_learns_a_nonlinear_function(settings, n):
    X, y = stream(n)
    assert np.mean(errors(MultiKernelRegressor(settings), X, y)[-200:] ** 2) < 0.1 * np.var(y)


@BOTH
def test_order_of_features_changes_no_bit(settings):
    X, y = stream(80)
    turned = [dict(reversed(x.items())) for x in X]
    models = MultiKernelRegressor(settings), MultiKernelRegressor(settings)
    assert np.array_equal(errors(models[0], X, y), errors(models[1], turned, y))


@BOTH
def test_unscaled_inputs_and_targets_are_learnt_as_well_as_scaled_ones(settings):
    X, y = stream(300)
    size = dict(zip("abcde", (1e-3, 1e6, 1.0, 50.0, 1e-6), strict=True))
    wild = [{name: size[name] * value - size[name] * 7 for name, value in x.items()} for x in X]
    tame = errors(MultiKernelRegressor(settings), X, y)
    large = errors(MultiKernelRegressor(settings), wild, [5000 * label for label in y]) / 5000
    assert np.mean(large[100:] ** 2) == pytest.approx(np.mean(tame[100:] ** 2), rel=0.02)


def test_native_and_numpy_agree(monkeypatch):
    X, y = stream(200)
    there = errors(MultiKernelRegressor(Paper()), X, y)
    make = engines.make_device
    monkeypatch.setattr(engines, "make_device", lambda name, *rest: make("numpy", *rest))
    assert np.allclose(there, errors(MultiKernelRegressor(Paper()), X, y), atol=1e-3)


def test_dictionaries_and_arrays_give_the_same():
    X, y = stream(300)
    usual, other = MultiKernelRegressor(Paper()), MultiKernelRegressor(Paper())
    other._model.predict_dict, other._model.learn_dict = lambda x: None, lambda x, y: False
    assert np.allclose(errors(usual, X, y), errors(other, X, y), atol=1e-5)


@BOTH
@pytest.mark.parametrize("odd", [None, float("nan"), float("inf"), -float("inf"), 1e300])
def test_missing_and_huge_inputs_leave_predictions_finite(odd, settings):
    X, y = stream(70)
    model = MultiKernelRegressor(settings)
    errors(model, X, y)
    assert np.isfinite(model.predict_one({**X[0], "a": odd}))
    model.learn_one({**X[0], "a": odd}, y[0])
    assert np.isfinite(errors(model, X, y)).all()


@BOTH
def test_an_input_that_is_infinite_from_its_first_sample_warns_of_nothing(settings):
    model = MultiKernelRegressor(settings)
    for y in (1.0, 2.0, 3.0):
        model.learn_one({"a": float("inf"), "b": y}, y)
        assert np.isfinite(model.predict_one({"a": float("inf"), "b": y}))


@BOTH
def test_a_feature_that_comes_later_changes_no_prediction_until_it_varies(settings):
    X, y = stream(160)
    model = MultiKernelRegressor(settings)
    errors(model, X, y)
    assert model.predict_one({**X[0], "z": 3.0}) == pytest.approx(model.predict_one(X[0]), abs=1e-5)


@BOTH
def test_changing_a_dictionary_after_predicting_is_noticed(settings):
    X, y = stream(100)
    models = MultiKernelRegressor(settings), MultiKernelRegressor(settings)
    for model in models:
        errors(model, X, y)
    x = dict(X[0])
    models[0].predict_one(x)
    x["a"] += 0.5
    for model in models:
        model.learn_one(x, 1.0)
    assert models[0].predict_one(X[3]) == models[1].predict_one(X[3])


@BOTH
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_continue_with_the_same_bits(copied, settings):
    X, y = stream(90)
    model = MultiKernelRegressor(settings)
    errors(model, X[:70], y[:70])
    again = copied(model)
    assert again.model == settings
    assert np.array_equal(errors(model, X[70:], y[70:]), errors(again, X[70:], y[70:]))


def test_a_forecaster_passes_rivers_checks_and_knows_when():
    checks.check_estimator(MultiKernelForecaster(Auto(size=16)))
    model = MultiKernelForecaster(Auto(size=60), horizon="1h..24h", time="when")
    for n in range(24 * 10):
        at = datetime(2024, 1, 1) + n * timedelta(hours=1)
        model.learn_one(10 + 5 * np.sin(2 * np.pi * n / 24), {"when": at, "v": 1.0})
    expected = 10 + 5 * np.sin(2 * np.pi * np.arange(24) / 24)
    assert np.abs(np.array(model.forecast(24)) - expected).max() < 1
    assert all(y in bounds for y, bounds in zip(model.forecast(24), model.interval(24), strict=True))
    for wrong, call in (
        ("25 leads; expected 1 to 24", lambda: model.forecast(25)),
        ("x has no 'when'", lambda: model.learn_one(1.0, {"v": 1.0})),
        ("feature 'v' is a word", lambda: model.learn_one(1.0, {"when": datetime(2024, 2, 1), "v": "x"})),
    ):
        with pytest.raises(InputError, match=wrong):
            call()


@BOTH
def test_words_times_and_gaps_are_taken_as_they_are(settings):
    rng, model, missed = np.random.default_rng(0), MultiKernelRegressor(settings), []
    for n in range(500):
        city, when = ("Rome", "Oslo", "Bonn")[rng.integers(3)], datetime(2024, 1, 1) + n * timedelta(hours=1)
        y = 5 * (city == "Rome") + 3 * np.sin(2 * np.pi * n / 24)
        x = {"city": None if n % 50 == 0 else city, "when": when if n % 2 else when.isoformat(), "v": None}
        missed.append(model.predict_one(x) - y)
        model.learn_one(x, y)
    assert np.std(missed[300:]) < 1.5  # of targets with 3.2
    parts = model.explain_many()
    assert set(parts) == set(model.explain_one(x)) == {"city", "when", "v"}
    assert min(parts["city"], parts["when"]) > 0.2
    assert pickle.loads(pickle.dumps(model)).predict_one(x) == model.predict_one(x)


def test_text_and_labels_that_are_no_numbers_are_refused_in_one_line():
    model = MultiKernelRegressor(Paper())
    with pytest.raises(InputError, match=r"feature 'a' is .*; expected a number, a word or a time"):
        model.predict_one({"a": ["red"]})
    with pytest.raises(InputError, match=r"y is nan; expected finite numbers"):
        model.learn_one({"a": 1.0}, float("nan"))


@pytest.mark.parametrize("kind", [MultiKernelRegressor, MultiKernelClassifier])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("autos", "model is 'autos'; expected one of auto, paper"),
        (Auto, r'expected "auto", "paper", domkl.Auto'),
        (Paper(kernels=kernels.gaussian(2, 3)), r"given as an array.*write KernelSpec"),
        (Paper(kernels=KernelSpec("cauchy")), "family is 'cauchy'; expected 'gaussian'"),
        (Paper(kernels=KernelSpec(sigma2=())), r"sigma2 is \(\)"),
        (Paper(step="newton"), "step is 'newton'; expected 'first'"),
        (Paper(hedge="local"), "hedge is 'local'"),
        (Paper(loss="huber"), "loss is 'huber'; expected 'squared' or 'logistic'"),
        (Paper(loss="ridge"), "loss is 'ridge'"),
        (Paper(reg=0.1), "reg is 0.1; expected no ridge penalty"),
        (Paper(rates=RateSpec()), "the stream's length is unknown"),
    ],
)
def test_settings_that_one_device_cannot_have_are_refused_in_one_line(kind, settings, message):
    with pytest.raises(InputError, match=message) as error:
        kind(settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("settings", [Auto(loss="logistic"), Paper(loss="logistic")])
def test_the_logistic_loss_is_for_the_classifier(settings):
    with pytest.raises(InputError, match=r"loss is 'logistic'; .* use MultiKernelClassifier"):
        MultiKernelRegressor(settings)
    for given in (settings, type(settings)()):
        model = MultiKernelClassifier(given)
        assert model.model == given
        assert model._model.settings.loss == ("classes" if isinstance(settings, Auto) else "logistic")


def test_the_first_prediction_is_start():
    model = MultiKernelRegressor(Auto(size=60, start=0.3))
    assert model.predict_one({}) == model.predict_one({"a": 1.0}) == 0.3
    model.learn_one({"a": 1.0}, 5.0)
    assert model.predict_one({"a": 1.0}) == pytest.approx(5)
    with pytest.raises(InputError, match=r"start is 0\.3; expected 0 for classes"):
        MultiKernelClassifier(Auto(start=0.3))


def test_forgetting_is_that_of_the_settings():
    X, y = stream(350)
    y[160:] = [-label for label in y[160:]]
    none, short = (
        errors(MultiKernelRegressor(Auto(size=40, forgetting=which)), X, y) for which in ("none", "auto")
    )
    assert np.mean(short[240:] ** 2) < 0.8 * np.mean(none[240:] ** 2)


def test_rates_are_those_of_the_settings_and_have_a_default_each():
    regressor, classifier = MultiKernelRegressor(Paper()), MultiKernelClassifier(Paper())
    classifier.learn_one({"a": 1.0}, "x")
    classifier.learn_one({"a": 2.0}, "y")
    regressor.predict_one({"a": 1.0})
    assert regressor._model.rows.rates == Rates(rho=1, eta=4, eta_g=1)
    assert classifier._model.models[0][1].rows.rates == Rates(rho=1, eta=1, eta_g=1)
    X, y = stream(100)
    given = [Rates(2, 16, 4), RateSpec(kappa=4, rho=2, eta_g=4, horizon=16)]
    found = [errors(MultiKernelRegressor(Paper(rates=rates)), X, y) for rates in given]
    assert np.array_equal(*found)
    assert not np.array_equal(found[0], errors(MultiKernelRegressor(Paper()), X, y))


def test_kernels_are_those_of_the_settings():
    X, y = stream(100)
    narrow, wide = KernelSpec(D=20, seed=3, sigma2=(0.1,)), KernelSpec(D=20, seed=3, sigma2=(10.0,))
    turned = KernelSpec(D=20, seed=3, sigma2=(10.0,), read_as="frequency")
    found = [errors(MultiKernelRegressor(Paper(kernels=spec)), X, y) for spec in (narrow, wide, turned)]
    assert np.allclose(found[0], found[2], atol=1e-6)
    assert not np.allclose(found[0], found[1], atol=1e-3)
    other = MultiKernelRegressor(Paper(kernels=KernelSpec(D=20, seed=4, sigma2=(0.1,))))
    assert not np.allclose(found[0], errors(other, X, y), atol=1e-3)


def test_classes_may_appear_at_any_time():
    model, right = MultiKernelClassifier(Paper()), metrics.Accuracy()
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    for x, y in datasets.ImageSegments().take(1000):
        right.update(y, model.predict_one(x))
        model.learn_one(x, y)
    assert right.get() > 0.75
    assert sum(model.predict_proba_one(x).values()) == pytest.approx(1)


def test_probabilities_of_auto_are_those_of_its_model():
    rng = np.random.default_rng(0)
    facade, model = MultiKernelClassifier(Auto(size=40)), OnlineRows(Auto(size=40, loss="logistic"), 1)
    for a in rng.uniform(size=200).tolist():
        facade.learn_one({"a": a}, a > 0.5)
        model.learn([[a]], [[1 if facade._model.classes[a > 0.5] == 0 else -1]])
    first = next(iter(facade._model.classes))
    for a in (0.1, 0.45, 0.9):
        expected = (1 + model.predict([[a]])[0, 0]) / 2
        assert facade.predict_proba_one({"a": a})[first] == pytest.approx(expected, abs=1e-6)


@BOTH
def test_the_third_class_keeps_what_the_first_two_knew(settings):
    rng = np.random.default_rng(0)
    model = MultiKernelClassifier(settings)
    for a in rng.uniform(size=200):
        model.learn_one({"a": float(a)}, "high" if a > 0.5 else "low")
    model.learn_one({"a": 0.5}, "new")
    assert model.predict_one({"a": 0.1}) == "low"
    assert model.predict_one({"a": 0.9}) == "high"


def test_classes_have_no_intervals():
    model = MultiKernelClassifier(Auto(size=16))
    model.learn_one({"a": 1.0}, True)
    with pytest.raises(InputError, match=r"no bounds; .* use predict_proba_one, which"):
        model.predict_one({"a": 1.0}, with_interval=True)


def test_several_targets_are_dictionaries_and_may_be_missing():
    rng = np.random.default_rng(0)
    model = MultiKernelMultiRegressor(Auto(size=60))
    assert model.predict_one({"a": 1.0}) == {}
    for a, b in rng.uniform(-1, 1, size=(300, 2)).tolist():
        y = (
            {"sum": a + b, "far": 1000 + 100 * a}
            if rng.uniform() < 0.8 or not model._targets
            else {"sum": a + b}
        )
        model.learn_one({"a": a, "b": b}, y)
    found = model.predict_one({"a": 0.5, "b": -0.2})
    assert found == {"sum": pytest.approx(0.3, abs=0.05), "far": pytest.approx(1050, abs=5)}
    with pytest.raises(InputError, match="y has the target 'new'"):
        model.learn_one({"a": 0.5, "b": -0.2}, {"new": 1.0})
    with pytest.raises(InputError, match="predicts one target"):
        MultiKernelMultiRegressor(Paper())

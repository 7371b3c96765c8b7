"""The scikit-learn facade: its own checks, streams and missing values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.utils import estimator_checks

from domkl import Auto, KernelSpec, Paper, Rates
from domkl.base.errors import InputError
from domkl.sklearn import MultiKernelClassifier, MultiKernelForecaster, MultiKernelRegressor

KINDS = pytest.mark.parametrize("kind", [MultiKernelRegressor, MultiKernelClassifier])
BOTH = pytest.mark.parametrize("settings", [Auto(size=100), Paper()], ids=["auto", "paper"])


def table(n=600, seed=0):
    X = np.random.default_rng(seed).uniform(size=(n, 3))
    return X, np.sin(4 * X[:, 0]) + X[:, 1]


@pytest.mark.filterwarnings("default")
@KINDS
@BOTH
def test_scikit_learns_checks_pass_without_expected_failures(kind, settings, monkeypatch):
    # In full, with up to 300 samples instead of 60, they pass too, and take half a minute.
    monkeypatch.setattr(
        estimator_checks, "make_blobs", lambda n_samples, **given: make_blobs(min(n_samples, 60), **given)
    )
    X, y = estimator_checks._regression_dataset()
    monkeypatch.setattr(estimator_checks, "REGRESSION_DATASET", (X[:60], y[:60]))
    found = estimator_checks.check_estimator(kind(settings), on_fail="raise", on_skip=None)
    assert {result["status"] for result in found} <= {"passed", "skipped"}
    # The one that is skipped needs SCIPY_ARRAY_API=1 before scipy is first imported.
    assert {r["check_name"] for r in found if r["status"] == "skipped"} <= {"check_array_api_input"}


@KINDS
@pytest.mark.parametrize(
    "settings",
    [None, Auto(size=60, seed=3), Paper(), Paper(KernelSpec(D=9, seed=2), Rates(1, 2, 3))],
    ids=["none", "auto", "paper", "paper-given"],
)
def test_clones_copies_and_parameters_keep_the_settings(kind, settings):
    model = kind(settings, passes=2)
    copied, pickled = clone(model), pickle.loads(pickle.dumps(model))
    given = {"model": settings, "passes": 2}
    assert copied.get_params(deep=False) == pickled.get_params(deep=False) == given
    assert clone(copied).model == model.model
    assert model.set_params(model=Auto(size=20)).get_params()["model"] == Auto(size=20)


def test_auto_is_the_default():
    X, y = table(40)
    default, auto = (MultiKernelRegressor(model).fit(X, y).predict(X) for model in (None, Auto()))
    assert np.array_equal(default, auto)


@BOTH
def test_one_pass_of_fit_is_partial_fit_in_any_pieces(settings):
    X, y = table(100)
    whole = MultiKernelRegressor(settings, passes=1).fit(X, y)
    parts = MultiKernelRegressor(settings)
    for piece in np.array_split(np.arange(len(y)), 7):
        parts.partial_fit(X[piece], y[piece])
    assert np.array_equal(whole.predict(X), parts.predict(X))


@pytest.mark.parametrize(("settings", "usual"), [(Auto(size=40), 1), (Paper(), 5)], ids=["auto", "paper"])
def test_auto_goes_through_a_table_once_and_paper_five_times_unless_told_otherwise(settings, usual):
    X, y = table(100)
    default, same, more = (
        MultiKernelRegressor(settings, passes=passes).fit(X, y).predict(X[:5])
        for passes in (None, usual, usual + 1)
    )
    assert np.array_equal(default, same)
    assert not np.array_equal(default, more)


def test_missing_values_count_as_the_mean():
    X, y = table(2000)
    model = MultiKernelRegressor(Paper()).fit(X, y)
    gaps = X[:1].copy()
    gaps[0, 2] = np.nan
    mean = X[:1].copy()
    mean[0, 2] = X[:, 2].mean()
    assert model.predict(gaps)[0] == pytest.approx(model.predict(mean)[0], abs=0.02)


@BOTH
def test_tables_with_holes_are_learnt(settings):
    X, y = table(400)
    holes = np.where(np.random.default_rng(1).uniform(size=X.shape) < 0.1, np.nan, X)
    assert MultiKernelRegressor(settings).fit(holes, y).score(X, y) > 0.7


@BOTH
def test_classes_are_named_in_the_first_part(settings):
    X, y = table(300)
    labels = np.where(y > y.mean(), "high", "low")
    model = MultiKernelClassifier(settings).partial_fit(X[:5], labels[:5], classes=["low", "high"])
    assert model.partial_fit(X, labels).score(X, labels) > 0.85
    assert model.predict_proba(X).sum(1) == pytest.approx(1)
    with pytest.raises(InputError, match=r"class .*'middle'.*name all in the first partial_fit"):
        model.partial_fit(X[:1], ["middle"])


@BOTH
def test_decision_and_probability_agree(settings):
    X, y = table(90)
    for bins in (2, 3):
        labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, bins + 1)[1:-1]))
        model = MultiKernelClassifier(settings, passes=1).fit(X, labels)
        scores = model.decision_function(X)
        assert scores.shape == ((len(y),) if bins == 2 else (len(y), bins))
        best = (scores > 0).astype(int) if bins == 2 else scores.argmax(1)
        assert np.array_equal(model.predict(X), best)


def test_intervals_hold_the_asked_part_of_a_stream():
    X, y = table(500)
    y = y + 0.2 * np.random.default_rng(1).standard_normal(500)
    model, inside = MultiKernelRegressor(Auto(size=60)).partial_fit(X[:150], y[:150]), []
    for k in range(150, 500, 10):
        low, high = model.predict_interval(X[k : k + 10], coverage=0.8).T
        inside += ((low <= y[k : k + 10]) & (y[k : k + 10] <= high)).tolist()
        model.partial_fit(X[k : k + 10], y[k : k + 10])
    assert np.mean(inside) == pytest.approx(0.8, abs=0.06)


def test_classes_have_no_intervals():
    X, y = table(20)
    with pytest.raises(InputError, match=r"no bounds; .* use predict_proba, which"):
        MultiKernelClassifier(Auto(size=16), passes=1).fit(X, y > 1).predict_interval(X)


def test_bad_settings_are_refused_in_one_line():
    X, y = table(20)
    with pytest.raises(InputError, match="passes is 0"):
        MultiKernelRegressor(passes=0).fit(X, y)
    with pytest.raises(InputError, match="model is 'best'"):
        MultiKernelRegressor("best").fit(X, y)
    with pytest.raises(InputError, match="use MultiKernelClassifier"):
        MultiKernelRegressor(Auto(loss="logistic")).fit(X, y)
    with pytest.raises(InputError, match="loss is 'huber'"):
        MultiKernelClassifier(Paper(loss="huber")).fit(X, y > 0)


def test_several_targets_are_columns_of_y():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    y = np.stack([X.sum(1), 1000 + 100 * X[:, 0]], 1)
    model = MultiKernelRegressor(Auto(size=60)).fit(X[:200], y[:200])
    assert model.predict(X[200:]).shape == (100, 2)
    assert model.score(X[200:], y[200:]) > 0.95


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_with_words_times_and_gaps_are_taken_as_they_are(library):
    frames, rng = pytest.importorskip(library), np.random.default_rng(0)
    when = np.datetime64("2024-01-01T00:00:00", "ns") + np.arange(500) * np.timedelta64(1, "h")
    city = rng.choice(["Rome", "Oslo", "Bonn"], 500)
    y = 5 * (city == "Rome") + 3 * np.sin(2 * np.pi * np.arange(500) / 24)
    words = [None if i % 50 == 0 else str(each) for i, each in enumerate(city)]
    X = frames.DataFrame({"city": words, "when": when, "v": np.where(rng.random(500) > 0.1, 1.0, np.nan)})
    model = MultiKernelRegressor(Auto(size=60)).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.9
    assert [*model.feature_names_in_] == ["city", "when", "v"]
    parts = model.feature_importances_
    assert parts.shape == (3,)
    assert parts[:2].min() > 0.2
    assert model.explain(X[400:402]).shape == (2, 3)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(X[["when", "city", "v"]])


def test_a_series_is_forecast_and_validated_fold_by_fold():
    frames, t = pytest.importorskip("pandas"), np.arange(24 * 14)
    X = frames.DataFrame({"when": frames.date_range("2024-01-01", periods=len(t), freq="h"), "v": 1.0})
    y = 10 + 5 * np.sin(2 * np.pi * t / 24)
    model = MultiKernelForecaster(Auto(size=60), horizon="1h..24h", time="when")
    assert cross_val_score(model, X, y, cv=TimeSeriesSplit(2, test_size=24)).min() > 0.95
    model.fit(X[:200], y[:200]).partial_fit(X[200:300], y[200:300])
    assert np.abs(model.predict(X[300:324]) - y[300:324]).max() < 1
    low, high = model.predict_interval(X[300:310]).T
    assert ((low < model.predict(X[300:310])) & (model.predict(X[300:310]) < high)).all()
    with pytest.raises(InputError, match="X has 25 rows; expected at most 24"):
        model.predict(X[300:325])
    with pytest.raises(InputError, match="X has no column 'when'"):
        model.fit(X[["v"]], y)


def test_a_search_reaches_the_settings_of_the_model():
    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60.0)
    found = GridSearchCV(MultiKernelRegressor(), {"model__size": [16, 20]}, cv=2).fit(X, y)
    assert found.best_params_["model__size"] == found.best_estimator_.model.size
    with pytest.raises(ValueError, match=r"'sise' is no setting; .* mean 'size'"):
        MultiKernelRegressor().set_params(model__sise=3)


def test_rows_of_weight_0_change_nothing():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 1))
    wrong = np.arange(300) % 2 == 1
    y = np.where(wrong, 5.0, X[:, 0])
    model = MultiKernelRegressor(Auto(size=60)).partial_fit(X, y, sample_weight=1.0 - wrong)
    assert np.abs(model.predict(X) - X[:, 0]).mean() < 0.2

"""The scikit-learn facade: its own checks, streams and missing values."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import check_estimator

from domkl.base.errors import InputError
from domkl.faces import PRESETS
from domkl.sklearn import MultiKernelClassifier, MultiKernelRegressor

MODELS = [MultiKernelRegressor, MultiKernelClassifier]
CHECKED = [(kind, preset) for kind in MODELS for preset in PRESETS]


def table(n=600, seed=0):
    X = np.random.default_rng(seed).uniform(size=(n, 3))
    return X, np.sin(4 * X[:, 0]) + X[:, 1]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("kind", "preset"), CHECKED)
def test_scikit_learns_checks_pass_without_expected_failures(kind, preset):
    found = check_estimator(kind(preset=preset, size=100), on_fail="raise", on_skip=None)
    assert {result["status"] for result in found} <= {"passed", "skipped"}
    # The one that is skipped needs SCIPY_ARRAY_API=1 before scipy is first imported.
    assert {r["check_name"] for r in found if r["status"] == "skipped"} <= {"check_array_api_input"}


def test_one_pass_of_fit_is_partial_fit_in_any_pieces():
    X, y = table()
    whole = MultiKernelRegressor(passes=1).fit(X, y)
    parts = MultiKernelRegressor()
    for piece in np.array_split(np.arange(len(y)), 7):
        parts.partial_fit(X[piece], y[piece])
    assert np.array_equal(whole.predict(X), parts.predict(X))


def test_auto_goes_through_a_table_once_unless_told_otherwise():
    X, y = table(100)
    once, again, more = (
        MultiKernelRegressor(preset="auto", size=40, passes=passes).fit(X, y).predict(X[:5])
        for passes in (None, 1, 2)
    )
    assert np.array_equal(once, again)
    assert not np.array_equal(once, more)


def test_missing_values_count_as_the_mean():
    X, y = table(2000)
    model = MultiKernelRegressor().fit(X, y)
    gaps = X[:1].copy()
    gaps[0, 2] = np.nan
    mean = X[:1].copy()
    mean[0, 2] = X[:, 2].mean()
    assert model.predict(gaps)[0] == pytest.approx(model.predict(mean)[0], abs=0.02)
    holes = np.where(np.random.default_rng(1).uniform(size=X.shape) < 0.1, np.nan, X)
    assert MultiKernelRegressor().fit(holes, y).score(X, y) > 0.7


def test_classes_are_told_in_the_first_part():
    X, y = table()
    labels = np.where(y > y.mean(), "high", "low")
    model = MultiKernelClassifier().partial_fit(X[:5], labels[:5], classes=["low", "high"])
    assert model.partial_fit(X, labels).score(X, labels) > 0.85
    assert model.predict_proba(X).sum(1) == pytest.approx(1)
    with pytest.raises(InputError, match=r"class .*'middle'.*name all in the first partial_fit"):
        model.partial_fit(X[:1], ["middle"])


def test_decision_and_probability_agree():
    X, y = table()
    for bins in (2, 3):
        labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, bins + 1)[1:-1]))
        model = MultiKernelClassifier(passes=1).fit(X, labels)
        scores = model.decision_function(X)
        assert scores.shape == ((len(y),) if bins == 2 else (len(y), bins))
        best = (scores > 0).astype(int) if bins == 2 else scores.argmax(1)
        assert np.array_equal(model.predict(X), best)


def test_bad_settings_are_refused_in_one_line():
    X, y = table(20)
    with pytest.raises(InputError, match="passes is 0"):
        MultiKernelRegressor(passes=0).fit(X, y)
    with pytest.raises(InputError, match="preset is 'best'"):
        MultiKernelRegressor(preset="best").fit(X, y)

"""domkl as scikit-learn estimators: `fit` a table, or `partial_fit` a stream; nothing to scale or fill.

Missing values (NaN) count as the column's mean so far.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .base import checks
from .base.errors import InputError
from .base.extras import need
from .base.types import Array
from .faces import models
from .faces.classes import classifier, hand_over, refuse_interval
from .faces.online import Single
from .learning.conformal import Misses
from .learning.explain import Contributions
from .models.settings import ModelSettings

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight as check_sample_weight
    from sklearn.utils.validation import check_is_fitted, validate_data
else:
    _base, _validation = need("sklearn.base", "sklearn"), need("sklearn.utils.validation", "sklearn")
    BaseEstimator, ClassifierMixin = _base.BaseEstimator, _base.ClassifierMixin
    RegressorMixin = _base.RegressorMixin
    check_is_fitted, validate_data = _validation.check_is_fitted, _validation.validate_data
    check_sample_weight = _validation._check_sample_weight
    check_classification_targets = need("sklearn.utils.multiclass", "sklearn").check_classification_targets

__all__ = ["MultiKernelClassifier", "MultiKernelRegressor"]

_TABLE: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "order": "C"}


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators have in common: settings, tables, passes."""

    def __init__(self, model: ModelSettings | None = None, *, passes: int | None = None) -> None:
        self.model, self.passes = model, passes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        if isinstance(self, MultiKernelRegressor):
            tags.target_tags.multi_output = models.check(self.model).has_targets
        return tags

    def hand_over(self, path: str | os.PathLike[str]) -> None:
        """Write what it has learnt, and no sample, to a file with which `domkl agent`s can begin."""
        check_is_fitted(self)
        models.hand_over(path, self.model_.online, self._names())

    def _names(self) -> list[str]:
        return [*map(str, getattr(self, "feature_names_in_", ()))]

    @property
    def feature_importances_(self) -> Array:
        """How much each input matters overall; they sum to 1. (d,) See `domkl.explain`."""
        check_is_fitted(self)
        return models.mean_part(self._models())

    def _passes(self) -> int:
        usual = models.check(self.model).passes
        return checks.count("passes", usual if self.passes is None else self.passes)

    def _with_labels(self, X: Any, y: Any, *, reset: bool, numeric: bool) -> Any:
        several = numeric and models.check(self.model).has_targets
        return validate_data(self, X, y, reset=reset, y_numeric=numeric, multi_output=several, **_TABLE)

    def _weights(self, X: Array, sample_weight: Any) -> list[float]:
        """How often each row counts; none may be below 0."""
        found: list[float] = check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        ).tolist()
        return found

    def _table(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, **_TABLE))


class MultiKernelRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Regression with many kernels at once, weighed by how well they predict.

    Parameters
    ----------
    model : `domkl.Auto(...)`, by default `Auto()`, or `domkl.Paper(...)`: the paper's local step over
        Gaussian kernels; there the rates are `Rates(rho=1, eta=4, eta_g=1)` unless given.
    passes : how often `fit` goes through the table; by default once, which is all that `Auto` needs, and five
        times with `Paper`. `partial_fit` does once.

    Examples
    --------
    >>> import domkl
    >>> from sklearn.datasets import make_friedman1
    >>> from domkl.sklearn import MultiKernelRegressor
    >>> X, y = make_friedman1(800, random_state=0)
    >>> model = MultiKernelRegressor(domkl.Auto(size=400)).fit(X[:600], y[:600])
    >>> bool(model.score(X[600:], y[600:]) > 0.95)
    True
    """

    def fit(self, X: Any, y: Any) -> MultiKernelRegressor:
        """Learn a table from the start, row by row; y (N,), or (N, m) of several targets."""
        passes = self._passes()
        X, y = self._with_labels(X, y, reset=True, numeric=True)
        self._reset(y)
        return self._learn(X, y, None, passes)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiKernelRegressor:
        """Go on learning, row by row; each counts as often as its weight says.

        `fit` takes no weights: with them scikit-learn expects that the order of rows does not matter.
        """
        first = not hasattr(self, "model_")
        X, y = self._with_labels(X, y, reset=first, numeric=True)
        if first:
            self._reset(y)
        return self._learn(X, y, sample_weight, 1)

    def predict(self, X: Any) -> Array:
        """A number for each row, or of m targets (N, m)."""
        return np.array([self.model_.predict(x) for x in self._table(X)])

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Bounds of each row, low and high, that hold the target in `coverage` of all cases. (N, 2)

        They come from the errors of the first pass, each made before its label was known; they are infinite
        while few are known. See `domkl.conformal`.
        """
        check_is_fitted(self)
        if self.model_.m > 1:
            raise InputError(f"there are {self.model_.m} targets; expected one for bounds; fit one by itself")
        wide = self.misses_.width(coverage)
        return np.asarray(self.predict(X)[:, None] + np.array([-wide, wide]))

    def explain(self, X: Any) -> Array:
        """What each input adds to the prediction of each row, compared with its usual values. (N, d)"""
        found = [models.explain(self.model_.online, x) for x in self._table(X)]
        return np.array([each.contribution for each in found if isinstance(each, Contributions)])

    def _models(self) -> list[Single]:
        return [self.model_]

    def _reset(self, y: Array) -> None:
        self.misses_ = Misses()
        self.model_ = Single(models.for_numbers(self.model), 1 if y.ndim == 1 else y.shape[1])
        self.model_.grow(range(self.n_features_in_))

    def _learn(self, X: Array, y: Array, sample_weight: Any, passes: int) -> MultiKernelRegressor:
        weights = self._weights(X, sample_weight)
        is_flat = self.model_.m == 1
        labels = y.reshape(len(y)).tolist() if is_flat else y
        for n in range(passes):
            for x, label, weight in zip(X, labels, weights, strict=True):
                if is_flat and n == 0 and self.model_.n:  # the first error says nothing, nor known labels
                    self.misses_.note(self.model_.predict(x) - label)
                self.model_.learn(x, label, weight)
        return self


class MultiKernelClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Classification with many kernels at once: with `Auto` all classes share a matrix.

    Parameters
    ----------
    model, passes : as for `MultiKernelRegressor`; the loss becomes "classes". With `domkl.Paper(...)` the
        rates are `Rates(rho=1, eta=1, eta_g=1)` unless given.

    Examples
    --------
    >>> import domkl
    >>> from sklearn.datasets import load_breast_cancer
    >>> from domkl.sklearn import MultiKernelClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MultiKernelClassifier(domkl.Auto(size=100)).fit(X[:400], y[:400])
    >>> round(model.score(X[400:], y[400:]), 2)
    0.99
    """

    def fit(self, X: Any, y: Any) -> MultiKernelClassifier:
        """Learn a table from the start, row by row."""
        passes = self._passes()
        X, y = self._labelled(X, y, reset=True)
        self._reset(np.unique(y))
        return self._learn(X, y, None, passes)

    def partial_fit(
        self, X: Any, y: Any, classes: npt.ArrayLike | None = None, sample_weight: Any = None
    ) -> MultiKernelClassifier:
        """Go on learning, row by row; the first call says which classes there are."""
        first = not hasattr(self, "model_")
        X, y = self._labelled(X, y, reset=first)
        if first:
            self._reset(np.unique(y if classes is None else classes))
        self._refuse_new(y)
        return self._learn(X, y, sample_weight, 1)

    def decision_function(self, X: Any) -> Array:
        """For two classes the score of the second (N,), for more one of each (N, classes)."""
        scores = np.array([self.model_.scores(x) for x in self._table(X)])
        return scores[:, -1] if len(self.classes_) <= 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """A probability for each row and class. (N, classes)"""
        return np.array([self.model_.probabilities(x) for x in self._table(X)])

    def predict(self, X: Any) -> Any:
        """The most probable class of each row."""
        probable = self.predict_proba(X)
        return self.classes_[np.argmax(probable, axis=1)]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Refused: classes have no bounds; `predict_proba` tells how sure the model is."""
        refuse_interval("predict_proba")

    def _labelled(self, X: Any, y: Any, *, reset: bool) -> tuple[Array, Any]:
        X, y = self._with_labels(X, y, reset=reset, numeric=False)
        check_classification_targets(y)
        return X, y

    def _models(self) -> list[Single]:
        return self.model_.singles

    def hand_over(self, path: str | os.PathLike[str]) -> None:
        """Write what it has learnt of two classes, 0 (or -1) and 1, to a file with which agents can begin."""
        check_is_fitted(self)
        hand_over(path, self.model_, self.classes_.tolist(), self._names())

    def _reset(self, classes: npt.NDArray[Any]) -> None:
        self.classes_ = classes
        self.model_ = classifier(self.model, range(len(classes)))
        self.model_.grow(range(self.n_features_in_))

    def _refuse_new(self, y: Any) -> None:
        new = np.setdiff1d(y, self.classes_)
        if len(new):
            raise InputError(
                f"y holds the class {new[0]!r}, which is not in classes_; expected one of "
                f"{self.classes_.tolist()}; name all in the first partial_fit(classes=)"
            )

    def _learn(self, X: Array, y: Any, sample_weight: Any, passes: int) -> MultiKernelClassifier:
        labels, weights = np.searchsorted(self.classes_, y).tolist(), self._weights(X, sample_weight)
        for _ in range(passes):
            for x, label, weight in zip(X, labels, weights, strict=True):
                self.model_.learn(x, label, weight)
        return self

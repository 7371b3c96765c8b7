"""domkl as scikit-learn estimators: `fit` a table, or `partial_fit` a stream; nothing to scale or fill.

Missing values (NaN) count as the column's mean so far. A frame may have words and times as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .base import checks
from .base.errors import InputError
from .base.extras import need
from .base.types import Array
from .datasets import Encoder, cells
from .faces import models
from .faces.ahead import Forecasts
from .faces.classes import classifier, refuse_interval
from .faces.online import Single
from .learning.conformal import Misses
from .learning.explain import Contributions
from .models.settings import ModelSettings, Settings, as_settings

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight as check_sample_weight
    from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data
else:
    _base, _validation = need("sklearn.base", "sklearn"), need("sklearn.utils.validation", "sklearn")
    BaseEstimator, ClassifierMixin = _base.BaseEstimator, _base.ClassifierMixin
    RegressorMixin = _base.RegressorMixin
    check_is_fitted, validate_data = _validation.check_is_fitted, _validation.validate_data
    check_X_y = _validation.check_X_y  # noqa: N816
    check_sample_weight = _validation._check_sample_weight
    check_classification_targets = need("sklearn.utils.multiclass", "sklearn").check_classification_targets

__all__ = ["MultiKernelClassifier", "MultiKernelForecaster", "MultiKernelRegressor"]

_TABLE: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "order": "C"}


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators have in common: settings, tables, passes."""

    encoder_: Encoder | None  # of a frame with words or times

    def __init__(self, model: ModelSettings | None = None, *, passes: int | None = None) -> None:
        self.model: Any = model
        self.passes = passes

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, those of the model as model__size and so on."""
        is_known = self.model is None or isinstance(self.model, Settings)
        inner = as_settings(self.model).get_params() if deep and is_known else {}
        return {**super().get_params(False), **{f"model__{name}": value for name, value in inner.items()}}

    def set_params(self, **params: Any) -> Any:
        """Change parameters; those of the model make another one, which a search for the best size uses."""
        inner = {name[7:]: params.pop(name) for name in [*params] if name.startswith("model__")}
        super().set_params(**params)
        if inner:
            self.model = as_settings(self.model).set_params(**inner)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        if isinstance(self, MultiKernelRegressor):
            tags.target_tags.multi_output = models.check(self.model).has_targets
        return tags

    def hand_over(self, path: str | os.PathLike[str]) -> None:
        """Write what it has learnt, and no sample, to a file with which `domkl agent`s can begin.

        Classes are two then, 0 (or -1) and 1.
        """
        check_is_fitted(self)
        self.model_.hand_over(path, self._names())

    def _names(self) -> list[str]:
        if self.encoder_ is not None:
            return [*self.encoder_.inputs]
        return [*map(str, getattr(self, "feature_names_in_", ()))]

    def _groups(self) -> list[list[int]]:
        """The inputs that are made of each column."""
        if self.encoder_ is None:
            return [[i] for i in range(self.n_features_in_)]
        places = {name: i for i, name in enumerate(self.encoder_.inputs)}
        made = {part.name: [places[each] for each in part.inputs] for part in self.encoder_.parts}
        return [made.get(str(name), []) for name in self.feature_names_in_]

    def _by_column(self, of: Callable[[list[list[int]]], Array]) -> Array:
        """What is said of groups of inputs, for each column; 0 for those that make no input. (..., n)"""
        groups = self._groups()
        found = of([group for group in groups if group])
        told = np.zeros((*found.shape[:-1], len(groups)))
        told[..., [i for i, group in enumerate(groups) if group]] = found
        return told

    @property
    def feature_importances_(self) -> Array:
        """How much each column matters overall; they sum to 1. See `domkl.explain`."""
        check_is_fitted(self)
        return self._by_column(lambda groups: models.mean_part(self.model_.singles, groups))

    def _passes(self) -> int:
        usual = models.check(self.model).passes
        return checks.count("passes", usual if self.passes is None else self.passes)

    def fit(self, X: Any, y: Any) -> Any:
        """Learn a table from the start, row by row; y (N,), or (N, m) of several targets."""
        passes = self._passes()
        X, y = self._with_labels(X, y, reset=True)
        self._reset(y)
        self._learn(X, y, None, passes)
        return self

    def _with_labels(self, X: Any, y: Any, *, reset: bool) -> Any:
        return self._checked(X, y, reset=reset, numeric=True)

    def _reset(self, y: Any) -> None:
        """Begin again, with a model for such labels."""
        raise NotImplementedError

    def _learn(self, X: Array, y: Any, sample_weight: Any, passes: int = 1) -> None:
        """Go through a table; each row counts as often as its weight says, which is not below 0."""
        weights = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True).tolist()
        labels = (y.ravel() if y.size == len(y) else y).tolist()
        for n in range(passes):
            for x, label, weight in zip(X, labels, weights, strict=True):
                if n == 0:
                    self._note(x, label)
                self.model_.learn(x, label, weight)

    def _note(self, x: Array, label: Any) -> None:
        """What there is to know of a label before it is learnt for the first time."""

    def _checked(self, X: Any, y: Any, *, reset: bool, numeric: bool) -> Any:
        several = numeric and models.check(self.model).has_targets
        how = {"y_numeric": numeric, "multi_output": several, **_TABLE}
        X, is_raw = self._numbers(X, reset)
        return check_X_y(X, y, **how) if is_raw else validate_data(self, X, y, reset=reset, **how)

    def _numbers(self, X: Any, reset: bool) -> tuple[Any, bool]:
        """A frame with words or times as numbers, and whether it is one; anything else as it is."""
        rows = None if reset is False and self.encoder_ is None else _raw_rows(X)
        if reset:
            self.encoder_ = None if rows is None else Encoder.fit(rows)
        if self.encoder_ is None:
            return X, False
        validate_data(self, X, reset=reset, skip_check_array=True)  # the names
        return np.array([self.encoder_.encode(row).x for row in rows or ()]), True

    def _table(self, X: Any) -> Array:
        check_is_fitted(self)
        X, is_raw = self._numbers(X, False)
        return np.asarray(X if is_raw else validate_data(self, X, reset=False, **_TABLE))

    def _inputs(self) -> int:
        """How many inputs the columns make."""
        return self.n_features_in_ if self.encoder_ is None else self.encoder_.d


def _raw_rows(X: Any) -> list[dict[str, Any]] | None:
    """The rows of a frame of pandas or Polars that has words or times; None of anything else."""
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return None
    is_polars = hasattr(X, "to_dicts")
    if all(dtype.is_numeric() if is_polars else dtype.kind in "fiub" for dtype in X.dtypes):
        return None
    rows = X.to_dicts() if is_polars else X.to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


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

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiKernelRegressor:
        """Go on learning, row by row; each counts as often as its weight says.

        `fit` takes no weights: with them scikit-learn expects that the order of rows does not matter.
        """
        first = not hasattr(self, "model_")
        X, y = self._with_labels(X, y, reset=first)
        if first:
            self._reset(y)
        self._learn(X, y, sample_weight)
        return self

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
        """What each column adds to the prediction of each row, compared with other samples. (N, d)"""
        X = self._table(X)

        def added(groups: list[list[int]]) -> Array:
            names = [str(i) for i in range(len(groups))]
            found = [models.explain(self.model_, x, names, groups) for x in X]
            return np.array([each.contribution for each in found if isinstance(each, Contributions)])

        return self._by_column(added)

    def _reset(self, y: Array) -> None:
        self.misses_ = Misses()
        m = 1 if y.ndim == 1 else y.shape[1]
        self.model_ = Single(models.for_numbers(self.model), m)
        self.model_.grow(range(self._inputs()))

    def _note(self, x: Array, label: Any) -> None:
        if self.model_.m == 1 and self.model_.n:  # the first error says nothing
            self.misses_.note(self.model_.predict(x) - label)


class MultiKernelForecaster(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Forecasts of a series: `predict` gives what follows the rows that were learnt. See docs/forecast.md.

    Parameters
    ----------
    model : `domkl.Auto(...)`, by default `Auto()`.
    horizon : the leads, as in `domkl.DOMKL`: "1 row..24 rows", "1h..24h". `predict` of n rows gives the first
        n; so a cross-validation with `TimeSeriesSplit(test_size=24)` tells how good 24 leads are.
    time : the column of a frame that says when, which leads in times need. Rows are in order of time.

    The columns of the rows that are predicted are not used, as they are not known yet.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> from domkl.sklearn import MultiKernelForecaster
    >>> y = 10 + np.arange(1200) % 24
    >>> model = MultiKernelForecaster(domkl.Auto(size=60), horizon="1 row..3 rows")
    >>> model.fit(np.zeros((1200, 1)), y).predict(np.zeros((3, 1))).round().tolist()
    [10.0, 11.0, 12.0]
    """

    def __init__(
        self, model: ModelSettings | None = None, *, horizon: Any = "1 row..24 rows", time: str | None = None
    ) -> None:
        super().__init__(model)
        self.horizon, self.time = horizon, time
        del self.passes  # a series is gone through once

    def fit(self, X: Any, y: Any) -> MultiKernelForecaster:
        """Learn a series from its start."""
        return self._go_on(X, y, reset=True)

    def partial_fit(self, X: Any, y: Any) -> MultiKernelForecaster:
        """Go on with later readings."""
        return self._go_on(X, y, reset=not hasattr(self, "model_"))

    def predict(self, X: Any) -> Array:
        """What follows the last reading, at as many leads as X has rows."""
        n, leads = self._ahead(X), self.model_.targets
        if n > leads:
            raise InputError(f"X has {n} rows; expected at most {leads}, one for each lead; widen horizon=")
        return np.reshape(self.model_.predict(), -1)[:n]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Bounds of the same, low and high. (N, 2)"""
        n = self._ahead(X)
        low, high = self.model_.interval(coverage=coverage)
        return np.stack([np.reshape(low, -1), np.reshape(high, -1)], 1)[:n]

    def _ahead(self, X: Any) -> int:
        check_is_fitted(self)
        return len(X)

    def _go_on(self, X: Any, y: Any, reset: bool) -> MultiKernelForecaster:
        times = None
        if self.time is not None:
            if self.time not in getattr(X, "columns", ()):
                raise InputError(f"X has no column {self.time!r}; expected a frame with the time; name it")
            times = [cells.moment(each).seconds for each in X[self.time]]
        how = {**_TABLE, "y_numeric": True}
        X, is_raw = self._numbers(X, reset)
        X, y = check_X_y(X, y, **how) if is_raw else validate_data(self, X, y, reset=reset, **how)
        if reset:
            self.model_ = Forecasts(model=self.model, horizon=self.horizon)
        for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
            self.model_.learn(x, label, time=None if times is None else times[i])
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

    def partial_fit(
        self, X: Any, y: Any, classes: npt.ArrayLike | None = None, sample_weight: Any = None
    ) -> MultiKernelClassifier:
        """Go on learning, row by row; the first call says which classes there are."""
        first = not hasattr(self, "model_")
        X, y = self._with_labels(X, y, reset=first)
        if first:
            self._reset(y if classes is None else classes)
        self._refuse_new(y)
        self._learn(X, y, sample_weight)
        return self

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

    def _with_labels(self, X: Any, y: Any, *, reset: bool) -> tuple[Array, Any]:
        X, y = self._checked(X, y, reset=reset, numeric=False)
        check_classification_targets(y)
        return X, y

    def _reset(self, y: Any) -> None:
        self.classes_ = np.unique(y)
        self.model_ = classifier(self.model, self.classes_.tolist())
        self.model_.grow(range(self._inputs()))

    def _refuse_new(self, y: Any) -> None:
        new = np.setdiff1d(y, self.classes_)
        if len(new):
            raise InputError(
                f"y holds the class {new[0]!r}, which is not in classes_; expected one of "
                f"{self.classes_.tolist()}; name all in the first partial_fit(classes=)"
            )

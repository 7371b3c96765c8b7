"""domkl as River models: one sample at a time, dictionaries with any keys, nothing to prepare.

Features may come in any order, appear later and go away; a missing one counts as its mean so far. They may be
numbers, words and times. Inputs and targets are scaled from the stream itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import checks
from .base.errors import InputError
from .base.extras import need
from .base.types import Array
from .datasets import cells
from .faces import models
from .faces.ahead import Forecasts
from .faces.classes import Classes, classifier, refuse_interval
from .faces.online import Single
from .faces.raw import RawCells
from .learning.alarms import Alarms
from .learning.conformal import Misses
from .learning.explain import Contributions
from .models.settings import ModelSettings
from .models.single import digest

if TYPE_CHECKING:
    import pandas as pd
    from river import base
    from river.time_series.base import Forecaster
else:
    base = need("river.base", "river")
    Forecaster = need("river.time_series.base", "river").Forecaster

__all__ = [
    "AlarmDetector",
    "MultiKernelClassifier",
    "MultiKernelForecaster",
    "MultiKernelMultiRegressor",
    "MultiKernelRegressor",
]


class _Columns:
    """Dictionaries as arrays: every name has its column."""

    def __init__(self, grow: Callable[[Sequence[Hashable]], None]) -> None:
        self.names: list[Hashable] = []
        self.raw = RawCells()
        self._grow = grow
        self._usual: Callable[[Mapping[Any, Any]], Any] = lambda x: None
        self._values: Any = None
        self._array = np.empty(0)

    def __getstate__(self) -> dict[str, Any]:
        return {"names": self.names, "_grow": self._grow, "raw": self.raw}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_grow"])  # type: ignore[misc]
        self._add(state["names"])
        self.raw = state["raw"]

    def read(self, x: Mapping[Any, Any]) -> Array:
        """Its values; the same array as before if they are the same."""
        if len(x) != len(self.names):
            return self._unusual(x)
        try:
            values = self._usual(x)
            if values != self._values:
                self._array = np.fromiter(values, float, len(values))
                self._values = values
            return self._array
        except (KeyError, TypeError, ValueError):
            return self._unusual(x)

    def _unusual(self, x: Mapping[Any, Any]) -> Array:
        """Names that are new or not there, or values that are no plain numbers."""
        self._values, x = None, self.raw.plain(x)
        known = set(self.names)
        new = sorted((name for name in x if name not in known), key=digest)
        if new:
            self._grow(new)  # first, since it may refuse them
            self._add(new)
        return np.array([_number(name, x.get(name)) for name in self.names])

    def groups(self) -> dict[Hashable, list[int]]:
        """The columns of each feature."""
        found: dict[Hashable, list[int]] = {}
        for i, name in enumerate(self.names):
            found.setdefault(self.raw.group(name), []).append(i)
        return found

    def _add(self, names: Sequence[Hashable]) -> None:
        self.names = [*self.names, *names]
        if len(self.names) > 1:
            self._usual = itemgetter(*self.names)
        elif self.names:
            only = self.names[0]
            self._usual = lambda x: (x[only],)


def _number(name: Hashable, value: Any) -> float:
    try:
        return float("nan") if value is None else float(value)
    except (TypeError, ValueError):
        raise InputError(
            f"feature {name!r} is {checks.short(value)}; expected a number, a word or a time; leave it out"
        ) from None


def moment(value: Any) -> Any:
    """When: seconds, as they are, or of a datetime or a text."""
    return value if isinstance(value, (int, float)) else cells.moment(value).seconds


def _rows(X: pd.DataFrame) -> list[dict[Hashable, Any]]:
    names = list(X.columns)
    return [dict(zip(names, row, strict=True)) for row in X.to_numpy()]


class _Face:
    """What one model of numbers, or of classes, can do; tables go row by row."""

    _dtype: Any = None  # of predictions
    _model: Any  # a `Single`, or `Classes`
    _columns: _Columns

    def explain_many(self) -> dict[Hashable, float]:
        """How much each feature matters overall; the parts sum to 1. See `domkl.explain`."""
        groups = self._columns.groups()
        parts = models.mean_part(self._model.singles, [*groups.values()])
        return dict(zip(groups, parts.tolist(), strict=True))

    def hand_over(self, path: str | os.PathLike[str]) -> None:
        """Write what it has learnt, and no sample, to a file with which `domkl agent`s can begin.

        Classes are two then, 0 (or -1) and 1.
        """
        self._model.hand_over(path, self._columns.names)

    def predict_many(self: Any, X: pd.DataFrame) -> pd.Series:
        """`predict_one` of every row."""
        Series: Any = need("pandas", "river").Series
        return Series([self.predict_one(x) for x in _rows(X)], index=X.index, dtype=self._dtype)

    def learn_many(self: Any, X: pd.DataFrame, y: pd.Series) -> None:
        """`learn_one` of every row, in order."""
        for x, label in zip(_rows(X), y, strict=True):
            self.learn_one(x, label)


class MultiKernelRegressor(_Face, base.MiniBatchRegressor):
    """Online regression with many kernels at once, weighed by how well they predict.

    Parameters
    ----------
    model
        `domkl.Auto(...)`, by default `Auto()`, or `domkl.Paper(...)`: the paper's local step over Gaussian
        kernels, a few microseconds a sample; there the rates are `Rates(rho=1, eta=4, eta_g=1)` unless given.

    Examples
    --------
    >>> import domkl
    >>> from river import datasets, evaluate, metrics
    >>> from domkl.river import MultiKernelRegressor
    >>> model = MultiKernelRegressor(domkl.Auto(size=400))
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.2...
    >>> model = MultiKernelRegressor(domkl.Paper())
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.27...
    """

    _dtype = float

    def __init__(self, model: ModelSettings | None = None) -> None:
        self.model = model
        self._model = Single(models.for_numbers(model))
        self._columns = _Columns(self._model.grow)
        self._misses = Misses()
        self._last: tuple[Any, float] = None, 0.0  # what was predicted last

    def predict_one(self, x: dict[Any, Any], with_interval: bool = False, coverage: float = 0.9) -> Any:
        """The prediction for a dictionary of features.

        As in `river.conf`, `with_interval=True` gives a `river.conf.Interval` instead, which holds the target
        in `coverage` of all cases; it is infinite while few errors are known. See `domkl.conformal`.
        """
        y = self._model.predict_named(x)
        y = self._model.predict(self._columns.read(x)) if y is None else y
        self._last = x, y
        if not with_interval:
            return y
        wide = self._misses.width(coverage)
        return need("river.conf", "river").Interval(y - wide, y + wide)

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn a sample, which counts as often as `w` says.

        The features that `predict_one` computed for the same x are not computed again.
        """
        if self._model.n:  # the first error says nothing about the model
            y_hat = self._last[1] if self._last[0] is x else self.predict_one(x)
            self._misses.note(y - y_hat)
        if w != 1 or not self._model.learn_named(x, y):
            self._model.learn(self._columns.read(x), y, w)

    def explain_one(self, x: dict[Any, Any]) -> dict[Hashable, float]:
        """What each feature adds to the prediction of x, compared with other samples."""
        values = self._columns.read(x)
        groups = self._columns.groups()
        known = np.where(np.isinf(values), np.nan, values)
        found = models.explain(self._model, known, [*map(str, groups)], [*groups.values()])
        assert isinstance(found, Contributions)
        return dict(zip(groups, found.contribution.tolist(), strict=True))


class MultiKernelMultiRegressor(base.MultiTargetRegressor):
    """Online regression of several targets at once, on one matrix: many cost little more than one.

    The first sample names the targets. One that is missing later, or NaN, is not known, and moves nothing.

    Parameters
    ----------
    model
        `domkl.Auto(...)`, by default `Auto()`.

    Examples
    --------
    >>> import domkl
    >>> from river import datasets, evaluate, metrics
    >>> from domkl.river import MultiKernelMultiRegressor
    >>> model = MultiKernelMultiRegressor(domkl.Auto(size=100))
    >>> metric = metrics.multioutput.MicroAverage(metrics.MAE())
    >>> for x, y in datasets.TrumpApproval():
    ...     targets = {"now": y, "minus": -2 * y}
    ...     metric.update(targets, model.predict_one(x) or {"now": 0, "minus": 0})
    ...     model.learn_one(x, targets)
    >>> metric.get() < 1
    True
    """

    def __init__(self, model: ModelSettings | None = None) -> None:
        self.model = model
        self._settings = models.for_numbers(model, several=True)
        self._targets: list[Hashable] = []
        self._model: Single | None = None  # made with the first label
        self._columns = _Columns(self._grow)

    def _grow(self, names: Sequence[Hashable]) -> None:
        if self._model is not None:
            self._model.grow(names)

    def predict_one(self, x: dict[Any, Any]) -> dict[Hashable, float]:
        """A number for each target; nothing before the first label."""
        values = self._columns.read(x)
        if self._model is None:
            return {}
        found = np.reshape(self._model.predict(values), -1)
        return dict(zip(self._targets, found.tolist(), strict=True))

    def learn_one(self, x: dict[Any, Any], y: dict[Any, Any], w: float = 1.0, **kwargs: Any) -> None:
        """Learn a sample, which counts as often as `w` says."""
        values = self._columns.read(x)
        if self._model is None:
            self._targets = [*y]
            self._model = Single(self._settings, len(y))
            self._model.grow(self._columns.names)
        strange = [name for name in y if name not in self._targets]
        if strange:
            raise InputError(
                f"y has the target {strange[0]!r}; expected some of {self._targets}, as in the first sample; "
                "name all targets there, None where one is not known"
            )
        labels = [np.nan if y.get(name) is None else float(y[name]) for name in self._targets]
        self._model.learn(values, np.array(labels), w)


class MultiKernelForecaster(Forecaster):
    """Forecasts of a series with bounds: see docs/forecast.md.

    Parameters
    ----------
    model
        `domkl.Auto(...)`, by default `Auto()`.
    horizon
        The leads, as in `domkl.DOMKL`: "1 row..24 rows", "1h..24h", a list. `forecast(n)` gives the first n.
    time
        The feature that says when, which leads in times need: a datetime, or seconds. All other features are
        numbers and times, the same in every sample; those of `forecast` are not used.

    Examples
    --------
    >>> import domkl
    >>> from river import datasets
    >>> from domkl.river import MultiKernelForecaster
    >>> model = MultiKernelForecaster(domkl.Auto(size=60), horizon="1 row..12 rows")
    >>> for x, y in datasets.AirlinePassengers():
    ...     model.learn_one(y)
    >>> len(model.forecast(12)), model.interval(2, coverage=0.8)[0].lower < model.forecast(1)[0]
    (12, True)
    """

    def __init__(
        self, model: ModelSettings | None = None, horizon: Any = "1 row..24 rows", time: str | None = None
    ) -> None:
        self.model, self.horizon, self.time = model, horizon, time
        self._model = Forecasts(model=model, horizon=horizon)
        self._raw, self._names = RawCells(), list[Hashable]()

    def learn_one(self, y: float, x: dict[Any, Any] | None = None) -> None:
        """A reading of the target, None or NaN if it has none, and what else is known at its time."""
        row = dict(x or {})
        if self.time is not None and self.time not in row:
            raise InputError(f"x has no {self.time!r}; expected the feature that says when; add it")
        when = None if self.time is None else moment(row.pop(self.time))
        plain = self._raw.plain(row)
        if self._raw.words:
            name = next(iter(self._raw.words))
            raise InputError(f"feature {name!r} is a word; expected numbers and times; encode it")
        if not self._names:
            self._names = sorted(plain, key=digest)
        values = [_number(name, plain.get(name)) for name in self._names]
        self._model.learn(values, np.nan if y is None else y, time=when)

    def forecast(self, horizon: int, xs: list[dict[Any, Any]] | None = None) -> list[float]:
        """The target at the first `horizon` leads from the last reading."""
        leads = self._model.targets
        if not 0 < horizon <= leads:
            raise InputError(f"forecast() asks for {horizon} leads; expected 1 to {leads}; widen horizon=")
        return [float(y) for y in np.reshape(self._model.predict(), -1)[:horizon]]

    def interval(self, horizon: int, coverage: float = 0.9) -> list[Any]:
        """Bounds of the same, each a `river.conf.Interval`."""
        kind: Any = need("river.conf", "river").Interval
        low, high = (np.reshape(each, -1)[:horizon] for each in self._model.interval(coverage=coverage))
        return [kind(*each) for each in zip(low.tolist(), high.tolist(), strict=True)]


class MultiKernelClassifier(_Face, base.MiniBatchClassifier):
    """Online classification with many kernels at once; classes may appear at any time.

    With `Auto` all classes share a matrix, so that many cost little more than one; with `Paper` more than two
    take a model each against the rest.

    Parameters
    ----------
    model
        As for `MultiKernelRegressor`; the loss becomes "classes". With `domkl.Paper(...)` the rates are
        `Rates(rho=1, eta=1, eta_g=1)` unless given.

    Examples
    --------
    >>> import domkl
    >>> from river import datasets, evaluate, metrics
    >>> from domkl.river import MultiKernelClassifier
    >>> model = MultiKernelClassifier(domkl.Auto(size=400))
    >>> evaluate.progressive_val_score(datasets.Phishing().take(400), model, metrics.Accuracy())
    Accuracy: 8...%
    """

    def __init__(self, model: ModelSettings | None = None) -> None:
        self.model = model
        self._model: Classes[Any] = classifier(model)
        self._columns = _Columns(self._model.grow)

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each class seen so far."""
        if kwargs.get("with_interval"):  # of `predict_one`, which hands on all that it does not know
            refuse_interval("predict_proba_one")
        if not self._model.classes:
            return {}
        return dict(zip(self._model.classes, self._model.probabilities(self._columns.read(x)), strict=True))

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn a sample, which counts as often as `w` says."""
        self._model.learn(self._columns.read(x), y, w)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """`predict_proba_one` of every row; a column for each class."""
        DataFrame: Any = need("pandas", "river").DataFrame
        return DataFrame(
            [self.predict_proba_one(x) for x in _rows(X)], index=X.index, columns=list(self._model.classes)
        )


class AlarmDetector(base.SupervisedAnomalyDetector):
    """Alarms where the target is not what a model expects, at a rate of false alarms that is asked for.

    The score is 1 minus the p-value of the target: near 1 where it is odd. `classify` tells whether a score
    raises an alarm; its threshold keeps the part of such scores at `rate`. See `domkl.alarms`.

    Parameters
    ----------
    model
        `domkl.Auto(...)` or `domkl.Paper(...)`, as for `MultiKernelRegressor`, or any River regressor.
    rate
        Part of the samples without a fault that may raise an alarm.

    Examples
    --------
    >>> import domkl
    >>> from river import datasets
    >>> from domkl.river import AlarmDetector
    >>> detector, alarms = AlarmDetector(domkl.Paper(), rate=0.01), []
    >>> for n, (x, y) in enumerate(datasets.TrumpApproval()):
    ...     y = 10 * y if n == 800 else y  # a unit that was mistaken
    ...     if detector.classify(detector.score_one(x, y)):
    ...         alarms.append(n)
    ...     detector.learn_one(x, y)
    >>> 800 in alarms
    True
    """

    def __init__(self, model: ModelSettings | base.Regressor | None = None, rate: float = 0.001) -> None:
        self.model, self.rate = model, rate
        self._alarms, self._n = Alarms(rate), 0
        self._regressor = model.clone() if isinstance(model, base.Regressor) else MultiKernelRegressor(model)

    def score_one(self, x: dict[Any, Any], y: Any) -> float:
        """How odd the target is: from 0 to 1."""
        return 1 - self._alarms.peek(float(self._regressor.predict_one(x)), float(y))

    def classify(self, score: float) -> bool:
        """Whether a score raises an alarm now."""
        return self._alarms.is_alarm(1 - score)

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn a sample, and count its alarm if it raises one."""
        if self._n:  # the first error says nothing about the model
            self._alarms.judge(float(self._regressor.predict_one(x)), float(y))
        self._regressor.learn_one(x, y)
        self._n += 1

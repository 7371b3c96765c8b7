"""A model taught round by round in this process, through its contract: see `domkl.learning.model`."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.types import Array, Float
from ..exchange.graph import LONE, Graph
from ..exchange.message import Exchange
from ..exchange.network import Network
from ..learner import handed
from ..learning import losses
from ..learning.explain import Function
from ..learning.model import Around, given
from ..models.settings import Settings
from ..models.taught import HandedModel
from ..simulator.driver import connected
from ..simulator.results import Final


class OnlineRows:
    """The rows of a model over a graph, a round at a time: X (J, d) and y (J, m); one device has one row.

    Inputs may have any scale, and NaN where one is missing. `predict` gives the targets, clipped to the range
    seen, or for the logistic loss 2 P(y = +1) - 1; before any label it gives `start`.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> model, rng = OnlineRows(domkl.Auto(size=200), 2), np.random.default_rng(0)
    >>> for X in rng.uniform(0, 1000, size=(300, 1, 2)):
    ...     errors = model.learn(X, np.sin(X[:, :1] / 200) + X[:, 1:] / 500)
    >>> bool(abs(model.predict([[500.0, 500.0]])[0, 0] - np.sin(2.5) - 1) < 0.1)
    True
    """

    def __init__(
        self,
        settings: Settings,
        keys: int | Sequence[Hashable],
        graph: Graph | None = None,
        dtype: Float = np.float64,
        m: int = 1,
    ) -> None:
        self.settings, self.network = settings, Network(graph or LONE, Exchange())
        names = range(keys) if isinstance(keys, int) else keys
        if graph is None:
            self.rows = settings.make_single(names, dtype, m)
            self.rows.connect(Around([0], [[]], np.zeros(1), np.zeros(1)))
        else:
            self.rows = connected(settings, len(names), self.network, dtype, m)
        self.n = 0  # rounds learnt
        self._seen: Any = None  # the last prediction
        self._key: Any = None  # and what it is of

    @classmethod
    def of(cls, final: Final) -> OnlineRows:
        """Goes on with the rows of a simulation, which are its own from now on."""
        made = cls.__new__(cls)
        made.settings, made.rows, made.network, made.n = final
        made._seen = None
        return made

    @property
    def d(self) -> int:
        """How many inputs a sample has."""
        return self.rows.d

    @property
    def m(self) -> int:
        """How many targets it predicts."""
        return self.rows.m

    @property
    def graph(self) -> Graph:
        """Who is whose neighbour."""
        return self.network.graph

    @property
    def dtype(self) -> Float:
        """The precision that it computes in."""
        return self.rows.dtype

    def predict(self, X: npt.ArrayLike) -> Array:
        """What to expect before the labels are known. (J, d) -> (J, m)"""
        found: Array = self.predicted(X).y_hat.copy()
        return found

    def learn(self, X: npt.ArrayLike, y: npt.ArrayLike, weight: npt.ArrayLike | None = None) -> Array:
        """A round: samples (J, d), their labels (J, m), NaN where one is not known, and how often each counts
        (J,); returns the errors of the predictions. (J, m)"""
        prediction, labels = self.predicted(X), checks.finite_or_missing("y", checks.floats("y", y))
        checks.shape("y", labels, (self.rows.J, self.rows.m), "give one label for each learner and target")
        return self.step(prediction, labels, None if weight is None else np.asarray(weight))

    def step(self, prediction: Any, labels: Array, weight: Array | None = None) -> Array:
        """The same with what was `predicted`, and labels that were checked."""
        labels = losses.labels(self.rows.loss, labels)
        if weight is not None or not self.rows.learn_alone(prediction, labels):
            outgoing = self.rows.learn(prediction, labels, None, weight)
            self.rows.merge(self.network.exchange_round(self.rows, outgoing))
        self._seen = None
        self.n += 1
        missed: Array = prediction.y_hat - labels
        return missed

    def grow_targets(self, m: int) -> None:
        """Predict m targets from now on; the new ones, which come last, were 0 so far; of one device."""
        self.rows.grow_targets(m)
        self._seen = None

    def grow(self, keys: Sequence[Hashable]) -> None:
        """Samples have further inputs from now on, known by these keys; of one device."""
        self.rows.grow_named(keys)
        self._seen = None

    def predict_named(self, x: dict[Any, Any]) -> float | None:
        """What one device predicts for values by key, where that is quick; None where it needs an array."""
        return self.rows.predict_named(x)

    def learn_named(self, x: dict[Any, Any], y: float) -> bool:
        """Learn values by key, where that is quick; False, and nothing learnt, where it is not."""
        if not self.rows.learn_named(x, y):
            return False
        self._seen, self.n = None, self.n + 1
        return True

    def as_function(self, row: int = 0, target: int = 0) -> tuple[Function, Array] | None:
        """What learner `row` predicts, as a function of many samples, and the last that it knows; None
        before the first."""
        found: tuple[Function, Array] | None = self.rows.as_function(row, target) if self.n else None
        return found

    def handed(self, names: Sequence[Hashable] = (), k: int | None = None) -> HandedModel:
        """What one device has learnt, and no sample, for agents; k as of `Settings.handed`."""
        handed.refuse_untaught(self.n)
        made: HandedModel = self.settings.handed(self.rows, handed.input_names(names), k)
        return made

    def state(self) -> dict[str, Any]:
        """Everything between two rounds, by name."""
        return {"n": self.n, "rows": self.rows.state(), "network": self.network.state()}

    @classmethod
    def restored(
        cls,
        settings: Settings,
        state: Mapping[str, Any],
        d: int,
        graph: Graph | None = None,
        dtype: Float = np.float64,
        m: int = 1,
    ) -> OnlineRows:
        """Inverse of `state`, with the same settings and graph; what cannot be such is a ValueError.

        Sizes are checked before anything is made of them; of the learners `restore` checks every field.
        """
        checks.tally("n", state["n"])
        settings.check_state(state["rows"], d, np.zeros(1) if graph is None else graph.deg * (graph.J > 1))
        made = cls(settings, d, graph, dtype, m)
        made.n = state["n"]
        made.rows.restore(state["rows"])
        if made.graph.J > 1:
            made.network.begin(made.rows)
        made.network.restore(state["network"])
        return made

    def predicted(self, X: npt.ArrayLike) -> Any:
        """What `rows` predict of samples (J, d), computed once for those that come twice."""
        rows = checks.floats("x", X)
        key = rows.shape, rows.tobytes()
        if self._seen is None or self._key != key:
            checks.shape("x", rows, (self.rows.J, self.d), "every sample needs the same inputs")
            checks.finite_or_missing("x", rows)
            self._seen, self._key = self.rows.predict(rows.copy()), key
        return self._seen


class Single(OnlineRows):
    """A model of one device, a sample x (d,) at a time, with NaN where an input is missing.

    Inputs may be added at any time; before the first there are no rows. Of several targets, y and what it
    predicts are (m,), NaN where a label is not known.
    """

    def __init__(self, settings: Settings, m: int = 1) -> None:
        self.settings, self.targets, self.n = settings, m, 0
        self.rows: Any = None

    @property
    def d(self) -> int:
        return 0 if self.rows is None else super().d

    @property
    def m(self) -> int:
        return self.targets

    def predict(self, x: Array) -> Any:  # type: ignore[override]
        """The target at x, of several (m,); for the logistic loss 2 P(y = +1) - 1."""
        if self.rows is None:
            return given(np.full((1, self.m), self.settings.start))
        return given(self._predicted(x).y_hat)

    def _predicted(self, x: Array) -> Any:
        if self._seen is None or self._seen[0] is not x:
            self._seen = x, self.rows.predict(_finite(x)[None])
        return self._seen[1]

    def score(self, x: Array) -> float:
        """The target at x; for the logistic loss the log-odds of y = +1."""
        found = self.predict(x)
        return losses.log_odds(found) if self.settings.loss_function.classifies else found

    def learn(self, x: Array, y: Any, weight: float = 1.0) -> None:  # type: ignore[override]
        """Learn a sample, which counts as often as `weight` says.

        An x that is the array last predicted must not have changed since.
        """
        if self.rows is not None:
            labels = checks.finite_or_missing("y", np.array(y, np.float64, ndmin=2))
            self.step(self._predicted(x), labels, None if weight == 1 else np.array([weight]))

    def predict_named(self, x: dict[Any, Any]) -> float | None:
        return None if self.rows is None else self.rows.predict_named(x)

    def learn_named(self, x: dict[Any, Any], y: float) -> bool:
        return self.rows is not None and super().learn_named(x, y)

    @property
    def singles(self) -> list[Single]:
        """The models that it consists of, as `Classes` tells."""
        return [self]

    def hand_over(self, path: str | os.PathLike[str], names: Sequence[Hashable]) -> None:
        """Write what it has learnt, and no sample, to a file."""
        handed.write(path, self.handed(names))

    def grow_targets(self, m: int) -> None:
        self.targets = m
        if self.rows is not None:
            super().grow_targets(m)

    def grow(self, keys: Sequence[Hashable]) -> None:
        """Add inputs after those there are; the keys identify them."""
        if self.rows is not None:
            super().grow(keys)
        elif keys:
            super().__init__(self.settings, keys, m=self.m)


def _finite(x: Array) -> Array:
    """Inputs that are infinite, or too large to be squared, count as missing."""
    return x if checks.fits(x) else np.where(np.abs(x) <= checks.LARGEST, x, np.nan)

"""A model taught round by round in this process: what stands behind DOMKL, River and scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.types import Array, Float
from ..exchange.graph import LONE, Graph
from ..exchange.message import Exchange
from ..exchange.network import Network
from ..learning import losses
from ..learning.auto import AutoRows, explain
from ..learning.explain import Function, Usual
from ..learning.settings import Auto
from . import saved_check


class OnlineRows:
    """The rows of `Auto` over a graph, a round at a time: X (J, d) and y (J,); one device has one row.

    Inputs may have any scale, and NaN where one is missing. `predict` gives the targets, clipped to the range
    seen, or for the logistic loss 2 P(y = +1) - 1; before any label it gives `start`.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> model, rng = OnlineRows(domkl.Auto(size=200), 2), np.random.default_rng(0)
    >>> for X in rng.uniform(0, 1000, size=(300, 1, 2)):
    ...     errors = model.learn(X, np.sin(X[:, 0] / 200) + X[:, 1] / 500)
    >>> bool(abs(model.predict([[500.0, 500.0]])[0] - np.sin(2.5) - 1) < 0.1)
    True
    """

    def __init__(self, settings: Auto, d: int, graph: Graph = LONE, dtype: Float = np.float64) -> None:
        self.settings, self.network = settings, Network(graph, Exchange())
        near = self.network.neighbours
        self.rows = AutoRows(settings, checks.count("d", d), graph.names, near.weight, near.deg, dtype)
        self.n = 0  # rounds learnt
        self._seen: Any = None  # the last prediction

    @classmethod
    def of(cls, settings: Auto, rows: AutoRows, network: Network) -> OnlineRows:
        """Goes on with the rows of a simulation, which are its own from now on."""
        made = cls.__new__(cls)
        made.settings, made.rows, made.network, made._seen = settings, rows, network, None
        made.n = int(rows.memory.count.max())
        return made

    @property
    def d(self) -> int:
        """How many inputs a sample has."""
        return self.rows.d

    def predict(self, X: npt.ArrayLike) -> Array:
        """What to expect before the labels are known. (J, d) -> (J,)"""
        return np.array(self._predict(X).y_hat)

    def learn(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Array:
        """A round: samples (J, d) with their labels (J,); returns the errors of the predictions. (J,)"""
        prediction, labels = self._predict(X), checks.finite("y", checks.floats("y", y))
        checks.shape("y", labels, (self.rows.J,), "give one label for each learner")
        labels = losses.labels(self.rows.loss, labels)
        outgoing = self.rows.learn(prediction, labels)
        self.rows.merge(self.network.exchange_round(self.rows, outgoing))
        self._seen = None
        self.n += 1
        return np.asarray(prediction.y_hat - labels)

    def grow(self, d: int) -> None:
        """Samples have d inputs from now on, the new ones last; of one device."""
        self.rows.grow(checks.count("d", d, least=self.d))
        self._seen = None

    def as_function(self, row: int) -> tuple[Function, Usual]:
        """What learner `row` predicts, as a function of many samples, and the usual values of its inputs."""
        return explain.function(self.rows, row), explain.usual(self.rows, row)

    def state(self) -> dict[str, Any]:
        """Everything between two rounds, by name."""
        return {"n": self.n, "rows": self.rows.state(), "network": self.network.state()}

    @classmethod
    def restored(
        cls, settings: Auto, state: Mapping[str, Any], d: int, graph: Graph = LONE, dtype: Float = np.float64
    ) -> OnlineRows:
        """Inverse of `state`, with the same settings and graph; what cannot be such is a ValueError."""
        saved_check.check_rows(settings, state, d, graph)
        made = cls(settings, d, graph, dtype)
        made.n = state["n"]
        made.rows.restore(state["rows"])
        made.network.restore(state["network"])
        return made

    def _predict(self, X: npt.ArrayLike) -> Any:
        rows = checks.floats("X", X)
        form = (self.rows.J, self.d)
        checks.shape("X", rows, form, "every sample needs the same inputs")
        checks.finite_or_missing("X", rows)
        if self._seen is None or not np.array_equal(self._seen.x, rows, equal_nan=True):
            self._seen = self.rows.predict(rows.copy())
        return self._seen

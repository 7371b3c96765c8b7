"""A model taught round by round in this process, through its contract: see `domkl.learning.model`."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.types import Array, Float
from ..exchange.graph import LONE, Graph
from ..exchange.message import Exchange
from ..exchange.network import Network
from ..learning import losses
from ..learning.auto import AutoRows
from ..learning.explain import Function, Usual
from ..learning.model import given
from ..models.handed import HandedAuto
from ..simulator.driver import connected
from ..simulator.results import Final
from . import saved


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
        self, settings: Any, d: int, graph: Graph = LONE, dtype: Float = np.float64, m: int = 1
    ) -> None:
        self.settings, self.network = settings, Network(graph, Exchange())
        self.rows = connected(settings, checks.count("d", d), self.network, dtype, m)
        self.n = 0  # rounds learnt
        self._seen: Any = None  # the last prediction
        self._key = b""  # and what it is of

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
        return np.array(self._predict(X).y_hat)

    def learn(self, X: npt.ArrayLike, y: npt.ArrayLike, weight: npt.ArrayLike | None = None) -> Array:
        """A round: samples (J, d), their labels (J, m), NaN where one is not known, and how often each counts
        (J,); returns the errors of the predictions. (J, m)"""
        prediction, labels = self._predict(X), checks.finite_or_missing("y", checks.floats("y", y))
        checks.shape("y", labels, (self.rows.J, self.rows.m), "give one label for each learner and target")
        labels = losses.labels(self.rows.loss, labels)
        if weight is not None or not self.rows.learn_alone(prediction, labels):
            counts = None if weight is None else np.asarray(weight)
            outgoing = self.rows.learn(prediction, labels, None, counts)
            self.rows.merge(self.network.exchange_round(self.rows, outgoing))
        self._seen = None
        self.n += 1
        return np.asarray(prediction.y_hat - labels)

    def grow_targets(self, m: int) -> None:
        """Predict m targets from now on; the new ones, which come last, were 0 so far; of one device."""
        self.rows.grow_targets(m)
        self._seen = None

    def grow(self, d: int) -> None:
        """Samples have d inputs from now on, the new ones last; of one device."""
        self.rows.grow(checks.count("d", d, least=self.d))
        self._seen = None

    def as_function(self, row: int = 0, target: int = 0) -> tuple[Function, Usual]:
        """What learner `row` predicts, as a function of many samples, and the usual values of its inputs."""
        found: tuple[Function, Usual] = self.rows.as_function(row, target)
        return found

    def handed(self, names: tuple[str, ...] = ()) -> HandedAuto:
        """One device's model with its scale fixed, without samples."""
        rows = copy.deepcopy(self.rows)
        rows.drop_samples()
        return HandedAuto(self.settings, rows.state(), names)

    def handed_sign(self, names: tuple[str, ...], k: int) -> HandedAuto:
        """The same of two classes, of which k is 1 and the other -1."""
        rows = cast(AutoRows, copy.deepcopy(self.rows))
        rows.keep_sign(k)
        return HandedAuto(replace(self.settings, loss="logistic"), rows.state(), names)

    def state(self) -> dict[str, Any]:
        """Everything between two rounds, by name."""
        return {"n": self.n, "rows": self.rows.state(), "network": self.network.state()}

    @classmethod
    def restored(
        cls, settings: Any, state: Mapping[str, Any], d: int, graph: Graph = LONE, dtype: Float = np.float64
    ) -> OnlineRows:
        """Inverse of `state`, with the same settings and graph; what cannot be such is a ValueError.

        Sizes are checked before anything is made of them; of the learners `restore` checks every field.
        """
        rows = state["rows"]
        checks.tally("n", state["n"])
        settings.check_sizes(rows)
        checks.need(rows["inputs"] == d, f"{d} inputs are {checks.short(rows['inputs'])}")
        is_same = np.array_equal(rows["consensus"]["degree"], graph.deg * (graph.J > 1))
        checks.need(is_same, "it is of another network")
        made = cls(settings, d, graph, dtype, rows["targets"])
        saved.check_network(state["network"], graph, made.rows.parts[0].shape)
        made.n = state["n"]
        made.rows.restore(rows)
        made.network.restore(state["network"])
        return made

    def _predict(self, X: npt.ArrayLike) -> Any:
        rows, form = checks.floats("X", X), (self.rows.J, self.d)
        key = rows.tobytes()
        if self._seen is None or self._key != key or rows.shape != form:
            checks.shape("X", rows, form, "every sample needs the same inputs")
            checks.finite_or_missing("X", rows)
            self._seen, self._key = self.rows.predict(rows.copy()), key
        return self._seen


class SingleRows:
    """A model of one device; samples x (d,) may hold NaN, and inputs may be added at any time."""

    passes: ClassVar[int] = 1
    has_targets: ClassVar[bool] = True

    def __init__(self, settings: Any, m: int = 1) -> None:
        self.settings, self.m = settings, m
        self.d = 0
        self.online: OnlineRows | None = None  # made with the first input

    @staticmethod
    def check(settings: Any) -> None:
        """One device can do all that a model of its contract asks for."""
        return

    @property
    def n(self) -> int:
        """How many samples were learnt."""
        return 0 if self.online is None else self.online.n

    def predict(self, x: Array) -> Any:
        """The target at x, of several (m,); for the logistic loss 2 P(y = +1) - 1."""
        if self.online is None:
            return given(np.full((1, self.m), self.settings.start))
        return given(self.online.predict(_finite(x)[None]))

    def score(self, x: Array) -> float:
        """The target at x; for the logistic loss the log-odds of y = +1."""
        found = self.predict(x)
        return losses.log_odds(found) if self.settings.loss_function.classifies else found

    def learn(self, x: Array, y: Any, weight: float = 1.0) -> None:
        """Learn a sample, which counts as often as `weight` says."""
        if self.online is not None:
            self.online.learn(_finite(x)[None], np.array(y, ndmin=2), None if weight == 1 else [weight])

    def predict_dict(self, x: dict[Any, Any]) -> float | None:
        """None: it needs an array."""
        return None

    def learn_dict(self, x: dict[Any, Any], y: float) -> bool:
        """False, and nothing learnt: it needs an array."""
        return False

    def grow(self, keys: Sequence[Hashable]) -> None:
        """Add inputs after those there are."""
        d = self.d + len(keys)
        if self.online is not None:
            self.online.grow(d)
        elif d:
            self.online = OnlineRows(self.settings, d, m=self.m)
        self.d = d

    def grow_targets(self, m: int) -> None:
        """Predict m targets from now on; the new ones, which come last, were 0 so far."""
        self.m = m
        if self.online is not None:
            self.online.grow_targets(m)

    def as_function(self, row: int = 0, target: int = 0) -> tuple[Function, Usual]:
        """What it predicts, as a function of many samples, and the usual values of its inputs."""
        return self._taught.as_function(row, target)

    def handed(self, names: tuple[str, ...] = ()) -> HandedAuto:
        """What it has learnt, without samples."""
        return self._taught.handed(names)

    def handed_sign(self, names: tuple[str, ...], k: int) -> HandedAuto:
        """The same of two classes, of which k is 1 and the other -1."""
        return self._taught.handed_sign(names, k)

    def state(self) -> dict[str, Any]:
        """Everything it knows, by name; there must be inputs."""
        return self._taught.state()

    def restore(self, state: Mapping[str, Any], d: int) -> None:
        """Inverse of `state`, of d inputs; what cannot be such is refused with a ValueError."""
        self.online, self.d = OnlineRows.restored(self.settings, state, d), d
        self.m = self.online.rows.m

    @property
    def _taught(self) -> OnlineRows:
        assert self.online is not None  # there are inputs
        return self.online


def _finite(x: Array) -> Array:
    """Inputs that are infinite, or too large to be squared, count as missing."""
    return x if checks.fits(x) else np.where(np.abs(x) <= checks.LARGEST, x, np.nan)

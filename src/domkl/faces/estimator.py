"""The front door: learn sample by sample, on one device or on a network, with nothing to tune."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..exchange.graph import GraphLike, as_graph
from ..learning import conformal, losses
from ..learning.auto import Model, Network
from ..learning.auto.learners import Look
from . import handover

#: What both kinds of model learn.
LOSSES = ("squared", "logistic")


class DOMKL:
    """A learner for a stream, sample by sample, with nothing to tune.

    Parameters
    ----------
    graph : None for one device, which takes x (d,) and y; else who talks to whom (as in `simulate`): a whole
        network in this process, which takes a round at a time, X (J, d) and y (J,), a row for each learner.
    loss : "squared" for numbers, "logistic" for labels of -1 and +1 (0 is read as -1).
    seed : of the random features.
    size : how many numbers a learner has; time and memory grow with their square.

    The number of inputs is that of the first sample. They may have any scale, and NaN where one is missing.
    `predict` gives the target, or for "logistic" 2 P(y = +1) - 1, in [-1, 1]; before any label it gives 0.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> model = domkl.DOMKL(size=200)
    >>> for x in rng.uniform(0, 1000, size=(300, 2)):
    ...     model.learn(x, np.sin(x[0] / 200) + x[1] / 500)
    >>> round(model.predict([500.0, 500.0]), 1)  # the truth is 1.598
    1.6

    Three devices that exchange parameters, never samples:

    >>> network = domkl.DOMKL("ring", size=200)
    >>> for X in rng.uniform(0, 1000, size=(100, 3, 2)):
    ...     network.learn(X, np.sin(X[:, 0] / 200) + X[:, 1] / 500)
    >>> network.predict(np.full((3, 2), 500.0)).round(1).tolist()
    [1.6, 1.6, 1.6]
    """

    def __init__(
        self, graph: GraphLike | None = None, *, loss: str = "squared", seed: int = 0, size: int = 1700
    ) -> None:
        self.graph, self.seed = graph, checks.count("seed", seed, least=0)
        self.loss = checks.one_of("loss", loss, LOSSES)
        self.size = checks.count("size", size, least=16)
        self._model: Model | _Rounds | None = None

    def predict(self, x: npt.ArrayLike) -> float | Array:
        """What to expect before the label is known: a number, or one for each learner (J,)."""
        return self._for(x).predict(x)

    def learn(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """A sample with its label, or a round of the network with its labels."""
        model = self._for(x)
        if isinstance(model, Model):
            model.learn(x, y)  # type: ignore[arg-type]
        else:
            model.learn(x, y)

    def interval(self, x: npt.ArrayLike, coverage: float = 0.9) -> tuple[float, float] | tuple[Array, Array]:
        """Bounds that hold y in `coverage` of all cases: two numbers, or two for each learner (J,).

        They come from each learner's own last errors: see `domkl.conformal`.
        """
        return self._for(x).interval(x, coverage)

    def hand_over(self, path: str | os.PathLike[str]) -> None:
        """Write what one device has learnt, and no sample, to a file with which `domkl agent`s can begin."""
        if not isinstance(self._model, Model):
            raise InputError(
                "there is no model of one device; expected DOMKL() without a graph, taught; teach one first"
            )
        handover.write(path, self._model)

    def _for(self, x: npt.ArrayLike) -> Model | _Rounds:
        """The model, which the first sample's shape makes."""
        if self._model is None:
            shape = np.shape(x)
            if self.graph is None:
                self._model = Model(_one(shape), loss=self.loss, seed=self.seed, size=self.size)
            else:
                self._model = _Rounds(self, self.graph, *_many(shape))
        return self._model


def _one(shape: tuple[int, ...]) -> int:
    if len(shape) != 1 or not shape[0]:
        raise InputError(
            f"x has shape {shape}; expected (d,), one sample; DOMKL(graph) takes a row a learner"
        )
    return shape[0]


def _many(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2 or 0 in shape:
        raise InputError(f"X has shape {shape}; expected (J, d), a row for each learner; give a whole round")
    return shape[0], shape[1]


class _Rounds:
    """A network that is taught a round at a time."""

    def __init__(self, how: DOMKL, graph: GraphLike, J: int, d: int) -> None:
        loss = losses.get(how.loss)
        self.network = Network(as_graph(graph, J), d, loss, seed=how.seed, size=how.size, forgets=True)
        self.seen: Look | None = None
        self.errors = conformal.Errors(J)

    def interval(self, X: npt.ArrayLike, coverage: float) -> tuple[Array, Array]:
        middle, wide = self.predict(X), self.errors.width(conformal.check_coverage(coverage))
        return middle - wide, middle + wide

    def predict(self, X: npt.ArrayLike) -> Array:
        return np.array(self._look(X).y_hat)

    def learn(self, X: npt.ArrayLike, y: npt.ArrayLike) -> None:
        look, labels = self._look(X), checks.finite("y", checks.floats("y", y))
        checks.shape("y", labels, (self.network.J,), "give one label for each learner")
        labels = losses.labels(self.network.loss, labels)
        if self.network.rounds:  # the first errors say nothing about the models
            self.errors.note(look.y_hat - labels)
        self.network.learn(look, labels)
        self.seen = None

    def _look(self, X: npt.ArrayLike) -> Look:
        rows = checks.floats("X", X)
        checks.shape("X", rows, (self.network.J, self.network.d), "every round needs the same form")
        checks.finite_or_missing("X", rows)
        if self.seen is None or not np.array_equal(self.seen.x, rows, equal_nan=True):
            self.seen = self.network.look(rows.copy())
        return self.seen

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
from ..learning.settings import Auto, ModelSettings, check_model
from . import handing, models
from .online import OnlineRows


class DOMKL:
    """A learner for a stream, sample by sample, with nothing to tune.

    Parameters
    ----------
    graph : None for one device, which takes x (d,) and y; else which learners are neighbours (as in
        `simulate`): a whole network in this process, which takes a round at a time, X (J, d) and y (J,),
        a row for each learner.
    model : `domkl.Auto(...)`, by default `Auto()`; one device also takes `domkl.Paper(...)`: the paper's
        local step over Gaussian kernels, on inputs and labels that are scaled as they come.

    The number of inputs is that of the first sample. They may have any scale, and NaN where one is missing.
    `predict` gives the target, or for the loss "logistic" 2 P(y = +1) - 1, in [-1, 1].

    Examples
    --------
    >>> import domkl, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> model = domkl.DOMKL(model=domkl.Auto(size=200))
    >>> for x in rng.uniform(0, 1000, size=(300, 2)):
    ...     model.learn(x, np.sin(x[0] / 200) + x[1] / 500)
    >>> round(model.predict([500.0, 500.0]), 1)  # the truth is 1.598
    1.6

    Three devices that exchange parameters and statistics of the first samples (not private: docs/privacy.md):

    >>> network = domkl.DOMKL("ring", model=domkl.Auto(size=200))
    >>> for X in rng.uniform(0, 1000, size=(100, 3, 2)):
    ...     network.learn(X, np.sin(X[:, 0] / 200) + X[:, 1] / 500)
    >>> network.predict(np.full((3, 2), 500.0)).round(1).tolist()
    [1.6, 1.6, 1.6]
    """

    def __init__(self, graph: GraphLike | None = None, *, model: ModelSettings | None = None) -> None:
        self.graph = graph
        self.model = models.check(model) if graph is None else _of_network(model)
        self._learning: _OneDevice | OnlineRows | None = None
        self._errors = conformal.Errors()

    def predict(self, x: npt.ArrayLike) -> float | Array:
        """The prediction before the label is known: a number, or one for each learner (J,)."""
        return self._for(x).predict(x)

    def learn(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """Learn a sample with its label, or a round of the network with its labels."""
        learning = self._for(x)
        is_first = not learning.n
        errors = learning.learn(x, y)
        if not is_first:  # the first error says nothing about the model
            self._errors.note(errors)

    def interval(self, x: npt.ArrayLike, coverage: float = 0.9) -> tuple[float, float] | tuple[Array, Array]:
        """Bounds that hold y in `coverage` of all cases: two numbers, or two for each learner (J,).

        They come from each learner's own last errors: see `domkl.conformal`.
        """
        middle, wide = self.predict(x), self._errors.width(conformal.check_coverage(coverage))
        if isinstance(middle, float):
            return middle - float(wide[0]), middle + float(wide[0])
        return middle - wide, middle + wide

    def grow(self, d: int) -> None:
        """From now on samples of one device have d inputs, the new ones last; what was learnt stays."""
        d = checks.count("d", d)
        if self.graph is not None:
            raise InputError(
                "a network's inputs cannot grow; expected DOMKL() without a graph; make a new DOMKL(graph)"
            )
        if isinstance(self._learning, _OneDevice):
            self._learning.grow(d)
        else:
            self._learning = _OneDevice(self.model, d)

    def hand_over(self, path: str | os.PathLike[str]) -> None:
        """Write what one device has learnt, and no sample, to a file with which `domkl agent`s can begin."""
        if not isinstance(self._learning, _OneDevice):
            raise InputError(
                "there is no model of one device; expected DOMKL() without a graph, taught; teach one first"
            )
        handing.write(path, self._learning.single)

    def _for(self, x: npt.ArrayLike) -> _OneDevice | OnlineRows:
        """What learns; the shape of the first sample makes it."""
        if self._learning is None:
            shape = np.shape(x)
            if self.graph is None:
                self._learning = _OneDevice(self.model, _inputs(shape))
            else:
                assert isinstance(self.model, Auto)
                J, d = _rows(shape)
                self._learning = OnlineRows(self.model, d, as_graph(self.graph, J))
                self._errors = conformal.Errors(J)
        return self._learning


def _of_network(model: ModelSettings | None) -> Auto:
    """Settings that a network can learn with, round by round."""
    settings = check_model(Auto() if model is None else model)
    if not isinstance(settings, Auto):
        raise InputError(
            "model is Paper and a graph is given; expected domkl.Auto for a network round by round; "
            "use domkl.simulate(X, y, graph, model=...)"
        )
    return settings


def _inputs(shape: tuple[int, ...]) -> int:
    if len(shape) != 1 or not shape[0]:
        raise InputError(
            f"x has shape {shape}; expected (d,), one sample; DOMKL(graph) takes a row a learner"
        )
    return shape[0]


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2 or 0 in shape:
        raise InputError(f"X has shape {shape}; expected (J, d), a row for each learner; give a whole round")
    return shape[0], shape[1]


class _OneDevice:
    """One device that learns a sample at a time."""

    def __init__(self, settings: ModelSettings, d: int) -> None:
        self.single, self.d, self.loss = models.make(settings), d, settings.loss_function
        self.single.grow(range(d))

    @property
    def n(self) -> int:
        return self.single.n

    def predict(self, x: npt.ArrayLike) -> float:
        return self.single.predict(self._sample(x))

    def learn(self, x: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """Learn a sample; returns the error of the prediction before."""
        sample = self._sample(x)
        label = float(losses.one_label(self.loss, y))  # type: ignore[arg-type]
        error = self.single.predict(sample) - label
        self.single.learn(sample, label)
        return error

    def grow(self, d: int) -> None:
        more = range(self.d, checks.count("d", d, least=self.d))
        if more:
            self.single.grow(more)
            self.d = d

    def _sample(self, x: npt.ArrayLike) -> Array:
        sample = checks.floats("x", x)
        checks.shape("x", sample, (self.d,), "every sample needs the same inputs; see grow()")
        checks.finite_or_missing("x", sample)
        return np.array(sample)  # a copy: the caller may change x

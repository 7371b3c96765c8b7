"""The front door: learn sample by sample, on one device or on a network, with nothing to tune."""

from __future__ import annotations

import copy
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..base.words import plural
from ..exchange.graph import Graph, GraphLike, as_graph
from ..learner import handed
from ..learning import conformal, losses
from ..learning.explain import Contributions, Effects
from ..learning.horizon import HorizonLike
from ..models.settings import ModelSettings, Settings, as_settings
from ..models.taught import HandedModel
from ..simulator import Run
from . import models, saved
from .online import OnlineRows
from .saved import About

Explained: TypeAlias = "Effects | Contributions"


class DOMKL:
    """A learner for a stream, sample by sample, with nothing to tune.

    Parameters
    ----------
    graph : None for one device, which takes x (d,) and y; else which learners are neighbours (as in
        `simulate`): a whole network in this process, which takes a round at a time, X (J, d) and y (J,), a
        row for each learner.
    model : `domkl.Auto(...)`, by default `Auto()`; one device also takes `domkl.Paper(...)`: the paper's
        local step over Gaussian kernels, on inputs and labels that are scaled as they come.
    horizon : how far ahead to forecast a series, as "1h..24h"; then samples are readings, and this is a
        `domkl.faces.ahead.Forecasts`, which `future`, `least` and `most` are for: see docs/forecast.md.

    The numbers of inputs and targets are those of the first sample; of m targets y is (m,), or (J, m) for a
    network, NaN where a label is not known. Inputs may have any scale, and NaN where one is missing.
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

    def __new__(cls, *args: Any, horizon: HorizonLike | None = None, **settings: Any) -> Any:
        """With a horizon, a `Forecasts`."""
        if horizon is not None and cls is DOMKL:
            from .ahead import Forecasts

            cls = Forecasts
        return super().__new__(cls)

    def __init__(
        self,
        graph: GraphLike | None = None,
        *,
        model: ModelSettings | str | None = None,
        horizon: HorizonLike | None = None,
        future: int = 0,
        least: float | None = None,
        most: float | None = None,
    ) -> None:
        if horizon is None and (future, least, most) != (0, None, None):
            raise InputError(
                'future, least and most are of forecasts; expected a horizon with them; add horizon="1h"'
            )
        self.graph = graph
        self.model = models.check(model) if graph is None else _of_network(model)
        self.about = About()  # what the numbers mean, which `save` writes too
        self._learning: OnlineRows | None = None
        self._errors = conformal.Widths(1, 0)  # of each learner, target by target

    @classmethod
    def from_run(cls, run: Run, y: npt.ArrayLike | None = None, X: npt.ArrayLike | None = None) -> DOMKL:
        """The network of a finished `simulate(..., keep_model=True)`, to predict, learn on, or save.

        With the inputs and labels of that run, `interval` knows its errors. The rows are the new model's own.
        """
        final = run.final
        if final is None:
            raise InputError(
                "the run kept no model; expected simulate(..., keep_model=True) of domkl.Auto; add that"
            )
        made = cls(final.network.graph, model=final.settings)
        made._learning = OnlineRows.of(final)
        made._errors = conformal.Widths(final.rows.J * final.rows.m, made.d or 0)
        if y is not None:
            labels = losses.labels(final.rows.loss, checks.floats("y", y))
            misses = run.y_hat - checks.shape("y", labels, run.y_hat.shape, "give those of the run")
            m = final.rows.m
            inputs = (
                None
                if X is None
                else checks.shape(
                    "X", checks.floats("X", X), (*run.y_hat.shape[:2], made.d or 0), "give those of the run"
                )
            )
            for t in range(1, misses.shape[1]):
                missed = misses[:, t].ravel()
                if inputs is None:
                    made._errors.plain.note(missed)
                else:
                    made._errors.note(np.repeat(inputs[:, t], m, 0), run.y_hat[:, t].ravel(), missed)
        return made

    @property
    def n(self) -> int:
        """How many samples, or rounds of a network, were learnt."""
        return 0 if self._learning is None else self._learning.n

    @property
    def learners(self) -> tuple[Hashable, ...]:
        """The learners' names; of one device its place, 0."""
        return (0,) if self._network is None else self._network.names

    @property
    def _network(self) -> Graph | None:
        """Who is whose neighbour, once that is known; None of one device."""
        return None if self._learning is None or self.graph is None else self._learning.graph

    @property
    def d(self) -> int | None:
        """How many inputs a sample has; None before the first."""
        return None if self._learning is None else self._learning.d

    def __repr__(self) -> str:
        unit = "sample" if self.graph is None else "round"
        learnt = (
            "no sample yet" if self.d is None else f"{plural(self.d, 'input')}, {plural(self.n, unit)} learnt"
        )
        target = f", predicts {self.about.target}" if self.about.target else ""
        return f"<DOMKL: {self._who()}, {learnt}{target}, {self.model!r}>"

    def _who(self) -> str:
        if self.graph is None:
            return "one device"
        return plural(len(self.learners), "learner") if self.n else "a network"

    @property
    def targets(self) -> int:
        """How many numbers are predicted of a sample."""
        return 1 if self._learning is None else self._learning.m

    def predict(self, x: npt.ArrayLike) -> Any:
        """The prediction before the label is known: a number, or one for each learner (J,).

        Of several targets (m,), or (J, m).
        """
        return self._shaped(self._for(x).predict(self._round(x)))

    def _shaped(self, values: Array) -> Any:
        """Numbers of each learner and target (J, m) without the axes that the caller has not."""
        found = values if self.targets > 1 else values[:, 0]
        if self.graph is not None:
            return found
        return float(found[0]) if self.targets == 1 else found[0]

    def learn(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """Learn a sample with its label, or a round of the network with its labels."""
        labels = checks.floats("y", y)
        has_axis = labels.ndim > (self.graph is not None)
        learning = self._for(x, labels.shape[-1] if has_axis else 1)
        is_first, sample = not learning.n, self._round(x)
        prediction = learning.predicted(sample)
        errors = learning.step(prediction, self._checked(labels))
        if not is_first:  # the first error says nothing about the model
            y_hat = prediction.y_hat.flatten()
            self._errors.note(np.repeat(sample, self.targets, 0), y_hat, errors.ravel())

    def _round(self, x: npt.ArrayLike) -> Array:
        """Samples of all learners. (J, d)"""
        sample = checks.floats("x", x)
        if self.graph is not None:
            return sample
        checks.shape("x", sample, (self.d or 0,), "every sample needs the same inputs; see grow()")
        return sample[None]

    def _checked(self, labels: Array) -> Array:
        """Labels of each learner and target. (J, m)"""
        J, m = len(self.learners), self.targets
        rows = () if self.graph is None else (J,)
        several = (m,) if m > 1 or labels.ndim > len(rows) else ()
        checks.shape("y", labels, (*rows, *several), "give one label for each learner and target")
        known = checks.finite if m == 1 else checks.finite_or_missing
        return known("y", labels).reshape(J, m)

    def interval(self, x: npt.ArrayLike, coverage: float = 0.9, level: Any = None) -> Any:
        """Bounds that hold y in `coverage` of all cases, low and high, each as `predict` gives it.

        `level=90` is `coverage=0.9`; `level=[80, 95]` gives a dictionary of bounds by level.
        They come from each learner's own last errors at such inputs: see `domkl.conformal`.
        """
        if isinstance(level, Sequence):
            return {each: self.interval(x, level=each) for each in level}
        return self._bounds(x, coverage if level is None else level / 100)

    def _bounds(self, x: npt.ArrayLike, coverage: float) -> Any:
        middle = self.predict(x)
        wide = self._shaped(self.widths(coverage, x).reshape(-1, self.targets))
        return middle - wide, middle + wide

    def explain(self, x: npt.ArrayLike | None = None, target: int = 0) -> Explained | list[Explained]:
        """Which inputs matter: `Effects` overall, or `Contributions` to the prediction of x.

        A network gives one for each learner; x is (J, d) then. Inputs that were made from one column are one.
        See `domkl.explain`.

        >>> import domkl, numpy as np
        >>> model = domkl.DOMKL(model=domkl.Auto(size=100))
        >>> for x in np.random.default_rng(0).uniform(size=(200, 3)):
        ...     model.learn(x, 5 * x[0] - x[2])
        >>> [(row["input"], round(row["part"], 1)) for row in model.explain().rows()]
        [('x0', 1.0), ('x2', 0.0), ('x1', 0.0)]
        >>> found = model.explain([1.0, 0.5, 0.5])
        >>> bool(abs(found.base + found.contribution.sum() - model.predict([1.0, 0.5, 0.5])) < 1e-6)
        True
        """
        learning, J = self._learning, len(self.learners)
        names, groups = self.about.groups(self.d or 0)
        form = () if self.graph is None else (J,)
        samples = [None] * J if x is None else list(self._sample(x, form).reshape(J, -1))
        found = [models.explain(learning, one, names, groups, j, target) for j, one in enumerate(samples)]
        return found[0] if self.graph is None else found

    def _sample(self, x: npt.ArrayLike, rows: tuple[int, ...] = ()) -> Array:
        assert self.d is not None
        found = checks.shape("x", checks.floats("x", x), (*rows, self.d), "give a value for each input")
        return np.array(checks.finite_or_missing("x", found))

    def widths(self, coverage: float = 0.9, x: npt.ArrayLike | None = None) -> Array:
        """Half-width of each learner's bounds at x, or whatever the inputs are; infinite where few errors are
        known. (J m,)"""
        conformal.check_coverage(coverage)
        if x is None or self._learning is None:
            return self._errors.typical(coverage)
        sample = self._round(x)
        y_hat = np.array(self._learning.predict(sample))
        return self._errors.at(np.repeat(sample, self.targets, 0), y_hat.ravel(), coverage)

    def grow(self, d: int) -> None:
        """From now on samples of one device have d inputs, the new ones last; what was learnt stays."""
        d = checks.count("d", d)
        if self.graph is not None:
            raise InputError(
                "a network's inputs cannot grow; expected DOMKL() without a graph; make a new DOMKL(graph)"
            )
        if self._learning is None:
            self._learning = OnlineRows(self.model, d)
        else:
            self._learning.grow(range(self._learning.d, checks.count("d", d, least=self._learning.d)))
        before = self._errors.state()
        self._errors = conformal.Widths(self.targets, d)
        self._errors.plain.restore(before["plain"])

    def hand_over(self, path: str | os.PathLike[str]) -> None:
        """Write what one device has learnt, and no sample, to a file with which `domkl agent`s can begin."""
        handed.write(path, self.handed())

    def handed(self) -> HandedModel:
        """What one device has learnt, and no sample: with that an agent begins."""
        model = self._learning
        if model is None or len(self.learners) > 1:
            raise InputError(
                "there is no model of one device; expected a DOMKL() of one, taught; teach one first"
            )
        names = self.about.inputs if self.about.are_plain else ()
        return model.handed(names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, samples among it, with which `load` goes on with the same bits."""
        saved.refuse_untaught(self.n)
        graph = None if self._network is None else saved.graph_state(self._network)
        state = {**saved.settings_state(self.model), "graph": graph, "inputs": self.d, **self._state()}
        saved.write(path, {**state, "about": self.about.state()})

    def _state(self) -> dict[str, Any]:
        learning = self._learning
        assert learning is not None
        return {
            "targets": learning.m,
            "dtype": np.dtype(learning.dtype).name,
            "rows": learning.state(),
            "errors": self._errors.state(),
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DOMKL:
        """The model in a file of `save` or of `domkl run`; one that cannot be right is a `DataError`."""
        state = saved.read(path)
        try:
            with np.errstate(all="ignore"):  # what is not finite in the end is refused
                return cls(horizon=1)._of(state) if "horizon" in state else cls._of(state)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
            raise saved.unusable(path, error) from None
        except (RecursionError, MemoryError):
            raise saved.unusable(path, ValueError("it is too large")) from None

    @classmethod
    def _of(cls, state: Mapping[str, Any]) -> DOMKL:
        graph = None if state["graph"] is None else saved.graph_of(state["graph"])
        made, d = cls(graph, model=saved.settings_of(state)), checks.count("inputs", state["inputs"])
        J, m = 1 if graph is None else graph.J, checks.count("targets", state["targets"])
        dtype = checks.float_type(checks.one_of("dtype", state["dtype"], ("float64", "float32")))
        made._learning = OnlineRows.restored(made.model, state["rows"], d, graph, dtype, m)
        made._errors = conformal.Widths(J * m, d)
        made._errors.restore(state["errors"])
        made.about = About.of(state["about"], d)
        made._try_out(np.zeros(d) if graph is None else np.zeros((J, d)))
        return made

    def _try_out(self, sample: Array) -> None:
        """Refuse now what would fail later; a copy learns."""
        y_hat, classifies = np.asarray(self.predict(sample)), self.model.loss_function.classifies
        checks.finite("its prediction", y_hat)
        copy.deepcopy(self).learn(sample, np.where(y_hat > 0, 1.0, -1.0) if classifies else y_hat)

    def _for(self, x: npt.ArrayLike, targets: int | None = None) -> OnlineRows:
        """What learns; the shape of the first sample makes it, and that of its labels, where it has come."""
        learning = self._learning
        m = targets or self.targets
        if learning is None or (not learning.n and learning.m != m):
            shape = np.shape(x)
            if len(shape) != 1 + (self.graph is not None) or 0 in shape:
                wanted = "(d,), one sample; DOMKL(graph) takes a row a learner"
                if self.graph is not None:
                    wanted = "(J, d), a row for each learner; give a whole round"
                raise InputError(f"{'xX'[self.graph is not None]} has shape {shape}; expected {wanted}")
            d, graph = shape[-1], None if self.graph is None else as_graph(self.graph, shape[0])
            J = 1 if graph is None else graph.J
            learning = OnlineRows(self.model, d, graph, m=m)
            self._learning, self._errors = learning, conformal.Widths(J * m, learning.d)
        return learning


def _of_network(model: ModelSettings | str | None) -> Settings:
    """Settings that a network can learn with, round by round."""
    settings = as_settings(model)
    if not settings.can_go_on:
        raise InputError(
            "model is Paper and a graph is given; expected domkl.Auto for a network round by round; "
            "use domkl.simulate(X, y, graph, model=...)"
        )
    return settings

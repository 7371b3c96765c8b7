"""What a simulation gives back, and how it is carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.extras import need
from ..base.types import Array
from ..base.words import plural
from ..exchange.graph import Graph
from ..exchange.message import Exchange
from ..exchange.network import Network
from ..learning import conformal
from ..learning.alarms import Judgement, judge_all
from ..learning.auto import AutoRows
from ..learning.model import Watched
from ..models.settings import Auto

if TYPE_CHECKING:
    from .ahead import Ahead

Progress: TypeAlias = Callable[[int, int], object]
#: What `progress` returns to end a run after the rounds that are done.
STOP = "stop"


Watch: TypeAlias = Callable[[Watched], object]


class Final(NamedTuple):
    """Learners after their last round, as `domkl.DOMKL` goes on with them."""

    settings: Auto
    rows: AutoRows
    network: Network
    n: int  # rounds that they have learnt


@dataclass(frozen=True, repr=False)
class Run:
    """What a simulation gives back: J learners, T rounds, P kernels or models of K parameters."""

    y_hat: Array  # (J, T) predicted before the label was learnt; (J, T, m) where y was
    mse: Array  # (J,) mean squared error; here and below (J, m), (J, m, P) where y was (J, T, m)
    cv: Array  # (J,) consensus violation
    theta: Array  # (J, P, K) final parameters
    lam: Array  # (J, P, K) final duals
    L: Array  # (J, P) cumulative losses
    q: Array  # (J, n) final weights of the kernels (Paper) or experts (Auto)
    kernel_mse: Array  # (J, P) of each kernel by itself: these are P runs of DOKL
    kernel_cv: Array  # (J, P)
    q_path: Array  # (rounds, J, n) weights every `weights_every` rounds
    q_rounds: npt.NDArray[np.intp]  # (rounds,) the rounds of q_path
    graph: Graph
    sent: float  # numbers sent to each neighbour in a round, on average
    bytes: float  # the same in bytes, without the message's envelope
    #: (J,) mean squared error of all experts that never listen (Auto); empty where a model has none
    alone: Array = field(default_factory=lambda: np.empty(0))
    #: (J, J) part of the rounds in which learner j used the message of neighbour i, NaN without a link; empty
    #: where a model does not judge, or no round had a common scale
    trust: Array = field(default_factory=lambda: np.empty((0, 0)))
    #: the learners themselves, where `keep_model` asked for them: see `domkl.DOMKL.from_run`
    final: Final | None = field(default=None, repr=False)
    #: labels, simple guesses and bounds of a run with a horizon: see `domkl.simulator.ahead.Ahead`
    ahead: Ahead | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        J, T = self.y_hat.shape[:2]
        errors = f"mean squared error {self.mse.mean():.4g}"
        if J > 1:
            errors += f" ({self.mse.min():.4g} to {self.mse.max():.4g})"
        sent = f", {self.bytes:,.0f} bytes to a neighbour in a round" if self.bytes else ""
        return f"<Run: {plural(J, 'learner')}, {plural(T, 'round')}, {errors}{sent}>"

    def to_frame(self, y: npt.ArrayLike | None = None) -> Any:
        """Every prediction as a pandas DataFrame; with the labels y also truth and error.

        >>> import domkl, numpy as np
        >>> X = np.linspace(0, 1, 20).reshape(2, 10, 1)
        >>> frame = domkl.simulate(X, X[..., 0], "path", model=domkl.Auto(size=16)).to_frame(X[..., 0])
        >>> list(frame.columns), len(frame)
        (['learner', 'round', 'y_hat', 'y', 'error'], 20)
        """
        J, T = self.y_hat.shape[:2]
        names = np.repeat(np.array([str(name) for name in self.graph.names], object), T)
        columns = {"learner": names, "round": np.tile(np.arange(T), J), "y_hat": self._flat(self.y_hat)}
        if y is not None:
            columns["y"] = self._flat(self._labels(y))
            columns["error"] = columns["y_hat"] - columns["y"]
        return need("pandas", "river").DataFrame(columns)

    def alarms(self, y: npt.ArrayLike, rate: float = 0.001, delay: int = 0) -> Judgement:
        """Which labels were not what was predicted: `surprise` and `alarm`, (J, T) each; `delay` of the run.

        `rate` is the part of labels without a fault that may raise an alarm: see `domkl.alarms`.
        """
        J, T = self.y_hat.shape[:2]
        return judge_all(self.y_hat.reshape(J, T), self._labels(y).reshape(J, T), rate, delay)

    def plot(
        self, y: npt.ArrayLike | None = None, *, learner: int = 0, last: int = 500, axes: Any = None
    ) -> Any:
        """Draw a learner's last predictions with matplotlib and, where labels are given, truth and bounds.

        Returns the axes; `axes` draws into those of a figure that you have.
        """
        J, T = self.y_hat.shape[:2]
        checks.count("learner", learner, 0, J - 1)
        if axes is None:
            axes = need("matplotlib.pyplot", "cli").subplots(figsize=(9, 4), layout="constrained")[1]
        first = max(0, T - checks.count("last", last))
        rounds, y_hat = np.arange(first, T), self.y_hat.reshape(J, T)
        if y is not None:
            labels = self._labels(y).reshape(J, T)
            low, high = conformal.bounds(y_hat[[learner]], labels[[learner]])
            inside = np.isfinite(high[0, first:])
            bounds = low[0, first:], high[0, first:]
            axes.fill_between(rounds, *bounds, where=inside, alpha=0.2, label="90 % bounds", linewidth=0)
            axes.plot(rounds, labels[learner, first:], color="0.25", linewidth=1, label="truth")
        axes.plot(rounds, y_hat[learner, first:], linewidth=1.3, label="prediction")
        axes.set(xlabel="round", title=f"learner {self.graph.names[learner]}")
        axes.legend(frameon=False)
        return axes

    def _labels(self, y: npt.ArrayLike) -> Array:
        labels = checks.floats("y", y)
        return checks.shape("y", labels, self.y_hat.shape, "give the labels of the run")

    @staticmethod
    def _flat(values: Array) -> Array:
        return values.reshape(-1)


@dataclass(frozen=True)
class RunOptions:
    """How a simulation is carried out."""

    delay: int
    every: int
    keep_state: bool
    exchange: Exchange
    engine: str
    threads: int
    dtype: Any
    progress: Progress | None
    keep_model: bool
    watch: Watch | None = None
    delays: Any = None  # a delay for each label, (J, T) or (T,)

    @property
    def is_followed(self) -> bool:
        """Whether somebody wants to know about rounds while it goes on."""
        return self.progress is not None or self.watch is not None

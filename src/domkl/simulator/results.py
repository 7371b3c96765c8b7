"""What a simulation gives back, and how it is carried out."""

from __future__ import annotations

import html
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.extras import need
from ..base.types import Array
from ..base.words import plural
from ..exchange.combine import Neighbours
from ..exchange.graph import Graph
from ..exchange.message import as_exchange
from ..exchange.network import Network
from ..learning.alarms import Judgement, judge_all
from ..learning.auto import AutoRows
from ..learning.metrics import Hindsight, Regret, regret_a, regret_d
from ..learning.model import Watched
from ..models.settings import Auto
from . import plots
from .progress import watcher

if TYPE_CHECKING:
    from .ahead import Ahead

Progress: TypeAlias = Callable[[int, int], object]
#: What `progress` returns to end a run after the rounds that are done.
STOP = "stop"
#: What a file says of the graph, and of itself.
SAVED = ("names", "neighbours", "note", "weight_names", "version")
#: Learners that a notebook shows, and the last one.
SHOWN = 12


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
    #: (E,) part of the rounds in which each end of an edge used its message, in the order of
    #: `exchange.combine.Neighbours`; empty where a model does not judge: see `trust`
    believed: Array = field(default_factory=lambda: np.empty(0), repr=False)
    #: the learners themselves, where `keep_model` asked for them: see `domkl.DOMKL.from_run`
    final: Final | None = field(default=None, repr=False)
    #: labels, simple guesses and bounds of a run with a horizon: see `domkl.simulator.ahead.Ahead`
    ahead: Ahead | None = field(default=None, repr=False)
    #: (rounds, J) squared gaps to neighbours, summed over the rounds before each of `q_rounds`
    cv_path: Array = field(default_factory=lambda: np.empty((0, 0)))
    weight_names: tuple[str, ...] = ()  # of the kernels or experts of `q`

    def __repr__(self) -> str:
        J, T = self.y_hat.shape[:2]
        errors = f"mean squared error {self.mse.mean():.4g}"
        if J > 1:
            errors += f" ({self.mse.min():.4g} to {self.mse.max():.4g})"
        sent = f", {self.bytes:,.0f} bytes to a neighbour in a round" if self.bytes else ""
        return f"<Run: {plural(J, 'learner')}, {plural(T, 'round')}, {errors}{sent}>"

    @property
    def trust(self) -> Array:
        """(J, J) part of the rounds in which learner j used the message of neighbour i, NaN without a link;
        empty where a model does not judge."""
        if not len(self.believed):
            return np.empty((0, 0))
        found = np.full((self.graph.J, self.graph.J), np.nan)
        near = Neighbours.of(self.graph)
        found[near.rows, near.senders] = self.believed
        return found

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
            columns["y"] = self._flat(self.labels(y))
            columns["error"] = columns["y_hat"] - columns["y"]
        return need("pandas").DataFrame(columns)

    def alarms(self, y: npt.ArrayLike, rate: float = 0.001, delay: int = 0) -> Judgement:
        """Which labels were not what was predicted: `surprise` and `alarm`, (J, T) each; `delay` of the run.

        `rate` is the part of labels without a fault that may raise an alarm: see `domkl.alarms`.
        """
        J, T = self.y_hat.shape[:2]
        return judge_all(self.y_hat.reshape(J, T), self.labels(y).reshape(J, T), rate, delay)

    def regret(self, y: npt.ArrayLike, best: Hindsight) -> Regret:
        """Both regrets after every `weights_every` rounds and at the end; without it at the end alone.

        `best` is the best fixed function of all rounds, `domkl.metrics.hindsight(X, y, V)`.

        >>> import domkl, numpy as np
        >>> X = np.random.default_rng(0).uniform(size=(3, 200, 1))
        >>> y, V = np.sin(3 * X[..., 0]), domkl.kernels.gaussian(d=1, D=10)
        >>> run = domkl.simulate(X, y, "path", model=domkl.Paper(kernels=V), weights_every=100)
        >>> found = run.regret(y, domkl.metrics.hindsight(X, y, V))
        >>> found.rounds.tolist(), found.learning.shape, bool((found.discrepancy[:, 1] == 200 * run.cv).all())
        ([100, 200], (3, 2), True)
        """
        J, T = self.y_hat.shape[:2]
        if self.ahead is not None:
            raise InputError("the run has a horizon; expected one without, as regret is of one label a round")
        rounds = np.append(self.q_rounds[1:], T)
        learning = regret_a(self.y_hat.reshape(J, T), self.labels(y).reshape(J, T), best, over_time=True)
        gaps = np.concatenate([self.cv_path[1:].reshape(-1, J), regret_d(self.cv, T).reshape(1, J)])
        return Regret(rounds, learning[:, rounds - 1], gaps.T)

    def plot(
        self,
        what: str = "predictions",
        y: npt.ArrayLike | None = None,
        *,
        best: Hindsight | None = None,
        learner: int | None = None,
        last: int = 500,
        axes: Any = None,
    ) -> Any:
        """Draw with matplotlib, and return the axes; `axes` draws into those of a figure that you have.

        "predictions" are the `last` ones of a learner (the first), with truth and bounds where labels y are
        given; "error" is that of pieces of the run, and needs y; "weights" needs `weights_every`; "regret"
        needs y, `best` and `weights_every`. All but predictions are of all learners, or of the one given.
        """
        return plots.draw(what, plots.Wanted(self, y, best, learner, last), axes)

    def save(self, path: str | Path) -> None:
        """Write the run to a file of NumPy's (.npz), which `Run.load` reads, and `numpy.load`.

        What a run can go on with is not in it: that is `domkl.DOMKL.from_run(run).save(path)`.
        """
        if self.ahead is not None:
            raise InputError("the run has a horizon; expected one without; save its y_hat with numpy.save")
        if not all(isinstance(name, (str, int)) for name in self.graph.names):
            raise InputError(
                "the graph has nodes that are neither texts nor whole numbers; expected those; rename them"
            )
        about: dict[str, Any] = {**vars(self.graph), "weight_names": self.weight_names, "version": 1}
        about = {name: value for name, value in about.items() if name in SAVED}
        arrays: dict[str, Any] = {
            name: value for name, value in vars(self).items() if isinstance(value, (np.ndarray, float))
        }
        try:
            with open(path, "wb") as file:
                np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)
        except OSError as error:
            raise InputError(
                f"{path} cannot be written: {error.strerror}; expected a place for a file"
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """The run in a file of `save`; a file that cannot be one is a `DataError`."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
            about = json.loads(str(arrays.pop("about")))
            if about.pop("version") != 1:
                raise ValueError("another version")
            graph = Graph(
                tuple(about["names"]), tuple(tuple(near) for near in about["neighbours"]), about["note"]
            )
            for name in ("sent", "bytes"):
                arrays[name] = float(arrays[name])
            return cls(**arrays, graph=graph, weight_names=tuple(about["weight_names"]))
        except OSError as error:
            if error.errno is None:
                raise DataError(f"{path} is no file of Run.save; expected one; choose another") from None
            raise DataError(f"{path} cannot be read: {error.strerror}; expected a file of Run.save") from None
        except (ValueError, TypeError, KeyError, EOFError, BadZipFile, zlib.error):
            raise DataError(f"{path} is no file of Run.save; expected one; choose another") from None

    def _repr_html_(self) -> str:
        """A table of the learners, for notebooks."""
        heads = ["learner", "RMSE", *(["alone"] if len(self.alone) else []), "neighbours"]
        rows = [
            [str(name), *(f"{value:.4g}" for value in each), str(len(near))]
            for name, near, *each in zip(
                self.graph.names, self.graph.neighbours, *self._errors(), strict=True
            )
        ]
        if len(rows) > SHOWN:
            rows = [*rows[: SHOWN - 1], ["\u2026"] * len(heads), rows[-1]]
        lines = [_line("th", heads), *(_line("td", row) for row in rows)]
        return f"<p>{html.escape(repr(self)[1:-1])}</p><table>{''.join(lines)}</table>"

    def _errors(self) -> list[Array]:
        """Root mean squared errors of each learner, of all targets together: together, and alone."""
        found = [self.mse, self.alone] if len(self.alone) else [self.mse]
        return [np.sqrt(values.reshape(len(values), -1).mean(1)) for values in found]

    def labels(self, y: npt.ArrayLike) -> Array:
        """The labels of this run, checked."""
        labels = checks.floats("y", y)
        return checks.shape("y", labels, self.y_hat.shape, "give the labels of the run")

    @staticmethod
    def _flat(values: Array) -> Array:
        return values.reshape(-1)


def _line(cell: str, texts: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{html.escape(text)}</{cell}>' for text in texts)}</tr>"


@dataclass
class RunOptions:
    """How a simulation is carried out: what `simulate` was given, checked."""

    delay: Any  # rounds; 0 where there is one for each label
    every: int
    keep_state: bool
    exchange: Any  # an `Exchange`
    engine: str
    threads: int
    dtype: Any
    progress: Any  # called after each round; for True a bar, or lines
    keep_model: bool
    watch: Watch | None = None
    delays: Any = None  # a delay for each label, (J, T) or (T,)
    ranks: Any = None  # `engines.mpi.Ranks`, where this process holds a part of the network

    def __post_init__(self) -> None:
        if self.delay is not None and np.ndim(self.delay):
            self.delay, self.delays = 0, self.delay
        checks.count("delay", self.delay, least=0)
        checks.count("weights_every", self.every, least=0)
        checks.count("threads", self.threads)
        self.exchange, self.dtype = as_exchange(self.exchange), checks.float_type(self.dtype)
        if self.progress is True:
            self.progress = watcher("simulate")
        elif not self.progress:
            self.progress = None
        elif not callable(self.progress):
            raise InputError(
                f"progress is {checks.short(self.progress)}; expected True or a function of "
                "(rounds done, T); pass one"
            )

    @property
    def is_followed(self) -> bool:
        """Whether somebody wants to know about rounds while it goes on."""
        return self.progress is not None or self.watch is not None

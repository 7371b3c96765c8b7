"""The contract of a model: what a runner (`domkl.simulate`, `domkl.Learner`) asks of it.

    model.connect(around)                    # who the rows are, and who their neighbours
    prediction = model.predict(x)            # x (J, d): what is known before the label, y_hat (J, m)
    outgoing = model.learn(prediction, y, earlier)  # y (J, m); one message a row, part by part
    model.merge(incoming)                    # what the exchange made of the neighbours' messages
    model.state(), model.restore(state)      # everything it knows between two rounds, by name

A model computes over J rows and knows no names, sockets, clocks or random sources. A runner gives it J rows
and an exchange over a graph, or one row and an exchange over an inbox: same code, same bits. Its settings are
a frozen dataclass with a method `make(J, d, dtype, m)`. docs/extend.md shows how to add one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float
from . import losses
from .losses import Loss

#: Places of rows.
Index: TypeAlias = "npt.NDArray[np.intp]"


class Part(NamedTuple):
    """One array of a message, and how the neighbours' values of it are combined."""

    name: str
    shape: tuple[int, ...]  # of one learner's; () for a number, (P, K) with the rule "pull"
    rule: str  # "pull", "each" (of a model with one row), or one of `exchange.combine.RULES`

    @property
    def size(self) -> int:
        """How many numbers that is."""
        return math.prod(self.shape)


class Pull(NamedTuple):
    """What the rule "pull" makes of the neighbours' parameters, a row for each learner."""

    near: Array  # (J, P, K) weighted sum over neighbours
    moved: Array  # (J, P, K) the same over the edges whose duals move
    moving: Array  # (J,) the weights of those edges, summed
    mean: Array  # (J, P, K) weighted mean; the own where there are no neighbours
    weight: Array  # (J,) of all edges, in sum


class Each(NamedTuple):
    """What the rule "each" makes of a part: the neighbours' values as they came, in the order of `connect`.

    A model with this rule has one row, and sums by itself; its edges have weight 1.
    """

    values: list[Array | None]  # None where no message of that neighbour is used
    moves: list[bool]  # with whom duals move
    acked: list[int]  # the last of our rounds that each neighbour had when it sent that
    round: int  # ours


class Around(NamedTuple):
    """Who the rows of a model are, and who is around them."""

    names: Sequence[Hashable]
    near: Sequence[Sequence[Hashable]]  # the neighbours of each
    weight: Array  # (J,) of their edges, in sum
    degree: Array  # (J,) how many there are


class Predictions(NamedTuple):
    """What was predicted in B rounds."""

    y_hat: Array  # (J, B, m)
    alone: Array  # (J, B, m) as `Model.alone`
    models: Array  # (J, B, m, P) as `Model.models`
    gaps: Array  # (J, B, m, P) as `Model.gaps`


class Watched(NamedTuple):
    """What happened in B rounds, for who watches a run: one round, or a few of them with `Paper`."""

    y_hat: Array  # (J, B); (J, B, m) where labels have an axis for targets
    y: Array  # (J, B)
    alone: Array  # (J, B) predicted from own samples only; empty where the model cannot tell
    weights: Array  # (J, n) of the kernels or experts
    model: Any = None  # the learners themselves, after they learnt from y; not with `Paper`


class Model(ABC):
    """J rows of a model; subclass it and write what is abstract, the rest has defaults.

    `learn` and `merge` alternate: with one message lost or late, `merge` gets neutral values in its place.
    """

    J: int
    d: int
    m: int = 1  # targets
    dtype: Float = np.float64  # of the first part that is pulled; messages hold float64 otherwise
    loss: Loss = losses.squared()  # what labels must be
    largest: float = math.inf  # the most that a parameter may be when it is sent
    judges: tuple[str, ...] = ()  # the parts of a message by which `believes` may refuse it
    restarts: npt.NDArray[np.int_] = np.zeros(1, int)  # (J,) how often a row's parameters have started again
    columns: int = 0  # of a summary in its news
    identity: str = ""  # what learners that exchange messages have in common; "" for settings, d and dtype
    must_match: str = "model, inputs, dtype and exchange"  # the same in words

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """What a message holds; the first with the rule "pull" is theta, which edges have duals of."""

    @abstractmethod
    def predict(self, x: Array) -> Any:
        """Predict samples (J, d); the result has `y_hat` (J, m) and whatever `learn` needs again."""

    @abstractmethod
    def learn(
        self, prediction: Any, y: Array, earlier: Any = None, weight: Array | None = None
    ) -> dict[str, Array]:
        """The local step with labels (J, m); returns each part (J, *shape).

        A label may be NaN where m > 1, or where a stream has gaps: it is not known, and moves nothing.
        `earlier`: what was predicted when the sample was new, if that is rounds ago. `weight` (J,): how often
        each sample counts, if not once; models need not take it.
        """

    def rest(self) -> dict[str, Array] | None:
        """The step of a round without a sample, on a device whose neighbours have more of them; returns each
        part, or None if there is no such step."""
        return None

    @abstractmethod
    def merge(self, incoming: Mapping[str, Any]) -> None:
        """End the round with each part combined: a `Pull` for the rule "pull", else (J, *shape)."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Everything it knows between two rounds: arrays, numbers and lists by name."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave; the inverse of `state`, to the last bit."""

    def learn_alone(self, prediction: Any, y: Array) -> bool:
        """The rest of a round where nobody has neighbours, at once; False where it needs an exchange."""
        return False

    def rounds(self, X: Array, y: Array, network: Any = None) -> Predictions | None:
        """Rounds (J, B, d) with labels (J, B, m) at once, over a network whose messages all arrive as they
        are, None where nobody has neighbours; None where they need `predict`, `learn`, an exchange and
        `merge` each."""
        return None

    @property
    def weights(self) -> Array:
        """Weights of kernels or experts. (J, n)"""
        return np.ones((self.J, 1))

    @property
    def parameters(self) -> Any:
        """What a `Run` shows: has theta and lam (J, P, K), and L (J, P); None where there is nothing."""
        return None

    def models(self, prediction: Any) -> Array:
        """Predictions of each of P kernels or models by itself. (J, m, P)"""
        return np.asarray(prediction.y_hat)[..., None]

    def alone(self, prediction: Any) -> Array:
        """What the learners would predict had they never listened; empty where that is not known. (J, m)"""
        return np.empty(0)

    def message(self) -> dict[str, Array]:
        """What would be sent now, of a model that tells `gaps`."""
        return {}

    def gaps(self, prediction: Any, rows: Index, theirs: Mapping[str, Array]) -> Array:
        """Sum over neighbours i of f_j(x_j) - f_i(x_j), NaN where that is not known. (J, m, P)

        `rows` (E,) is j of each end of an edge, `theirs` (E, ...) are the parts of i's `message`.
        """
        return np.full((self.J, self.m, 1), np.nan)

    def sample(self, x: npt.ArrayLike) -> Array:
        """One sample, checked. (d,)"""
        array = checks.floats("x", x)
        remedy = "every sample needs the same inputs, NaN where one is missing"
        checks.shape("x", array, (self.d,), remedy)
        return checks.finite_or_missing("x", array)

    def kept(self, prediction: Any) -> Any:
        """What `learn` needs of a prediction whose label comes late, for files; None for nothing."""
        return None

    def restored(self, kept: Any) -> Any:
        """The inverse of `kept`."""
        return None

    def check(self, message: Mapping[str, Array], news: Mapping[Hashable, Any]) -> None:
        """Refuse, with a `PeerError`, parts (1, *shape) and news that no learner can have sent."""
        return

    def same(self, who: list[int], sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        """Whether neighbours' parameters mean the same to R learners, so that duals may move. (R, n)"""
        return np.ones(next(iter(sent.values())).shape[:2], bool)

    def believes(self, who: list[int], sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        """Whether R learners use the messages of n neighbours each, by parts (R, n, *shape). (R, n)"""
        return np.ones(next(iter(sent.values())).shape[:2], bool)

    def news(self) -> list[dict[Hashable, Any]]:
        """What each row passes on in this round besides its message; most models have nothing."""
        return []

    def hear(self, row: int, news: Mapping[Hashable, Any]) -> None:
        """What a neighbour of a row passed on."""
        return

    def connect(self, around: Around) -> None:
        """Tell the rows who they are and who their neighbours, at the start and when these change."""
        return

    def adopt(self, messages: Sequence[Mapping[str, Array]], share: float) -> None:
        """Move one row's parameters a share of the way to the median of its own and the neighbours'."""
        return

    def as_function(self, row: int, target: int = 0) -> Any:
        """What a row predicts of a target for many samples, and the last that it knows; None if it cannot."""
        return None

    def predict_named(self, x: dict[Any, Any]) -> float | None:
        """What one row predicts for values by key, where that is quick; None where it needs an array."""
        return None

    def learn_named(self, x: dict[Any, Any], y: float) -> bool:
        """Learn values by key, where that is quick; False, and nothing learnt, where it is not."""
        return False

    def grow_named(self, keys: Sequence[Hashable]) -> None:
        """Samples have further inputs from now on, which are known by these keys."""
        self.grow(self.d + len(keys))

    def grow(self, d: int) -> None:
        """Samples have d inputs from now on, the new ones last; of a model without neighbours."""
        raise InputError(f"inputs are {d}; expected {self.d}, which this model cannot change; begin again")

    def grow_targets(self, m: int) -> None:
        """Predict m targets from now on, the new ones last, which were 0; of a model without neighbours."""
        raise InputError(f"targets are {m}; expected {self.m}, which this model cannot change; begin again")

    def drop_samples(self) -> None:
        """Keep what was learnt, and no sample: for a file that is handed over."""
        return

    def take_back(self, moves: Array) -> None:
        """Take moves of edges' duals out of the model's; nothing where it has no duals. (J, P, K)"""
        return


def given(values: Array) -> Any:
    """What one row says of each target (1, m): a number where there is one, else (m,).

    >>> given(np.ones((1, 1))), given(np.ones((1, 2)))
    (1.0, array([1., 1.]))
    """
    return float(values[0, 0]) if values.shape[1] == 1 else values[0].copy()


def median(own: Array, others: Sequence[Array]) -> Array:
    """Coordinate-wise median of our own values and others'; of two middle values the one nearer to ours.

    One other alone changes nothing, and of two a liar moves us no further than the honest one would.
    """
    values = np.sort(np.stack([own, *others]), axis=0)
    middle = values[(len(values) - 1) // 2], values[len(values) // 2]
    return np.asarray(np.clip(own, *middle))

"""The contract of a model: what a runner (`domkl.simulate`, `domkl.Learner`) asks of it.

    prediction = model.predict(x)            # x (J, d): what is known before the label
    outgoing = model.learn(prediction, y)    # the local step; one message a row, part by part
    model.merge(incoming)                    # what the exchange made of the neighbours' messages
    model.state(), model.restore(state)      # everything it knows between two rounds, by name

A model computes over J rows and knows no names, sockets, clocks or random sources. A runner gives it J rows
and an exchange over a graph, or one row and an exchange over an inbox: same code, same bits. docs/extend.md
shows how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..base.types import Array


class Part(NamedTuple):
    """One array of a message, and how the neighbours' values of it are combined."""

    name: str
    shape: tuple[int, ...]  # of one learner's; () for a number
    rule: str  # one of `exchange.combine.RULES`

    @property
    def size(self) -> int:
        """How many numbers that is."""
        return int(np.prod(self.shape, dtype=int))


class Pull(NamedTuple):
    """What the rule "pull" makes of the neighbours' parameters, a row for each learner."""

    near: Array  # (J, P, K) weighted sum over neighbours
    moved: Array  # (J, P, K) the same over the edges whose duals move
    moving: Array  # (J,) the weights of those edges, summed
    mean: Array  # (J, P, K) weighted mean; the own where there are no neighbours
    weight: Array  # (J,) of all edges, in sum


class Statistics(NamedTuple):
    """Statistics of several learners' samples, and which rows are to be pooled for whom."""

    each: Any  # arrays (N, ...), a row for each learner that they are of
    who: npt.NDArray[np.bool_]  # (J or 1, N)


class Prediction(Protocol):
    """What a model knows about samples before their labels."""

    @property
    def y_hat(self) -> Array:
        """Predictions. (J,)"""


class Model(Protocol):
    """J rows of a model."""

    J: int
    d: int

    @property
    def parts(self) -> tuple[Part, ...]:
        """What a message holds; the first is theta (P, K), the parameters that learners agree on."""

    @property
    def weights(self) -> Array:
        """Weights of kernels or experts. (J, n)"""

    def predict(self, x: Array) -> Any:
        """Predict samples (J, d); the result has `y_hat` (J,) and whatever `learn` needs again."""

    def learn(self, prediction: Any, y: Array, asked: Any = None) -> dict[str, Array]:
        """The local step with labels (J,); returns each part (J, *shape)."""

    def merge(self, incoming: Mapping[str, Any]) -> None:
        """End the round with each part combined."""

    def take_back(self, moves: Array) -> None:
        """Take moves of edges' duals out of the model's. (J, P, K)"""

    def state(self) -> dict[str, Any]:
        """Everything it knows between two rounds: arrays, numbers and lists by name."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave; the inverse of `state`, to the last bit."""

"""Several classes from models of one target."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from ..base.errors import InputError
from ..base.types import Array
from ..learning.losses import probability
from ..learning.settings import ModelSettings
from .models import Single, for_classes, make

Label = TypeVar("Label", bound=Hashable)
#: Samples of other classes that the model of a new class begins with.
BEFORE = 32


class OneVsRest(Generic[Label]):
    """A model for each class against the rest, or one for two; classes may appear at any time."""

    def __init__(self, settings: ModelSettings | None, classes: Sequence[Label] = ()) -> None:
        self.settings, self.keys = for_classes(settings), list[Hashable]()
        self.classes: dict[Label, int] = {}
        self.models: list[tuple[float, Single]] = []  # sign, model
        self.last: deque[Array] = deque(maxlen=BEFORE)  # inputs
        for label in classes:
            self.add(label)

    def add(self, label: Label) -> None:
        """Add a class of which no sample was learnt yet."""
        if len(self.classes) == 2:  # the second was "not the first": its own model starts from there
            sign, first = self.models[0]
            self.models.append((-sign, copy.deepcopy(first)))
        if len(self.classes) != 1:
            model, sign = make(self.settings), _sign(label)
            model.grow(self.keys)
            for x in self.last:  # none of them was of this class
                model.learn(np.pad(x, (0, len(self.keys) - len(x)), constant_values=np.nan), -sign)
            self.models.append((sign, model))
        self.classes[label] = len(self.classes)

    def grow(self, keys: Sequence[Hashable]) -> None:
        """Add inputs."""
        for _, model in self.models:
            model.grow(keys)
        self.keys += keys

    def learn(self, x: Array, label: Label) -> None:
        """Learn a sample, perhaps of a new class."""
        if label not in self.classes:
            self.add(label)
        mine = self.classes[label]
        for k, (sign, model) in enumerate(self.models):
            model.learn(x, sign if k == mine else -sign)
        self.last.append(x.copy())

    def scores(self, x: Array) -> list[float]:
        """The log-odds of each class; for two classes of the first alone."""
        return [sign * model.score(x) for sign, model in self.models]

    def probabilities(self, x: Array) -> list[float]:
        """The probability of each class; they sum to 1."""
        if len(self.classes) == 1:
            return [1.0]
        found = [probability(score) for score in self.scores(x)]
        if len(self.classes) == 2:
            return [found[0], 1 - found[0]]
        total = sum(found)
        return [one / total for one in found]

    def only(self, classes: Sequence[Label]) -> Single:
        """The one model of two classes, as agents have them."""
        if not _are_plain(classes):
            shown = ", ".join(map(str, classes))
            raise InputError(
                f"the model's classes are {shown}; expected 0 and 1, or -1 and 1, as agents have; "
                "teach it with such labels"
            )
        return self.models[0][1]


def _are_plain(classes: Sequence[Any]) -> bool:
    numbers = {value for value in classes if isinstance(value, bool | int | float | np.number | np.bool_)}
    return len(numbers) == len(classes) == 2 and numbers in ({0, 1}, {-1, 1})


def _sign(label: Hashable) -> float:
    """A class's target in its own model: 0 and -1 mean -1 there, as they do to a learner of a network."""
    return -1.0 if label in (0, -1) else 1.0


def refuse_interval(instead: str) -> NoReturn:
    """Refuse bounds around a class."""
    raise InputError(
        f"the model predicts classes, which have no bounds; expected a regressor; use {instead}, which tells "
        "how sure it is"
    )

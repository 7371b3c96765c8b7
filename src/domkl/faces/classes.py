"""Classes from models of one number."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from ..base.types import Array
from .making import make
from .odds import probability
from .settings import Settings, Single

Label = TypeVar("Label", bound=Hashable)


def _sign(label: Hashable) -> float:
    """What a class is to its own model: 0 and -1 mean -1 there, as they do to a learner of a network."""
    return -1.0 if label in (0, -1) else 1.0


class OneVsRest(Generic[Label]):
    """Classes that appear as they come: one model each, and one for two."""

    def __init__(self, settings: Settings, classes: Sequence[Label] = ()) -> None:
        self.settings, self.keys = settings, list[Hashable]()
        self.classes: dict[Label, int] = {}
        self.models: list[tuple[float, Single]] = []  # sign, model
        for label in classes:
            self.add(label)

    def add(self, label: Label) -> None:
        """A class more: none of the samples so far was of it."""
        if len(self.classes) == 2:  # the second was "not the first", which its own model starts from
            sign, first = self.models[0]
            self.models.append((-sign, copy.deepcopy(first)))
        if len(self.classes) != 1:
            model = make(self.settings, "logistic")
            model.grow(self.keys)
            self.models.append((_sign(label), model))
        self.classes[label] = len(self.classes)

    def grow(self, keys: Sequence[Hashable]) -> None:
        """New columns."""
        self.keys += keys
        for _, model in self.models:
            model.grow(keys)

    def learn(self, x: Array, label: Label) -> None:
        """Take in a sample, perhaps of a new class."""
        if label not in self.classes:
            self.add(label)
        mine = self.classes[label]
        for k, (sign, model) in enumerate(self.models):
            model.learn(x, sign if k == mine else -sign)

    def scores(self, x: Array) -> list[float]:
        """One score a model: for two classes that of the first."""
        return [sign * model.predict(x) for sign, model in self.models]

    def probabilities(self, x: Array) -> list[float]:
        """One for each class; they sum to 1."""
        if len(self.classes) == 1:
            return [1.0]
        odds = [probability(score) for score in self.scores(x)]
        if len(self.classes) == 2:
            return [odds[0], 1 - odds[0]]
        total = sum(odds)
        return [one / total for one in odds]

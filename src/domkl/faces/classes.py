"""Several classes on one device: a target each on one matrix, or one model against the rest each."""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from ..base.errors import InputError
from ..base.types import Array
from ..learner import handed
from ..learning.losses import log_odds, probability
from ..models.settings import ModelSettings, Settings
from ..models.taught import HandedModel
from .models import for_classes
from .online import Single

Label = TypeVar("Label", bound=Hashable)
#: Samples of other classes that the model of a new class begins with.
BEFORE = 32


def classifier(settings: ModelSettings | None, classes: Sequence[Label] = ()) -> Classes[Label]:
    """What learns classes with these settings; they may appear at any time."""
    chosen = for_classes(settings)
    return (OneMatrix if chosen.has_targets else OneVsRest)(chosen, classes)


class Classes(Generic[Label]):
    """Classes of samples x (d,), with names of any kind."""

    def __init__(self, settings: Settings, classes: Sequence[Label] = ()) -> None:
        self.settings, self.keys = settings, list[Hashable]()
        self.classes: dict[Label, int] = {}
        for label in classes:
            self.add(label)

    def add(self, label: Label) -> None:
        """Add a class of which no sample was learnt yet."""
        raise NotImplementedError

    def grow(self, keys: Sequence[Hashable]) -> None:
        """Add inputs."""
        for model in self.singles:
            model.grow(keys)
        self.keys += keys

    def learn(self, x: Array, label: Label, weight: float = 1.0) -> None:
        """Learn a sample, perhaps of a new class, which counts as often as `weight` says."""
        raise NotImplementedError

    def scores(self, x: Array) -> list[float]:
        """The log-odds of each class."""
        raise NotImplementedError

    def probabilities(self, x: Array) -> list[float]:
        """The probability of each class; they sum to 1."""
        raise NotImplementedError

    @property
    def singles(self) -> list[Single]:
        """The models that it consists of."""
        raise NotImplementedError

    @property
    def n(self) -> int:
        """How many samples were learnt."""
        return max((model.n for model in self.singles), default=0)

    def hand_over(self, path: str | os.PathLike[str], names: Sequence[Hashable]) -> None:
        """Write what it has learnt of two classes, as agents have them, and no sample, to a file."""
        classes: list[Any] = [*self.classes]
        plain = (bool, int, float, np.number, np.bool_)
        numbers = {value for value in classes if isinstance(value, plain)}
        if len(classes) != 2 or numbers not in ({0, 1}, {-1, 1}):
            shown = ", ".join(map(str, classes))
            raise InputError(
                f"the model's classes are {shown}; expected 0 and 1, or -1 and 1, as agents have; "
                "teach it with such labels"
            )
        handed.refuse_untaught(self.n)
        handed.write(path, self._handed(names, max(range(2), key=lambda k: classes[k])))

    def _handed(self, names: Sequence[Hashable], k: int) -> HandedModel:
        """Of which class k is 1, and the other -1."""
        raise NotImplementedError


class OneMatrix(Classes[Label]):
    """One model with a target for each class: 1 for samples of the class, else 0.

    All targets share a matrix, so that many classes cost little more than one. A new class is a target more,
    of which all samples before had 0.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> model = OneMatrix(domkl.Auto(size=100, loss="classes"))
    >>> model.grow(["x"])
    >>> for x in np.random.default_rng(0).uniform(-2, 2, size=(200, 1)):
    ...     model.learn(x, "left" if x[0] < -1 else "right" if x[0] > 1 else "middle")
    >>> found = dict(zip(model.classes, model.probabilities(np.array([-1.8])), strict=True))
    >>> max(found, key=found.get)
    'left'
    """

    model: Single | None = None  # made with the first class

    def add(self, label: Label) -> None:
        m = len(self.classes) + 1
        if self.model is None:
            self.model = Single(self.settings)
            self.model.grow(self.keys)
        else:
            self.model.grow_targets(m)
        self.classes[label] = m - 1

    def learn(self, x: Array, label: Label, weight: float = 1.0) -> None:
        if label not in self.classes:
            self.add(label)
        assert self.model is not None
        target = np.zeros(len(self.classes))
        target[self.classes[label]] = 1
        self.model.learn(x, target, weight)

    def scores(self, x: Array) -> list[float]:
        return [log_odds(2 * p - 1) for p in self.probabilities(x)]

    def probabilities(self, x: Array) -> list[float]:
        assert self.model is not None
        return [float(p) for p in np.reshape(self.model.predict(x), -1)]

    @property
    def singles(self) -> list[Single]:
        return [] if self.model is None else [self.model]

    def _handed(self, names: Sequence[Hashable], k: int) -> HandedModel:
        assert self.model is not None
        return self.model.handed(names, k)


class OneVsRest(Classes[Label]):
    """A model for each class against the rest, or one for two, where a model has one target."""

    def __init__(self, settings: Settings, classes: Sequence[Label] = ()) -> None:
        self.models: list[tuple[float, Single]] = []  # sign, model
        self.last: deque[Array] = deque(maxlen=BEFORE)  # inputs
        super().__init__(settings, classes)

    def add(self, label: Label) -> None:
        if len(self.classes) == 2:  # the second was "not the first": its own model starts from there
            sign, first = self.models[0]
            self.models.append((-sign, copy.deepcopy(first)))
        if len(self.classes) != 1:
            # 0 and -1 mean -1 there, as they do to a learner of a network.
            model, sign = Single(self.settings), -1.0 if label in (0, -1) else 1.0
            model.grow(self.keys)
            for x in self.last:  # none of them was of this class
                model.learn(np.pad(x, (0, len(self.keys) - len(x)), constant_values=np.nan), -sign)
            self.models.append((sign, model))
        self.classes[label] = len(self.classes)

    def learn(self, x: Array, label: Label, weight: float = 1.0) -> None:
        if label not in self.classes:
            self.add(label)
        mine = self.classes[label]
        for k, (sign, model) in enumerate(self.models):
            model.learn(x, sign if k == mine else -sign, weight)
        self.last.append(x.copy())

    def scores(self, x: Array) -> list[float]:
        found = [sign * model.score(x) for sign, model in self.models]
        return [found[0], -found[0]] if len(self.classes) == 2 else found

    def probabilities(self, x: Array) -> list[float]:
        if len(self.classes) == 1:
            return [1.0]
        found = [probability(score) for score in self.scores(x)]
        if len(self.classes) == 2:
            return [found[0], 1 - found[0]]
        total = sum(found)
        return [one / total for one in found]

    @property
    def singles(self) -> list[Single]:
        return [model for _, model in self.models]

    def _handed(self, names: Sequence[Hashable], k: int) -> HandedModel:
        return self.models[0][1].handed(names)


def refuse_interval(instead: str) -> NoReturn:
    """Refuse bounds around a class."""
    raise InputError(
        f"the model predicts classes, which have no bounds; expected a regressor; use {instead}, which tells "
        "how sure it is"
    )

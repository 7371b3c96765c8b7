"""From settings to a model of one device without neighbours, and what can be asked of one.

settings = for_numbers(None)        # Auto() by default; refuses what one device cannot do
model = make(settings)              # a `Single` without inputs; grow() adds them
explain(model), hand_over(path, model)
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from ..base.errors import InputError
from ..base.types import Array
from ..learner import handed
from ..learning.explain import Contributions, Effects, Function, Group, Usual, contributions, effects
from ..models.handed import HandedModel
from ..models.settings import Auto, ModelSettings, check_model
from .online import SingleRows


class Taught(Protocol):
    """A model of one device or of a network, as far as it can be explained and handed over."""

    @property
    def n(self) -> int:
        """How many samples were learnt."""

    @property
    def d(self) -> int:
        """How many inputs a sample has."""

    @property
    def m(self) -> int:
        """How many targets it predicts."""

    def as_function(self, row: int = 0, target: int = 0) -> tuple[Function, Usual]:
        """What learner `row` predicts of a target, for many samples, and usual values of its inputs."""

    def handed(self, names: tuple[str, ...] = ()) -> HandedModel:
        """What it has learnt, without samples."""


class Single(Taught, Protocol):
    """A model on one device; samples x (d,) have any scale, and NaN where one is missing.

    Of several targets, y and what it predicts are (m,), NaN where a label is not known.
    """

    passes: ClassVar[int]  # how often it goes through a table, unless told otherwise
    has_targets: ClassVar[bool]  # whether it can predict several, and gain more

    def predict(self, x: Array) -> Any:
        """The target at x; for the logistic loss 2 P(y = +1) - 1."""

    def score(self, x: Array) -> float:
        """The target at x; for the logistic loss the log-odds of y = +1."""

    def learn(self, x: Array, y: Any, weight: float = 1.0) -> None:
        """Learn a sample, which counts as often as `weight` says.

        An x that is the array last predicted must not have changed since.
        """

    def predict_dict(self, x: dict[Any, Any]) -> float | None:
        """`predict` for values by key, where that is fast; None where it needs an array."""

    def learn_dict(self, x: dict[Any, Any], y: float) -> bool:
        """`learn` for values by key, where that is fast; False, and nothing learnt, where it is not."""

    def grow_targets(self, m: int) -> None:
        """Predict m targets from now on; the new ones, which come last, were 0 so far."""

    def grow(self, keys: Sequence[Hashable]) -> None:
        """Add inputs after those there are; the keys identify them."""

    def state(self) -> dict[str, Any]:
        """Everything it knows, by name; there must be inputs."""

    def restore(self, state: Mapping[str, Any], d: int) -> None:
        """Inverse of `state`, of d inputs; what cannot be such is refused with a ValueError."""


def kind_of(model: Any) -> type[Any]:
    """The class of what learns with these settings on one device, a `Single`."""
    own = getattr(model, "single_class", None)
    return SingleRows if own is None else cast(type[Any], own())


def check(model: ModelSettings | None) -> ModelSettings:
    """Settings of one device, `Auto()` for None; refuses what one device cannot do."""
    settings: ModelSettings = check_model(Auto() if model is None else model)
    kind_of(settings).check(settings)
    return settings


def settings_of(model: ModelSettings | None) -> Any:
    """Settings as given, `Auto()` for None."""
    return Auto() if model is None else model


def for_numbers(model: ModelSettings | None) -> ModelSettings:
    """Settings of a model whose targets are numbers."""
    settings = check(model)
    if settings.loss_function.classifies:
        name = settings.loss_function.name
        raise InputError(f"loss is {name!r}; expected 'squared' for numbers; use MultiKernelClassifier")
    return settings


def refuse_one_target(settings: ModelSettings) -> None:
    """Refuse a model that predicts one target only."""
    if not kind_of(settings).has_targets:
        raise InputError("domkl.Paper predicts one target; expected domkl.Auto for several; use that")


def for_classes(model: ModelSettings | None) -> ModelSettings:
    """Settings of a model whose targets are classes: the same with the logistic loss."""
    settings = check(model)
    start = getattr(settings, "start", 0.0)
    if start:
        raise InputError(f"start is {start}; expected 0 for classes; leave it out")
    return dataclasses.replace(settings, loss="classes" if kind_of(settings).has_targets else "logistic")


def make(settings: ModelSettings, m: int = 1) -> Single:
    """The model of these settings for m targets, without inputs yet."""
    made: Single = kind_of(settings)(settings, m)
    return made


# What matters


def explain(
    model: Taught,
    x: Array | None = None,
    names: Sequence[str] = (),
    groups: Sequence[Group] = (),
    row: int = 0,
    target: int = 0,
) -> Effects | Contributions:
    """Which inputs matter to a learner: overall, or to the prediction of x (d,). See `learning.explain`."""
    refuse_untaught(model.n)
    groups = groups or [[i] for i in range(model.d)]
    names = names or [f"x{group[0]}" for group in groups]
    if len(names) != len(groups) or sorted(i for group in groups for i in group) != list(range(model.d)):
        raise InputError(
            f"{len(names)} names and {len(groups)} groups are given for {model.d} inputs; expected every "
            "input in one group, and a name for each; fix them"
        )
    if x is None:
        return effects(*model.as_function(row, target), names, groups)
    return contributions(*model.as_function(row, target), x, names, groups)


def refuse_untaught(n: int) -> None:
    """Refuse to explain what knows nothing."""
    if not n:
        raise InputError("the model has learnt no sample; expected a model that was taught; teach it first")


def mean_part(models: Sequence[Taught], groups: Sequence[Group] = ()) -> Array:
    """How much each input, or group of them, matters, averaged over models and targets; they sum to 1."""
    found = [explain(model, groups=groups, target=k) for model in models for k in range(model.m)]
    return np.asarray(np.mean([each.part for each in found if isinstance(each, Effects)], axis=0))


# Hand-over to agents


def hand_over(path: str | os.PathLike[str], model: Taught, names: Sequence[Hashable] = ()) -> None:
    """Write what one device, or a network of one, has learnt, and no sample, to a file."""
    handed.write(path, taught(model, names))


def taught(model: Taught, names: Sequence[Hashable] = ()) -> HandedModel:
    """What one device, or a network of one, has learnt, and no sample."""
    handed.refuse_untaught(model.n)
    return model.handed(handed.input_names(names))

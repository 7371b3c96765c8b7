"""From settings to a model of one device without neighbours, and what can be asked of one.

settings = for_numbers(None)        # Auto() by default; refuses what one device cannot do
model = Single(settings)            # without inputs; grow() adds them
explain(model), model.hand_over(path, names)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ..base.errors import InputError
from ..base.types import Array
from ..learning.explain import Contributions, Effects, Group, contributions, effects
from ..models.settings import ModelSettings, Settings, as_settings
from .online import OnlineRows, Single


def check(model: ModelSettings | str | None) -> Settings:
    """Settings of one device, `Auto()` for None; refuses what one device cannot do."""
    settings = as_settings(model)
    settings.check_single()
    return settings


def for_numbers(model: ModelSettings | None, several: bool = False) -> Settings:
    """Settings of a model whose targets are numbers, of which there are several or one."""
    settings = check(model)
    if settings.loss_function.classifies:
        name = settings.loss_function.name
        raise InputError(f"loss is {name!r}; expected 'squared' for numbers; use MultiKernelClassifier")
    if several and not settings.has_targets:
        raise InputError("domkl.Paper predicts one target; expected domkl.Auto for several; use that")
    return settings


def for_classes(model: ModelSettings | None) -> Settings:
    """Settings of a model whose targets are classes: the same with the logistic loss."""
    settings = check(model)
    if settings.start:
        raise InputError(f"start is {settings.start}; expected 0 for classes; leave it out")
    return dataclasses.replace(settings, loss="classes" if settings.has_targets else "logistic")  # type: ignore[call-arg]


def explain(
    model: OnlineRows | None,
    x: Array | None = None,
    names: Sequence[str] = (),
    groups: Sequence[Group] = (),
    row: int = 0,
    target: int = 0,
) -> Effects | Contributions:
    """Which inputs matter to a learner: overall, or to the prediction of x (d,). See `learning.explain`."""
    asked = None if model is None else model.as_function(row, target)
    if model is None or asked is None:
        raise InputError("the model has learnt no sample; expected a model that was taught; teach it first")
    groups = groups or [[i] for i in range(model.d)]
    names = names or [f"x{group[0]}" for group in groups]
    if len(names) != len(groups) or sorted(i for group in groups for i in group) != list(range(model.d)):
        raise InputError(
            f"{len(names)} names and {len(groups)} groups are given for {model.d} inputs; expected every "
            "input in one group, and a name for each; fix them"
        )
    if x is None:
        return effects(*asked, names, groups)
    return contributions(*asked, x, names, groups)


def mean_part(models: Sequence[Single], groups: Sequence[Group] = ()) -> Array:
    """How much each input, or group of them, matters, averaged over models and targets; they sum to 1."""
    found = [explain(model, groups=groups, target=k) for model in models for k in range(model.m)]
    return np.asarray(np.mean([each.part for each in found if isinstance(each, Effects)], axis=0))

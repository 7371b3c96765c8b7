"""From settings to a model of one device without neighbours.

settings = for_numbers(None)        # Auto() by default; refuses what one device cannot do
model = make(settings)              # a `Single` without inputs; grow() adds them
"""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from ..base.errors import InputError
from ..learning.settings import Auto, ModelSettings, Paper, check_model
from . import paper
from .auto import SingleAuto
from .paper import SinglePaper

#: A model of one target on one device; samples x (d,) have any scale, and NaN where one is missing.
Single: TypeAlias = "SingleAuto | SinglePaper"


def check(model: ModelSettings | None) -> ModelSettings:
    """Settings of one device, `Auto()` for None; refuses what one device cannot do."""
    settings = check_model(Auto() if model is None else model)
    return paper.check(settings) if isinstance(settings, Paper) else settings


def for_numbers(model: ModelSettings | None) -> ModelSettings:
    """Settings of a model whose targets are numbers."""
    settings = check(model)
    if settings.loss_function.classifies:
        raise InputError("loss is 'logistic'; expected 'squared' for numbers; use MultiKernelClassifier")
    return settings


def for_classes(model: ModelSettings | None) -> ModelSettings:
    """Settings of a model whose targets are classes: the same with the logistic loss."""
    settings = check(model)
    if isinstance(settings, Auto) and settings.start:
        raise InputError(f"start is {settings.start}; expected 0 for classes; leave it out")
    return dataclasses.replace(settings, loss="logistic")


def make(settings: ModelSettings) -> Single:
    """The model of these settings, without inputs yet."""
    return SinglePaper(settings) if isinstance(settings, Paper) else SingleAuto(settings)

"""A model that was taught before, from a file, and the settings that go with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ..base.errors import DataError, InputError
from ..datasets.columns import Columns
from ..faces.estimator import DOMKL
from ..learner import handed
from ..learner.handed import HandedModel, HandedPaper
from . import encoding
from .config import AgentConfig

#: What an agent's file says of columns, whatever the model was taught with: how its own rows are written.
OWN = ("learner", "paths", "na", "decimal", "separator", "missing")


def read(config: AgentConfig, path: str) -> tuple[AgentConfig, HandedModel]:
    """The model in a file of hand_over(), DOMKL.save() or `domkl run`; the settings, with its inputs."""
    if (place := Path(path)).exists() and not place.is_file():  # a pipe would never end
        raise DataError(f"{path}: not a regular file; expected a taught model; fix [model] path")
    try:
        model = handed.read(path)
        config = _with_inputs(config, path, model)
    except handed.SavedModel:
        config, model = _saved(config, path)
    if config.output.alarm_rate is not None and _loss(model) == "logistic":
        raise InputError(
            f"[output] alarm_rate is given and {path} learns classes; expected numbers; leave it out"
        )
    return config, model


def _loss(model: HandedModel) -> object:
    return model.loss if isinstance(model, HandedPaper) else model.settings.loss_function.name


def _saved(config: AgentConfig, path: str) -> tuple[AgentConfig, HandedModel]:
    """A saved model, whose columns are the agent's, too."""
    saved = DOMKL.load(path)
    about = saved.about
    if len(saved.learners) > 1:
        raise InputError(
            f"{path} holds {len(saved.learners)} learners; expected a model of one; teach one with "
            "domkl run --learners 1"
        )
    if (about.origin, about.factor) != (0.0, 1.0):
        raise InputError(
            f"{path} was taught with scaled labels, as of a dataset of domkl; expected one of data of your "
            "own; teach it with domkl run --data"
        )
    model = saved.handed()
    if about.columns is None:
        return _with_inputs(config, path, model), model
    config = dataclasses.replace(config, columns=_columns(config.columns, about.columns, path))
    return encoding.completed(config), model


def _columns(given: Columns, taught: Columns, path: str) -> Columns:
    """The columns that the model was taught with, written as this agent's are."""
    table: dict[str, Any] = {}
    for each in dataclasses.fields(Columns):
        mine, its = getattr(given, each.name), getattr(taught, each.name)
        is_own = each.name in OWN
        table[each.name] = mine if is_own else its
        if not is_own and mine not in (its, getattr(Columns(), each.name)):
            raise InputError(
                f"[columns] {each.name} differs from what {path} was taught with; expected the same; leave "
                f"{each.name} out"
            )
    return Columns(**table)


def _with_inputs(config: AgentConfig, path: str, model: HandedModel) -> AgentConfig:
    """Settings for a model that knows no columns; refuses other inputs."""
    if config.inputs not in (0, model.inputs):
        raise InputError(
            f"inputs is {config.inputs} and {path} was taught with {model.inputs}; expected as many; fix one"
        )
    columns = config.columns
    for name in columns.features if model.names else ():
        if name not in model.names:
            raise InputError(
                f"[columns] features has {name!r}; expected what {path} was taught with, "
                f"{', '.join(model.names)}; fix features or leave it out"
            )
    columns = dataclasses.replace(columns, features=tuple(model.names) or columns.features)
    return dataclasses.replace(config, inputs=model.inputs, columns=columns)

"""The learner that a configuration describes."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..base.errors import InputError
from ..exchange.message import Exchange
from ..learner import Learner, handed
from ..learner.handed import HandedModel
from ..learning.settings import Auto, Paper
from . import encoding
from .config import AgentConfig, Handed


def make(config: AgentConfig, number: int = 0) -> tuple[AgentConfig, Learner]:
    """A learner without samples, or one that starts from a handed model; and the settings, completed with the
    inputs that the model was taught with, or that follow from columns."""
    model: Auto | Paper | HandedModel
    if isinstance(config.model, Handed):
        model = handed.read(config.model.path)
        config = _with_inputs(config, config.model.path, model)
    else:
        model, config = config.model, encoding.completed(config)
    settings = Paper() if model.kind == Paper.kind else Auto()
    learner = Learner(
        model,
        config.neighbours,
        name=config.name,
        inputs=config.inputs,
        exchange=Exchange(config.payload),
        asynchronous=config.rounds.mode == "async",
        number=number,
        dtype=np.dtype(config.dtype_for(settings)),
    )
    return config, learner


def _with_inputs(config: AgentConfig, path: str, model: HandedModel) -> AgentConfig:
    """Settings for a handed model; refuses other inputs."""
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

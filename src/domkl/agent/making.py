"""The learner that a configuration describes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..base.errors import InputError
from ..faces import handover
from ..faces.handover import Taught
from ..learner.learner import Learner
from ..learner.member import Member
from ..learning.auto import AutoLearner
from .config import AgentConfig


def make(config: AgentConfig, number: int = 0) -> tuple[AgentConfig, Member]:
    """A learner that knows nothing yet, or what the model it was handed knows; and the settings, with the
    names of the inputs that the model was taught with."""
    common: dict[str, Any] = {"name": config.name, "payload": config.payload, "number": number}
    if config.preset == "auto":
        auto = config.auto
        common |= {"learners": auto.learners, "diameter": auto.diameter, "dtype": np.dtype(auto.dtype).type}
    else:
        common["asynchronous"] = config.rounds.mode == "async"
    if config.model is None:
        return config, _make_auto(config, common) if config.preset == "auto" else _make_own(config, common)
    taught = handover.read(config.model)
    return _named(config, taught), taught.learner(config.neighbours, **common)


def _named(config: AgentConfig, taught: Taught) -> AgentConfig:
    """Settings for a model; refuses other inputs and the other preset."""
    if taught.preset != config.preset:
        raise InputError(
            f"preset is {config.preset} and {config.model} is for preset {taught.preset}; expected the same; "
            f'set preset = "{taught.preset}"'
        )
    if taught.d != config.inputs:
        raise InputError(
            f"inputs is {config.inputs} and {config.model} was taught with {taught.d}; expected as many; "
            "mend one"
        )
    if not taught.names:
        return config
    for name in config.stream.columns:
        if name not in taught.names:
            raise InputError(
                f"[stream] columns has {name!r}; expected what {config.model} was taught with, "
                f"{', '.join(taught.names)}; mend columns or leave it out"
            )
    return dataclasses.replace(config, stream=dataclasses.replace(config.stream, columns=taught.names))


def _make_own(config: AgentConfig, common: dict[str, Any]) -> Learner:
    learning = config.learning
    return Learner(
        config.kernels.draw(config.inputs),
        config.neighbours,
        config.rates.rates(),
        loss=learning.make_loss(),
        hedge=learning.hedge,
        step=learning.step,
        memory=learning.memory,
        **common,
    )


def _make_auto(config: AgentConfig, common: dict[str, Any]) -> AutoLearner:
    auto, loss = config.auto, config.learning.loss
    return AutoLearner(
        config.inputs,
        config.neighbours,
        loss=loss,
        seed=auto.seed,
        size=auto.size,
        start=auto.start,
        **common,
    )

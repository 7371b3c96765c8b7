"""The learner that a configuration describes."""

from __future__ import annotations

import numpy as np

from ..exchange.message import Exchange
from ..learner import Learner
from ..learner.handed import HandedModel
from ..learning.settings import Auto, Paper
from . import encoding, taught
from .config import AgentConfig, Handed


def make(config: AgentConfig, number: int = 0) -> tuple[AgentConfig, Learner]:
    """A learner without samples, or one that starts from a handed model; and the settings, completed with the
    inputs that the model was taught with, or that follow from columns."""
    model: Auto | Paper | HandedModel
    if isinstance(config.model, Handed):
        config, model = taught.read(config, config.model.path)
    else:
        model, config = config.model, encoding.completed(config)
    settings = Paper() if model.kind == Paper.kind else Auto()
    learner = Learner(
        model,
        config.neighbours,
        name=config.name,
        inputs=config.inputs,
        exchange=Exchange(config.payload),
        number=number,
        dtype=np.dtype(config.dtype_for(settings)),
    )
    return config, learner

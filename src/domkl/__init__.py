"""domkl: decentralised online learning with multiple kernels.

Devices on a graph each see a stream of their own, exchange only model parameters with their neighbours,
and end up with one good nonlinear function. `import domkl` needs numpy alone; everything else loads when
it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets
    from .base import errors
    from .exchange import graph
    from .exchange.message import Exchange, Update
    from .faces.estimator import DOMKL
    from .lab.central import CentralRun, omkl
    from .learner import Learner, introduce
    from .learning import conformal, hedge, kernels, losses, metrics
    from .learning.first_order import Rates, State, Step
    from .learning.settings import Auto, KernelSpec, Paper, RateSpec
    from .simulator import Run, simulate

__version__ = "0.1.0"

_HOMES = {
    "Auto": "learning.settings",
    "Exchange": "exchange",
    "KernelSpec": "learning.settings",
    "Paper": "learning.settings",
    "RateSpec": "learning.settings",
    "DOMKL": "faces.estimator",
    "CentralRun": "lab.central",
    "Learner": "learner",
    "Rates": "learning.first_order",
    "Run": "simulator",
    "State": "learning.first_order",
    "Step": "learning.first_order",
    "Update": "learner",
    "omkl": "lab.central",
    "introduce": "learner",
    "simulate": "simulator",
}
_MODULES = {
    "conformal": "learning.conformal",
    "datasets": "datasets",
    "errors": "base.errors",
    "graph": "exchange.graph",
    "hedge": "learning.hedge",
    "kernels": "learning.kernels",
    "losses": "learning.losses",
    "metrics": "learning.metrics",
}

__all__ = [
    "DOMKL",
    "Auto",
    "CentralRun",
    "Exchange",
    "KernelSpec",
    "Learner",
    "Paper",
    "RateSpec",
    "Rates",
    "Run",
    "State",
    "Step",
    "Update",
    "conformal",
    "datasets",
    "errors",
    "graph",
    "hedge",
    "introduce",
    "kernels",
    "losses",
    "metrics",
    "omkl",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{_MODULES[name]}", __name__)
    else:
        raise AttributeError(f"module 'domkl' has no attribute {name!r}")
    globals()[name] = value  # so that the next look-up is plain
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""domkl: decentralised online learning with multiple kernels.

Devices on a graph each see a stream of their own, exchange only model parameters with their neighbours,
and end up with one good nonlinear function. `import domkl` needs numpy alone; everything else loads when
it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import conformal, datasets, errors, graph, hedge, kernels, losses, metrics
    from .auto import AutoLearner
    from .central import CentralRun, omkl
    from .core import Rates, State, Step
    from .estimator import DOMKL
    from .learner import Learner
    from .member import Update
    from .simulator import Run, simulate

__version__ = "0.1.0"

_HOMES = {
    "DOMKL": "estimator",
    "CentralRun": "central",
    "AutoLearner": "auto",
    "Learner": "learner",
    "Rates": "core",
    "Run": "simulator",
    "State": "core",
    "Step": "core",
    "Update": "member",
    "omkl": "central",
    "simulate": "simulator",
}
_MODULES = ("conformal", "datasets", "errors", "graph", "hedge", "kernels", "losses", "metrics")

__all__ = [
    "DOMKL",
    "AutoLearner",
    "CentralRun",
    "Learner",
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
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'domkl' has no attribute {name!r}")
    globals()[name] = value  # so that the next look-up is plain
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""domkl: decentralised online learning with multiple kernels.

Devices on a graph each see a stream of their own, exchange parameters and summary statistics with their
neighbours, and end up with one good nonlinear function. Messages can reveal samples: see docs/privacy.md.
`import domkl` needs numpy alone; everything else loads when it is first used.
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
    from .learner import Learner
    from .learning import alarms, conformal, explain, hedge, kernels, losses, metrics
    from .learning.first_order import Rates, State, Step
    from .models.settings import Auto, KernelSpec, Paper, RateSpec
    from .simulator import Run, simulate

__version__ = "0.1.0"

_HOMES = {
    "exchange.message": ("Exchange", "Update"),
    "faces.estimator": ("DOMKL",),
    "lab.central": ("CentralRun", "omkl"),
    "learner": ("Learner",),
    "learning.first_order": ("Rates", "State", "Step"),
    "models.settings": ("Auto", "KernelSpec", "Paper", "RateSpec"),
    "simulator": ("Run", "simulate"),
}
_MODULES = {
    "alarms": "learning.alarms",
    "conformal": "learning.conformal",
    "datasets": "datasets",
    "errors": "base.errors",
    "explain": "learning.explain",
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
    "alarms",
    "conformal",
    "datasets",
    "errors",
    "explain",
    "graph",
    "hedge",
    "kernels",
    "losses",
    "metrics",
    "omkl",
    "simulate",
]


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names), _MODULES.get(name))
    if home is None:
        raise AttributeError(f"module 'domkl' has no attribute {name!r}")
    module = importlib.import_module(f".{home}", __name__)
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value  # so that the next look-up is plain
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

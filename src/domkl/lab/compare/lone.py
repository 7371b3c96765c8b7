"""One learner that sees everything: ours, OMKL, AdaRaker, VAW, and those of other libraries."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from ...base.types import Array
from ...exchange.graph import LONE
from ...learning import kernels
from ...learning.first_order import Rates
from ...learning.settings import Auto, KernelSpec, ModelSettings, Paper
from ...simulator import simulate
from ..central import omkl
from ..trial import Source
from .adaraker import AdaRaker
from .contender import Contender, Result
from .vaw import Vaw

#: Rates of the paper's learner where no horizon is known, as for a single device.
ALONE = Rates(rho=1.0, eta=4.0, eta_g=1.0)


class LoneModel(Protocol):
    """What the driver calls; x is (d,)."""

    def predict(self, x: Array) -> float:
        """The prediction at x."""

    def learn(self, x: Array, y: float) -> None:
        """Learn the label of x."""


def contenders(seed: int) -> list[Contender]:
    """Those that need no other library."""
    paper = Paper(kernels=KernelSpec(seed=seed), rates=ALONE)
    return [
        Contender("OMKL", "all", lambda source: _omkl(source, seed)),
        Contender(
            "AdaRaker on the same features",
            "all",
            lambda source: learn_all(source, AdaRaker(_frequencies(source, seed))),
        ),
        Contender(
            "VAW on the same features",
            "all",
            lambda source: learn_all(source, Vaw(_frequencies(source, seed))),
        ),
        Contender(
            "domkl auto, one learner", "all", lambda source: _alone(source, Auto(seed=seed)), scales=True
        ),
        Contender("domkl paper, one learner", "all", lambda source: _alone(source, paper)),
    ]


def _omkl(source: Source, seed: int) -> Result:
    split = source.split
    X, y = _order(split.X), _order(split.y)
    V, start = _frequencies(source, seed), time.process_time()
    run = omkl(X, y, kernels=V, delay=split.delay * len(split.y))
    return Result(_back(run.y_hat, len(split.y)), _raw(source), time.process_time() - start)


def _alone(source: Source, model: ModelSettings) -> Result:
    """One learner of domkl without neighbours, on everybody's samples."""
    split = source.split
    X, y = _order(split.X), _order(split.y)
    start = time.process_time()
    run = simulate(X[None], y[None], LONE, model=model, delay=split.delay * len(split.y))
    return Result(_back(run.y_hat[0], len(split.y)), _raw(source), time.process_time() - start)


def learn_all(source: Source, model: LoneModel) -> Result:
    """Every sample once, in order of rounds: predict, and learn what has become known."""
    X, labels = _order(source.split.X), _order(source.split.y).tolist()
    late, y_hat = source.split.delay * len(source.split.y), np.empty(len(labels))
    start = time.process_time()
    for i, x in enumerate(X):
        y_hat[i] = model.predict(x)
        if i >= late:
            model.learn(X[i - late], labels[i - late])
    seconds = time.process_time() - start
    return Result(_back(y_hat, len(source.split.y)), _raw(source), seconds)


def _order(values: Array) -> Array:
    """(J, T, ...) as one stream, round by round."""
    turned = values.swapaxes(0, 1)
    return np.ascontiguousarray(turned.reshape(-1, *turned.shape[2:]))


def _back(y_hat: Array, J: int) -> Array:
    return np.asarray(y_hat.reshape(-1, J).T)


def _raw(source: Source) -> float:
    """Bytes of a sample, inputs and label, which a device sends to the one learner."""
    return 8.0 * float(source.split.X.shape[2] + 1)


def _frequencies(source: Source, seed: int) -> Array:
    return kernels.gaussian(source.split.X.shape[2], seed=seed)

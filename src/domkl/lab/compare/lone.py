"""One learner that sees everything: ours, OMKL, AdaRaker, VAW, and those of other libraries."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ... import faces
from ...base.types import Array
from ...learning import kernels
from ..bench.peers import installed
from ..central import omkl
from ..trial import Source
from .adaraker import AdaRaker
from .vaw import Vaw


class Result(NamedTuple):
    """What came of a contender."""

    y_hat: Array  # (J, T)
    sent: float  # bytes, by a learner in a round
    seconds: float  # of CPU time; imports and construction do not count


Run: TypeAlias = Callable[[Source], Result]


class Missing(Exception):
    """Why a contender does not take part."""


class Model(Protocol):
    """What the driver calls; x is (d,)."""

    def predict(self, x: Array) -> float:
        """Its guess."""

    def learn(self, x: Array, y: float) -> None:
        """The truth."""


def contenders(seed: int) -> dict[str, Run]:
    """By name; those of libraries that are not installed say so when they are run."""
    own: dict[str, Run] = {
        "OMKL": lambda source: _omkl(source, seed),
        "AdaRaker on the same features": lambda source: _all(source, AdaRaker(_frequencies(source, seed))),
        "VAW on the same features": lambda source: _all(source, Vaw(_frequencies(source, seed))),
        "domkl auto, one learner": lambda source: _all(source, _single_model(source, "auto", seed)),
        "domkl first-order, one learner": lambda source: _all(
            source, _single_model(source, "first-order", seed)
        ),
    }
    return {**own, **{name: _peer(make, seed) for name, make in PEERS.items()}}


def _omkl(source: Source, seed: int) -> Result:
    split = source.split
    X, y = _order(split.X), _order(split.y)
    V, start = _frequencies(source, seed), time.process_time()
    run = omkl(X, y, kernels=V, delay=split.delay * len(split.y))
    return Result(_back(run.y_hat, len(split.y)), _raw(source), time.process_time() - start)


def _all(source: Source, model: Model) -> Result:
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
    """A device sends its sample, inputs and label, to wherever everything is seen."""
    return 8.0 * float(source.split.X.shape[2] + 1)


def _frequencies(source: Source, seed: int) -> Array:
    return kernels.gaussian(source.split.X.shape[2], seed=seed)


def _single_model(source: Source, preset: str, seed: int) -> Model:
    model = faces.make(faces.Settings(preset=preset, seed=seed), "squared")
    model.grow(range(source.split.X.shape[2]))
    return model


def _peer(make: tuple[str, Callable[[Any, int], Model]], seed: int) -> Run:
    package, build = make

    def run(source: Source) -> Result:
        if not installed(package):
            name = "scikit-learn" if package == "sklearn" else package
            raise Missing(f'{name} is not installed; bring it with: pip install "domkl[{package}]"')
        return _all(source, build(importlib.import_module, seed))

    return run


class _River:
    """Dictionaries for River."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, x: Array) -> float:
        return float(self.model.predict_one(_dictionary(x)) or 0.0)

    def learn(self, x: Array, y: float) -> None:
        self.model.learn_one(_dictionary(x), y)


def _dictionary(x: Array) -> dict[int, float]:
    return dict(enumerate(x.tolist()))


class _Scikit:
    """Random features and stochastic gradient descent, a sample at a time."""

    def __init__(self, load: Any, seed: int) -> None:
        self.sampler = load("sklearn.kernel_approximation").RBFSampler(n_components=100, random_state=seed)
        self.model, self.fitted = load("sklearn.linear_model").SGDRegressor(random_state=seed), False

    def predict(self, x: Array) -> float:
        return float(self.model.predict(self.sampler.transform(x[None]))[0]) if self.fitted else 0.0

    def learn(self, x: Array, y: float) -> None:
        if not self.fitted:
            self.sampler.fit(x[None])
        self.model.partial_fit(self.sampler.transform(x[None]), [y])
        self.fitted = True


def _linear(load: Any, seed: int) -> Model:
    return _River(load("river.linear_model").LinearRegression())


def _scaled_linear(load: Any, seed: int) -> Model:
    scaler = load("river.preprocessing").StandardScaler()
    return _River(scaler | load("river.linear_model").LinearRegression())


def _tree(load: Any, seed: int) -> Model:
    return _River(load("river.tree").HoeffdingTreeRegressor())


def _neighbours(load: Any, seed: int) -> Model:
    return _River(load("river.neighbors").KNNRegressor())


def _forest(load: Any, seed: int) -> Model:
    return _River(load("river.forest").ARFRegressor(n_models=10, seed=seed))


PEERS: dict[str, tuple[str, Callable[[Any, int], Model]]] = {
    "River LinearRegression": ("river", _linear),
    "River StandardScaler + LinearRegression": ("river", _scaled_linear),
    "River HoeffdingTreeRegressor": ("river", _tree),
    "River KNNRegressor": ("river", _neighbours),
    "River ARFRegressor(10)": ("river", _forest),
    "scikit-learn RBFSampler(100) + SGDRegressor": ("sklearn", _Scikit),
}

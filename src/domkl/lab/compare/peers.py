"""One learner of another library, River or scikit-learn, that sees everything."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, TypeAlias

from ...base.types import Array
from ..trial import Source
from .contender import Contender, Missing, Result, Run
from .lone import LoneModel, learn_all

#: Makes a model from a function that imports modules, and a seed.
Build: TypeAlias = Callable[[Any, int], LoneModel]


def contenders(seed: int) -> list[Contender]:
    """By library; one that is not installed raises `Missing` when its contender is run."""
    return [Contender(name, "all", _peer(package, build, seed)) for name, (package, build) in PEERS.items()]


def _peer(package: str, build: Build, seed: int) -> Run:
    def run(source: Source) -> Result:
        if not installed(package):
            name = "scikit-learn" if package == "sklearn" else package
            raise Missing(f'{name} is not installed; install it with: pip install "domkl[{package}]"')
        return learn_all(source, build(importlib.import_module, seed))

    return run


def installed(module: str) -> bool:
    """Whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # it was forbidden, as tests do
        return False


class RiverModel:
    """A model of River, which takes dictionaries."""

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


def _linear(load: Any, seed: int) -> LoneModel:
    return RiverModel(load("river.linear_model").LinearRegression())


def _scaled_linear(load: Any, seed: int) -> LoneModel:
    """Inputs and target scaled, as River's page of `TargetStandardScaler` has it.

    With the default optimizer it diverges: an input that hardly varied so far, such as rain, is scaled to
    hundreds when it does. `AdaGrad` divides by that. Predictions are bounded, as one that is made before an
    input ever varied may be 1e13; labels are in 0 .. 1.
    """
    scaling = load("river.preprocessing")
    linear = load("river.linear_model").LinearRegression(optimizer=load("river.optim").AdaGrad())
    bounded = scaling.PredClipper(scaling.TargetStandardScaler(linear), y_min=-1.0, y_max=2.0)
    return RiverModel(scaling.StandardScaler() | bounded)


def _tree(load: Any, seed: int) -> LoneModel:
    return RiverModel(load("river.tree").HoeffdingTreeRegressor())


def _neighbours(load: Any, seed: int) -> LoneModel:
    return RiverModel(load("river.neighbors").KNNRegressor())


def _forest(load: Any, seed: int) -> LoneModel:
    return RiverModel(load("river.forest").ARFRegressor(n_models=10, seed=seed))


PEERS: dict[str, tuple[str, Build]] = {
    "River LinearRegression": ("river", _linear),
    "River StandardScaler + LinearRegression(AdaGrad)": ("river", _scaled_linear),
    "River HoeffdingTreeRegressor": ("river", _tree),
    "River KNNRegressor": ("river", _neighbours),
    "River ARFRegressor(10)": ("river", _forest),
    "scikit-learn RBFSampler(100) + SGDRegressor": ("sklearn", _Scikit),
}

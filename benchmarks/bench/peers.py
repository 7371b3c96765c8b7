"""W2: other online learners that are installed, each called as its users call it: predict, then learn."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

from workloads import Act

from domkl.base.types import Array
from domkl.learning import kernels
from domkl.learning.first_order import Rates
from domkl.models.settings import KernelSpec, Paper

INSTALL = "pip install -r benchmarks/requirements.txt"


class BenchPeer(NamedTuple):
    """An online learner of another library."""

    name: str
    module: str  # that it needs
    make: Callable[[Array, Array], Act]  # from the stream X (n, d), y (n,)


def present() -> list[BenchPeer]:
    """Those whose package is installed."""
    return [peer for peer in ALL if installed(peer.module)]


def missing() -> list[dict[str, str]]:
    """Those whose package is not, with the line that installs it."""
    return [{"name": peer.name, "install": INSTALL} for peer in ALL if not installed(peer.module)]


def installed(module: str) -> bool:
    """Whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # it was forbidden, as tests do
        return False


def _river(model: Any, X: Array, y: Array) -> Act:
    samples = [{f"x{k}": float(v) for k, v in enumerate(row)} for row in X]
    labels = [float(label) for label in y]

    def act(i: int) -> Any:
        y_hat = model.predict_one(samples[i])
        model.learn_one(samples[i], labels[i])
        return y_hat

    return act


def facade(X: Array, y: Array) -> Act:
    """Our own model as River's users call it."""
    from domkl.river import MultiKernelRegressor

    model = Paper(kernels=KernelSpec(D=50), rates=Rates(rho=1.0, eta=4.0, eta_g=1.0))
    return _river(MultiKernelRegressor(model=model), X, y)


def linear(X: Array, y: Array) -> Act:
    from river import linear_model

    return _river(linear_model.LinearRegression(), X, y)


def tree(X: Array, y: Array) -> Act:
    from river import tree

    return _river(tree.HoeffdingTreeRegressor(), X, y)


def neighbours(X: Array, y: Array) -> Act:
    from river import neighbors

    return _river(neighbors.KNNRegressor(), X, y)


def forest(X: Array, y: Array) -> Act:
    from river import forest

    return _river(forest.ARFRegressor(n_models=10, seed=0), X, y)


def fourier(X: Array, y: Array) -> Act:
    return _river(_pipeline(1.0, 0), X, y)


def hedge(X: Array, y: Array) -> Act:
    """The same class of model as ours: Hedge over 17 linear models in random features."""
    from river import ensemble

    models = [_pipeline(1 / (2 * sigma2), p) for p, sigma2 in enumerate(kernels.PAPER_SIGMA2)]
    return _river(ensemble.EWARegressor(models), X, y)


def _pipeline(gamma: float, seed: int) -> Any:
    from river import feature_extraction, linear_model, optim

    sampler = feature_extraction.RBFSampler(gamma=gamma, n_components=100, seed=seed)
    # River's features have a squared length of about 50: with its default step of 0.01 it diverges.
    return sampler | linear_model.LinearRegression(optimizer=optim.SGD(0.001))


def scikit(X: Array, y: Array) -> Act:
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDRegressor

    sampler, model = RBFSampler(n_components=100, random_state=0).fit(X[:1]), SGDRegressor(random_state=0)
    samples, labels = [X[i : i + 1] for i in range(len(X))], [y[i : i + 1] for i in range(len(y))]
    model.partial_fit(sampler.transform(samples[0]), labels[0])

    def act(i: int) -> Any:
        z = sampler.transform(samples[i])
        y_hat = model.predict(z)
        model.partial_fit(z, labels[i])
        return y_hat

    return act


def vowpal(X: Array, y: Array) -> Act:
    from vowpalwabbit import Workspace

    model = Workspace("--quiet")
    questions = ["| " + " ".join(f"x{k}:{v:.6f}" for k, v in enumerate(row)) for row in X]
    answers = [f"{label:.6f} {text}" for label, text in zip(y, questions, strict=True)]

    def act(i: int) -> Any:
        y_hat = model.predict(questions[i])
        model.learn(answers[i])
        return y_hat

    return act


ALL = (
    BenchPeer("domkl.river, 17 kernels, dictionaries", "river", facade),
    BenchPeer("River LinearRegression", "river", linear),
    BenchPeer("River HoeffdingTreeRegressor", "river", tree),
    BenchPeer("River KNNRegressor", "river", neighbours),
    BenchPeer("River ARFRegressor(10)", "river", forest),
    BenchPeer("River RBFSampler(100) + LinearRegression", "river", fourier),
    BenchPeer("River Hedge over 17 of those", "river", hedge),
    BenchPeer("scikit-learn RBFSampler(100) + SGDRegressor", "sklearn", scikit),
    BenchPeer("Vowpal Wabbit, linear", "vowpalwabbit", vowpal),
)

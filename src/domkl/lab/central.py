"""OMKL, the centralised comparator: all samples in one stream, gradient descent for each kernel, Hedge."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..exchange.graph import LONE
from ..learning import first_order, hedge, losses
from ..learning import kernels as kernel_dictionaries
from ..learning.first_order import Rates
from ..learning.losses import Loss


@dataclass(frozen=True)
class CentralRun:
    """What `omkl` gives back: N samples, P kernels."""

    y_hat: Array  # (N,)
    mse: float
    theta: Array  # (P, 2D)
    L: Array  # (P,)
    q: Array  # (P,)
    kernel_mse: Array  # (P,)


def omkl(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    kernels: npt.ArrayLike | None = None,
    mu: float | None = None,
    eta_g: float | None = None,
    loss: str | Loss = "squared",
    delay: int = 0,
    engine: str = "auto",
) -> CentralRun:
    """Online multiple kernel learning in one place, on a stream of N samples.

    Parameters
    ----------
    X, y : the stream, (N, d) and (N,).
    kernels : frequencies V (P, D, d); the paper's 17 Gaussian kernels with D = 50 by default.
    mu : step size of the gradient descent; 1/sqrt(N) by default.
    eta_g : temperature of Hedge; sqrt(N) by default.
    loss : as in `domkl.Paper`.
    delay : a label becomes known this many samples after its prediction, and is learnt then.
    engine : "auto", "native" or "numpy", as in `domkl.simulate`.

    Examples
    --------
    >>> import domkl, numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> run = domkl.omkl(X, X[:, 0] * X[:, 1], mu=0.5)
    >>> bool(run.mse < 0.5 * (X[:, 0] * X[:, 1]).var())
    True
    """
    V, X, y = _prepare(X, y, kernels)
    loss = losses.get(loss)
    y, N = losses.labels(loss, y), len(y)
    mu = checks.positive("mu", 1 / math.sqrt(N) if mu is None else mu)
    eta_g = checks.positive("eta_g", math.sqrt(N) if eta_g is None else eta_g)
    delay = checks.count("delay", delay, least=0)
    run = _native if engines.chosen(engine) == "native" else _arrays
    return run(V, X, y, mu, eta_g, loss, delay)


def _native(V: Array, X: Array, y: Array, mu: float, eta_g: float, loss: Loss, delay: int) -> CentralRun:
    """A network of one learner whose local step is plain gradient descent."""
    from ..engines.native import NativeEngine

    setting = engines.Setting(V, LONE, Rates(1.0, 1.0, eta_g), loss, "local", delay)
    engine = NativeEngine(setting, mu=mu)
    blocks = range(0, len(y), engine.most_rounds)
    parts = [engine.advance(X[None, t : t + blocks.step], y[None, t : t + blocks.step]) for t in blocks]
    mse, kernel_mse = engine.sums.squares[0] / len(y), engine.sums.kernel_squares[0] / len(y)
    y_hat, theta = np.concatenate(parts, axis=1)[0], engine.state()[0][0]
    return CentralRun(y_hat, float(mse), theta, engine.L[0], engine.q[0], kernel_mse)


def _arrays(V: Array, X: Array, y: Array, mu: float, eta_g: float, loss: Loss, delay: int) -> CentralRun:
    N = len(y)
    state, y_hat, squares = first_order.init(V), np.empty(N), np.zeros(len(V))
    unlabelled: deque[Array] = deque()  # features that wait for their labels
    for t in range(N):
        z = first_order.features(V, X[t])
        f, y_hat[t] = first_order.predict(state, z)
        squares += (f - y[t]) ** 2
        unlabelled.append(z)
        if t >= delay:
            state = _descend(state, unlabelled.popleft(), y[t - delay], mu, eta_g, loss)
    mse = float(np.mean((y_hat - y) ** 2))
    return CentralRun(y_hat, mse, state.theta, state.L, state.q, squares / N)


def _descend(
    state: first_order.State, z: Array, y: Array, mu: float, eta_g: float, loss: Loss
) -> first_order.State:
    f = first_order.predict(state, z)[0]
    L = state.L + loss.value(f, y)
    gradient = loss.slope(f, y)[..., None] * z
    if loss.reg:
        L = L + loss.reg * first_order.dot(state.theta, state.theta)
        gradient += 2 * loss.reg * state.theta
    return state._replace(theta=state.theta - mu * gradient, L=L, q=hedge.weights(L, eta_g))


def _prepare(X: npt.ArrayLike, y: npt.ArrayLike, V: npt.ArrayLike | None) -> tuple[Array, Array, Array]:
    X, y = checks.floats("X", X), checks.floats("y", y)
    if X.ndim != 2 or 0 in X.shape:
        raise InputError(f"X has shape {X.shape}; expected (N, d): samples, features; use X.reshape(-1, d)")
    checks.shape("y", y, X.shape[:1], "give one label for each sample of X")
    checks.finite("X", X), checks.finite("y", y)
    V = kernel_dictionaries.gaussian(X.shape[1]) if V is None else V
    return kernel_dictionaries.check(V, X.shape[1]), X, y

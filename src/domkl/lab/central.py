"""Learners that see all samples in one stream, to compare with: OMKL; AdaRaker and VAW of other authors."""

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

    setting = engines.Setting(V, LONE, engines.Algorithm(Rates(1.0, 1.0, eta_g), loss, "local"), delay)
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


# What others have proposed, on the random features of our kernels


class AdaRaker:
    """One OMKL for each length 2^k, reset at every multiple of it: short ones follow changes.

    It steps, weighs its kernels and is itself weighed at the rate min(1/2, eta 2^(-k/2)).

    Parameters
    ----------
    V : frequencies (P, D, d).
    eta : the rate, for labels within [0, 1]. Those just reset know nothing but get their initial weight;
        at eta = 1 the others outweigh them so slowly that OMKL is better even after a change.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl import kernels
    >>> from domkl.lab.central import AdaRaker
    >>> model = AdaRaker(kernels.gaussian(1, D=20, sigma2=[0.1, 1.0]))
    >>> for x in np.random.default_rng(0).uniform(size=(200, 1)):
    ...     model.learn(x, float(np.sin(3 * x[0])))
    >>> bool(abs(model.predict(np.array([0.5])) - np.sin(1.5)) < 0.1)
    True
    """

    def __init__(self, V: Array, eta: float = 10.0) -> None:
        P, D, _ = V.shape
        self.V, self.eta, self.samples = V, eta, 0
        self.rate, self.log_w = np.empty(0), np.empty(0)  # of each length (K,)
        self.theta, self.L = np.empty((0, P, 2 * D)), np.empty((0, P))
        self._restart()

    def predict(self, x: Array) -> float:
        """The weighted prediction of all at x."""
        guesses = self._guesses(first_order.features(self.V, x))[1]
        return float(guesses @ hedge.weights(-self.log_w, 1.0))

    def learn(self, x: Array, y: float) -> None:
        """A step of all; those whose interval is over are reset."""
        z = first_order.features(self.V, x)
        f, guesses = self._guesses(z)
        together = float(guesses @ hedge.weights(-self.log_w, 1.0))
        self.log_w -= self.rate * ((guesses - y) ** 2 - (together - y) ** 2)
        self.L += (f - y) ** 2
        self.theta -= (2 * self.rate[:, None] * (f - y))[..., None] * z
        self.samples += 1
        self._restart()

    def _guesses(self, z: Array) -> tuple[Array, Array]:
        """Predictions of every kernel (K, P), and of every learner (K,)."""
        f = first_order.dot(self.theta, z)
        return f, first_order.dot(f, hedge.weights(self.L * self.rate[:, None], 1.0))

    def _restart(self) -> None:
        """Reset all whose length divides the next sample's number, and add the first of a new length."""
        begins = self.samples + 1
        if begins & (begins - 1) == 0:
            self._lengthen(begins)
        due = (begins & -begins).bit_length()  # how many powers of two divide it
        self.theta[:due], self.L[:due] = 0.0, 0.0
        self.log_w[:due] = np.log(self.rate[:due])

    def _lengthen(self, length: int) -> None:
        _, P, n = self.theta.shape
        self.rate = np.append(self.rate, min(0.5, self.eta / length**0.5))
        self.log_w = np.append(self.log_w, 0.0)
        self.theta = np.concatenate([self.theta, np.zeros((1, P, n))])
        self.L = np.concatenate([self.L, np.zeros((1, P))])


class Vaw:
    """The forward algorithm: the sample to predict counts in the covariance before its label is known.

    Parameters
    ----------
    V : frequencies (P, D, d).
    reg : ridge penalty.
    eta_g : Hedge's temperature, for labels within [0, 1]; both as domkl's second-order step has them here.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl import kernels
    >>> from domkl.lab.central import Vaw
    >>> model = Vaw(kernels.gaussian(1, D=20, sigma2=[0.1, 1.0]))
    >>> for x in np.random.default_rng(0).uniform(size=(200, 1)):
    ...     model.learn(x, float(np.sin(3 * x[0])))
    >>> bool(abs(model.predict(np.array([0.5])) - np.sin(1.5)) < 0.05)
    True
    """

    def __init__(self, V: Array, reg: float = 0.01, eta_g: float = 0.1) -> None:
        P, D, _ = V.shape
        self.V, self.eta_g = V, eta_g
        self.inverse = np.tile(np.eye(2 * D) / reg, (P, 1, 1))  # of reg I + sum z z'
        self.b, self.L = np.zeros((P, 2 * D)), np.zeros(P)

    def predict(self, x: Array) -> float:
        """The weighted prediction of the kernels at x."""
        guesses = self._guesses(*self._look(x))
        return float(guesses @ hedge.weights(self.L, self.eta_g))

    def learn(self, x: Array, y: float) -> None:
        """Learn the label of x: the Sherman-Morrison update of each kernel's inverse."""
        z, Az = self._look(x)
        self.L = self.L + (self._guesses(z, Az) - y) ** 2
        long = 1 + first_order.dot(z, Az)
        self.inverse -= Az[:, :, None] * (Az / long[:, None])[:, None, :]
        self.b += y * z

    def _look(self, x: Array) -> tuple[Array, Array]:
        z = first_order.features(self.V, x)
        return z, np.matmul(self.inverse, z[..., None])[..., 0]

    def _guesses(self, z: Array, Az: Array) -> Array:
        """z' (A + z z')^-1 b for each kernel. (P,)"""
        return np.asarray(first_order.dot(Az, self.b) / (1 + first_order.dot(z, Az)))

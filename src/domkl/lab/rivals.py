"""Online learners that others have proposed, on the random features of our kernels: AdaRaker and VAW."""

from __future__ import annotations

import numpy as np

from ..base.types import Array
from ..learning import first_order, hedge


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
    >>> from domkl.lab.rivals import AdaRaker
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
    >>> from domkl.lab.rivals import Vaw
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

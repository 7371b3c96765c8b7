"""Vovk-Azoury-Warmuth ridge regression on random features, one for each kernel, mixed by Hedge."""

from __future__ import annotations

import numpy as np

from ...base.types import Array
from ...learning import first_order, hedge


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
    >>> from domkl.lab.compare.vaw import Vaw
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

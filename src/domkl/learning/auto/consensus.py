"""Consensus: one matrix a device, from which the common function and two of its own are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.types import Array
from ..fields import Concept, field
from ..model import Pull
from .algebra import Inverse, at, dot, ridge_inverse


class Solved(NamedTuple):
    """What one pass over Q gave for a sample."""

    z: Array  # (J, K)
    u: Array  # (J, K) Q z
    theta: Array  # (J, m, K) Q (M + side): the next theta, but for this sample
    own: Array  # (J, m, K) Q (M + rho w own): the next own, but for this sample


class Consensus(Concept):
    """Online ADMM over all past samples of each device.

    With Q = (sum h z z' + tau I)^-1 and M = sum h y z of the own samples, tau = eta / (degree + 1) + rho w,
    w the weights of the device's edges in sum:

        theta  = Q (M + rho/2 (w theta + sum w_i theta_i) - lam)     sent to the neighbours
        lam   += rho/2 sum w_i (theta - theta_i)                     which sum to zero over a network
        alone  = Q M                                                 own samples only
        own   <- Q (M + rho w own)                        own samples, towards the ridge eta / (degree + 1)

    After each step the device predicts with `common`, the mean of its neighbours' theta. A device without
    neighbours has w = 1 and counts as its own neighbour. `inverse` makes the matrices.

    Examples
    --------
    A device without neighbours fits its own samples.

    >>> import numpy as np
    >>> from domkl.learning.auto.consensus import Consensus
    >>> model = Consensus(weight=np.zeros(1), degree=np.zeros(1), m=1, K=2)
    >>> for x in np.linspace(-1, 1, 50):
    ...     z = np.array([[1.0, x]])
    ...     _ = model.learn(model.solve(z), np.array([[3 * x]]), h=np.array([2.0]))
    >>> (model.alone.round(1) + 0).tolist()
    [[[0.0, 3.0]]]
    """

    rho: float = 0.4  # how hard neighbours pull at each other
    eta: float = 0.01  # the ridge of a device without neighbours

    moment: Array = field("J m K", "model")  # M
    alone: Array = field("J m K", "model")
    own: Array = field("J m K", "model")
    theta: Array = field("J m K", "model")
    lam: Array = field("J m K", "model")
    common: Array = field("J m K", "model")  # mean of the neighbours' theta, which predicts
    side: Array = field("J m K", "model")  # what is added to M in the next step
    weight: Array = field("J", low=0.0, high=1e6)  # of all edges of a device
    degree: Array = field("J", low=0.0)  # their number
    restarts: npt.NDArray[Any] = field("J", "int64", low=0)  # how often samples were learnt again
    tau: Array = field("J", "model", low=0.0, high=1e6)

    def __init__(
        self,
        weight: Array,
        degree: Array,
        m: int,
        K: int,
        dtype: Any = np.float64,
        inverse: Callable[[int, int, Any], Inverse] = Inverse,
        **chosen: float,
    ) -> None:
        self.choose(chosen)
        self.allocate(dtype, J=len(weight), m=m, K=K)
        self.Q = inverse(len(weight), K, dtype)
        self.begin(weight, degree)

    def begin(self, weight: Array, degree: Array) -> None:
        """Edges have these weights (J,), and no sample was learnt."""
        self._weigh(weight, degree)
        self.Q.begin(self.tau)

    def _weigh(self, weight: Array, degree: Array) -> None:
        self.degree[:], self.weight[:] = degree, np.where(degree > 0, weight, 1.0)
        self.tau[:] = self.eta / (degree + 1) + self.rho * self.weight

    def solve(self, z: Array) -> Solved:
        """One pass over Q for a sample. (J, K)"""
        found = self._pass([z[:, None]])
        m = self.sizes["m"]
        return Solved(z, found[:, 0], found[:, 1 : 1 + m], found[:, 1 + m :])

    def rest(self) -> None:
        """The step of a round without a sample: what neighbours sent is taken into account, and no more."""
        found, m = self._pass([]), self.sizes["m"]
        self.theta, self.own = found[:, :m], found[:, m:]

    def _pass(self, first: list[Array]) -> Array:
        """Q times these columns (J, n, K), times M + side and times what makes the next own function."""
        rest = at((self.rho * self.weight).astype(self.dtype), self.own) * self.own
        right = np.concatenate([*first, self.moment + self.side, self.moment + rest], 1)  # (J, n + 2m, K)
        found = self.Q.times(np.ascontiguousarray(right.swapaxes(1, 2)))
        return np.ascontiguousarray(found.swapaxes(1, 2))

    def predict(self, z: Array) -> tuple[Array, Array, Array]:
        """What the common, the alone and the own function say of features (J, K). (J, m) each"""
        z = z[:, None]
        return dot(z, self.common), dot(z, self.alone), dot(z, self.own)

    def functions(self, row: int) -> Array:
        """The parameters of what `predict` gives, of one row. (m, 3, K)"""
        return np.stack([self.common[row], self.alone[row], self.own[row]], 1).astype(np.float64)

    def learn(self, solved: Solved, y: Array, h: Array) -> Array:
        """Take a sample of weight h (J,) into Q and M: its targets (J, m), where one is missing (NaN) what
        the alone function says. Returns the new theta. (J, m, K)"""
        z, u = solved.z, solved.u
        alone, h = dot(z[:, None], self.alone), h.astype(self.dtype)
        y = np.where(np.isnan(y), alone, y).astype(self.dtype)
        hy = at(h, y) * y
        rise = 1 + h * dot(z, u)
        gain = at(h / rise, y)
        self.alone = self.alone + (gain * (y - alone))[..., None] * u[:, None]
        self.theta = self._corrected(solved.theta, z, u, hy, gain)
        self.own = self._corrected(solved.own, z, u, hy, gain)
        self.moment = self.moment + hy[..., None] * z[:, None]
        self.Q.lower(u * np.sqrt(h / rise)[:, None])
        return self.theta

    @staticmethod
    def _corrected(before: Array, z: Array, u: Array, hy: Array, gain: Array) -> Array:
        """(Q - g u u') (b + hy z) from Q b. (J, m, K)"""
        with_y = before + hy[..., None] * u[:, None]
        return np.asarray(with_y - (gain * dot(z[:, None], with_y))[..., None] * u[:, None])

    def merge(self, pull: Pull) -> None:
        """End the round with what neighbours sent."""
        half, kind = self.rho / 2, self.dtype
        is_linked = at((pull.weight > 0).astype(kind), self.theta) > 0  # others pull themselves
        weight = at(np.where(pull.weight > 0, pull.weight, self.weight).astype(kind), self.theta)
        moving = at(pull.moving.astype(kind), self.theta)
        moved = moving * self.theta - pull.moved.astype(kind)
        self.lam = self.lam + (half * moved).astype(kind)
        near = np.where(is_linked, pull.near, weight * self.theta).astype(kind)
        self.side = (half * (weight * self.theta + near)).astype(kind) - self.lam
        self.common = pull.mean.astype(kind)

    def take_back(self, moves: Array) -> None:
        """Take moves of edges' duals out of lam. (J, m, K)"""
        back = (self.rho / 2 * moves).astype(self.dtype)
        self.lam -= back
        self.side += back

    def rebuild(self, row: int, Z: Array, y: Array, h: float) -> Array:
        """Let a row learn these samples only, (n, K) and (n, m), as if its neighbours had learnt the same;
        returns its leave-one-out errors. (n, m)"""
        Z = Z.astype(np.float64)
        Q = ridge_inverse(Z, h, float(self.tau[row]))
        M = h * (y.T @ Z)
        alone = M @ Q
        self.Q.put(row, Q)
        self.moment[row], self.lam[row] = M, 0
        self.alone[row] = self.own[row] = self.theta[row] = self.common[row] = alone
        self.side[row] = float(self.rho * self.weight[row]) * self.theta[row]
        self.restarts[row] += 1
        slack = np.maximum(1 - h * dot(Z @ Q, Z), 1e-3)
        return np.asarray((y - Z @ alone.T) / slack[:, None])

    def adopt(self, theta: Array) -> None:
        """Go on from other parameters (J, m, K), as if the neighbours had sent them too."""
        pull = at((self.rho * self.weight).astype(self.dtype), theta)
        self.theta[:] = self.common[:] = theta
        self.side[:] = pull * self.theta - self.lam

    def prove(self) -> None:
        """Refuse a Q of a file that samples cannot have made, or whose ridge is not that of the edges."""
        ridge = self.eta / (self.degree + 1) + self.rho * self.weight
        if not np.allclose(self.tau, ridge, rtol=1e-4, atol=0):
            raise InputError("Consensus.tau is not that of its edges; expected it to be; take another file")
        self.Q.prove(self.tau)

    def reweigh(self, weight: Array, degree: Array) -> None:
        """Edges have other weights (J,) from now on: Q changes exactly, nothing is forgotten.

        Who came or went pulls the next step to where the device is.
        """
        before, pull = self.tau.copy(), self.weight.copy()
        self._weigh(weight, degree)
        more = (self.rho * (self.weight - pull)).astype(self.dtype)
        self.side += at(more, self.theta) * self.theta
        for j in np.flatnonzero(before != self.tau).tolist():
            Q = np.linalg.inv(self.Q.whole(j).astype(np.float64))
            Q[np.diag_indices(len(Q))] += float(self.tau[j]) - float(before[j])
            self.Q.put(j, np.asarray(np.linalg.inv(Q)))
            self.alone[j] = self.moment[j] @ self.Q.whole(j)

"""One round of DOMKL as pure functions (Algorithm 2 of the paper; DOKL is P = 1).

A round is `local -> exchange -> merge`, and only the exchange differs between a simulator (sums over
an adjacency) and a device (sums over its inbox). Shapes: `...` is () on a device and (J,) in the
simulator; P kernels, D random features each, d inputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base import checks
from ..base.types import Array
from . import hedge
from .losses import Loss

if TYPE_CHECKING:
    from .second_order import SecondOrderState


@dataclass(frozen=True)
class Rates:
    """Rates of the paper's algorithm: penalty, step size and temperature.

    Parameters
    ----------
    rho : penalty that pulls towards the neighbours (ρ).
    eta : pull towards the last estimate (η); 1/eta is the step size.
    eta_g : temperature of Hedge (η_g); smaller drops a bad kernel sooner.
    """

    rho: float
    eta: float
    eta_g: float

    def __post_init__(self) -> None:
        for name in ("rho", "eta", "eta_g"):
            object.__setattr__(self, name, checks.positive(name, getattr(self, name)))

    @classmethod
    def paper(cls, T: int, kappa: float = 1.0, kappa_g: float = 1.0) -> Rates:
        """rho = eta = kappa sqrt(T) and eta_g = kappa_g sqrt(T) for a horizon of T rounds.

        With both factors 1 this is the paper's printed choice; smaller ones learn faster.

        >>> from domkl import Rates
        >>> Rates.paper(2500)
        Rates(rho=50.0, eta=50.0, eta_g=50.0)
        """
        root = math.sqrt(checks.count("T", T))
        return cls(rho=kappa * root, eta=kappa * root, eta_g=kappa_g * root)


#: The local steps: the paper's, and that of `second_order`.
STEPS = ("first", "newton")


class State(NamedTuple):
    """Complete state of a learner between two rounds."""

    theta: Array  # (..., P, 2D) the estimates
    lam: Array  # (..., P, 2D) duals; over the whole network they sum to zero
    theta_sum: Array  # (..., P, 2D) sum of the neighbours' theta
    L: Array  # (..., P) own cumulative losses
    q: Array  # (..., P) kernel weights, sum to 1


class Step(NamedTuple):
    """What happened to one learner in one round."""

    t: int
    j: object  # the learner's name
    y: Any  # a number, or one for each of several targets (m,)
    y_hat: Any  # predicted before y was learnt
    q: Array  # (P,) the weights that made the prediction
    #: Predicted from own samples only when the sample was new; None for models that cannot tell.
    alone: Any = None


def init(V: Array, leading: tuple[int, ...] = ()) -> State:
    """The state before the first round: zero estimates, equal weights."""
    P, D, _ = V.shape
    zeros = np.zeros((*leading, P, 2 * D), V.dtype)
    return State(
        zeros, zeros, zeros, np.zeros((*leading, P), V.dtype), np.full((*leading, P), 1 / P, V.dtype)
    )


def features(V: Array, x: Array) -> Array:
    """z_p(x) = [sin V_p x, cos V_p x] / sqrt(D), of length exactly 1. (..., d) -> (..., P, 2D)"""
    P, D, d = V.shape
    # One vector-matrix product for each learner, never one matrix product for all of them, and always on
    # contiguous inputs: so the bits of a learner's features depend on its sample alone.
    angle = np.matmul(np.ascontiguousarray(x)[..., None, :], V.reshape(P * D, d).T).reshape(
        *x.shape[:-1], P, D
    )
    angle *= 0.5
    t = np.tan(angle, out=angle)
    # sin a = 2t/(1 + t^2) and cos a = 2/(1 + t^2) - 1 with t = tan(a/2): one expensive function, not two.
    w = t * t
    w += 1
    np.divide(2 / math.sqrt(D), w, out=w)
    z = np.empty((*t.shape[:-1], 2 * D), V.dtype)
    np.multiply(t, w, out=z[..., :D])
    np.subtract(w, 1 / math.sqrt(D), out=z[..., D:])
    return z


def dot(a: Array, b: Array) -> Array:
    """Inner products over the last axis. (..., K), (..., K) -> (...)"""
    return np.asarray(np.matmul(a[..., None, :], b[..., None])[..., 0, 0])


def predict(state: State | SecondOrderState, z: Array) -> tuple[Array, Array]:
    """Each kernel's prediction f_p = theta_p . z_p, and their mixture y_hat. -> (..., P), (...)"""
    f = dot(state.theta, z)
    return f, dot(state.q, f)


class Pulls(NamedTuple):
    """Coefficients of the local step, from a learner's degree, rates and loss."""

    deg: Array  # (...) number of neighbours
    c: Array  # (..., 1, 1) of |v|^2 / 2 in the local problem
    own: Array  # (..., 1, 1) of the learner's own last estimate
    neighbours: float  # of the sum of the neighbours' last estimates

    @classmethod
    def of(cls, deg: Array, rates: Rates, loss: Loss) -> Pulls:
        n = deg[..., None, None]
        c = rates.eta + rates.rho * n + 2 * loss.reg
        return cls(deg, c, rates.eta + rates.rho / 2 * n, rates.rho / 2)


def local(state: State, z: Array, f: Array, y: Array, pulls: Pulls, loss: Loss) -> tuple[Array, Array]:
    """The local step: OADMM on this datum (eq. theta-update), and the losses of the old estimates.

    Returns theta' (..., P, 2D) and L' (..., P), which is what the neighbours receive.
    """
    b = state.theta * pulls.own  # (..., P, 2D)
    b += pulls.neighbours * state.theta_sum
    b -= state.lam
    y = y[..., None]
    a = loss.prox_slope(dot(z, b), pulls.c[..., 0], y)
    b -= a[..., None] * z
    b /= pulls.c
    losses = loss.value(f, y)
    if loss.reg:
        losses = losses + loss.reg * dot(state.theta, state.theta)
    return b, state.L + losses


def dual(lam: Array, theta: Array, n: Array, theta_sum: Array, half_rho: float) -> Array:
    """The dual step (eq. lambda-update): lam' = lam + rho/2 (n theta' - sum of n neighbours' theta')."""
    moved = theta * n[..., None, None]
    moved -= theta_sum
    moved *= half_rho
    moved += lam
    return moved


def merge(
    state: State,
    theta: Array,
    L: Array,
    theta_sum: Array,
    total: Array,
    pulls: Pulls,
    rates: Rates,
    arrived: tuple[Array, Array] | None = None,
) -> State:
    """Close the round with the neighbours' messages: dual step and kernel weights.

    `total` (..., P) are the losses that the Hedge rule counts. `arrived`, where some messages are missing,
    is the number of the others and their sum: only the duals of their edges move.
    """
    n, present = (pulls.deg, theta_sum) if arrived is None else arrived
    lam = dual(state.lam, theta, n, present, pulls.neighbours)
    return State(theta, lam, theta_sum, L, hedge.weights(total, rates.eta_g))

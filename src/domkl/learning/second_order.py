"""The second-order local step: the local problem holds every past loss, not only the last.

A learner minimises, for each kernel by itself,

    sum over its samples of g(v.z, y) + eta/2 |v|^2 + lam.v + rho/2 sum over i of |v - (theta + theta_i)/2|^2,

each g replaced by a parabola that touches it at the prediction and lies above it everywhere. With its
curvature h and its slope k y at zero this is a matrix and a vector that grow by rank one,

    M' = M + h z z^T,  m' = m + k y z,  theta' = M'^-1 (m' + rho (deg theta + theta_sum)/2 - lam),

and M starts at (eta + rho deg + 2 reg) I. The squared loss is its own parabola, h = k = 2: nothing is
approximated. Messages, merge and Hedge are those of `first_order`, and so are the shapes, with K = 2D.

`deg` and `theta_sum` may be weighted sums over neighbours, if both ends of an edge give it the same weight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..base.types import Array
from . import first_order, hedge
from .first_order import Rates
from .losses import Loss

#: Rank-one terms that are collected before they are subtracted from the stored matrix at once.
WAITING = 32


class Inverse:
    """P = M^-1 of every kernel, symmetric to the last bit, after terms h z z^T were added to M.

    It is stored as base - sum of u u^T with at most `WAITING` vectors u: the matrix is read once a round and
    written once in `WAITING` rounds, by a product U U^T that is symmetric by construction.
    """

    def __init__(self, base: Array) -> None:
        self.base = base  # (..., K, K)
        self.waiting = np.zeros((*base.shape[:-1], WAITING), base.dtype)  # (..., K, WAITING)
        self.used = 0

    @classmethod
    def diagonal(cls, c: Array, K: int) -> Inverse:
        """Inverse of M = c I. c (...,)"""
        return cls(np.eye(K, dtype=c.dtype) / c[..., None, None])

    def times(self, *vectors: Array) -> tuple[Array, ...]:
        """P v of two or three vectors v, in one pass over the matrix. (..., K)"""
        B = np.stack(vectors, -1)
        out: Array = np.matmul(self.base, B)
        if self.used:
            U = self.waiting[..., : self.used]
            out -= np.matmul(U, np.matmul(np.swapaxes(U, -1, -2), B))
        return tuple(np.moveaxis(out, -1, 0))

    def lower(self, u: Array) -> None:
        """P' = P - u u^T. (..., K)"""
        self.waiting[..., self.used] = u
        self.used += 1
        if self.used == WAITING:
            self.settle()

    def settle(self) -> Array:
        """P as one matrix. (..., K, K)"""
        if self.used:
            U = self.waiting[..., : self.used]
            # NumPy gives A A^T of one array to BLAS's syrk, which writes one half and mirrors it.
            U = np.ascontiguousarray(U)
            self.base -= np.matmul(U, np.swapaxes(U, -1, -2))
            self.used = 0
        return self.base

    def whole(self) -> Array:
        """The same without writing it down: its bits as it goes on stay as they are."""
        U = self.waiting[..., : self.used]
        return np.asarray(self.base - np.matmul(U, np.swapaxes(U, -1, -2)))

    def halves(self) -> tuple[Array, Array]:
        """Copies of base at and below the diagonal, row by row, and of the collected terms (..., n, K)."""
        rows, columns = np.tril_indices(self.base.shape[-1])
        return self.base[..., rows, columns], np.swapaxes(self.waiting[..., : self.used], -1, -2).copy()

    @classmethod
    def of_halves(cls, half: Array, terms: Array) -> Inverse:
        """Inverse of `halves`, to the last bit."""
        K = terms.shape[-1]
        base = np.empty((*half.shape[:-1], K, K), half.dtype)
        rows, columns = np.tril_indices(K)
        base[..., rows, columns] = base[..., columns, rows] = half
        made = cls(base)
        for n in range(terms.shape[-2]):
            made.lower(terms[..., n, :])
        return made


class SecondOrderState(NamedTuple):
    """Complete state of a second-order learner between two rounds."""

    theta: Array  # (..., P, K) the first five as in first_order.State
    lam: Array  # (..., P, K)
    theta_sum: Array  # (..., P, K)
    L: Array  # (..., P)
    q: Array  # (..., P)
    m: Array  # (..., P, K)
    inverse: Inverse  # of M, (..., P, K, K); it is updated in place, as a copy would double the cost


class SecondOrderPulls(NamedTuple):
    """Coefficients of the local step, from a learner's (weighted) degree, rates and loss."""

    deg: Array  # (...)
    c: Array  # (..., 1) what M starts with, and never falls below
    neighbours: float  # rho / 2

    @classmethod
    def of(cls, deg: Array, rates: Rates, loss: Loss) -> SecondOrderPulls:
        return cls(deg, (rates.eta + rates.rho * deg + 2 * loss.reg)[..., None], rates.rho / 2)


def init(P: int, K: int, pulls: SecondOrderPulls) -> SecondOrderState:
    """The state before the first round: zero estimates, equal weights."""
    leading, dtype = pulls.deg.shape, pulls.c.dtype
    zeros = np.zeros((*leading, P, K), dtype)
    c = np.broadcast_to(pulls.c, (*leading, P))
    q = np.full((*leading, P), 1 / P, dtype)
    return SecondOrderState(zeros, zeros, zeros, np.zeros_like(q), q, zeros, Inverse.diagonal(c, K))


def parabola(loss: Loss, s: Array, y: Array) -> tuple[Array, Array]:
    """h and k of the parabola h/2 v^2 - k y v that touches the loss at s and lies above it everywhere.

    Squared: 2, 2. Huber: both shrink as the residual grows. Logistic: tanh(s/2)/(2 s), 1/2 (the bound of
    Jaakkola and Jordan), at most 1/4; the true curvature is smaller, and would overshoot.
    """
    if loss.name == "logistic":
        safe = np.where(np.abs(s) < 1e-4, 1, s)
        h = np.where(np.abs(s) < 1e-4, 0.25, np.tanh(safe / 2) / (2 * safe))
        return h.astype(s.dtype), np.full_like(s, 0.5)
    h = np.full_like(s, 2)
    if loss.name == "huber":
        h = h * (loss.delta / np.maximum(np.abs(s - y), loss.delta))
    return h, h


class Learnt(NamedTuple):
    """What a local step found; nothing has changed yet."""

    theta: Array  # (..., P, K) and the next are what the neighbours receive
    L: Array  # (..., P)
    m: Array  # (..., P, K)
    u: Array  # (..., P, K) what the inverse is lowered by

    @property
    def is_finite(self) -> bool:
        """Whether the sample can be learnt."""
        return bool(all(np.isfinite(part).all() for part in (self.theta, self.L, self.u)))


def local(
    state: SecondOrderState, z: Array, f: Array, y: Array, pulls: SecondOrderPulls, loss: Loss
) -> Learnt:
    """The local step."""
    y = y[..., None]
    h, k = parabola(loss, f, y)
    L, m = state.L + loss.value(f, y), state.m + (k * y)[..., None] * z
    b = state.theta * pulls.deg[..., None, None]
    b += state.theta_sum
    b *= pulls.neighbours
    b += m
    b -= state.lam
    g, theta = state.inverse.times(z, b)
    u = g * np.sqrt(h / (1 + h * first_order.dot(z, g)))[..., None]
    theta = theta - u * first_order.dot(u, b)[..., None]  # Sherman and Morrison's formula
    return Learnt(theta, L, m, u)


def merge(
    state: SecondOrderState,
    learnt: Learnt,
    theta_sum: Array,
    total: Array,
    pulls: SecondOrderPulls,
    eta_g: float,
) -> SecondOrderState:
    """Close the round with the neighbours' messages: dual step and kernel weights.

    The inverse changes in place, unless what was learnt is not finite.
    """
    if learnt.is_finite:
        state.inverse.lower(learnt.u)
    lam = first_order.dual(state.lam, learnt.theta, pulls.deg, theta_sum, pulls.neighbours)
    q = hedge.weights(total, eta_g)
    return SecondOrderState(learnt.theta, lam, theta_sum, learnt.L, q, learnt.m, state.inverse)


def shift(inverse: Inverse, c: float, by: float) -> Inverse:
    """Inverse of M + by I, where M >= c I and c + by > 0. O(K^3) a kernel.

    M changes like this with the degree, and where a model is divided over several learners.
    """
    P = inverse.settle()
    w, Q = np.linalg.eigh(P.astype(np.float64))
    w = np.clip(w, 0, 1 / c)  # its exact range, which rounding may leave
    R = Q * np.sqrt(w / (1 + by * w))[..., None, :]
    return Inverse(np.matmul(R, np.swapaxes(R, -1, -2)).astype(P.dtype))

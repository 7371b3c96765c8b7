"""Products row by row, in an order that does not depend on how many rows there are.

One device and a network of many then compute the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from ..fields import Concept, field


def dot(a: Array, b: Array) -> Array:
    """Sum of a * b over the last axis. (..., K), (..., K) -> (...)"""
    return np.asarray(np.matmul(a[..., None, :], b[..., :, None])[..., 0, 0])


def times(values: Array, matrix: Array) -> Array:
    """Each row of values (..., n) times one matrix (n, k). -> (..., k)"""
    return np.asarray(np.matmul(values[..., None, :], matrix)[..., 0, :])


def mean(values: Array) -> Array:
    """Over the last axis; for a few values far quicker than `values.mean(-1)`."""
    return np.asarray(np.add.reduce(values, -1) / values.shape[-1])


def mean_known(values: Array) -> Array:
    """Over the last axis, of what is not NaN; -1 where nothing is known."""
    known = ~np.isnan(values)
    count = known.sum(-1)
    return np.where(count, np.where(known, values, 0).sum(-1) / np.maximum(count, 1), -1.0)


def at(rows: Array, values: Array) -> Array:
    """A flag or number of each row, shaped to multiply values (J, ...)."""
    return rows.reshape(*rows.shape, *(1,) * (values.ndim - rows.ndim))


class Inverse(Concept):
    """J symmetric matrices Q = base - U U^T with up to `WAITING` columns in U.

    A round reads Q once (`times`) and lowers it by one column (`lower`); base is written only when U is full,
    which saves most of the traffic.
    """

    WAITING = 32
    base: Array = field("J K K", "model")
    U: Array = field("J K w", "model")
    n: npt.NDArray[Any] = field("J", "int64", low=0, high=WAITING - 1)  # columns of U in use; others are 0

    def __init__(self, J: int, K: int, dtype: Any) -> None:
        self.allocate(dtype, J=J, K=K, w=self.WAITING)

    def begin(self, tau: Array) -> None:
        """All are I / tau. (J,)"""
        self.base[:] = np.eye(self.sizes["K"]) / tau[:, None, None]

    def times(self, B: Array) -> Array:
        """Q B. (J, K, c)"""
        out = self.base @ B
        if self.n.any():
            out -= self.U @ (self.U.swapaxes(-1, -2) @ B)
        return np.asarray(out)

    def lower(self, u: Array) -> None:
        """Q -= u u^T. (J, K)"""
        self.U[np.arange(len(u)), :, self.n] = u
        self.n += 1
        self.settle(self.n == self.WAITING)

    def settle(self, rows: Any) -> None:
        """Take the waiting columns of these rows (J,) into the base."""
        if np.any(rows):
            U = self.U[rows]
            self.base[rows] -= U @ U.swapaxes(-1, -2)
            self.U[rows], self.n[rows] = 0, 0

    def put(self, row: int, matrix: Array) -> None:
        """Replace one row's Q."""
        self.base[row] = (matrix + matrix.T) / 2
        self.U[row], self.n[row] = 0, 0

    def whole(self, rows: Any = slice(None)) -> Array:
        """Q itself, of all rows (J, K, K) or of one (K, K)."""
        U = self.U[rows]
        return np.asarray(self.base[rows] - U @ U.swapaxes(-1, -2))


def ridge_inverse(Z: Array, h: float, tau: float) -> Array:
    """(h Z^T Z + tau I)^-1 of n samples (n, K), by the smaller of the n x n and the K x K form."""
    n, K = Z.shape
    if n < K:
        inner = np.linalg.inv(Z @ Z.T + (tau / h) * np.eye(n))
        return np.asarray((np.eye(K) - Z.T @ inner @ Z) / tau)
    return np.asarray(np.linalg.inv(h * (Z.T @ Z) + tau * np.eye(K)))

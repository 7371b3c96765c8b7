"""Products row by row, in an order that does not depend on how many rows there are.

One device and a network of many then compute the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.types import Array
from ..fields import Concept, field, prove_semidefinite


def dot(a: Array, b: Array) -> Array:
    """Sum of a * b over the last axis. (..., K), (..., K) -> (...)"""
    return np.asarray(np.matmul(a[..., None, :], b[..., :, None])[..., 0, 0])


def times(values: Array, matrix: Array) -> Array:
    """Each row of values (..., n) times one matrix (n, k). -> (..., k)"""
    return np.asarray(np.matmul(values[..., None, :], matrix)[..., 0, :])


def where_missing(y: Array) -> npt.NDArray[np.bool_] | None:
    """Which labels are NaN; None if none is, as mostly."""
    missing = np.isnan(y)
    return missing if missing.any() else None


def mean(values: Array, missing: npt.NDArray[np.bool_] | None = None) -> Array:
    """Over the last axis, of what is not `missing`; -1 where all is."""
    if missing is None:  # for a few values far quicker than `values.mean(-1)`
        return np.asarray(np.add.reduce(values, -1) / values.shape[-1])
    count = (~missing).sum(-1)
    return np.where(count, np.where(missing, 0, values).sum(-1) / np.maximum(count, 1), -1.0)


def at(rows: Array, values: Array) -> Array:
    """A flag or number of each row, shaped to multiply values (J, ...)."""
    return rows.reshape(*rows.shape, *(1,) * (values.ndim - rows.ndim))


#: Part by which rounding may lift an inverse above its most.
SLACK = 1e-4


class Inverse(Concept):
    """J symmetric matrices Q = base - U U^T with up to `WAITING` columns in U.

    A round reads Q once (`times`) and lowers it by one column (`lower`); base is written only when U is full,
    which saves most of the traffic.
    """

    WAITING = 32
    base: Array = field("J K K", "model", is_sum=True)
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

    def prove(self, tau: Array) -> None:
        """Refuse what is no inverse of squares and tau I (J,): it is positive, and at most I / tau."""
        eye = np.eye(self.sizes["K"])
        for row, least in enumerate(tau.tolist()):
            Q = self.whole(row).astype(np.float64)
            if not least > 0 or not (Q.diagonal() > 0).all():
                raise InputError("Inverse is not positive; expected that of a sum; take another file")
            part = (least * Q).astype(self.dtype)  # of the most that it can be
            prove_semidefinite("Inverse", part[None])
            lacking = ((1 + SLACK) * eye - part).astype(self.dtype)
            prove_semidefinite("what Inverse lacks to 1 / tau", lacking[None])

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        super().restore(state)
        self.check_columns(self.U, self.n)

    def check_columns(self, U: Array, n: Array) -> None:
        """Refuse columns of a file that are not in use, and not zero."""
        if (U * (np.arange(self.WAITING) >= n[:, None])[:, None]).any():
            raise InputError("Inverse.U has more columns than n; expected zeros there; take another file")

    def whole(self, row: int) -> Array:
        """Q itself, of one row. (K, K)"""
        return np.asarray(self.base[row] - self.U[row] @ self.U[row].T)


def ridge_inverse(Z: Array, h: float, tau: float) -> Array:
    """(h Z^T Z + tau I)^-1 of n samples (n, K), by the smaller of the n x n and the K x K form."""
    n, K = Z.shape
    if n < K:
        inner = np.linalg.inv(Z @ Z.T + (tau / h) * np.eye(n))
        return np.asarray((np.eye(K) - Z.T @ inner @ Z) / tau)
    return np.asarray(np.linalg.inv(h * (Z.T @ Z) + tau * np.eye(K)))

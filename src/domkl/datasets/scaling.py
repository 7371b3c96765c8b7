"""Scalings of features and targets.

Every scaling here looks at the whole dataset at once. That is what the paper's
experiments do, but it is not online: the first round already knows the range of
the last. Where this matters use fixed bounds, as `domkl.datasets.stations` does.

====== ========== =====================================================
 x      none       as read
 x      minmax     every column to [0, 1]; a constant column to 0
 x      global     one min-max over all cells, the columns keep their proportions
 x      standard   every column to mean 0, deviation 1; a constant column to 0
 y      none       as read
 y      max        divided by the largest absolute value
 y      minmax     to [0, 1]; a constant target to 0
====== ========== =====================================================
"""

from __future__ import annotations

import numpy as np

from ..base import checks
from ..base.types import Array

X_SCALES = ("none", "minmax", "global", "standard")
Y_SCALES = ("none", "max", "minmax")


def scale_x(X: Array, how: str) -> Array:
    """Scale features X (N, d).

    >>> import numpy as np
    >>> scale_x(np.array([[0.0, 7.0], [4.0, 7.0]]), "minmax").tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    checks.one_of("x scale", how, X_SCALES)
    if how == "minmax":
        return _ratio(X - X.min(axis=0), np.ptp(X, axis=0))
    if how == "global":
        return _ratio(X - X.min(), np.ptp(X))
    if how == "standard":
        return _standard(X)
    return X


def scale_y(y: Array, how: str) -> Array:
    """Scale a target y (N,).

    >>> import numpy as np
    >>> scale_y(np.array([1.0, -4.0]), "max").tolist()
    [0.25, -1.0]
    """
    checks.one_of("y scale", how, Y_SCALES)
    if how == "max":
        return _ratio(y, np.abs(y).max())
    if how == "minmax":
        return _ratio(y - y.min(), np.ptp(y))
    return y


def _ratio(a: Array, b: Array | float) -> Array:
    """a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=np.broadcast_to(b, a.shape) != 0)


def _standard(X: Array) -> Array:
    # The deviation of a constant column is not exactly 0 in floating point; its range is.
    return _ratio(X - X.mean(axis=0), np.where(np.ptp(X, axis=0) == 0, 0.0, X.std(axis=0)))

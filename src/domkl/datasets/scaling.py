"""Scalings of features and targets.

`scale_x` and `scale_y` look at the whole dataset at once. That is what the paper's
experiments do, but it is not online: the first round already uses the range of
the last. `by_start` looks at the first rounds only; fixed bounds, as
`domkl.datasets.stations` has them, look at no data at all.

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
#: So many rounds at the start give the range that `by_start` scales with.
START = 100


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


def by_start(values: Array, rounds: int = START) -> tuple[Array, Array]:
    """Scale streams (J, T, ...) by the range of their first rounds; and the width of that range.

    The range of the first `rounds` rounds, of all learners together, becomes [0, 1]; later values may lie
    outside. Values that do not differ in these rounds are shifted to 0 and keep their unit.

    >>> import numpy as np
    >>> scaled, width = by_start(np.array([[2.0, 4.0, 8.0]]), rounds=2)
    >>> scaled.tolist(), float(width)
    ([[0.0, 1.0, 3.0]], 2.0)
    """
    first = values[:, : checks.count("rounds", rounds)]
    low, high = first.min(axis=(0, 1)), first.max(axis=(0, 1))
    width = np.where(high > low, high - low, 1.0)
    return (values - low) / width, width


def _ratio(a: Array, b: Array | float) -> Array:
    """a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=np.broadcast_to(b, a.shape) != 0)


def _standard(X: Array) -> Array:
    # The deviation of a constant column is not exactly 0 in floating point; its range is.
    return _ratio(X - X.mean(axis=0), np.where(np.ptp(X, axis=0) == 0, 0.0, X.std(axis=0)))

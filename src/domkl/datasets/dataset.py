"""A dataset, its scaling, its division over learners, and the AR(p) embedding of a series.

`scale_x` and `scale_y` look at the whole dataset at once. That is what the paper's
experiments do, but it is not online: the first round already uses the range of
the last. `by_start` looks at the first rounds only; fixed bounds, as
`domkl.datasets.stations` has them, look at no data at all.

====== ========== =====================================================
 x      none       as read
 x      minmax     every column to [0, 1]; a constant column to 0
 y      none       as read
 y      max        divided by the largest absolute value
 y      minmax     to [0, 1]; a constant target to 0
====== ========== =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array

X_SCALES = ("none", "minmax")
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
    return X if how == "none" else _ratio(X - X.min(axis=0), np.ptp(X, axis=0))


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


SPLITS = ("blocks", "random", "interleaved")


@dataclass(frozen=True, eq=False)
class Split:
    """Samples of J learners: row j of every array belongs to learner `names[j]`.

    `left_out` rows were dropped so that all learners have T samples; the target of
    round t becomes known `delay` rounds after the round it belongs to.
    """

    X: Array  # (J, T, d)
    y: Array  # (J, T), of m targets (J, T, m)
    names: tuple[str, ...] = ()
    left_out: int = 0
    delay: int = 0
    times: Array | None = None  # (J, T) seconds since 1970 in UTC, where samples have a time
    known: Array | None = None  # (J, T) when each label was known, NaN where it never was

    @property
    def one_delay(self) -> int:
        """The delay of all labels, for what cannot wait for each by itself."""
        if self.known is not None:
            raise InputError(
                "targets are known at times of their own, which this cannot follow; expected none such; use "
                "`domkl run` without --live and --alarm-rate, or leave --known out"
            )
        return self.delay

    @property
    def delays(self) -> int | Array:
        """After how many rounds labels are known: one number for all, or (J, T), infinity for never.

        >>> import numpy as np
        >>> Split(np.zeros((1, 3, 1)), np.zeros((1, 3)), times=np.array([[0.0, 5, 9]]),
        ...       known=np.array([[7, np.nan, 9]])).delays.tolist()
        [[2.0, inf, 0.0]]
        """
        if self.known is None or self.times is None:
            return self.delay
        T = self.y.shape[1]
        found = np.stack([np.searchsorted(*row) for row in zip(self.times, self.known, strict=True)])
        late = np.where(np.isfinite(self.known) & (found < T), found - np.arange(T), np.inf)
        return np.asarray(np.maximum(late, 0))

    def __post_init__(self) -> None:
        if self.X.ndim != 3 or self.y.shape[:2] != self.X.shape[:2]:
            raise InputError(f"X is {self.X.shape} and y {self.y.shape}; give X (J, T, d) and y (J, T)")
        names = self.names or tuple(str(j + 1) for j in range(len(self.X)))
        if len(names) != len(self.X):
            raise InputError(f"{len(names)} names for {len(self.X)} learners; give one name per learner")
        object.__setattr__(self, "names", names)

    def scaled_by_start(self, rounds: int = START, *, target: bool = True) -> tuple[Split, float]:
        """The split scaled by the range of its first rounds alone, and the width of the target's range.

        Inputs of later rounds are clipped to [0, 1]. The target is not clipped, so that errors are those of
        the real target: a squared error times the width squared is in the target's own unit squared.
        `target=False` leaves the target as it is, for labels that are classes.

        >>> import numpy as np
        >>> split = Split(np.array([[[1.0], [3.0], [9.0]]]), np.array([[10.0, 30.0, 50.0]]))
        >>> scaled, width = split.scaled_by_start(rounds=2)
        >>> scaled.X[0, :, 0].tolist(), scaled.y[0].tolist(), width
        ([0.0, 1.0, 1.0], [0.0, 1.0, 2.0], 20.0)
        """
        X, _ = by_start(self.X, rounds)
        y, width = by_start(self.y, rounds) if target else (self.y, 1.0)
        return replace(self, X=np.clip(X, 0.0, 1.0), y=y), float(width)


@dataclass(frozen=True, eq=False)
class Dataset:
    """N samples with d features and one target.

    >>> import numpy as np
    >>> data = Dataset("toy", np.arange(14.0).reshape(7, 2), np.arange(7.0), ("a", "b"), "c")
    >>> part = data.split(3)
    >>> part.X.shape, part.y.tolist(), part.left_out
    ((3, 2, 2), [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], 1)
    """

    name: str
    X: Array  # (N, d)
    y: Array  # (N,), of m targets (N, m)
    feature_names: tuple[str, ...]
    target: str
    times: Array | None = None  # (N,) seconds since 1970
    known: Array | None = None  # (N,) when each target was known

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.y.shape[:1] != self.X.shape[:1]:
            raise InputError(f"X is {self.X.shape} and y {self.y.shape}; give X (N, d) and y (N,)")
        if len(self.feature_names) != self.X.shape[1]:
            raise InputError(f"{len(self.feature_names)} names for {self.X.shape[1]} features; give one each")

    def split(self, J: int, how: str = "blocks", seed: int = 0) -> Split:
        """Divide the rows over J learners, T = floor(N / J) each.

        "blocks" gives each learner consecutive rows, "interleaved" deals the rows
        out in turn, "random" shuffles with `seed` and then cuts blocks.
        """
        checks.one_of("split", how, SPLITS)
        T = len(self.y) // checks.count("J", J, 1)
        if T == 0:
            raise InputError(f"{len(self.y)} rows for J={J} learners; give J of at most {len(self.y)}")
        rows = _rows(len(self.y), J, T, how, seed)
        times = None if self.times is None else self.times[rows]
        known = None if self.known is None else self.known[rows]
        return Split(self.X[rows], self.y[rows], left_out=len(self.y) - J * T, times=times, known=known)

    def scaled(self, x: str = "none", y: str = "none") -> Dataset:
        """Scale with the whole dataset's range, so not online; see `scaling` for the choices."""
        self.check_range()
        return replace(self, X=scale_x(self.X, x), y=scale_y(self.y, y))

    def check_range(self) -> None:
        """Refuse a column whose range overflows: two numbers may be finite and their difference not."""
        if not len(self.y):
            return
        values = np.column_stack([self.X, self.y])
        low, high = np.fmin.reduce(values), np.fmax.reduce(values)
        with np.errstate(over="ignore"):
            infinite = np.flatnonzero(np.isinf(high - low))
        if len(infinite):
            i = int(infinite[0])
            column = self.feature_names[i] if i < len(self.feature_names) else self.target
            raise DataError(
                f"{self.name}, column {column!r}: values from {low[i]:g} to {high[i]:g} cannot be scaled; "
                "expected a range below 1.8e308; correct or remove such rows"
            )


def _rows(N: int, J: int, T: int, how: str, seed: int) -> NDArray[np.intp]:
    """Row numbers (J, T)."""
    order = np.arange(N, dtype=np.intp)
    if how == "random":
        np.random.default_rng(seed).shuffle(order)
    shape = (T, J) if how == "interleaved" else (J, T)
    rows = order[: J * T].reshape(shape)
    return rows.T if how == "interleaved" else rows


def embed(series: ArrayLike, p: int) -> tuple[Array, Array]:
    """AR(p) samples of a series: x_t = (s_{t-1}, ..., s_{t-p}) and y_t = s_t.

    >>> X, y = embed([1, 2, 3, 4], p=2)
    >>> X.tolist(), y.tolist()
    ([[2.0, 1.0], [3.0, 2.0]], [3.0, 4.0])
    """
    s = np.asarray(series, dtype=np.float64)
    checks.count("p", p, 1)
    if s.ndim != 1 or len(s) <= p:
        raise InputError(f"a series of shape {s.shape} has no AR({p}) sample; give more than {p} values")
    windows = np.lib.stride_tricks.sliding_window_view(s, p + 1)[:, ::-1]
    return np.ascontiguousarray(windows[:, 1:]), windows[:, 0].copy()

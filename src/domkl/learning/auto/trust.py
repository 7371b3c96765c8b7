"""Trust: whose parameters a device uses, judged by its own last samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from ..fields import Concept, field
from .algebra import mean, where_missing


class Trust(Concept):
    """A neighbour's parameters are used if they predict the own last samples not much worse than a standard.

    The standard is the better of the alone function and the neighbour a quarter down the ranking of those on
    the same scale (the best of many was lucky). With l and s the squared errors of a neighbour's theta and of
    the standard on the last `window` samples, the neighbour is refused if

        mean(l - most s) > clear repeats standard errors of most s.

    Where errors repeat, as those of one engine or one season do, `window` samples tell as little as a few.
    The alone function's errors are those of what it said when a sample was new, or, after samples were learnt
    again, the exact leave-one-out errors: so this works from the first samples on.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.learning.auto.trust import Trust
    >>> trust = Trust(J=1, m=1, K=1)
    >>> for x in np.linspace(-1, 1, 20):
    ...     trust.note(np.array([[x]]), np.array([[2 * x]]), np.array([[0.01]]))
    >>> theta = np.array([[[[2.0]], [[-2.0]]]])  # of two neighbours
    >>> trust.judge([0], theta, able=np.ones((1, 2), bool), repeats=np.ones(1))
    array([[ True, False]])
    """

    window: int = 32  # samples that are judged by
    most: float = 2.0  # times the standard's error that a neighbour may err
    clear: float = 1.5  # standard errors beyond that which it takes to refuse it
    few: int = 5  # samples before anybody is refused

    z: Array = field("J w K", "model")
    y: Array = field("J w m", missing=True)
    alone: Array = field("J w", first=-1.0, low=-1.0)  # its squared errors, -1 where unused
    age: npt.NDArray[Any] = field("J", "int64", low=0)

    def __init__(self, J: int, m: int, K: int, dtype: Any = np.float64, **chosen: float) -> None:
        self.choose(chosen)
        self.allocate(dtype, J=J, m=m, K=K, w=self.window)

    def note(self, z: Array, y: Array, missed: Array) -> None:
        """A sample: features (J, K), targets (J, m), NaN where missing, and squared errors (J, m) of what the
        alone function said when it was new."""
        k, J = self.age % self.window, np.arange(len(z))
        self.z[J, k], self.y[J, k], self.alone[J, k] = z, y, mean(missed, where_missing(y))
        self.age += 1

    def renew(self, row: int, Z: Array, y: Array, errors: Array) -> None:
        """Begin again with the last of these samples: (n, K), (n, m), leave-one-out errors (n, m)."""
        self.reset(row)
        n = min(len(Z), self.window)
        self.z[row, :n], self.y[row, :n] = Z[-n:], y[-n:]
        self.alone[row, :n] = (errors[-n:] ** 2).mean(-1)
        self.age[row] = n

    def judge(self, who: list[int], theta: Array, able: Any, repeats: Array) -> npt.NDArray[np.bool_]:
        """Whether rows (R,) use what n neighbours each sent, (R, n, m, K). -> (R, n)

        `able` (R, n): those whose parameters mean the same here, and no others; `repeats` (R,) as in `Echo`.
        """
        R, n, m, K = theta.shape
        rows, y, alone = np.arange(R), self.y[who][:, :, None], self.alone[who]
        f = self.z[who] @ theta.reshape(R, n * m, K).swapaxes(1, 2)  # (R, w, n m)
        missed = mean((f.reshape(R, -1, n, m) - y) ** 2, where_missing(y))  # (R, w, n)
        seen = alone >= 0
        count = np.maximum(seen.sum(1), 1)[:, None]
        missed, alone = np.where(seen[..., None], missed, 0), np.where(seen, alone, 0)
        errors = np.where(able, missed.sum(1) / count, np.inf)
        quarter = np.maximum(able.sum(1) - 1, 0) // 4
        best = np.argsort(errors, -1, kind="stable")[rows, quarter]
        is_better = errors[rows, best] < alone.sum(1) / count[:, 0]
        standard = np.where(is_better[:, None], missed[rows, :, best], alone)
        with np.errstate(over="ignore"):  # a lie may be as large as it likes
            return np.asarray(able & self._is_near(missed, standard, seen, count, repeats[:, None]))

    def _is_near(self, missed: Array, standard: Array, seen: Any, count: Array, repeats: Array) -> Any:
        """Who is not refused, from squared errors (R, w, n) and those of the standard (R, w). -> (R, n)"""
        excess = (missed - self.most * standard[..., None]).sum(1) / count
        # Of the standard, not of the excess: one huge error would excuse itself.
        middle = standard.sum(1, keepdims=True) / count
        variance = np.where(seen, (standard - middle) ** 2, 0).sum(1, keepdims=True) / count
        clear = self.clear * repeats * (self.most * np.sqrt(variance / count))
        refused = (excess > clear + 1e-6) & (count >= self.few)
        return ~refused & np.isfinite(excess)

"""Trust: whose parameters a device uses, judged by its own last samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.types import Array
from ..fields import Concept, field
from .algebra import mean, mean_known


class Trust(Concept):
    """A neighbour is used if its parameters predict the own last samples not much worse than others do.

    With l the squared errors of a neighbour's theta on the last `window` samples and s those of the standard,
    the better of the alone function and the neighbour a quarter down their ranking (the best of many was
    lucky), it is refused if

        mean(l - most s) > clear standard errors of most s.

    The alone function's errors are those of what it said when a sample was new, or, after samples were learnt
    again, the exact leave-one-out errors: so it works from the first samples on.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.learning.auto.trust import Trust
    >>> trust = Trust(J=1, m=1, K=1)
    >>> for x in np.linspace(-1, 1, 20):
    ...     trust.note(np.array([[x]]), np.array([[2 * x]]), np.array([[0.01]]))
    >>> trust.judge([0], np.array([[[[2.0]], [[-2.0]]]]))  # two neighbours' theta
    array([[ True, False]])
    """

    z: Array = field("J w K", "model")
    y: Array = field("J w m", missing=True)
    own: Array = field("J w", first=-1.0, low=-1.0)  # squared errors alone, -1 where unused
    age: npt.NDArray[Any] = field("J", "int64", low=0)

    def __init__(
        self,
        J: int,
        m: int,
        K: int,
        dtype: Any = np.float64,
        *,
        window: int = 32,
        most: float = 2.0,
        clear: float = 1.5,
        few: int = 5,
    ) -> None:
        self.window, self.most, self.clear, self.few = window, most, clear, few
        self.allocate(dtype, J=J, m=m, K=K, w=window)

    def note(self, z: Array, y: Array, own: Array) -> None:
        """A sample: features (J, K), targets (J, m) and squared errors (J, m) of what the alone function said
        when it was new; NaN where not known."""
        k, J = self.age % self.window, np.arange(len(z))
        found = mean_known(own) if np.isnan(own).any() else mean(own)
        self.z[J, k], self.y[J, k], self.own[J, k] = z, y, found
        self.age += 1

    def renew(self, row: int, Z: Array, y: Array, own: Array) -> None:
        """All samples of a row: (n, K), (n, m), and their leave-one-out errors (n, m)."""
        self.reset(row)
        n = min(len(Z), self.window)
        self.z[row, :n], self.y[row, :n] = Z[-n:], y[-n:]
        self.own[row, :n] = (own[-n:] ** 2).mean(-1)
        self.age[row] = n

    def judge(
        self, who: list[int], theta: Array, able: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.bool_]:
        """Whether rows (R,) use what n neighbours each sent, (R, n, m, K). -> (R, n)

        `able` (R, n): those whose parameters mean the same here; others are not used.
        """
        R, n, m, K = theta.shape
        f = self.z[who] @ theta.reshape(R, n * m, K).swapaxes(1, 2)  # (R, w, n m)
        missed = (f.reshape(R, -1, n, m) - self.y[who][:, :, None]) ** 2
        missed = mean_known(missed) if np.isnan(self.y[who]).any() else missed.mean(-1)  # (R, w, n)
        seen = self.own[who] >= 0
        count = np.maximum(seen.sum(1), 1)[:, None]
        missed = np.where(seen[..., None], missed, 0)
        own = np.where(seen, self.own[who], 0)
        able = np.ones((R, n), bool) if able is None else able
        mean = np.where(able, missed.sum(1) / count, np.inf)
        quarter = np.maximum(able.sum(1) - 1, 0) // 4
        best = np.argsort(mean, -1, kind="stable")[np.arange(R), quarter]
        rows = np.arange(R)
        is_better = mean[rows, best] < own.sum(1) / count[:, 0]
        standard = np.where(is_better[:, None], missed[rows, :, best], own)
        with np.errstate(over="ignore"):  # a lie may be as large as it likes
            return self._compare(missed, standard, seen, count, able)

    def _compare(
        self, missed: Array, standard: Array, seen: Any, count: Array, able: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Who is believed, from squared errors (R, w, n) and those of the standard. (R, w)"""
        more = missed - self.most * standard[..., None]
        excess = more.sum(1) / count
        # Of the standard, not of `more`: one huge error would excuse itself.
        middle = standard.sum(1, keepdims=True) / count
        variance = np.where(seen, (standard - middle) ** 2, 0).sum(1, keepdims=True) / count
        clear = self.clear * self.most * np.sqrt(variance / count)
        refused = (excess > clear + 1e-6) & (count >= self.few)
        return np.asarray(able & ~refused & np.isfinite(excess))

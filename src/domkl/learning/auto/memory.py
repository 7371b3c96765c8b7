"""Memory: the last samples of each device, to learn from again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.types import Array
from ..fields import Concept, Field, field


class Memory(Concept):
    """The last `size` samples in order, the newest last, and how many of them still count.

    Examples
    --------
    >>> import numpy as np
    >>> from domkl.learning.auto.memory import Memory
    >>> memory = Memory(J=1, d=1, m=1, size=2)
    >>> for x in (1.0, 2.0, 3.0):
    ...     memory.add(np.array([[x]]), np.array([[10 * x]]))
    >>> memory.last(0, 2)[1].tolist(), memory.count.tolist()
    ([[20.0], [30.0]], [3])
    """

    count: npt.NDArray[Any] = field("J", "int64", low=0)  # samples with these inputs, whatever they weigh
    useful: npt.NDArray[Any] = field("J", "int64", low=0)  # of them, since the past was given up
    fresh: npt.NDArray[Any] = field("J", "int64", low=0)  # of them, since errors rose the last time

    def __init__(self, J: int, d: int, m: int, size: int) -> None:
        self.size = size
        self.allocate(np.float64, J=J, d=d, m=m)
        # Twice as long as needed, so that samples move to the front only every `size` rounds.
        self._X, self._Y = np.zeros((J, 2 * size, d)), np.zeros((J, 2 * size, m))
        self._W, self._end = np.zeros((J, 2 * size)), np.zeros(1, int)

    @property
    def _kept(self) -> slice:
        end = int(self._end[0])
        return slice(max(end - self.size, 0), end)

    @property
    def X(self) -> Array:
        """(J, n, d)"""
        return self._X[:, self._kept]

    @property
    def Y(self) -> Array:
        """(J, n, m)"""
        return self._Y[:, self._kept]

    def add(self, x: Array, y: Array, weight: npt.ArrayLike = 1.0) -> None:
        """A sample of each row, (J, d) and (J, m), and how much it counts (J,)."""
        if self._end[0] == self._X.shape[1]:
            for kept in (self._X, self._Y, self._W):
                kept[:, : self.size] = kept[:, self.size :]
            self._end[0] = self.size
        end = self._end[0]
        self._X[:, end], self._Y[:, end], self._W[:, end] = x, y, weight
        self._end += 1
        for counter in (self.count, self.useful, self.fresh):
            counter += 1

    def note_alarm(self, row: int, n: int) -> None:
        """The errors of a row have risen since its last n samples."""
        self.fresh[row] = n

    def forget(self, rows: npt.NDArray[np.bool_], most: int) -> None:
        """Let rows (J,) count only samples since their last alarm began, two at least and `most` at most."""
        few = np.maximum(np.minimum(np.minimum(self.useful, self.fresh), most), 2)
        self.useful[rows] = few[rows]

    def keep(self, row: int, n: int) -> None:
        """Let only the last n samples of a row count."""
        self.useful[row] = n

    def widen(self, d: int) -> None:
        """Samples have d inputs from now on; the new ones were missing so far."""
        more = d - self.sizes["d"]
        self._X = np.pad(self._X, ((0, 0), (0, 0), (0, more)), constant_values=np.nan)
        self.sizes["d"] = d
        # Summaries are published after few samples once more; `useful` goes on.
        self.count[:] = np.minimum(self.count, 1)

    def widen_targets(self, m: int) -> None:
        """Have m targets from now on; the new ones were 0 so far."""
        self._Y = np.pad(self._Y, ((0, 0), (0, 0), (0, m - self.sizes["m"])))
        self.sizes["m"] = m

    def last(self, row: int, n: int) -> tuple[Array, Array]:
        """The last n samples of a row. (1, n, d), (n, m)"""
        n = min(n, self.X.shape[1])
        return self.X[row : row + 1, self.X.shape[1] - n :], self.Y[row, self.Y.shape[1] - n :]

    def weights(self, row: int, n: int) -> Array:
        """How much each of the last n samples of a row counts. (n,)"""
        kept = self._W[row, self._kept]
        return np.asarray(kept[max(len(kept) - n, 0) :])

    def samples(self, row: int) -> Array:
        """Those of a row that were learnt, as they came. (n, d)"""
        return np.array(self.X[row][self._W[row, self._kept] > 0])

    def correct(self, row: int, y: Array) -> None:
        """Replace the last labels of a row. (n, m)"""
        self._Y[row, self._end[0] - len(y) : self._end[0]] = y

    def state(self) -> dict[str, Any]:
        """Counts and the samples that are kept."""
        W = self._W[:, self._kept].copy()
        return {**super().state(), "X": self.X.copy(), "Y": self.Y.copy(), "W": W}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        super().restore(state)
        n = min((*np.shape(np.asarray(state.get("X"))), 0, 0)[1], self.size)
        X = self._checked(Field(f"J {n} d", missing=True, name="X"), state.get("X"))
        Y = self._checked(Field(f"J {n} m", missing=True, name="Y"), state.get("Y"))
        W = self._checked(Field(f"J {n}", low=0.0, high=1.0, name="W"), state.get("W"))
        if (np.isnan(Y).any(-1) & (W > 0)).any():
            raise InputError("Memory.Y lacks labels that count; expected all; take another file")
        self._X[:, :n], self._Y[:, :n], self._W[:, :n], self._end[0] = X, Y, W, n

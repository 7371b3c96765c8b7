"""Ridge regression on the last samples alone: the expert that knows nothing of the past.

It is solved in its dual form, every few rounds, and never leaves the device. `Watch` compares it with the
long memory: a surge of errors empties the window, and a window that is then clearly better ends that memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._types import Array, Float

#: Samples in the window, rounds between two solutions.
LENGTH, EVERY = 200, 8


class Window:
    """The last samples of J learners, and the function that fits them best."""

    def __init__(self, J: int, K: int, reg: float, dtype: Float) -> None:
        self.z = np.zeros((J, LENGTH, K), dtype)
        self.y = np.zeros((J, LENGTH))
        self.gram = np.zeros((J, LENGTH, LENGTH))
        self.theta = np.zeros((J, K), dtype)
        self.centre = np.zeros(J)
        self.reg, self.n = reg, 0
        self.arrived = np.full(LENGTH, -1)  # when each place was filled
        self.since = np.zeros(J, int)  # what arrived before counts no more

    def predict(self, z: Array) -> Array:
        """(J, K) -> (J,)"""
        return np.asarray(self.centre + (self.theta * z).sum(-1))

    def learn(self, z: Array, y: Array) -> None:
        """The newest sample takes the oldest one's place. (J, K), (J,)"""
        k = self.n % LENGTH
        self.z[:, k], self.y[:, k] = z, y
        row = np.matmul(self.z, z[..., None])[..., 0]
        self.gram[:, k], self.gram[:, :, k] = row, row
        self.arrived[k] = self.n
        self.n += 1
        if self.n % EVERY == 0:
            self._solve()

    def drop(self, learners: npt.NDArray[np.bool_], kept: int) -> None:
        """These learners' windows keep the newest samples only."""
        self.since = np.where(learners, np.maximum(self.since, self.n - kept), self.since)

    def widen(self, models: int, more: int) -> None:
        """Each of the models gets more features, which were 0 so far."""
        J, n, _ = self.z.shape
        wider = ((0, 0), (0, 0), (0, 0), (0, more))
        self.z = np.pad(self.z.reshape(J, n, models, -1), wider).reshape(J, n, -1)
        self.theta = np.pad(self.theta.reshape(J, models, -1), wider[1:]).reshape(J, -1)

    @property
    def counts(self) -> npt.NDArray[np.bool_]:
        """Which samples are in each learner's window. (J, LENGTH)"""
        return self.arrived >= self.since[:, None]

    def _solve(self) -> None:
        used = self.counts
        self.centre = (self.y * used).sum(-1) / np.maximum(used.sum(-1), 1)
        right = (self.y - self.centre[:, None]) * used
        left = self.gram * (used[:, :, None] & used[:, None]) + self.reg / 2 * np.eye(LENGTH)
        alpha = np.linalg.solve(left, right[..., None]).astype(self.z.dtype)
        self.theta = np.matmul(np.swapaxes(self.z, 1, 2), alpha)[..., 0]

    def samples(self) -> list[tuple[Array, Array]]:
        """Those in the windows, oldest first, (J, K), (J,) each; zeros where a learner dropped it."""
        order = np.arange(max(0, self.n - LENGTH), self.n) % LENGTH
        used = self.counts
        return [(self.z[:, k] * used[:, k, None], self.y[:, k]) for k in order]


class Watch:
    """Says when the past is no guide any more.

    A surge: the long memory's error, averaged over `FADE` rounds, is `SURGE` times its average over `LONG`.
    A restart: the window's error is below `BETTER` times the long memory's for `LASTING` rounds, at half of
    the learners or more.
    """

    FADE, LONG, SURGE, BETTER, LASTING = 30, 300, 2.0, 0.7, 15

    def __init__(self, J: int) -> None:
        self.errors = np.zeros((J, 2))  # of the long memory, of the window
        self.level = np.zeros(J)
        self.lasting, self.quiet, self.n = np.zeros(J, int), np.zeros(J, int), 0

    def see(self, long: Array, window: Array) -> tuple[npt.NDArray[np.bool_], bool]:
        """Squared errors of a round, (J,) each; who sees a surge, and whether to start again."""
        self.n += 1
        self.errors += (np.stack([long, window], -1) - self.errors) / min(self.n, self.FADE)
        self.level += (long - self.level) / min(self.n, self.LONG)
        surge = (self.errors[:, 0] > self.SURGE * self.level) & (self.quiet >= 2 * self.FADE)
        self.quiet = np.where(surge, 0, self.quiet + 1)
        better = self.errors[:, 1] < self.BETTER * self.errors[:, 0]
        self.lasting = np.where(better, self.lasting + 1, 0)
        return surge, bool((self.lasting >= self.LASTING).mean() >= 0.5 and self.n > self.FADE)

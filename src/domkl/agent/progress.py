"""Counts of an agent's rounds: samples, recent error, time."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..learning.first_order import Step

#: Samples over which the error is averaged.
ROLLING = 200
#: The largest error that counts, also for what is no number; the square of a larger one would overflow.
MOST = 1e150


class Progress:
    """Samples, recent error and time of one agent, for its status line and /metrics."""

    def __init__(self) -> None:
        self.error, self.samples = 0.0, 0
        self.alone: float | None = None  # the error with own samples only, where the model can tell
        self.seconds = 0.0  # from the first round's start to the last one's end
        #: Called with the seconds of each round, by whoever wants them.
        self.on_round: Callable[[float], object] | None = None
        self._began_at = self._started_at = 0.0

    def start_round(self, now: float) -> None:
        """A sample is about to be learnt."""
        self._started_at = now

    def account(self, y: float, y_hat: float, step: Step | None = None) -> None:
        """It was learnt, and this had been predicted; `step` has what own samples only predicted."""
        self.samples += 1
        self.error = self._moved(self.error, y - y_hat)
        if step is not None and step.alone is not None:
            self.alone = self._moved(0.0 if self.alone is None else self.alone, y - step.alone)

    def _moved(self, error: float, miss: float) -> float:
        """A running mean squared error after one more sample."""
        share = max(1 / self.samples, 1 / ROLLING)
        return error + share * (min(MOST, abs(miss)) ** 2 - error)

    def end_round(self) -> None:
        """Its round has ended."""
        now = time.monotonic()
        self._began_at = self._began_at or self._started_at
        self.seconds = now - self._began_at
        if self.on_round is not None:
            self.on_round(now - self._started_at)

"""Counts of an agent's rounds: samples, recent error, time."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Samples over which the error is averaged.
ROLLING = 200
#: The largest error that counts; the square of a larger one would overflow.
MOST = 1e150


class Progress:
    """Samples, recent error and time of one agent, for its status line and /metrics."""

    def __init__(self) -> None:
        self.error, self.samples = 0.0, 0
        self.seconds = 0.0  # from the first round's start to the last one's end
        #: Called with the seconds of each round, by whoever wants them.
        self.on_round: Callable[[float], object] | None = None
        self._began_at = self._started_at = 0.0

    def start_round(self, now: float) -> None:
        """A sample is about to be learnt."""
        self._started_at = now

    def account(self, y: float, y_hat: float) -> None:
        """It was learnt, and this had been predicted."""
        self.samples += 1
        share = max(1 / self.samples, 1 / ROLLING)
        self.error += share * (min(abs(y - y_hat), MOST) ** 2 - self.error)

    def end_round(self) -> None:
        """Its round has ended."""
        now = time.monotonic()
        self._began_at = self._began_at or self._started_at
        self.seconds = now - self._began_at
        if self.on_round is not None:
            self.on_round(now - self._started_at)

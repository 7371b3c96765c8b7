"""What the rounds of an agent amount to: samples, recent error, time."""

from __future__ import annotations

import time

from .service import Durations

#: Samples over which the error is averaged.
ROLLING = 200


class Progress:
    """Counts of one agent, for people and for /metrics."""

    def __init__(self) -> None:
        self.error, self.samples = 0.0, 0
        self.seconds = 0.0  # from the first round's start to the last one's end
        self.round_seconds = Durations()
        self._began_at = self._started_at = 0.0

    def start_round(self, now: float) -> None:
        """A sample is about to be learnt."""
        self._started_at = now

    def account(self, y: float, y_hat: float) -> None:
        """It was learnt, and this had been predicted."""
        self.samples += 1
        share = max(1 / self.samples, 1 / ROLLING)
        self.error += share * ((y - y_hat) ** 2 - self.error)

    def end_round(self) -> None:
        """Its round has ended."""
        now = time.monotonic()
        self._began_at = self._began_at or self._started_at
        self.seconds = now - self._began_at
        self.round_seconds.observe(now - self._started_at)

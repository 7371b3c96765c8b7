"""Counts of an agent's rounds: samples, recent error, time."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from ..learning.first_order import Step
from .config import AgentConfig
from .streams import Scaling

LOG = logging.getLogger(__name__)
#: Samples over which the error is averaged.
ROLLING = 200
#: The largest error that counts, also for what is no number; the square of a larger one would overflow.
MOST = 1e150


class Progress:
    """Samples, recent error and time of one agent, for its status line and /metrics.

    Parameters
    ----------
    unit : what one of the learner's labels is in the target's own unit.
    is_log_odds : predictions are log-odds of classes -1 and 1, and count as 2 P(y = 1) - 1.
    """

    def __init__(self, unit: float = 1.0, is_log_odds: bool = False) -> None:
        self.samples = 0
        self._error = 0.0  # mean squares, in the learner's unit
        self._alone: float | None = None  # with own samples only, where the model can tell
        self._unit, self._is_log_odds = unit, is_log_odds
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
        self._error = self._moved(self._error, y - self._in_unit(y_hat))
        if step is not None and step.alone is not None:
            before = 0.0 if self._alone is None else self._alone
            self._alone = self._moved(before, y - self._in_unit(step.alone))

    @classmethod
    def of(cls, config: AgentConfig, scaling: Scaling) -> Progress:
        """That of an agent: the paper's learner predicts log-odds where it classifies."""
        is_log_odds = config.model.predicts_log_odds and getattr(config.model, "loss", "") == "logistic"
        return cls(scaling.target_span, is_log_odds)

    @property
    def rmse(self) -> float | None:
        """Root mean squared error of recent predictions, in the target's unit; None before any."""
        return self._unit * math.sqrt(self._error) if self.samples else None

    @property
    def rmse_alone(self) -> float | None:
        """The same with own samples only, where the model can tell."""
        return None if self._alone is None else self._unit * math.sqrt(self._alone)

    def _in_unit(self, y_hat: float) -> float:
        return math.tanh(y_hat / 2) if self._is_log_odds else y_hat

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

"""Alarms of an agent: readings that are not what its learner expects; see `domkl.learning.alarms`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..learning.alarms import Alarms
from .logs import tell

LOG = logging.getLogger(__name__)


class ReadingAlarms:
    """Judges readings whose label is known, where there is a rate; counts alarms, and logs each."""

    def __init__(self, rate: float | None) -> None:
        self._alarms = None if rate is None else Alarms(rate)
        self.count = 0

    @property
    def are_on(self) -> bool:
        """Whether readings are judged."""
        return self._alarms is not None

    def judge(self, index: int, round: int, y_hat: float, y: float) -> dict[str, Any]:
        """What a record says of a reading, both numbers as they are learnt; nothing where alarms are off.

        The prediction of round 0, made before any label, tells nothing.
        """
        if self._alarms is None or not round:
            return {}
        found = self._alarms.judge(y_hat, y)
        surprise, alarm = float(found.surprise[0]), bool(found.alarm[0])
        if alarm:
            self.count += 1
            tell(LOG, logging.WARNING, "alarm", index=index, round=round, surprise=surprise)
        return {"surprise": surprise, "alarm": alarm}

    def state(self) -> dict[str, Any] | None:
        """Everything it knows, by name; None where alarms are off."""
        return None if self._alarms is None else {"count": self.count, **self._alarms.state()}

    def restore(self, state: Mapping[str, Any] | None) -> None:
        """Inverse of `state`; one that was saved without alarms, or is not wanted now, changes nothing."""
        if state is not None and self._alarms is not None:
            self._alarms.restore(state)
            self.count = int(state["count"])

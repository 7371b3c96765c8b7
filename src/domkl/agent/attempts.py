"""Writes that may fail while the agent goes on: counted, logged, and tried again."""

from __future__ import annotations

import logging
import time

from .logs import Limited, tell

LOG = logging.getLogger(__name__)
#: Seconds between two attempts to save, while the disk refuses.
RETRY = 3.0


class Attempts:
    """Counts failed writes of one kind; `fault` explains the last one until a write succeeds.

    >>> saving = Attempts("state cannot be saved")
    >>> saving.fail("No space left on device")
    >>> saving.fault, saving.failed
    ('state cannot be saved: No space left on device', 1)
    >>> saving.succeed()
    >>> saving.fault, saving.failed
    ('', 1)
    """

    def __init__(self, what: str) -> None:
        self.what, self.fault, self.failed = what, "", 0
        self.well_at = self._failed_at = time.monotonic()
        self._limited = Limited(LOG)

    def fail(self, reason: str) -> None:
        """Record a write that failed."""
        self.fault, self._failed_at = f"{self.what}: {reason}", time.monotonic()
        self.failed += 1
        self._limited.warn(self.what, self.what, reason=reason)

    def succeed(self) -> None:
        """Record a write that succeeded."""
        self.well_at = time.monotonic()
        if self.fault:
            tell(LOG, logging.INFO, "works again", after=self.fault, failed=self.failed)
            self.fault = ""

    @property
    def retry_due(self) -> bool:
        """Whether the last one failed, long enough ago to try again."""
        return bool(self.fault) and time.monotonic() - self._failed_at >= RETRY

"""How often something may be asked for."""

from __future__ import annotations

import threading
import time


class Rate:
    """At most `burst` at once and `rate` a second in the long run, whoever asks.

    >>> rate = Rate(rate=1.0, burst=2)
    >>> [rate.take(now) for now in (0.0, 0.0, 0.0, 1.0)]
    [True, True, False, True]
    """

    def __init__(self, rate: float = 10.0, burst: int = 20) -> None:
        self.rate, self.burst = rate, burst
        self._left = float(burst)
        self._changing = threading.Lock()
        self._seen: float | None = None

    def take(self, now: float | None = None) -> bool:
        """Whether one more is allowed; `now` in seconds, by default the clock's."""
        now = time.monotonic() if now is None else now
        with self._changing:
            passed = 0.0 if self._seen is None else max(0.0, now - self._seen)
            self._seen = now
            self._left = min(float(self.burst), self._left + passed * self.rate)
            if self._left < 1.0:
                return False
            self._left -= 1.0
            return True

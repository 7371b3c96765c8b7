"""Inputs whose label comes later, at a time of its own; they wait in a store that is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base.types import Array
from .rows import RowRefused
from .streams import Reading

#: The most inputs that wait for their label, and their bytes; the oldest is dropped first.
MOST, MOST_BYTES = 10_000, 2**26
#: Times are the same if they are to the millisecond, as predictions are written.
TICKS = 1000


@dataclass(frozen=True)
class Awaited:
    """A reading that was predicted, and waits for its label."""

    x: Array
    y_hat: float
    index: int


class AwaitedLabels:
    """The readings that wait for a label, by their id or, with `by_time`, those without one by their time.

    A label is taken once; one that nothing waits for is refused.

    >>> import numpy as np
    >>> labels = AwaitedLabels(by_time=True)
    >>> labels.expect(Reading(7, np.zeros(2), None, time=60.0), y_hat=0.5)
    >>> labels.take(Reading(8, None, 3.0, time=60.0004)).index
    7
    >>> labels.take(Reading(9, None, 3.0, time=60.0))
    Traceback (most recent call last):
    domkl.agent.rows.RowRefused: ('label without input', 'no x of time 60.0 waits for its label')
    """

    def __init__(self, by_time: bool = False) -> None:
        self._by_time = by_time
        self._waiting: dict[str | int, Awaited] = {}
        self._newest: int | None = None  # the latest time of a reading

    def __len__(self) -> int:
        return len(self._waiting)

    def _key(self, reading: Reading) -> str | int | None:
        if reading.id is not None or reading.time is None or not self._by_time:
            return reading.id
        return round(reading.time * TICKS)

    def expect(self, reading: Reading, y_hat: float) -> None:
        """Keep a reading that was predicted, if a label can be known as its own."""
        key = self._key(reading)
        if key is None or reading.x is None:
            return
        if isinstance(key, int):
            self._newest = key if self._newest is None else max(key, self._newest)
        self._waiting.pop(key, None)  # the same once more is the youngest again
        self._waiting[key] = Awaited(reading.x.copy(), y_hat, reading.index)  # a view keeps all of its batch
        most = min(MOST, max(1, MOST_BYTES // reading.x.nbytes))
        while len(self._waiting) > most:
            del self._waiting[next(iter(self._waiting))]

    def take(self, reading: Reading) -> Awaited:
        """What waits for this label, and waits no longer."""
        key = self._key(reading)
        if key is not None and key in self._waiting:
            return self._waiting.pop(key)
        if isinstance(key, int) and (self._newest is None or key > self._newest):
            reason = f"the label is of {reading.time}, later than all readings so far"
            raise RowRefused("future", reason, "send a label after its reading, with the same time")
        which = f"with id {reading.id!r}" if reading.id is not None else f"of time {reading.time}"
        raise RowRefused("label without input", f"no x {which} waits for its label")

    def state(self) -> dict[str, Any]:
        """Everything between two readings."""
        waiting = [[key, each.x, each.y_hat, each.index] for key, each in self._waiting.items()]
        return {"newest": self._newest, "waiting": waiting}

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of `state`."""
        waiting: Sequence[Any] = state["waiting"]
        self._newest = state["newest"]
        self._waiting = {key: Awaited(x, y_hat, index) for key, x, y_hat, index in waiting}

"""What an agent with [stream] horizon does with a reading: forecasts from it, and what it makes known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..base.types import Array
from ..exchange.message import Update
from ..learner import Learner
from ..learning.forecast import Forecaster, Origin
from ..learning.horizon import Horizon
from .rows import RowRefused
from .streams import Reading


class Forecast(NamedTuple):
    """The target's values to come, as far as one reading tells."""

    y: Array  # (H,), as learnt
    rows: list[Origin]  # earlier ones whose labels are all known now, or will not come any more
    told: list[tuple[int, float]]  # readings whose nearest lead is known now, and that label
    absurd: bool = False  # the target counts as missing, as no sensor can have moved so far


class Ahead:
    """The forecasts of one device, with those that wait for labels; the caller gives them to its learner.

    >>> from domkl import Auto
    >>> from domkl.learning.horizon import horizon
    >>> ahead = Ahead(horizon("1h..3h"), inputs=1)
    >>> learner = Learner(Auto(size=60), name="a", inputs=ahead.device.inputs, targets=3)
    >>> for hour in range(200):
    ...     found = ahead.forecast(learner, Reading(hour, np.zeros(1), hour % 24, time=3600.0 * hour))
    ...     for row in found.rows:
    ...         _ = ahead.learn(learner, row)
    >>> found.y.round().tolist(), len(found.rows)
    ([8.0, 9.0, 10.0], 1)
    """

    def __init__(self, horizon: Horizon, inputs: int) -> None:
        self.horizon, self.device = horizon, Forecaster(horizon, inputs)
        self._learnt = False  # whether the learner knows anything
        self._readings: dict[float, int] = {}  # times whose nearest lead is not known yet, and their numbers

    def forecast(self, learner: Learner, reading: Reading) -> Forecast:
        """Take a reading of the target now, and forecast from it."""
        device, x = self.device, reading.x
        if x is None:
            raise RowRefused("label without input", "labels of forecasts are later readings; leave ids out")
        if reading.time is None and not self.horizon.rows:
            remedy = "name a column in [columns] time, or count rows in horizon"
            raise RowRefused("no time", "the reading has no time, which the horizon needs", remedy)
        if not self.horizon.rows and not reading.time > device.now:  # type: ignore[operator]
            raise RowRefused("late", f"the reading is {device.now - reading.time:.3f} s older than the last")  # type: ignore[operator]
        before, absurd = list(device.waiting), float(device.doubt.absurd)
        rows = device.observe(reading.time or 0.0, np.nan if reading.y is None else reading.y)
        told = [self._told(origin) for origin in before if origin.time in self._readings]
        origin = device.look(x)
        rest = np.atleast_1d(learner.predict(origin.inputs))
        y = device.expect(origin, rest if self._learnt else np.zeros(len(rest)))
        self._readings[origin.time] = reading.index
        oldest = device.waiting[0].time if device.waiting else origin.time
        self._readings = {time: n for time, n in self._readings.items() if time >= oldest}
        told_now = [each for each in told if each is not None]
        return Forecast(y, rows, told_now, bool(device.doubt.absurd > absurd))

    def _told(self, origin: Origin) -> tuple[int, float] | None:
        if np.isnan(origin.known[0]):
            return None
        return self._readings.pop(origin.time), float(origin.known[0])

    def learn(self, learner: Learner, row: Origin) -> tuple[Update, float, float | None]:
        """Learn what has become known; errors of the nearest lead, and of that alone, NaN if not known."""
        left = row.known - row.ridge
        update = learner.observe(row.inputs, left if len(left) > 1 else float(left[0]))
        alone = None
        if self._learnt and learner.step is not None and learner.step.alone is not None:
            alone = float((row.known - self.device.mixed(row, np.atleast_1d(learner.step.alone)))[0])
        self._learnt = True
        return update, float(row.known[0] - row.y[0]), alone

    def bounds(self, coverage: float) -> tuple[Array, Array]:
        """Of the last forecast. (H,) each"""
        return self.device.interval_of(coverage)

    def state(self) -> dict[str, Any]:
        """Everything between two readings."""
        times = list(self._readings)
        return {
            "device": self.device.state(),
            "learnt": self._learnt,
            "times": np.array(times, np.float64),
            "numbers": [self._readings[time] for time in times],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        self.device.restore(state["device"])
        self._learnt = bool(state["learnt"])
        self._readings = dict(zip(state["times"].tolist(), state["numbers"], strict=True))

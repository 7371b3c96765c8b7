"""Devices that forecast: a `Forecaster` each, and one model over all of them, round by round."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float
from ..exchange.graph import LONE, Graph
from ..exchange.message import Exchange
from ..exchange.network import Network
from ..learning.conformal import check_coverage
from ..learning.forecast import NAIVE, Forecaster, Origin
from ..learning.horizon import Horizon
from .driver import connected


class Limits(NamedTuple):
    """Limits of a target; None where they are to be found."""

    least: float | None = None
    most: float | None = None


class AheadRows:
    """J devices that forecast H leads from their readings; one device has one row.

    >>> import domkl, numpy as np
    >>> from domkl.learning.horizon import horizon
    >>> devices = AheadRows(domkl.Auto(size=60), horizon("1h..3h"), d=1)
    >>> for hour in range(200):
    ...     devices.observe([3600.0 * hour], [[0.0]], [hour % 24])
    >>> devices.y_hat.round().tolist()
    [[8.0, 9.0, 10.0]]
    """

    def __init__(
        self,
        settings: Any,
        horizon: Horizon,
        d: int,
        graph: Graph = LONE,
        dtype: Float = np.float64,
        *,
        future: int = 0,
        limits: Limits = Limits(),  # noqa: B008
        exchange: Exchange | None = None,
    ) -> None:
        if not getattr(settings, "can_go_on", False):
            raise InputError("horizon is given with a model that is not Auto; expected domkl.Auto(...); leave one out")
        self.settings, self.horizon, self.network = settings, horizon, Network(graph, exchange or Exchange())
        self.devices = [Forecaster(horizon, d, future, *limits) for _ in range(graph.J)]
        self.rows = connected(settings, self.devices[0].inputs, self.network, dtype, len(horizon.leads))
        self.due: list[deque[Origin]] = [deque() for _ in self.devices]
        self.n = 0  # rounds learnt
        self.y_hat, self.alone = np.full((2, graph.J, len(horizon.leads)), np.nan)

    def observe(
        self, times: npt.ArrayLike, X: npt.ArrayLike, y: npt.ArrayLike, ahead: Array | None = None
    ) -> None:
        """A reading of each device: its time, inputs (J, d) and target (J,), NaN where it has none.

        Learns what has become known by it, then forecasts: `y_hat` and `alone`, (J, H). `ahead` (J, H, future)
        is what is known of the times that are forecast.
        """
        J, d = len(self.devices), self.devices[0].d
        when = checks.finite("times", checks.shape("times", checks.floats("times", times), (J,), "give one each"))
        inputs = checks.shape("X", checks.floats("X", X), (J, d), "every reading needs the same inputs")
        labels = checks.shape("y", checks.floats("y", y), (J,), "give the target of each device")
        checks.finite_or_missing("X", inputs)
        checks.finite_or_missing("y", labels)
        for device, queue, time, label in zip(self.devices, self.due, when, labels, strict=True):
            queue += device.observe(float(time), float(label))
        while any(self.due):
            self._learn([queue.popleft() if queue else None for queue in self.due])
        self._forecast(inputs, ahead)

    def _learn(self, rows: list[Origin | None]) -> None:
        """A round of the network, from the row of each device that has one."""
        some = next(row for row in rows if row is not None)
        blank = some._replace(known=np.full_like(some.known, np.nan))
        taken = [row or blank for row in rows]
        inputs, labels = np.stack([row.inputs for row in taken]), np.stack([row.known - row.ridge for row in taken])
        kept = [np.concatenate(parts) for parts in zip(*(row.kept for row in taken), strict=True)]
        outgoing = self.rows.learn(self.rows.predict(inputs), labels, self.rows.restored(kept) if kept else None)
        self.rows.merge(self.network.exchange_round(self.rows, outgoing))
        self.n += 1

    def _forecast(self, X: Array, ahead: Array | None) -> None:
        coming = [None] * len(X) if ahead is None else ahead
        origins = [device.look(x, each) for device, x, each in zip(self.devices, X, coming, strict=True)]
        found = self.rows.predict(np.stack([origin.inputs for origin in origins]))
        rest, kept = (np.asarray(found.y_hat), self.rows.kept(found)) if self.n else (np.zeros_like(self.y_hat), None)
        kept = self.rows.kept(found)
        alone = self.rows.alone(found) if self.n else rest
        for j, (device, origin) in enumerate(zip(self.devices, origins, strict=True)):
            self.y_hat[j] = device.expect(origin, rest[j], [] if kept is None else [each[j : j + 1] for each in kept])
            if len(alone):
                self.alone[j] = device.mixed(origin.ridge, alone[j])

    def bounds(self, coverage: float = 0.9) -> tuple[Array, Array]:
        """Low and high of the last forecasts. (J, H) each"""
        found = [device.interval_of(check_coverage(coverage)) for device in self.devices]
        low, high = (np.stack(each) for each in zip(*found, strict=True))
        return low, high

    def naive(self) -> Array:
        """Simple guesses of the same, in the order of `learning.forecast.NAIVE`. (J, H, 4)"""
        return np.stack([device.last.naive for device in self.devices])


class Ahead(NamedTuple):
    """What a simulation with a horizon has besides."""

    horizon: Horizon
    y: Array  # (J, T, H) the labels of the forecasts, NaN where none has come
    naive: dict[str, Array]  # simple guesses, (J, T, H)
    levels: dict[float, tuple[Array, Array]]  # bounds by their coverage, (J, T, H)

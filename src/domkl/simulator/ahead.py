"""Devices that forecast: a `Forecaster` each, and one model over all of them, round by round."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float
from ..exchange.graph import LONE, Graph, GraphLike, as_graph
from ..exchange.message import Exchange
from ..exchange.network import Network
from ..learning.conformal import check_coverage
from ..learning.explain import Function
from ..learning.forecast import NAIVE, Forecaster, Origin
from ..learning.horizon import Horizon, HorizonLike
from ..learning.horizon import horizon as as_horizon
from .driver import Sample, connected, learn_ready
from .results import STOP, Run, RunOptions


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
            raise InputError(
                "horizon is given with a model that is not Auto; expected domkl.Auto(...); leave one out"
            )
        self.settings, self.horizon, self.network = settings, horizon, Network(graph, exchange or Exchange())
        self.devices = [Forecaster(horizon, d, future, *limits) for _ in range(graph.J)]
        self.rows = connected(settings, self.devices[0].inputs, self.network, dtype, len(horizon.leads))
        self.n = 0  # rounds learnt
        self.y_hat, self.alone = np.full((2, graph.J, len(horizon.leads)), np.nan)

    def observe(
        self, times: npt.ArrayLike, X: npt.ArrayLike, y: npt.ArrayLike, ahead: Array | None = None
    ) -> None:
        """A reading of each device: its time, inputs (J, d) and target (J,), NaN where it has none.

        Learns what has become known by it, then forecasts: `y_hat` and `alone`, (J, H). What is known of the
        times that are forecast is `ahead` (J, H, future).
        """
        J, d = len(self.devices), self.devices[0].d
        when = checks.finite(
            "times", checks.shape("times", checks.floats("times", times), (J,), "give one each")
        )
        inputs = checks.shape("X", checks.floats("X", X), (J, d), "every reading needs the same inputs")
        labels = checks.shape("y", checks.floats("y", y), (J,), "give the target of each device")
        checks.finite_or_missing("X", inputs)
        checks.finite_or_missing("y", labels)
        known = zip(self.devices, when.tolist(), labels.tolist(), strict=True)
        due = [deque(map(_to_learn, device.observe(time, label))) for device, time, label in known]
        self.n += learn_ready(self.rows, self.network, due)
        self._forecast(inputs, ahead)

    def _forecast(self, X: Array, ahead: Array | None) -> None:
        coming = [None] * len(X) if ahead is None else ahead
        origins = [device.look(x, each) for device, x, each in zip(self.devices, X, coming, strict=True)]
        found = self.rows.predict(np.stack([origin.inputs for origin in origins]))
        rest = np.asarray(found.y_hat) if self.n else np.zeros_like(self.y_hat)
        kept = self.rows.kept(found)
        alone = self.rows.alone(found) if self.n else rest
        for j, (device, origin) in enumerate(zip(self.devices, origins, strict=True)):
            self.y_hat[j] = device.expect(
                origin, rest[j], [] if kept is None else [each[j : j + 1] for each in kept]
            )
            if len(alone):
                self.alone[j] = device.mixed(origin, alone[j])

    def bounds(self, coverage: float = 0.9) -> tuple[Array, Array]:
        """Low and high of the last forecasts. (J, H) each"""
        found = [device.interval_of(check_coverage(coverage)) for device in self.devices]
        low, high = (np.stack(each) for each in zip(*found, strict=True))
        return low, high

    def as_function(self, j: int, h: int) -> tuple[Function, Array, Array]:
        """The forecast of lead h by device j as a function of rows, remembered rows, and the last row.

        See `Forecaster.as_function` for what a row has. Any moment goes with any phase of the week: which
        of them belong together is not remembered.
        """
        asked = self.rows.as_function(j, h) if self.n else None
        if asked is None:
            raise InputError("no label has come yet; expected a model that was taught; teach it first")
        (model, samples), device = asked, self.devices[j]
        forecast, last = device.as_function(h, model)
        moments = np.random.default_rng(0).random((len(samples), 2))
        known = samples[:, device.inputs - device.future :]
        return forecast, np.column_stack([samples[:, : device.d], moments, known]), last

    def state(self) -> dict[str, Any]:
        """Everything between two readings, by name."""
        return {
            "n": self.n,
            "rows": self.rows.state(),
            "network": self.network.state(),
            "devices": [device.state() for device in self.devices],
            "y_hat": self.y_hat.copy(),
            "alone": self.alone.copy(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`, of devices that were made alike; what cannot be such is a ValueError."""
        J, H = self.y_hat.shape
        checks.tally("n", state["n"])
        checks.need(len(state["devices"]) == J, "it has other devices")
        for name in ("y_hat", "alone"):
            checks.need(state[name].shape == (J, H) and state[name].dtype == np.float64, f"{name} is odd")
        self.settings.check_state(state["rows"], self.devices[0].inputs)
        checks.need(state["rows"]["inputs"] == self.devices[0].inputs, "it has other inputs")
        self.rows.restore(state["rows"])
        self.network.restore(state["network"])
        for device, saved in zip(self.devices, state["devices"], strict=True):
            device.restore(saved)
        self.n, self.y_hat, self.alone = state["n"], np.array(state["y_hat"]), np.array(state["alone"])

    def naive(self) -> Array:
        """Simple guesses of the same, in the order of `learning.forecast.NAIVE`. (J, H, 4)"""
        return np.stack([origin.naive for origin in self.origins()])

    def origins(self) -> list[Origin]:
        """What the last forecasts were made from; there must have been a reading."""
        return [device.last for device in self.devices if device.last is not None]


def _to_learn(origin: Origin) -> Sample:
    """What the model learns of a forecast: what the ridges leave of its labels."""
    return Sample(origin.inputs, origin.known - origin.ridge, origin.kept)


class Ahead(NamedTuple):
    """What a simulation with a horizon has besides its forecasts `y_hat` (J, T, H)."""

    horizon: Horizon
    y: Array  # (J, T, H) the labels of the forecasts, NaN where none has come
    naive: Array  # (J, T, H, 4) simple guesses: see `learning.forecast.NAIVE`
    bounds: dict[float, tuple[Array, Array]]  # low and high, (J, T, H), by the coverage that was asked for
    rows: AheadRows  # the devices themselves

    def errors(self, y_hat: Array) -> Array:
        """Mean squared errors of forecasts (J, T, H), or of guesses, where labels are known. (J, H)"""
        with np.errstate(invalid="ignore"):
            missed = np.where(np.isfinite(self.y) & np.isfinite(y_hat), y_hat - self.y, np.nan)
            return np.asarray(np.nansum(missed**2, 1) / np.isfinite(missed).sum(1))

    def simple(self) -> tuple[Array, tuple[tuple[str, ...], ...]]:
        """The mean squared error of the best simple guess of each learner and lead (J, H), and its name."""
        errors = np.stack([self.errors(self.naive[..., k]) for k in range(len(NAIVE))], -1)
        best = np.where(np.isnan(errors), np.inf, errors).argmin(-1)
        return errors.min(-1, initial=np.inf, where=np.isfinite(errors)), tuple(
            tuple(NAIVE[k] for k in row) for row in best
        )


class Readings(NamedTuple):
    """The streams of J devices, and what is known ahead."""

    times: Array  # (J, T)
    X: Array  # (J, T, d)
    y: Array  # (J, T) NaN where a reading has no target
    future: tuple[int, ...] = ()  # inputs that are known ahead

    @property
    def rounds(self) -> int:
        """Rounds up to the last target; later ones only tell what is known ahead."""
        return int(np.flatnonzero(np.isfinite(self.y).any(0))[-1]) + 1

    def ahead(self, horizon: Horizon, t: int) -> Array | None:
        """The inputs known ahead, of the rows at the times that are forecast from round t. (J, H, future)"""
        if not self.future:
            return None
        return np.stack([self._ahead(horizon, j, t) for j in range(len(self.X))])

    def _ahead(self, horizon: Horizon, j: int, t: int) -> Array:
        times, leads = self.times[j], np.array(horizon.leads)
        if horizon.rows:
            at, good = t + leads.astype(int), t + leads < len(times)
        else:
            wanted = times[t] + leads
            after = np.clip(np.searchsorted(times, wanted), 1, len(times) - 1)
            at = np.where(wanted - times[after - 1] < times[after] - wanted, after - 1, after)
            good = np.abs(times[at] - wanted) <= 0.5 * leads[0]
        found = self.X[j][np.minimum(at, len(times) - 1)][:, list(self.future)]
        return np.where(good[:, None], found, np.nan)


def readings(
    X: npt.ArrayLike, y: npt.ArrayLike, times: npt.ArrayLike | None, horizon: Horizon, future: Sequence[int]
) -> Readings:
    """Streams for a simulation, checked; without times only a horizon in rows is possible."""
    inputs, labels = checks.floats("X", X), checks.floats("y", y)
    if inputs.ndim != 3:
        raise InputError(
            f"X has shape {inputs.shape}; expected (J, T, d): learners, rounds, inputs; reshape it"
        )
    checks.shape("y", labels, inputs.shape[:2], "a horizon needs one target, in each round")
    if times is None and not horizon.rows:
        raise InputError(
            'horizon is in times and no times are given; expected times= in seconds, or "24 rows"; give one'
        )
    when = np.arange(inputs.shape[1], dtype=float) if times is None else seconds(times)
    when = np.broadcast_to(when, inputs.shape[:2]) if when.ndim == 1 else when
    checks.shape("times", when, inputs.shape[:2], "give a time for each round, or for each learner and round")
    if not np.isfinite(labels).any():
        raise InputError("y has no target at all; expected some numbers to learn from; give them")
    for name in future:
        checks.count("a column of future", name, 0, inputs.shape[2] - 1)
    return Readings(checks.finite("times", when), inputs, labels, tuple(future))


def seconds(times: Any) -> Array:
    """Seconds since 1970: of numbers, datetimes (in UTC if they do not say) or NumPy's times."""
    found = np.asarray(times)
    if found.dtype.kind == "O" and found.size and isinstance(found.flat[0], datetime):
        stamps = [_utc(each).timestamp() for each in found.flat]
        return np.array(stamps).reshape(found.shape)
    if found.dtype.kind == "M":
        return found.astype("datetime64[ns]").astype(np.int64) / 1e9
    return checks.floats("times", found)


def _utc(when: datetime) -> datetime:
    return when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)


def simulate(
    settings: Any,
    X: Any,
    y: Any,
    graph: GraphLike,
    how: RunOptions,
    horizon: HorizonLike,
    *,
    times: npt.ArrayLike | None,
    future: Sequence[int],
    levels: Sequence[float],
    least: float | None,
    most: float | None,
) -> Run:
    """Let a network forecast streams, as `domkl.simulate` says."""
    if how.delays is not None:
        raise InputError("delay is given for each label; expected X and y as arrays, and no horizon")
    if how.engine == "mpi":
        raise InputError("engine is 'mpi' and a horizon is given; expected one process; leave out the engine")
    leads = as_horizon(horizon)
    streams = readings(X, y, times, leads, future)
    return _drive(settings, streams, leads, as_graph(graph, len(streams.X)), how, Limits(least, most), levels)


def _drive(
    settings: Any,
    readings: Readings,
    horizon: Horizon,
    graph: Graph,
    how: RunOptions,
    limits: Limits,
    levels: Sequence[float],
) -> Run:
    (J, _, d), T = readings.X.shape, readings.rounds
    rows = AheadRows(
        settings,
        horizon,
        d,
        graph,
        how.dtype,
        future=len(readings.future),
        limits=limits,
        exchange=how.exchange,
    )
    H = len(horizon.leads)
    y_hat, alone = np.full((2, J, T, H), np.nan)
    bounds = {level: np.full((2, J, T, H), np.nan) for level in levels}
    naive, labels = np.full((J, T, H, len(NAIVE)), np.nan), []
    done = T
    for t in range(T):
        rows.observe(readings.times[:, t], readings.X[:, t], readings.y[:, t], readings.ahead(horizon, t))
        y_hat[:, t], alone[:, t], naive[:, t] = rows.y_hat, rows.alone, rows.naive()
        labels.append([origin.known for origin in rows.origins()])  # filled in as labels come
        for level, (low, high) in bounds.items():
            low[:, t], high[:, t] = rows.bounds(level)
        if how.progress is not None and how.progress(t + 1, T) == STOP:
            done = t + 1
            break
    kept = {level: (low[:, :done], high[:, :done]) for level, (low, high) in bounds.items()}
    found = Ahead(horizon, np.array(labels).swapaxes(0, 1), naive[:, :done], kept, rows)
    return _run(rows, graph, found, y_hat[:, :done], alone[:, :done])


def _run(rows: AheadRows, graph: Graph, found: Ahead, y_hat: Array, alone: Array) -> Run:
    J, T, H = y_hat.shape
    none, network = np.empty((J, H, 0)), rows.network
    return Run(
        y_hat=y_hat,
        mse=found.errors(y_hat),
        cv=np.zeros((J, H)),
        theta=np.empty((0, 0, 0)),
        lam=np.empty((0, 0, 0)),
        L=np.empty((J, 0)),
        q=rows.rows.weights,
        kernel_mse=none,
        kernel_cv=none,
        q_path=np.empty((0, *rows.rows.weights.shape)),
        q_rounds=np.empty(0, int),
        graph=graph,
        sent=network.sent / T,
        bytes=network.bytes / T,
        alone=found.errors(alone),
        believed=network.believed,
        ahead=found,
    )

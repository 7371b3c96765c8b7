"""The shipped set: three New York airports forecast their own temperature.

Hourly weather of Newark (EWR), Kennedy (JFK) and La Guardia (LGA) in 2013; see
`domkl/data/README.md` for its origin. Each airport is a learner. At each hour it
forecasts the temperature `horizon` hours later, and learns the truth of that hour before it
forecasts from it.

Nothing comes from the future: cells missing or implausible take the last value
seen, and every feature is scaled to [0, 1] with fixed bounds, below, not with the
data's own range. A target that falls in a gap (24 to 28 hours per airport) is the
last value seen as well.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from .dataset import Split
from .uci import STATIONS

Hours = NDArray[np.datetime64]

AIRPORTS = ("EWR", "JFK", "LGA")

# Unit, bounds, and what stands in until the first value: the city's records with a margin.
COLUMNS: dict[str, tuple[float, float, float]] = {
    "temp": (-20.0, 110.0, 50.0),  # °F
    "dewp": (-40.0, 90.0, 40.0),  # °F
    "humid": (0.0, 100.0, 60.0),  # %
    "wind_dir": (0.0, 360.0, 0.0),  # degrees, where the wind comes from
    "wind_speed": (0.0, 100.0, 0.0),  # mph
    "precip": (0.0, 5.0, 0.0),  # inches in the hour
    "pressure": (940.0, 1060.0, 1013.25),  # hPa at sea level
    "visib": (0.0, 10.0, 10.0),  # miles; 10 is as far as it is reported
}
COLD, HOT, _ = COLUMNS["temp"]
WIND = 50.0  # mph, either way
RAIN = 2.0  # inches in the hour
CHANGE = 10.0  # °F in an hour; over k hours its square root of k fold, as of a random walk

START = np.datetime64("2013-01-01T00", "h")  # UTC

# The clocks of New York: UTC-5, and UTC-4 between these two instants.
SUMMER = np.array(["2013-03-10T07", "2013-11-03T06"], dtype="datetime64[h]")


def load_stations(horizon: int = 6, lags: Sequence[int] = (1, 3, 24)) -> Split:
    """Forecast the temperature at three airports `horizon` hours ahead.

    Features: temperature, dew point, humidity, the wind's two components, pressure,
    visibility, rain, the temperature's change over the last `lags` hours, and hour of
    day and day of year as points on a circle. `to_degrees` turns y into °F.

    >>> split = load_stations(horizon=6)
    >>> split.X.shape, split.y.shape, split.names, split.delay
    ((3, 8700, 15), (3, 8700), ('EWR', 'JFK', 'LGA'), 5)
    >>> to_degrees(split.y[:, 0]).round(2).tolist()
    [24.98, 23.0, 24.08]
    """
    values, hours = _grid()
    start, T = _span(len(hours), horizon, lags)
    F = features(values, hours, lags)
    y = _unit(carry_forward(values)[..., 0], COLD, HOT)
    return Split(
        F[:, start : start + T],
        y[:, start + horizon : start + horizon + T],
        AIRPORTS,
        len(AIRPORTS) * (len(hours) - T),
        horizon - 1,  # the temperature of now is an input: what was forecast for now is learnt before
        np.tile(_seconds(hours[start + horizon : start + horizon + T]), (len(AIRPORTS), 1)),
    )


def load_readings() -> Split:
    """What the three stations measure, hour by hour, with the temperature in °F as the target of that hour.

    For forecasts: `domkl.simulate(..., horizon=..., times=split.times)`. Missing cells are NaN.

    >>> split = load_readings()
    >>> split.X.shape, split.y[0, :3].round(1).tolist()
    ((3, 8730, 7), [39.0, 39.0, 39.0])
    """
    values, hours = _grid()
    low, high, _ = np.array(list(COLUMNS.values())).T
    good = np.where((values >= low) & (values <= high), values, np.nan)
    times = np.tile(_seconds(hours), (len(AIRPORTS), 1))
    return Split(good[..., 1:], good[..., 0], AIRPORTS, 0, 0, times)


def _seconds(hours: Hours) -> Array:
    return hours.astype("datetime64[s]").astype(np.float64)


def persistence(horizon: int = 6, lags: Sequence[int] = (1, 3, 24)) -> Array:
    """The forecast "as it is now" for every sample of `load_stations`, (3, T), on the scale of y.

    >>> y = load_stations(horizon=24).y
    >>> round(float(np.mean((to_degrees(persistence(24)) - to_degrees(y)) ** 2)), 1)
    47.6
    """
    values, hours = _grid()
    start, T = _span(len(hours), horizon, lags)
    return _unit(carry_forward(values)[:, start : start + T, 0], COLD, HOT)


def to_degrees(y: ArrayLike) -> Array:
    """Temperature in °F of scaled values; a squared error grows (HOT - COLD)² = 16900 fold.

    >>> to_degrees([0.0, 0.5, 1.0]).tolist()
    [-20.0, 45.0, 110.0]
    """
    return COLD + (HOT - COLD) * np.asarray(y, dtype=np.float64)


def feature_names(lags: Sequence[int] = (1, 3, 24)) -> tuple[str, ...]:
    """Names of the features, in order.

    >>> len(feature_names())
    15
    """
    now = ("temp", "dewp", "humid", "wind_east", "wind_north", "pressure", "visib", "precip")
    clock = ("hour_sin", "hour_cos", "day_sin", "day_cos")
    return (*now, *(f"temp_change_{k}h" for k in lags), *clock)


def _span(hours: int, horizon: int, lags: Sequence[int]) -> tuple[int, int]:
    """First hour with all lags, and the number of samples T."""
    checks.count("horizon", horizon, 1)
    start = max((checks.count("a lag", k, 1) for k in lags), default=0)
    T = hours - start - horizon
    if T < 1:
        raise InputError(f"horizon {horizon} and lag {start} exceed the {hours} hours at hand; give less")
    return start, T


@lru_cache(maxsize=1)
def _grid() -> tuple[Array, Hours]:
    """Values (3, H, 8) on one hourly grid, NaN where missing, and the hours in UTC (H,)."""
    _, *rows = csv.reader(io.StringIO(gzip.decompress(STATIONS.read_bytes()).decode()))
    table = np.array([[float(cell or "nan") for cell in row] for row in rows])  # (H, 1 + 3 * 8)
    values = table[:, 1:].reshape(len(table), len(AIRPORTS), len(COLUMNS)).swapaxes(0, 1)
    values.setflags(write=False)
    return values, START + table[:, 0].astype("timedelta64[h]")


def carry_forward(values: Array) -> Array:
    """Missing and implausible cells of (J, H, 8) replaced by the last good value of their column.

    >>> v = np.full((1, 3, 8), np.nan); v[0, :, 0] = 40, np.nan, 999
    >>> carry_forward(v)[0, :, 0].tolist()
    [40.0, 40.0, 40.0]
    """
    low, high, first = np.array(list(COLUMNS.values())).T
    good = (values >= low) & (values <= high)  # NaN compares false
    hours = np.arange(values.shape[1])[:, None]
    last = np.maximum.accumulate(np.where(good, hours, -1), axis=1)
    seen = np.take_along_axis(values, np.maximum(last, 0), axis=1)
    return np.where(last < 0, first, seen)


def features(values: Array, hours: Hours, lags: Sequence[int]) -> Array:
    """Features (J, H, d) of raw values (J, H, 8); those of an hour use this hour and earlier ones."""
    c = dict(zip(COLUMNS, np.moveaxis(carry_forward(values), -1, 0), strict=True))
    angle = np.radians(c["wind_dir"])
    now = [_unit(c[name], *COLUMNS[name][:2]) for name in ("temp", "dewp", "humid")]
    now += [_unit(c["wind_speed"] * part(angle), -WIND, WIND) for part in (np.sin, np.cos)]
    now += [_unit(c[name], *COLUMNS[name][:2]) for name in ("pressure", "visib")]
    now += [_unit(c["precip"], 0.0, RAIN)]
    changes = [_change(c["temp"], k) for k in lags]
    clock = [np.broadcast_to(v, c["temp"].shape) for v in _clock(hours)]
    return np.stack([*now, *changes, *clock], axis=-1)


def _unit(v: Array, low: float, high: float) -> Array:
    """Bounds to 0 and 1, and nothing beyond."""
    return np.clip((v - low) / (high - low), 0.0, 1.0)


def _change(temp: Array, k: int) -> Array:
    """Change of (J, H) over the last k hours; none is known of the first k."""
    before = np.concatenate([np.repeat(temp[:, :1], k, axis=1), temp], axis=1)[:, : temp.shape[1]]
    bound = CHANGE * float(np.sqrt(k))
    return _unit(temp - before, -bound, bound)


def _clock(hours: Hours) -> list[Array]:
    """Local hour of day and day of year on circles, as sin and cos in [0, 1]."""
    summer = (hours >= SUMMER[0]) & (hours < SUMMER[1])
    local = hours - np.timedelta64(5, "h") + summer.astype("timedelta64[h]")
    day = local.astype("datetime64[D]")
    turns = [
        (local - day) / np.timedelta64(24, "h"),
        (day - local.astype("datetime64[Y]")) / np.timedelta64(365, "D"),
    ]
    return [(1 + part(2 * np.pi * turn)) / 2 for turn in turns for part in (np.sin, np.cos)]

"""Hourly series to forecast: five that were looked at while features were chosen, others that were not, and
one made to have two states.

    from series import SERIES
    series = SERIES["traffic"](5000)     # times in seconds, inputs, target

Everything is as in the source; rows that are missing are missing, so that times count.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from domkl.datasets import stations

FOLDER = Path(os.environ.get("DOMKL_DATA", "data"))
HOUR, DAY, WEEK = 3600.0, 86400.0, 604800.0


class Series(NamedTuple):
    """One device's readings, in order of time."""

    times: np.ndarray  # (T,) seconds
    X: np.ndarray  # (T, d) NaN where missing
    y: np.ndarray  # (T,)
    future: tuple[int, ...] = ()  # inputs that are known ahead
    state: np.ndarray | None = None  # (T,) whether errors are large, where two states are made
    by_clock: bool = False  # whether the state is that of the time that is forecast, or of now


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = gzip.decompress((FOLDER / name).read_bytes()).decode()
    yield from csv.DictReader(io.StringIO(text))


def _seconds(text: str, form: str = "%Y-%m-%d %H:%M:%S") -> float:
    return datetime.strptime(text, form).replace(tzinfo=timezone.utc).timestamp()


def station(place: int = 1, rows: int = 5000) -> Series:
    """Temperature of a shipped station, with what it measures besides."""
    values, hours = stations._grid()
    carried = stations.carry_forward(values)[place][:rows]
    return Series(hours[:rows].astype("datetime64[s]").astype(float), carried[:, 1:], carried[:, 0])


def traffic(rows: int = 5000) -> Series:
    """Cars in an hour on a road to Minneapolis; the hours that are missing are missing."""
    found: dict[float, tuple[list[float], float]] = {}
    kinds: dict[str, int] = {}
    for row in _rows("metro_traffic.csv.gz"):
        when = _seconds(row["date_time"])
        if when in found:
            continue
        sky = kinds.setdefault(row["weather_main"], len(kinds))
        numbers = [float(row[name]) for name in ("temp", "rain_1h", "snow_1h", "clouds_all")]
        holiday = float(row["holiday"] != "None")
        found[when] = (
            [*numbers, holiday, *(float(sky == k) for k in range(11))],
            float(row["traffic_volume"]),
        )
        if len(found) == rows:
            break
    times = sorted(found)
    return Series(
        np.array(times), np.array([found[t][0] for t in times]), np.array([found[t][1] for t in times])
    )


def bike(rows: int = 5000) -> Series:
    """Bicycles hired in an hour; the set has no dates, so its hours say which are missing."""
    data = np.load(FOLDER / "streams" / "bike.npz")
    X, y = data["X"].astype(float)[:rows], data["y"].astype(float)[:rows]
    hours = X[:, 3].round().astype(int)
    steps = np.where(np.arange(len(hours)) > 0, (hours - np.roll(hours, 1) - 1) % 24 + 1, 0)
    return Series(_seconds("2011-01-01 00:00:00") + HOUR * np.cumsum(steps), X, y)


def air(rows: int = 5000) -> Series:
    """Carbon monoxide in an Italian street, beside five other sensors; hours without it are left out."""
    names = (
        "PT08.S1(CO)",
        "C6H6(GT)",
        "PT08.S2(NMHC)",
        "NOx(GT)",
        "PT08.S3(NOx)",
        "NO2(GT)",
        "T",
        "RH",
        "AH",
    )
    kept = [row for row in _rows("air_quality_xlsx.csv.gz") if float(row["CO(GT)"]) != -200][:rows]
    X = np.array([[float(row[name]) for name in names] for row in kept])
    times = [_seconds(f"{row['Date']} {row['Time']}") for row in kept]
    return Series(
        np.array(times), np.where(X == -200, np.nan, X), np.array([float(r["CO(GT)"]) for r in kept])
    )


def shop(rows: int = 5000, seed: int = 0) -> Series:
    """Made demand of a shop: steps by hour of the week, closed at night and on Sundays, promotions."""
    rng, t = np.random.default_rng(seed), np.arange(rows)
    hour, day = t % 24, t // 24 % 7
    is_open = (hour >= 8) & (hour < 20) & (day < 6)
    level = 60 + 80 * (hour >= 11) * (hour < 14) + 50 * (hour >= 17) + 60 * (day == 5)
    promotion = np.repeat(rng.uniform(size=rows // 24 + 1) < 0.15, 24)[:rows]
    warm = (
        15 + 10 * np.sin(2 * np.pi * t / 8766) + np.repeat(3 * rng.standard_normal(rows // 24 + 1), 24)[:rows]
    )
    drift = np.exp(np.cumsum(0.01 * rng.standard_normal(rows)) * 0.3)
    mean = is_open * level * (1 + 0.6 * promotion) * (1 + 0.01 * (warm - 15)) * drift
    y = rng.poisson(np.maximum(mean, 0)) * rng.lognormal(0, 0.2, rows)
    X = np.stack([promotion, warm], axis=1).astype(float)
    return Series(_seconds("2022-01-03 00:00:00") + HOUR * t, X, np.round(y), (), is_open, True)


def machine(rows: int = 5000, seed: int = 0) -> Series:
    """Made: a daily course with little noise, six times as much while a machine runs, which is an input."""
    rng, t = np.random.default_rng(seed), np.arange(rows)
    runs = np.cumsum(rng.uniform(size=rows) < 1 / 40) % 2 == 1
    y = 50 + 10 * np.sin(2 * np.pi * t / 24) + np.where(runs, 6, 1) * rng.standard_normal(rows)
    return Series(_seconds("2022-01-03 00:00:00") + HOUR * t, runs[:, None].astype(float), y, (), runs)


def nitrogen(rows: int = 5000, target: str = "NO2(GT)") -> Series:
    """NO2, or another target, in the same Italian street: nobody had looked at it."""
    kept = [row for row in _rows("air_quality_xlsx.csv.gz") if float(row[target]) != -200][:rows]
    names = ("PT08.S4(NO2)", "PT08.S5(O3)", "T", "RH", "AH")
    X = np.array([[float(row[name]) for name in names] for row in kept])
    times = [_seconds(f"{row['Date']} {row['Time']}") for row in kept]
    return Series(np.array(times), np.where(X == -200, np.nan, X), np.array([float(r[target]) for r in kept]))


def demand(rows: int = 5000) -> Series:
    """Demand for electricity in New South Wales, every second half hour; nobody had looked at it."""
    data = np.load(FOLDER / "streams" / "electricity.npz")
    X = data["X"].astype(float)[: 2 * rows : 2]
    return Series(_seconds("1996-05-07 00:00:00") + HOUR * np.arange(len(X)), X[:, [3, 5, 6, 7]], X[:, 4])


#: The first five are those at which inputs were chosen.
SERIES: dict[str, Callable[..., Series]] = {
    "stations": lambda rows=5000: station(1, rows),
    "traffic": traffic,
    "bike": bike,
    "air": air,
    "shop": shop,
    "nitrogen": nitrogen,  # from here on not looked at before
    "oxides": partial(nitrogen, target="NOx(GT)"),
    "demand": demand,
    "first station": partial(station, 0),
    "third station": partial(station, 2),
    "machine": machine,
}

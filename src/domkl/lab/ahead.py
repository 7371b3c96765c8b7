"""Forecasts of a user's own table: its series by learner, a run over them, and its errors by lead."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array
from ..base.words import iso, number, plural, trimmed
from ..datasets import Table, read_table
from ..datasets import stations as station_series
from ..datasets.columns import Columns
from ..datasets.dataset import START, by_start
from ..faces.ahead import Forecasts
from ..learning.forecast import Forecaster, Origin
from ..learning.horizon import Horizon
from ..simulator import Run
from ..simulator.ahead import Readings
from . import results
from .sheet import Sheet

#: Coverages of the bounds that a run shows.
LEVELS = (0.8, 0.9, 0.95)
#: predictions.csv has at most so many lines; of longer streams it has the last readings.
MOST_LINES = 200_000
#: What the columns of the sheet are.
LEGEND = {
    "RMSE": "root of the mean squared error of forecasts made before their label",
    "alone": "the same, had each learner its own readings only",
    "simple guess": "the least RMSE of: last value, same time yesterday or last week, mean of the hour",
    "in 90 %": "share of labels inside of the bounds that are to hold 90 %",
}


class Series(NamedTuple):
    """The series of a table, one for each learner, in order of time."""

    readings: Readings
    rounds: int  # readings up to the last target; later rows only tell what is known ahead
    names: tuple[str, ...]
    table: Table
    notes: tuple[str, ...]

    def first(self, rounds: int) -> Series:
        """The first rounds alone; the inputs of later ones stay known where they are known ahead."""
        T = min(checks.count("rounds", rounds, 2), self.rounds)
        y = self.readings.y.copy()
        y[:, T:] = np.nan
        return self._replace(readings=self.readings._replace(y=y), rounds=T)


def series_of(
    source: Any, columns: Columns, horizon: Horizon, *, query: str = "", future: Sequence[str] = ()
) -> Series:
    """Read a table as series; rows without a target stay, since their inputs count."""
    if columns.also:
        raise InputError(
            f"--target names {len(columns.targets)} columns and a horizon is given; expected one; run "
            "each by itself"
        )
    if columns.known:
        raise InputError("--known is given with a horizon, whose labels are later rows; leave one out")
    table = read_table(source, columns, query=query, unlabelled=True)
    if not table.target or not np.isfinite(table.y).any():
        raise DataError(
            f"{table.name} has no value of its target; expected some to learn from; name it with --target"
        )
    if table.labels:
        raise DataError(f"target {table.target!r} has classes; expected numbers to forecast; choose another")
    if table.times is None and not horizon.rows:
        raise DataError(
            f'{table.name} has no time column; expected one for a horizon in times; say "24 rows", or --time'
        )
    places = tuple(place for name in future for place in _places(table, name))
    who = table.learners or ("",) * len(table.y)
    names = tuple(dict.fromkeys(who))
    groups = [_in_time(table, np.flatnonzero([each == name for each in who])) for name in names]
    repeated = len(who) - sum(map(len, groups))
    lasts = [
        int(np.flatnonzero(np.isfinite(table.y[group]))[-1]) + 1 if np.isfinite(table.y[group]).any() else 0
        for group in groups
    ]
    T, more = min(lasts), min(len(group) - last for group, last in zip(groups, lasts, strict=True))
    if T < 2:
        name = names[lasts.index(T)]
        raise DataError(
            f"{table.name}: learner {name!r} has {plural(T, 'target')}; expected two or more; leave it out"
        )
    rows = np.stack([group[last - T : last + more] for group, last in zip(groups, lasts, strict=True)])
    times = (
        np.tile(np.arange(rows.shape[1], dtype=float), (len(rows), 1))
        if table.times is None
        else table.times[rows]
    )
    left = sum(lasts) - T * len(names)
    notes = [*table.notes]
    notes += [f"{plural(repeated, 'row')} left out: no time, or the time of another"] * bool(repeated)
    notes += [f"{plural(left, 'row')} not used, so that all series are of one length"] * bool(left)
    longest = T - 1 if horizon.rows else float((times[:, T - 1] - times[:, 0]).max())
    notes += _untold(horizon, longest, table)
    return Series(Readings(times, table.X[rows], table.y[rows], places), T, names, table, tuple(notes))


def _untold(horizon: Horizon, longest: float, table: Table) -> list[str]:
    """That some leads are longer than the data; refused where all are."""
    far = [name for name, lead in zip(horizon.names, horizon.leads, strict=True) if lead > longest]
    named = ", ".join(far[:5]) + (" .." if len(far) > 5 else "")
    if len(far) == len(horizon.names):
        raise DataError(
            f"{table.name} has no two readings that are {named} apart; expected some to learn from; "
            "choose a shorter --horizon"
        )
    return [f"no two readings are {named} apart: nothing is learnt of such leads"] * bool(far)


def stations() -> Series:
    """The series of the shipped stations."""
    split = station_series.load_readings()
    assert split.times is not None
    names = tuple(station_series.COLUMNS)[1:]
    T = int(np.flatnonzero(np.isfinite(split.y).any(0))[-1]) + 1
    table = Table("stations", split.X[0], split.y[0], names, "temperature", None, times=split.times[0])
    return Series(Readings(split.times, split.X, split.y), T, split.names, table, ())


def _places(table: Table, name: str) -> list[int]:
    """The inputs that are made of a column."""
    found = [
        i
        for i, each in enumerate(table.feature_names)
        if each == name or each.startswith((f"{name}=", f"{name}:"))
    ]
    if not found:
        known = ", ".join(table.feature_names[:8])
        raise InputError(
            f"future names {name!r}, which makes no input; expected columns such as {known}; fix it"
        )
    return found


def _in_time(table: Table, rows: Any) -> Any:
    """Rows in order of time, without those that have none or that of a row before."""
    if table.times is None:
        return rows
    rows = rows[np.isfinite(table.times[rows])]
    later = np.diff(table.times[rows], prepend=-np.inf) > 0
    return rows[later]


def lead_rows(run: Run) -> list[dict[str, Any]]:
    """Errors of each lead, means over the learners; what is not known is None."""
    found = run.ahead
    assert found is not None
    simple, which = found.simple()
    errors = [roots(each) for each in (run.mse, run.alone, simple)]
    rows = []
    for h, name in enumerate(found.horizon.names):
        inside = {
            f"{100 * level:g}": _share(found.y[..., h], low[..., h], high[..., h])
            for level, (low, high) in found.bounds.items()
        }
        words = sorted({row[h] for row in which})
        rows.append(
            {
                "lead": name,
                **{
                    key: each[h]
                    for key, each in zip(("rmse", "rmse_alone", "rmse_simple"), errors, strict=True)
                },
                "simple": ", ".join(words),
                "coverage": inside,
                "known": int(np.isfinite(found.y[..., h]).sum()),
            }
        )
    return rows


class Lead(NamedTuple):
    """One lead for a learner that knows no horizon: what a forecaster sees, and when the label is there."""

    X: Array  # (T, J, c) in [0, 1]
    y: Array  # (T, J) the label less the last value, in `width`s; NaN where none comes
    told: Array  # (T, J) the round in which it is known
    last: Array  # (T, J)
    width: float

    def forecasts(self, model: Any) -> Array:
        """What one learner of all readings says, which learns each label in the round that it is known."""
        T, J = self.y.shape
        due: list[list[tuple[int, int]]] = [[] for _ in range(T)]
        for t, j in np.argwhere(np.isfinite(self.y)).tolist():
            due[int(self.told[t, j])].append((t, j))
        y_hat = np.empty((T, J))
        for t in range(T):
            for place in due[t]:
                model.learn(self.X[place], float(self.y[place]))
            y_hat[t] = [float(model.predict(x)) for x in self.X[t]]
        return np.asarray(self.last + self.width * y_hat)


def leads(series: Series, horizon: Horizon) -> list[Lead]:
    """The series as any learner can learn it, scaled by the first rounds: a stream for each lead."""
    seen = [_seen(series, horizon, j) for j in range(len(series.names))]
    columns, known, told, last = (np.stack(each, 1) for each in zip(*seen, strict=True))
    first = series.readings.y[:, : min(START, series.rounds)]
    width = float(np.nanmax(first) - np.nanmin(first)) or 1.0
    found = []
    for h in range(len(horizon.leads)):
        X, _ = by_start(columns[:, :, h].swapaxes(0, 1))
        y = (known[..., h] - last) / width
        found.append(Lead(np.clip(X, 0, 1).swapaxes(0, 1), y, told[..., h], last, width))
    return found


def _seen(series: Series, horizon: Horizon, j: int) -> tuple[Array, Array, Array, Array]:
    """What a device without a model has: columns (T, H, c), labels, their rounds (T, H), last values (T,)."""
    data, T = series.readings, series.rounds
    device, rows = Forecaster(horizon, data.X.shape[2], len(data.future)), list[Origin]()
    told, waiting = np.full((T, len(horizon.leads)), T), list[int]()  # rounds whose labels may still come
    for t in range(T):
        device.observe(float(data.times[j, t]), float(data.y[j, t]))
        for s in waiting:
            told[s, np.isfinite(rows[s].known) & (told[s] == T)] = t
        oldest = device.waiting[0].time if device.waiting else np.inf
        waiting = [s for s in waiting if rows[s].time >= oldest]
        coming = data.ahead(horizon, t)
        rows.append(device.look(data.X[j, t], None if coming is None else coming[j]))
        device.expect(rows[-1], np.zeros(len(horizon.leads)))
        if device.waiting[-1].time == rows[-1].time:
            waiting.append(t)
    columns, known = (np.array([getattr(row, name) for row in rows]) for name in ("columns", "known"))
    return columns, known, told, np.array([row.last for row in rows])


def roots(mse: Array) -> list[float | None]:
    """Root mean squared errors of each lead, from those of learners and leads (J, H); None if not known."""
    return [_finite(value) for value in np.sqrt(mse.mean(0))]


def _share(y: Array, low: Array, high: Array) -> float | None:
    told = np.isfinite(y) & np.isfinite(high - low)
    return float(((low <= y) & (y <= high))[told].mean()) if told.any() else None


def sheet(rows: list[dict[str, Any]], title: str, J: int) -> Sheet:
    """The table of errors by lead."""
    heads = ("lead", "RMSE", *(["alone"] if J > 1 else []), "simple guess", "which", "in 90 %")
    cells = []
    for row in rows:
        inside = row["coverage"].get("90")
        alone = [number(row["rmse_alone"])] if J > 1 else []
        share = "–" if inside is None else f"{100 * inside:.1f} %"
        cells.append(
            [row["lead"], number(row["rmse"]), *alone, number(row["rmse_simple"]), row["simple"], share]
        )
    words = frozenset({0, len(heads) - 2})
    legend = {head: meaning for head, meaning in LEGEND.items() if head in heads}
    return Sheet(title, heads, cells, words=words, bold=frozenset(), spare=(), legend=legend)


#: Columns of forecast.csv and predictions.csv; learner and time where there are some.
HEADS = ("learner", "made", "lead", "time", "y", "y_hat", "low", "high")


def forecast_rows(model: Forecasts, coverage: float) -> list[dict[str, Any]]:
    """The forecasts from the last readings with their bounds, one row for each learner and lead."""
    (low, high), y_hat, horizon = model.rows.bounds(coverage), model.rows.y_hat, model.horizon
    names, rows = model.learners, []
    for j, h in itertools.product(range(len(names)), range(len(horizon.leads))):
        row: dict[str, Any] = {"learner": str(names[j])} if len(names) > 1 else {}
        row["lead"] = horizon.names[h]
        if not horizon.rows:
            row["time"] = iso(model.rows.devices[j].now + horizon.leads[h])
        bounds = {name: _finite(value) for name, value in (("low", low[j, h]), ("high", high[j, h]))}
        rows.append({**row, "y_hat": trimmed(y_hat[j, h]), **bounds})
    return rows


def _finite(value: float) -> float | None:
    return trimmed(value) if np.isfinite(value) else None


def write_predictions(run: Run, series: Series, path: Path, level: float = 0.9) -> tuple[Path, int]:
    """The forecasts of the last readings with their bounds and labels; the path, and of how many readings."""
    found = run.ahead
    assert found is not None
    J, T, H = run.y_hat.shape
    first = max(0, T - MOST_LINES // (J * H))
    low, high = found.bounds[level]
    rows = []
    for t, j, h in itertools.product(range(first, T), range(J), range(H)):
        numbers = (found.y[j, t, h], run.y_hat[j, t, h], low[j, t, h], high[j, t, h])
        made = iso(float(series.readings.times[j, t])) if series.table.times is not None else t
        cells = dict(zip(HEADS[4:], map(results.plain, numbers), strict=True))
        rows.append({"learner": series.names[j], "made": made, "lead": found.horizon.names[h], **cells})
    heads = tuple(head for head in HEADS if head != "time" and (head != "learner" or J > 1))
    return results.write_table(iter(rows), heads, path), T - first

"""Forecasts of hourly series: all leads in one run, one lead, LightGBM and ridge refitted, naive, MSTL.

    python benchmarks/forecast.py --parts ours,one --seeds 10    what is not kept yet
    python benchmarks/forecast.py --parts ridge,lightgbm,classical --only traffic

One device of `domkl.Auto` (size 400, float32), a series of `series.py`, leads 1 to 24 h; root mean squared
errors after row 500 at 1, 6 and 24 h, of the same labels for all. `one`: the same learner with one horizon.
`lightgbm` and `ridge` get the very inputs of the learner (`Forecaster.look`) and are refitted every 500
rows on all rows whose label is known; of three targets (raw, less last value, less profile) the best in
hindsight counts. MSTL and AutoETS forecast from every `EVERY`-th row only, from the last four weeks, and
are compared with ours, of the first seed, at the same rows. Coverage is of 80, 90 and 95 % bounds, and of
90 % bounds in both states where a series has two. Series that were looked at while features were chosen:
stations, traffic, bike, air, shop.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from series import SERIES, Series

import domkl
from domkl.learning.forecast import Forecaster
from domkl.learning.horizon import horizon

RESULTS = Path(__file__).parent / "results" / "forecast.json"
LEADS, SHOWN, FIRST, REFIT, EVERY = "1h..24h", (1, 6, 24), 500, 500, 97
LEVELS = (0.8, 0.9, 0.95)
SEEDED, RIVALS = ("ours", "one"), ("ridge", "lightgbm", "classical")
Row = dict[str, Any]


def run(series: Series, leads: str, seed: int, levels: tuple[float, ...] = ()) -> tuple[domkl.Run, float]:
    start = time.process_time()
    found = domkl.simulate(
        series.X[None], series.y[None], [[0]], model=domkl.Auto(size=400, seed=seed), horizon=leads,
        times=series.times, levels=levels, dtype=np.float32, threads=1,
    )  # fmt: skip
    return found, time.process_time() - start


def rmse(y_hat: np.ndarray, y: np.ndarray) -> float:
    return round(float(np.sqrt(np.nanmean((y_hat[FIRST:] - y[FIRST:]) ** 2))), 5)


def ours(series: Series, seed: int) -> tuple[Row, domkl.Run]:
    found, _ = run(series, LEADS, seed, LEVELS)
    assert found.ahead is not None
    y, y_hat, naive = found.ahead.y[0], found.y_hat[0], found.ahead.naive[0]
    row: Row = {"rmse": [rmse(y_hat[:, h], y[:, h]) for h in range(24)]}
    row["naive"] = [min(rmse(naive[:, h, k], y[:, h]) for k in range(4)) for h in range(24)]
    for level, (low, high) in found.ahead.bounds.items():
        told = np.isfinite(y) & np.isfinite(high[0])
        told[:FIRST] = False
        inside = (low[0] <= y) & (y <= high[0])
        row[f"inside {level:g}"] = [round(float(inside[told[:, h], h].mean()), 4) for h in range(24)]
        if series.state is not None and level == 0.9:
            row["states"] = [_states(series, inside[:, h], told[:, h], h + 1) for h in range(24)]
    return row, found


def _states(series: Series, inside: np.ndarray, told: np.ndarray, lead: int) -> list[float]:
    """The shares inside in each of two states: those of the time that is forecast, or of now."""
    state = np.roll(series.state, -lead) if series.by_clock else series.state
    return [round(float(inside[told & (state == each)].mean()), 4) for each in (False, True)]


def one(series: Series, seed: int) -> Row:
    """The same learner with one horizon, and what all leads cost beside it, without bounds."""
    seconds, errors = [], []
    for lead in SHOWN:
        found, spent = run(series, f"{lead}h", seed)
        assert found.ahead is not None
        errors.append(rmse(found.y_hat[0, :, 0], found.ahead.y[0, :, 0]))
        seconds.append(spent)
    return {
        "rmse": errors,
        "cost of 24 leads": round(run(series, LEADS, seed)[1] / float(np.mean(seconds)), 2),
    }


def inputs(series: Series, lead: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the learner's model sees for one lead, the last value and the profile. (T, D), (T,), (T,)"""
    device, rows = Forecaster(horizon(f"{lead}h"), series.X.shape[1]), []
    for t, (when, y) in enumerate(zip(series.times, series.y, strict=True)):
        device.observe(float(when), float(y))
        rows.append(device.look(series.X[t]))
    profile = np.array([row.naive[0, 3] for row in rows])
    return np.array([row.inputs for row in rows]), np.array([row.last for row in rows]), profile


def refitted(series: Series, y: np.ndarray, make: Any) -> list[float]:
    """The best of three targets, in hindsight, at each lead that is shown."""
    errors = []
    for lead in SHOWN:
        X, last, profile = inputs(series, lead)
        label = y[:, lead - 1]
        errors.append(min(rmse(_refit(series, X, label - base, lead, make) + base, label)
                          for base in (np.zeros(len(X)), last, np.nan_to_num(profile))))  # fmt: skip
    return errors


def _refit(series: Series, X: np.ndarray, label: np.ndarray, lead: int, make: Any) -> np.ndarray:
    y_hat = np.full(len(X), np.nan)
    for first in range(FIRST, len(X), REFIT):
        known = np.isfinite(label) & (series.times + 3600 * lead <= series.times[first])
        model = make()
        model.fit(X[known], label[known])
        y_hat[first : first + REFIT] = model.predict(X[first : first + REFIT])
    return y_hat


def lightgbm() -> Any:
    import lightgbm

    return lightgbm.LGBMRegressor(n_estimators=200, learning_rate=0.05, num_leaves=31, n_jobs=1, verbose=-1)


def ridge() -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler(), Ridge(1.0))


def classical(series: Series, found: domkl.Run) -> Row:
    """MSTL and AutoETS from every so many rows, and ours at the same; gaps are filled with the last value."""
    from statsforecast.models import MSTL, AutoETS

    assert found.ahead is not None
    hours = np.round((series.times - series.times[0]) / 3600).astype(int)
    grid = np.full(hours[-1] + 1, np.nan)
    grid[hours] = series.y
    at = np.maximum.accumulate(np.where(np.isfinite(grid), np.arange(len(grid)), 0))
    filled, errors = grid[at], dict[str, list[np.ndarray]]()
    for t in range(max(FIRST, 700), len(series.y) - 24, EVERY):
        past, truth = filled[: hours[t] + 1][-672:], found.ahead.y[0, t]
        for name, model in (("MSTL", MSTL(season_length=[24, 168])), ("AutoETS", AutoETS(season_length=24))):
            guess = model.forecast(past, 24)["mean"]
            errors.setdefault(name, []).append((guess - truth) ** 2)
        errors.setdefault("ours", []).append((found.y_hat[0, t] - truth) ** 2)
    return {name: [round(float(np.sqrt(np.nanmean([e[lead - 1] for e in rows]))), 5) for lead in SHOWN]
            for name, rows in errors.items()}  # fmt: skip


def measure(series: Series, parts: list[str], seed: int) -> Row:
    kept: Row = {}
    if "one" in parts:
        kept["one"] = one(series, seed)
    if parts != ["one"]:
        kept["ours"], found = ours(series, seed)
        assert found.ahead is not None
        for part, make in (("ridge", ridge), ("lightgbm", lightgbm)):
            if part in parts:
                kept[part] = refitted(series, found.ahead.y[0], make)
        if "classical" in parts:
            kept["classical"] = classical(series, found)
    return {part: kept[part] for part in parts}


def write(results: Row) -> None:
    """A line for each part, so that a change is seen."""
    lines = [f"  {json.dumps(f'{name}: {part}')}: {json.dumps(found)}"
             for name, parts in results.items() for part, found in parts.items()]  # fmt: skip
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def kept() -> Row:
    results: Row = {}
    for key, found in (json.loads(RESULTS.read_text()) if RESULTS.exists() else {}).items():
        name, part = key.split(": ")
        results.setdefault(name, {})[part] = found
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(SERIES))
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--parts", default=",".join((*SEEDED, *RIVALS)))
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = args.parts.split(",")
    for seed in range(args.seeds):
        for name in args.only.split(","):
            names = {f"{part} {seed}": part for part in SEEDED} | ({} if seed else {r: r for r in RIVALS})
            before = {} if args.again else kept().get(name, {})
            parts = {key: part for key, part in names.items() if part in wanted and key not in before}
            if parts:
                found = measure(SERIES[name](args.rows), list(parts.values()), seed)
                results = kept()  # another process may have written meanwhile
                results.setdefault(name, {}).update({key: found[part] for key, part in parts.items()})
                write(results)
                shown = {k: v["rmse"] if k in SEEDED else v for k, v in found.items()}
                print(name, seed, shown, flush=True)


if __name__ == "__main__":
    main()

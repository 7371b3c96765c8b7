"""Forecasts of hourly series: all leads in one run, one lead, LightGBM and ridge refitted, naive, MSTL.

    python benchmarks/forecast.py                      what is not kept yet; writes results/forecast.json
    python benchmarks/forecast.py --only traffic --rows 5000 --seeds 1 --parts ours,one,lightgbm

One device of `domkl.Auto` (size 400, float32), a series of `series.py`, leads 1 to 24 h; root mean squared
errors after row 500 at 1, 6 and 24 h, of the same labels for all. `one`: the same learner with one horizon.
`lightgbm` and `ridge` get the very inputs of the learner (`Forecaster.look`) and are refitted every 500
rows on all rows whose label is known; of three targets (raw, less last value, less profile) the best in
hindsight counts. MSTL and AutoETS forecast from every `EVERY`-th row only, from the last four weeks, and
are compared with ours at the same rows. Coverage is of 80, 90 and 95 % bounds. Series that were looked at
while features were chosen: stations, traffic, bike, air, shop.
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
PARTS = ("ours", "one", "ridge", "lightgbm", "mstl")
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
    return row, found


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


def measure(name: str, rows: int, seed: int, parts: list[str], kept: Row) -> None:
    series = SERIES[name](rows)
    found = None
    if "ours" in parts or not {"lightgbm", "ridge", "mstl"}.isdisjoint(parts):
        kept["ours"], found = ours(series, seed)
    if "one" in parts:
        kept["one"] = one(series, seed)
    if found is not None and found.ahead is not None:
        for part, make in (("ridge", ridge), ("lightgbm", lightgbm)):
            if part in parts:
                kept[part] = refitted(series, found.ahead.y[0], make)
        if "mstl" in parts:
            kept["classical"] = classical(series, found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(SERIES))
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results: Row = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed in range(args.seeds):
        for name in args.only.split(","):
            kept = results.setdefault(f"{name}, {args.rows} rows, seed {seed}", {})
            parts = [part for part in args.parts.split(",") if args.again or part not in kept]
            measure(name, args.rows, seed, parts, kept)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            print(
                name,
                seed,
                {k: v["rmse"] if isinstance(v, dict) and "rmse" in v else v for k, v in kept.items()},
            )


if __name__ == "__main__":
    main()

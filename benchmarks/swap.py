"""Explanations: are rank and size of effects those of what swapping a column really does?

    python benchmarks/swap.py

Three tables with categories and times: made shops, bicycles hired, cars on a road. A model (size 400) learns
2,000 rows. `effect` is what `explain` says of a column; `swapped` is how far predictions for the last 1,000
rows really move (root mean square) if the column's cells are swapped among them, the mean of five times.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from series import FOLDER, _rows

import domkl
from domkl.datasets import read_table
from domkl.faces.saved import About

RESULTS = Path(__file__).parent / "results" / "swap.json"
ROWS, ASKED, TIMES = 2000, 1000, 5


def shops() -> list[dict[str, Any]]:
    """Demand of six shops, which differ, by weekday, promotion and temperature."""
    rng, rows = np.random.default_rng(0), []
    level = dict(zip("ABCDEF", (40, 55, 60, 70, 90, 110), strict=True))
    for n in range(ROWS):
        store, day = "ABCDEF"[n % 6], n // 6 % 7
        promotion, warm = rng.uniform() < 0.15, 15 + 8 * np.sin(n / 300) + 3 * rng.standard_normal()
        mean = level[store] * (1 + 0.3 * (day == 5)) * (1 + 0.4 * promotion) * (1 + 0.01 * (warm - 15))
        days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
        y = round(float(mean + 5 * rng.standard_normal()))
        rows.append({"store": store, "day": days[day], "promotion": int(promotion), "warm": warm, "y": y})
    return rows


def bikes() -> list[dict[str, Any]]:
    """Bicycles hired in an hour, its categories as words, every sixth row of a year."""
    data = np.load(FOLDER / "streams" / "bike.npz")
    names = [str(each) for each in data["feature_names"]]
    words = {name for i, name in enumerate(names) if len(np.unique(data["X"][:, i])) <= 8}
    X, y = data["X"][: 6 * ROWS : 6], data["y"][: 6 * ROWS : 6]
    return [{**{n: f"{n[0]}{v:.3g}" if n in words else float(v) for n, v in zip(names, x, strict=True)},
             "y": float(label)} for x, label in zip(X, y, strict=True)]  # fmt: skip


def cars() -> list[dict[str, Any]]:
    """Cars in an hour on a road, with the weather in words and the time."""
    kept = [row for _, row in zip(range(ROWS), _rows("metro_traffic.csv.gz"), strict=False)]
    names = {"when": "date_time", "sky": "weather_main", "temp": "temp", "clouds": "clouds_all"}
    return [{"y": row["traffic_volume"], **{name: row[of] for name, of in names.items()}} for row in kept]


def measure(rows: list[dict[str, Any]]) -> dict[str, Any]:
    table = read_table(rows, target="y")
    model = domkl.DOMKL(model=domkl.Auto(size=400))
    for x, y in zip(table.X, table.y, strict=True):
        model.learn(x, y)
    model.about = About(table.feature_names, "y", "", table.columns)
    found, rng = model.explain(), np.random.default_rng(1)
    predict, _ = model._learning.as_function()
    X = table.X[-ASKED:]
    before, swapped = predict(X), []
    for group in model.about.groups(X.shape[1])[1]:
        moved = []
        for _ in range(TIMES):
            other = X.copy()
            other[:, group] = X[rng.permutation(len(X))][:, group]
            moved.append(np.sqrt(np.mean((predict(other) - before) ** 2)))
        swapped.append(float(np.mean(moved)))
    large = [i for i in range(len(swapped)) if swapped[i] > 0.1 * max(swapped)]
    ratios = [float(found.effect[i] / swapped[i]) for i in large]
    ours, real = (np.argsort(-np.array(each))[: len(large)].tolist() for each in (found.effect, swapped))
    return {
        "columns": {name: [round(float(e), 4), round(s, 4)]
                    for name, e, s in zip(found.names, found.effect, swapped, strict=True)},
        "effect over swapped, of those that matter": [round(r, 3) for r in ratios],
        "same order": ours == real,
    }  # fmt: skip


def main() -> None:
    kept = {make.__name__: measure(make()) for make in (shops, bikes, cars)}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()

"""Wrong labels and units: `outliers.py`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .common import Maker, read, table

#: Cases in words: kind, case, which figure, and the bar.
ROWS = {
    "the fourth label off by 100 ranges, that device": ("one", "3 100", 0, 1.05),
    "the ninth, that device": ("one", "8 100", 0, 1.05),
    "the ninth, all devices": ("one", "8 100", 1, 1.05),
    "the ninth off by a million ranges, that device": ("one", "8 1e+06", 0, 1.05),
    "the 61st off by a million, that device": ("one", "60 1e+06", 0, 1.05),
    "the 601st off by a million, that device": ("one", "600 1e+06", 0, 1.05),
    "5 % off by 1 to 100 ranges": ("many", "1 to 100", 0, 1.2),
    "the same without the guard": ("many", "1 to 100", 1, None),
    "5 % off by 10 to a million": ("many", "10 to 1e6", 0, 1.2),
    "5 % too high by 3 ranges": ("many", "up 3", 0, 1.2),
    "labels times 1000, that device after 300 samples": ("unit", "x 1000", 0, 1.3),
    "its neighbours": ("unit", "x 1000", 2, 1.02),
    "labels from °F to °C, that device after 300 samples": ("unit", "F to C", 0, 1.3),
    "its neighbours ": ("unit", "F to C", 2, 1.02),
    "nothing wrong: with the guard over without": ("cost", "clean", 0, 1.0),
}


def _shown(values: Iterable[float]) -> str:
    """The geometric mean, and the worst."""
    found = np.array(list(values))
    mean, worst = float(np.exp(np.log(found).mean())), float(found.max())
    return " / ".join(f"{value:.3f}" if value < 10 else f"{value:.2g}" for value in (mean, worst))


def outliers() -> str:
    """Each case and stream: mean and worst seed."""
    kept = read("outliers")["now"]
    names = list(kept["one"])
    rows = []
    for words, (kind, case, which, bar) in ROWS.items():
        cells = [_shown(row[case][which] for row in kept[kind][name].values()) for name in names]
        rows.append([words.strip(), "" if bar is None else f"{bar:g}", *cells])
    return table(" | ".join(["error over clean, mean / worst", "bar", *names]), rows)


MADE: dict[str, Maker] = {"outliers": outliers}

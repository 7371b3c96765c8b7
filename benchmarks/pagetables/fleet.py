"""README.md and docs/results.md: ten sites and their engines, from fleet.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import Maker, read, table

WORDS = {
    "together": "together, complete graph",
    "ring": "together, ring",
    "alone": "alone",
    "one learner sees all": "the same learner, all engines at one place",
    "LightGBM, own": "LightGBM refitted, own engines",
    "LightGBM, all": "LightGBM refitted, all engines",
    "ARF, own": "River's adaptive random forest, own engines",
    "ARF, all": "River's adaptive random forest, all engines",
}


def errors() -> str:
    """Errors on the second engine and those after it."""
    orders = read("fleet")["orders"]
    rows = []
    for name, words in WORDS.items():
        found = [each[name] for each in orders if name in each]
        if not found:
            continue
        cells = [f"{value:.1f}" for value in np.mean(found, axis=0)]
        rows.append([words, *cells, f"{np.mean(found):.1f}", str(len(found))])
    return table("error in cycles | engine 2 | engine 3 | engine 4 | mean | orders", rows)


def gain() -> str:
    """How much less the error is together, in per cent."""
    mean: dict[str, Any] = read("fleet")["mean"]
    return f"{100 * (1 - np.mean(mean['together']) / np.mean(mean['alone'])):.0f}"


MADE: dict[str, Maker] = {"fleet": errors, "fleet-gain": gain}

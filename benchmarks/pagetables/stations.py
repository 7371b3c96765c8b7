"""docs/how-to.md: the shipped stations, from stations.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .common import Maker, read, table


def overall(errors: Sequence[float]) -> float:
    """Root mean square over all stations."""
    return float(np.sqrt(np.mean(np.square(errors))))


def kappas() -> str:
    kept: dict[str, Any] = read("stations")["paper"]
    best = min(kept, key=lambda kappa: overall(kept[kappa]["together"]))
    marks = {kappa: "**" if kappa == best else "" for kappa in kept}
    errors = [f"{marks[k]}{overall(row['together']):.2f}{marks[k]}" for k, row in kept.items()]
    violations = [f"{row['cv']:.1e}".replace("e-0", "e-") for row in kept.values()]
    headings = " | ".join(["kappa", "1 (as printed)", *list(kept)[1:]])
    return table(headings, [["error", *errors], ["CV", *violations]])


MADE: dict[str, Maker] = {"stations-kappas": kappas}

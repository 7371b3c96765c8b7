"""The shipped fleet: a hundred turbofan engines that were run to failure, simulated by NASA.

See `datasets/data/README.md` for its origin. How many cycles an engine has left is known when it has
failed. A new engine's are capped: nothing shows yet that it wears.
"""

from __future__ import annotations

import gzip
import io
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..base.types import Array

FILE = Path(__file__).parent / "data" / "turbofan.csv.gz"
#: Cycles: the longest life that is told apart, the window of the means, and an engine's start.
MOST, WINDOW, START = 125, 10, 20


class Engine(NamedTuple):
    """One life, a row for each of T cycles."""

    X: Array  # (T, 48) means of 24 readings, and how they differ from the engine's start
    y: Array  # (T,) cycles until it fails, at most `MOST`


@lru_cache(maxsize=1)
def load_engines() -> tuple[Engine, ...]:
    """A hundred engines. Every input uses the cycles so far alone.

    >>> engines = load_engines()
    >>> len(engines), engines[0].X.shape, engines[0].y[[0, -1]].tolist()
    (100, (192, 48), [125.0, 0.0])
    """
    text = gzip.decompress(FILE.read_bytes()).decode()
    table = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1)
    return tuple(_engine(table[table[:, 0] == number, 2:]) for number in np.unique(table[:, 0]))


def _engine(readings: Array) -> Engine:
    """Readings (T, 24) as inputs, with the cycles that remain."""
    T = len(readings)
    so_far = np.concatenate([np.zeros((1, readings.shape[1])), np.cumsum(readings, axis=0)])
    t = np.arange(1, T + 1)
    first = np.maximum(0, t - WINDOW)
    recent = (so_far[t] - so_far[first]) / (t - first)[:, None]
    known = np.minimum(t, START)
    at_start = so_far[known] / known[:, None]
    return Engine(np.hstack([recent, recent - at_start]), np.minimum(T - t, MOST).astype(np.float64))

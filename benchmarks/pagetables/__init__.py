"""Tables and figures of the pages, made from benchmarks/results.

A module for each subject; each has `MADE`, by the name that stands in a page's marker. `tables.py` writes
them, and `tests/test_tables.py` compares.
"""

from __future__ import annotations

from . import (
    accuracy,
    agents,
    answers,
    changes,
    constants,
    fits,
    liars,
    outliers,
    page,
    performance,
    stations,
    streams,
    together,
)
from .common import Maker

MADE: dict[str, Maker] = {}
TABLES = (performance, accuracy, constants, stations, streams, changes, agents, fits)
for module in (*TABLES, together, liars, outliers, answers, page):
    assert not MADE.keys() & module.MADE.keys()
    MADE |= module.MADE

__all__ = ["MADE", "Maker"]

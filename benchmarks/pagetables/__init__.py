"""What stands between the markers of README.md and docs/*.md, made from benchmarks/results."""

from . import (
    ablate,
    agents,
    answers,
    faults,
    fits,
    fleet,
    forecast,
    judge,
    lies,
    outliers,
    page,
    performance,
    stations,
    together,
)
from .common import Maker

MADE: dict[str, Maker] = {}
for module in (
    performance,
    stations,
    agents,
    fits,
    fleet,
    forecast,
    answers,
    page,
    judge,
    ablate,
    together,
    lies,
    outliers,
    faults,
):
    assert not MADE.keys() & module.MADE.keys()
    MADE |= module.MADE

__all__ = ["MADE", "Maker"]

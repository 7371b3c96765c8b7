"""What stands between the markers of README.md and docs/*.md, made from benchmarks/results."""

from . import agents, answers, fits, judge, page, performance, stations
from .common import Maker

MADE: dict[str, Maker] = {}
for module in (performance, stations, agents, fits, answers, page, judge):
    assert not MADE.keys() & module.MADE.keys()
    MADE |= module.MADE

__all__ = ["MADE", "Maker"]

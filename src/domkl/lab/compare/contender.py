"""A contender: how it learns a stream, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ...base.types import Array
from ..trial import Source


class Result(NamedTuple):
    """What came of a contender."""

    y_hat: Array  # (J, T)
    sent: float  # bytes, by a learner in a round
    seconds: float  # of CPU time; imports and construction do not count
    alone: Array | None = None  # (J,) mean squared errors of a network's learners with own samples only


Run: TypeAlias = Callable[[Source], Result]


class Contender(NamedTuple):
    """A way to learn a stream of many learners."""

    name: str
    sees: str  # "a part" (of the data at each learner) or "all"
    run: Run
    scales: bool = False  # whether it scales by itself; the others get values in [0, 1]


class Missing(Exception):
    """Why a contender does not take part."""

"""What a model of one device without neighbours can do, whatever its settings."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from ..base.types import Array

#: Log-odds are cut off here: beyond, a probability is 0 or 1 for all purposes.
SURE = 30.0


class Single(Protocol):
    """A model of one target on one device; samples x (d,) have any scale, and NaN where one is missing."""

    @property
    def n(self) -> int:
        """How many samples were learnt."""

    def predict(self, x: Array) -> float:
        """The target at x; for the logistic loss 2 P(y = +1) - 1."""

    def score(self, x: Array) -> float:
        """The target at x; for the logistic loss the log-odds of y = +1."""

    def learn(self, x: Array, y: float) -> None:
        """Learn a sample; an x that is the array last predicted must not have changed since."""

    def grow(self, keys: Sequence[Hashable]) -> None:
        """Add inputs after those there are; the keys identify them."""

    def predict_dict(self, x: dict[Any, Any]) -> float | None:
        """`predict` for values by key, where that is fast; None where it needs an array."""

    def learn_dict(self, x: dict[Any, Any], y: float) -> bool:
        """`learn` for values by key, where that is fast; False, and nothing learnt, where it is not."""


def log_odds(prediction: float) -> float:
    """log P(y = +1) / P(y = -1) from a prediction 2 P(y = +1) - 1.

    >>> log_odds(0.0), log_odds(1.0)
    (0.0, 30.0)
    """
    if abs(prediction) < 1:
        return max(-SURE, min(SURE, 2 * math.atanh(prediction)))
    return math.copysign(SURE, prediction)


def probability(score: float) -> float:
    """P(y = +1) from its log-odds.

    >>> probability(0.0)
    0.5
    """
    return 1 / (1 + math.exp(-max(-SURE, min(SURE, score))))


def digest(key: Hashable, seed: int = 0) -> bytes:
    """Bytes that identify an input's key in every process; `hash` of a text differs between processes."""
    return hashlib.sha256(f"{seed}:{type(key).__name__}:{key}".encode()).digest()

"""Scores, probabilities and keys of models of one device."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable

#: Log-odds are cut off here: beyond, a probability is 0 or 1 for all purposes.
SURE = 30.0


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

"""Scores and probabilities of two classes."""

from __future__ import annotations

import math

#: Beyond, exp() says nothing more.
SURE = 30.0


def score(expected: float) -> float:
    """The log of the odds, from 2 P(y = +1) - 1."""
    if abs(expected) < 1:
        return max(-SURE, min(SURE, 2 * math.atanh(expected)))
    return math.copysign(SURE, expected)


def probability(score: float) -> float:
    """P(y = +1), from the log of the odds."""
    return 1 / (1 + math.exp(-max(-SURE, min(SURE, score))))

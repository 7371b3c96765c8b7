"""Statistics as they are sent, and how a learner begins on a scale that it has from others."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ..base.types import Array
from ..learning.auto import AutoRows, units
from ..learning.auto.message import OTHERS

#: A learner with so many samples is new in a network that has a scale, which takes two rounds to arrive.
NEW = 2


def start_from(model: AutoRows, messages: Sequence[Mapping[str, Array]]) -> None:
    """Begin with the median of neighbours' parameters and ranges; they have most of the experts' weight.

    The neighbours have the scale that the learner has just taken.
    """
    theta, low, high = (_middle([message[name] for message in messages]) for name in ("theta", "low", "high"))
    model.joint.adopt(theta.astype(model.dtype))
    model.low, model.high = units.reachable(model, np.minimum(model.low, low), np.maximum(model.high, high))
    model.experts.start_with("neighbours")


def _middle(values: Sequence[Array]) -> Array:
    """Coordinate-wise median; of two middle values the one nearer to 0, as the other may be a lie."""
    ordered = np.sort(np.stack(values), axis=0)
    return np.asarray(np.clip(0, ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]))


def headed(round: int, whose: int, count: int, row: Array, columns: int) -> Array:
    """Statistics as they are sent: of which round, whose, how many quantiles, of how many learners."""
    return np.concatenate([[round, whose, len(row) // columns - OTHERS, count], row])


def name_number(name: Hashable) -> int:
    """A number that stands for a name in statistics; 48 bits, which a float holds."""
    return int.from_bytes(hashlib.sha256(str(name).encode()).digest()[:6], "big")

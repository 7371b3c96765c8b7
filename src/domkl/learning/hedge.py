"""Hedge: weights of the kernels, from their cumulative losses.

The state is the cumulative losses L, which become q = exp(-L/eta_g) / sum only when needed:
the weights themselves underflow after a few thousand rounds.

Three rules define whose losses count (`total` below is what enters the exponent):
- "neighbours": a learner's own and its neighbours' losses (the paper's rule);
- "messages": everybody's losses, passed along the edges of a tree (the paper's remark), one hop a
  round. M_{j->i}' = L_j' + sum over l != i of M_{l->j}; total_j = L_j' + sum over l of M_{l->j};
- "local": a learner's own losses; nothing about losses leaves the device.

With "messages", learner j broadcasts total_j alone. Its neighbour i computes its own message from
it: M_{j->i}' = total_j - M_{i->j}. So every rule sends at most P numbers, the same to all neighbours.
"""

from __future__ import annotations

import numpy as np

from ..base import checks
from ..base.types import Array

RULES = ("neighbours", "messages", "local")


def rule(name: str) -> str:
    """`name` itself if it is one of RULES."""
    return checks.one_of("hedge", name, RULES)


def weights(total: Array, eta_g: float) -> Array:
    """q_p proportional to exp(-total_p / eta_g), computed without underflow. (..., P) -> (..., P)

    >>> import numpy as np
    >>> from domkl import hedge
    >>> hedge.weights(np.array([10_000.0, 10_001.0, 10_000.0]), eta_g=1.0).round(3)
    array([0.422, 0.155, 0.422])
    """
    # For a few weights the methods min and sum would take longer than what they call.
    w = (np.minimum.reduce(total, -1, keepdims=True) - total) / eta_g
    np.exp(w, out=w)
    w /= np.add.reduce(w, -1, keepdims=True)
    return np.asarray(w)


__all__ = ["RULES", "rule", "weights"]


def __dir__() -> list[str]:
    return __all__

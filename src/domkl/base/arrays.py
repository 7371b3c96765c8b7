"""What NumPy has too, quicker for the few numbers of a round."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .types import Array


def clip(values: Array, low: npt.ArrayLike, high: npt.ArrayLike) -> Array:
    """Values within [low, high]; NaN stays. As `np.clip`, which takes five times as long for few values."""
    return np.asarray(np.minimum(np.maximum(values, low), high))

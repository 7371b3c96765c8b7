"""A native inverse that was kept, for a machine with or without the native engine."""

from __future__ import annotations

import numpy as np

from .. import newton
from .._types import Array
from . import chosen


def resume_inverse(half: Array, terms: Array, used: int, threads: int) -> newton.Inverse:
    """From its half (..., K (K + 1) / 2), row by row, and the terms that wait (..., n, K)."""
    if chosen("auto") == "native":
        from .native import NativeInverse

        return NativeInverse.resumed(half, terms, used, threads)
    K = terms.shape[-1]
    base = np.empty((*half.shape[:-1], K, K), half.dtype)
    rows, columns = np.tril_indices(K)
    base[..., rows, columns] = base[..., columns, rows] = half
    made = newton.Inverse(base)
    for n in range(used):
        made.lower(terms[..., n, :])
    return made

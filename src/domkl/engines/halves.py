"""A native inverse that was kept, for a machine with or without the native engine."""

from __future__ import annotations

from ..base.types import Array
from ..learning import second_order
from . import chosen


def resume_inverse(half: Array, terms: Array, used: int, threads: int) -> second_order.Inverse:
    """From its half (..., K (K + 1) / 2), row by row, and `used` of the terms (..., n, K), which wait."""
    terms = terms[..., :used, :]
    if chosen("auto") == "native":
        from .native import NativeInverse

        return NativeInverse.resumed(half, terms, threads)
    return second_order.Inverse.of_halves(half, terms)

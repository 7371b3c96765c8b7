"""What belongs to a feature's key, whatever the order in which keys come."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np

from ..base.types import Array
from ..learning import kernels


def column(seed: int, key: Hashable, D: int) -> Array:
    """A key's frequencies. (P, D)"""
    rng = np.random.default_rng(int.from_bytes(digest(key, seed), "big"))
    sigma = np.sqrt(kernels.PAPER_SIGMA2)
    return np.asarray(rng.standard_normal((len(sigma), D)) / sigma[:, None])


def digest(key: Hashable, seed: int = 0) -> bytes:
    """Bytes that a key has everywhere and always; `hash` of a text changes with the process."""
    return hashlib.sha256(f"{seed}:{type(key).__name__}:{key}".encode()).digest()

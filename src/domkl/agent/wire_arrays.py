"""Arrays as bytes: the precisions of the wire."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array

DTYPES: dict[str, np.dtype[Any]] = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
}


def named(dtype: str) -> np.dtype[Any]:
    if dtype not in DTYPES:
        checks.one_of("dtype", dtype, DTYPES)
    return DTYPES[dtype]


def narrowed(name: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """`array` in the precision of the wire, C-contiguous; a learner's own numbers are known to be finite."""
    if dtype.itemsize >= array.dtype.itemsize:
        return np.ascontiguousarray(array, dtype)
    with np.errstate(over="ignore", under="ignore"):
        narrow = np.ascontiguousarray(array, dtype)
    if not np.isfinite(narrow).all():
        raise too_large(name, array, narrow)
    return narrow


def too_large(name: str, array: Array, narrow: Array) -> InputError:
    where = [int(i) for i in np.argwhere(~np.isfinite(narrow))[0]]
    most = np.finfo(narrow.dtype).max
    wider = "float32" if narrow.dtype == np.float16 else "float64"
    return InputError(
        f"{name}{where} is {array[tuple(where)]}; {narrow.dtype} holds at most {most:.8g}; choose {wider}"
    )


def all_finite(array: Array) -> bool:
    # A finite sum of squares has finite terms, and takes half the time of looking at each number.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())

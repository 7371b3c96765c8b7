"""Checks of what callers hand in; each failure is one line that says where, what and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .types import Array


def floats(name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Array:
    """`value` as a float array, or an error that names `name`."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"{name} has masked values; expected numbers only; fill or drop them first")
    try:
        if np.iscomplexobj(value):
            raise TypeError
        return np.asarray(value, dtype=dtype)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} cannot be read as numbers; expected an array of floats; "
            "convert text and ragged lists before the call"
        ) from None


def float_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """`dtype` if it is one to compute in."""
    found = np.dtype(dtype)
    if found in (np.float64, np.float32):
        return found
    raise InputError(f"dtype is {found}; expected float64 or float32; choose one of them")


def finite_or_missing(name: str, value: Array) -> Array:
    """`value` itself if no number in it is infinite; NaN is a missing one."""
    if np.isinf(value).any():
        raise InputError(
            f"{name} holds an infinite number; expected finite numbers or NaN; use NaN for missing"
        )
    return value


def finite(name: str, value: Array, first: int = 0, learners: npt.NDArray[np.intp] | None = None) -> Array:
    """`value` itself if all of it is finite, else an error that names the first bad place.

    `first` is the round that a block (J, B, ...) begins with, `learners` are its rows where they are not
    all, so that the place is reported in the whole stream.
    """
    if np.isfinite(value).all():
        return value
    where = [int(i) for i in np.argwhere(~np.isfinite(value))[0]]
    found = value[tuple(where)]
    if first:
        where[1] += first
    if learners is not None:
        where[0] = int(learners[where[0]])
    place = f"{name}[{', '.join(map(str, where))}]" if where else name
    raise InputError(f"{place} is {found}; expected finite numbers; drop or fill such samples first")


def shape(name: str, value: Array, expected: tuple[int, ...], remedy: str) -> Array:
    """`value` itself if it has the expected shape."""
    if value.shape == expected:
        return value
    raise InputError(f"{name} has shape {value.shape}; expected {expected}; {remedy}")


def positive(name: str, value: float) -> float:
    """`value` as float if it is finite and above zero."""
    return _bounded(name, value, lambda number: number > 0, "a finite number above 0")


def not_negative(name: str, value: float) -> float:
    """`value` as float if it is finite and not below zero."""
    return _bounded(name, value, lambda number: number >= 0, "a finite number, 0 or above")


def _bounded(name: str, value: float, good: Callable[[float], bool], expected: str) -> float:
    if isinstance(value, (int, float, np.integer, np.floating)) and np.isfinite(value) and good(value):
        return float(value)
    shown = repr(value) if isinstance(value, str) else value
    raise InputError(f"{name} is {shown}; expected {expected}; choose another {name}")


def count(name: str, value: int, least: int = 1) -> int:
    """`value` as int if it is a whole number of at least `least`."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise InputError(
        f"{name} is {value!r}; expected a whole number of at least {least}; choose another {name}"
    )


def one_of(name: str, value: str, allowed: Iterable[str]) -> str:
    """`value` itself if it is allowed, else an error with the nearest allowed name."""
    names = list(allowed)
    if value in names:
        return value
    raise InputError(f"{name} is {value!r}; {hint(value, names)}")


def hint(value: str, allowed: Iterable[str]) -> str:
    """What is allowed, and which of it was perhaps meant.

    >>> hint("wether", ["weather", "traffic"])
    "expected one of weather, traffic; did you mean 'weather'?"
    """
    names = list(allowed)
    near = difflib.get_close_matches(str(value), names, n=1)
    meant = f"did you mean {near[0]!r}?" if near else "choose one of them"
    return f"expected one of {', '.join(names)}; {meant}"

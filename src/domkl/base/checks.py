"""Checks of what callers hand in; each failure is one line that says where, what and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InputError
from .types import Array

#: The largest input or label: squares of such numbers, and sums of a great many of these, are finite.
LARGEST = 1e100
LARGEST_SQUARE = LARGEST**2
#: Numbers in an array whose squares are added up faster than the least and the largest are found.
FEW = 1000
#: The least span of a column that varies; a smaller one counts as constant, since dividing by it overflows.
NARROWEST = 1e-200
#: Characters of a value that an error shows.
LONGEST_SHOWN = 80
#: What most arrays are already.
DOUBLE = np.dtype(np.float64)
#: Names that an error lists: those of a file may be many.
MOST_SHOWN = 40

_vdot = np.vdot


def floats(name: str, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> Array:
    """`value` as a float array, or an error that names `name`."""
    if type(value) is np.ndarray and value.dtype is DOUBLE and dtype is np.float64:
        return value
    if isinstance(value, float):
        return np.array(value, dtype)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"{name} has masked values; expected numbers only; fill or drop them first")
    try:
        if np.iscomplexobj(value):
            raise TypeError
        return np.asarray(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
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
    """`value` itself if no number in it is infinite or too large to square; NaN is a missing one."""
    if fits(value):  # without NaN, which is usual
        return value
    if np.isinf(value).any():
        raise InputError(
            f"{name} holds an infinite number; expected finite numbers or NaN; use NaN for missing"
        )
    large = np.abs(value, dtype=np.float64) > LARGEST  # False for NaN
    if large.any():
        raise too_large(name, value[large].flat[0])
    return value


def fits(value: Array) -> bool:
    """Whether all of it is a number of at most `LARGEST`, up or down."""
    if value.size == 1:
        return -LARGEST <= value.item() <= LARGEST
    if value.size < FEW and float(_vdot(value, value)) <= LARGEST_SQUARE:  # else some may be large
        return True
    return float(value.max(initial=0.0)) <= LARGEST and float(value.min(initial=0.0)) >= -LARGEST


def too_large(name: str, value: float) -> InputError:
    """The refusal of a number that cannot be squared."""
    return InputError(
        f"{name} is {value:g}, too large to be squared; expected at most {LARGEST:g} up or down; "
        "leave such samples out, or use another unit"
    )


def finite(name: str, value: Array, first: int = 0, learners: npt.NDArray[np.intp] | None = None) -> Array:
    """`value` itself if all of it is finite and can be squared, else an error that names the first bad place.

    `first` is the round that a block (J, B, ...) begins with, `learners` are its rows where they are not
    all, so that the place is reported in the whole stream.
    """
    if fits(value):
        return value
    where = [int(i) for i in np.argwhere(~(np.abs(value, dtype=np.float64) <= LARGEST))[0]]
    found = value[tuple(where)]
    if first:
        where[1] += first
    if learners is not None:
        where[0] = int(learners[where[0]])
    place = f"{name}[{', '.join(map(str, where))}]" if where else name
    if np.isfinite(found):
        raise too_large(place, found)
    raise InputError(f"{place} is {found}; expected finite numbers; drop or fill such samples first")


def shape(name: str, value: Array, expected: tuple[int, ...], remedy: str) -> Array:
    """`value` itself if it has the expected shape."""
    if value.shape == expected:
        return value
    raise InputError(f"{name} has shape {value.shape}; expected {expected}; {remedy}")


def need(good: bool, fact: str) -> None:
    """Refuse what does not go together, such as settings, or parts of a file, whose reader adds its name."""
    if not good:
        raise InputError(fact)


def array(name: str, value: Any, form: tuple[int, ...]) -> None:
    """Refuse what is no array of finite numbers of that shape."""
    found = value.shape if isinstance(value, np.ndarray) else None
    need(found == form and value.dtype.kind in "fi", f"{name} has shape {found} and not {form}")
    finite(name, value)


def positive(name: str, value: float) -> float:
    """`value` as float if it is finite and above zero."""
    return _bounded(name, value, lambda number: number > 0, "a finite number above 0")


def not_negative(name: str, value: float) -> float:
    """`value` as float if it is finite and not below zero."""
    return _bounded(name, value, lambda number: number >= 0, "a finite number, 0 or above")


def _bounded(name: str, value: float, good: Callable[[float], bool], expected: str) -> float:
    try:
        number = float(value) if isinstance(value, (int, float, np.integer, np.floating)) else np.nan
    except OverflowError:  # of a whole number with hundreds of digits
        number = np.inf
    if np.isfinite(number) and good(number):
        return number
    raise InputError(f"{name} is {short(value)}; expected {expected}; choose another {name}")


def count(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """`value` as int if it is a whole number of at least `least` and, if given, at most `most`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if whole and value >= least and (most is None or value <= most):
        return int(value)
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise InputError(f"{name} is {short(value)}; expected a whole number {limits}; choose another {name}")


def short(value: object) -> str:
    """A value as an error shows it: on one line, and not the whole of a long one."""
    try:
        text = f"{value}" if isinstance(value, float | np.floating) else repr(value)
    except (ValueError, RecursionError):  # Python prints no whole number of more than 4300 digits
        return "too long to be shown"
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def one_of(name: str, value: str, allowed: Iterable[str]) -> str:
    """`value` itself if it is allowed, else an error with the nearest allowed name."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    raise InputError(f"{name} is {short(value)}; {hint(value, names)}")


def hint(value: str, allowed: Iterable[str]) -> str:
    """What is allowed, and which of it was perhaps meant.

    >>> hint("wether", ["weather", "traffic"])
    "expected one of weather, traffic; did you mean 'weather'?"
    >>> hint("rnu", ["run", "up"])
    "expected one of run, up; did you mean 'run'?"
    """
    names = list(allowed)
    near = difflib.get_close_matches(value[:LONGEST_SHOWN], names, n=1) if isinstance(value, str) else []
    meant = f"did you mean {near[0]!r}?" if near else "choose one of them"
    listed = ", ".join(name[:LONGEST_SHOWN] for name in names[:MOST_SHOWN])
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return f"expected one of {listed}{more}; {meant}"


def tally(name: str, value: Any) -> None:
    """Raise ValueError unless this counts rounds or samples."""
    need(type(value) is int and 0 <= value <= 2**53, f"{name} is {short(value)}")

"""What computes a network's rounds: NumPy everywhere, native code where it was built.

Every engine is made from a `Setting` and advanced by blocks of rounds; all give the same numbers.
"""

from __future__ import annotations

import os

from .. import _checks
from ..errors import InputError
from .base import Engine, Setting, Sums
from .links import Links

NAMES = ("auto", "numpy", "native")


def available() -> str | None:
    """Why the native engine cannot be used here; None where it can."""
    try:
        from .._native import _engine  # noqa: F401
    except ImportError as error:
        return f"the native engine was not built: {error}"
    return None


def threads(wanted: int | None) -> int:
    """How many threads to use: what was asked for, or one for each core."""
    return _checks.count("threads", wanted) if wanted is not None else (os.cpu_count() or 1)


def make(name: str, setting: Setting) -> Engine:
    """The engine by name; "auto" is the native one where it was built."""
    _checks.one_of("engine", name, NAMES)
    missing = None if name == "numpy" else available()
    if name == "native" and missing:
        raise InputError(f"{missing}; expected it for engine='native'; install a C++ compiler and domkl anew")
    if name == "numpy" or missing:
        from .arrays import ArrayEngine

        return ArrayEngine(setting)
    from .native import NativeEngine

    return NativeEngine(setting)


__all__ = ["NAMES", "Engine", "Links", "Setting", "Sums", "available", "make", "threads"]

"""What computes a network's rounds: NumPy everywhere, native code where it was built, MPI over hosts.

Every engine is made from a `Setting` and advanced by blocks of rounds; all give the same numbers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..learning.paper import Algorithm
from .arrays import NumpyDevice, NumpyEngine
from .base import Setting

if TYPE_CHECKING:
    from .mpi import Ranks
    from .native import NativeDevice, NativeEngine

#: A network between two blocks of rounds.
Engine: TypeAlias = "NumpyEngine | NativeEngine"
#: One learner between two steps.
Device: TypeAlias = "NumpyDevice | NativeDevice"
NAMES = ("auto", "numpy", "native", "mpi")


def available() -> str | None:
    """Why the native engine cannot be used here; None where it can."""
    try:
        from ._native import _engine  # noqa: F401
    except ImportError as error:
        return f"the native engine was not built: {error}"
    return None


def describe() -> str:
    """What computes here, in words.

    >>> describe().split()[0] in ("native", "NumPy")
    True
    """
    if available():
        return "NumPy; the native engine was not built"
    from ._native import _engine

    return f"native engine, {_engine.best()}"


def chosen(name: str) -> str:
    """What `name` means here; "auto" is the native engine where it was built."""
    checks.one_of("engine", name, NAMES)
    missing = None if name == "numpy" else available()
    if name == "native" and missing:
        raise InputError(f"{missing}; expected it for 'native'; install a C++ compiler and reinstall domkl")
    if name == "auto":
        return "numpy" if missing else "native"
    return name


def make(name: str, setting: Setting, ranks: Ranks | None = None) -> Engine:
    """The engine of a whole network, by name, or of the part of it that this rank holds."""
    if not setting.exchange.is_plain:
        if name not in ("auto", "numpy"):
            raise InputError(
                f"engine {name!r} takes messages and labels as they are; expected 'auto' or 'numpy' with an "
                "Exchange that changes them; use one of them"
            )
        return NumpyEngine(setting)
    if ranks is not None:
        return NumpyEngine(setting, ranks.links, ranks.ghosts.share)
    if chosen(name) == "native":
        from .native import NativeEngine

        return NativeEngine(setting)
    return NumpyEngine(setting)


def refuse_choice(engine: str, threads: int | None = None) -> None:
    """Refuse what a model of the caller's own cannot take into account."""
    for name, given, default in (("engine", engine, "auto"), ("threads", threads, None)):
        if given != default:
            raise InputError(f"{name} is {given!r}; expected none for a model of your own; leave it out")


def chosen_for_one(name: str) -> str:
    """What `name` means in one process."""
    if name == "mpi":
        raise InputError(
            "engine 'mpi' is for simulate(); expected auto, native or numpy for a learner; use one"
        )
    return chosen(name)


def make_device(name: str, V: Array, deg: int, how: Algorithm) -> Device:
    """The engine of one learner with `deg` neighbours, by name."""
    if chosen_for_one(name) == "native":
        from .native import NativeDevice

        return NativeDevice(V, deg, how)
    return NumpyDevice(V, deg, how)


def guard(name: str) -> AbstractContextManager[None]:
    """Around all that an engine does: where processes wait for each other, an error in one ends all."""
    if name != "mpi":
        return nullcontext()
    from .mpi import together

    return together()


__all__ = [
    "NAMES",
    "Algorithm",
    "Device",
    "Engine",
    "NumpyDevice",
    "Setting",
    "available",
    "chosen",
    "chosen_for_one",
    "guard",
    "make",
    "make_device",
    "refuse_choice",
]

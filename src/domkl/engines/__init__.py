"""What computes a network's rounds: NumPy everywhere, native code where it was built, MPI over hosts.

Every engine is made from a `Setting` and advanced by blocks of rounds; all give the same numbers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..exchange.links import Links
from ..learning.first_order import Rates
from ..learning.losses import Loss
from ..learning.second_order import Diagonal, Inverse
from .base import Engine, Setting, Sums
from .devices import ArrayDevice, Device, NewtonDevice

NAMES = ("auto", "numpy", "native", "mpi")


def available() -> str | None:
    """Why the native engine cannot be used here; None where it can."""
    try:
        from ._native import _engine  # noqa: F401
    except ImportError as error:
        return f"the native engine was not built: {error}"
    return None


def chosen(name: str) -> str:
    """What `name` means here; "auto" is the native engine where it was built."""
    checks.one_of("engine", name, NAMES)
    missing = None if name == "numpy" else available()
    if name == "native" and missing:
        raise InputError(f"{missing}; expected it for engine='native'; install a C++ compiler and domkl anew")
    if name == "auto":
        return "numpy" if missing else "native"
    return name


def make(name: str, setting: Setting) -> Engine:
    """The engine of a whole network, by name."""
    if name == "mpi":
        from .mpi import MpiEngine

        return MpiEngine(setting)
    if chosen(name) == "native":
        from .native import NativeEngine

        return NativeEngine(setting)
    from .arrays import ArrayEngine

    return ArrayEngine(setting)


def make_newton(name: str, setting: Setting, memory: float | None = None) -> Engine:
    """The engine of a network whose learners take the second-order step."""
    memory = None if memory is None else 1 + checks.positive("memory", memory)
    if chosen_newton(name) == "native":
        from .native import NativeNewton

        return NativeNewton(setting, memory)
    from .newton import NewtonEngine

    return NewtonEngine(setting, memory)


def make_inverse(name: str, threads: int = 1) -> Diagonal:
    """What `newton.init` makes its matrices with, by the engine's name."""
    if chosen_newton(name) == "native":
        from .native import NativeInverse

        return partial(NativeInverse.diagonal, threads=threads)
    return Inverse.diagonal


def chosen_newton(name: str) -> str:
    """What `name` means for the second-order step."""
    if name == "mpi":
        raise InputError(
            "engine 'mpi' has no second-order step; expected auto, native or numpy; use engine='auto'"
        )
    return chosen(name)


def make_device(name: str, V: Array, deg: int, rates: Rates, loss: Loss, hedge: str) -> Device:
    """The engine of one learner with `deg` neighbours, by name."""
    if name == "mpi":
        raise InputError(
            "engine 'mpi' is for simulate(); expected auto, native or numpy for a learner; use one"
        )
    if chosen(name) == "native":
        from .native import NativeDevice

        return NativeDevice(V, deg, rates, loss, hedge)
    return ArrayDevice(V, deg, rates, loss)


def make_newton_device(
    name: str, V: Array, deg: int, rates: Rates, loss: Loss, hedge: str, memory: float | None = None
) -> Device:
    """The engine of one learner that takes the second-order step."""
    memory = None if memory is None else 1 + memory
    if chosen_newton(name) == "native":
        from .native import NativeNewtonDevice

        return NativeNewtonDevice(V, deg, rates, loss, hedge, memory)
    return NewtonDevice(V, deg, rates, loss, memory)


def guard(name: str) -> AbstractContextManager[None]:
    """Around all that an engine does: where processes wait for each other, an error in one ends all."""
    if name != "mpi":
        return nullcontext()
    from .mpi import together

    return together()


def rows(engine: Engine) -> npt.NDArray[np.intp] | None:
    """The learners whose streams this engine reads; None for all of them."""
    found: npt.NDArray[np.intp] | None = getattr(engine, "rows", None)
    return found


__all__ = [
    "NAMES",
    "ArrayDevice",
    "Device",
    "Engine",
    "Links",
    "Setting",
    "Sums",
    "available",
    "chosen",
    "chosen_newton",
    "guard",
    "make",
    "make_device",
    "make_inverse",
    "make_newton",
    "make_newton_device",
    "rows",
]

"""Checks of a handed model's state: shapes and ranges of all of it, before anything is made from it.

Whatever a file claims (parameters, inputs, learners) must be what its arrays have, so that reading takes no
more memory than the file, and numbers that no training gives are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base import checks
from ..learning.settings import Auto

#: The largest whole number: counts of rounds and samples.
MOST = 2**53
#: A length that may be any.
ANY = -1

Shape = tuple[int, ...]


def check_names(names: Any, inputs: int) -> tuple[str, ...]:
    """Names of inputs: none, or a different one for each."""
    found = tuple(names)
    need(not found or len(set(found)) == len(found) == inputs, f"{inputs} inputs have {len(found)} names")
    need(all(isinstance(name, str) for name in found), "a name is no text")
    return found


def check_claims(settings: Auto, rows: Mapping[str, Any]) -> None:
    """Raise ValueError unless arrays of `Auto` have the size that it claims; `restore` checks the rest."""
    d, theta = rows["inputs"], rows["consensus"]["theta"]
    need(type(d) is int and settings.check_inputs(d) == rows["scale"]["mean"].shape[-1], f"it has {d} inputs")
    K = theta.shape[-1]
    need(settings.size - 1 <= K <= settings.size, f"size is {settings.size} with {K} parameters")


def check_paper(state: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise ValueError unless these are kernels, parameters and a scale that go together."""
    P, D, d = state["V"].shape
    need(min(P, D, d) > 0, "it has no kernels")
    shapes = {"V": (P, D, d), "theta": (P, 2 * D), "L": (P,), "q": (P,), "mean": (d,), "factor": (d,)}
    for name in names:
        check_array(name, state[name], shapes[name])
    need(bool((state["q"] >= 0).all() and (state["factor"] >= 0).all()), "a weight or factor is below 0")
    need(abs(float(state["y_mean"])) <= checks.LARGEST, f"y_mean is {state['y_mean']}")
    need(checks.NARROWEST < float(state["y_scale"]) <= checks.LARGEST, f"y_scale is {state['y_scale']}")
    need(state["loss"] in Auto.LOSSES, f"loss is {checks.short(state['loss'])}")


def need(good: bool, fact: str) -> None:
    if not good:
        raise ValueError(fact)


def check_array(name: str, array: Any, shape: Shape) -> None:
    found = array.shape if isinstance(array, np.ndarray) else None
    fits = found is not None and len(found) == len(shape)
    fits = fits and all(want in (ANY, have) for have, want in zip(array.shape, shape, strict=True))
    need(fits and array.dtype.kind in "fi", f"{name} has shape {found} and not {shape}")
    checks.finite(name, array)
    need(name != "rounds" or bool((array >= 0).all()), "a count of rounds is below 0")

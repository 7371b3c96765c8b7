"""What the weights of a model belong to."""

from __future__ import annotations

from typing import Any


def weight_names(model: Any, count: int | None = None) -> list[str]:
    """The experts of `Auto`, or kernels by their widths; by their numbers where these are not known.

    >>> from domkl import Auto, Paper
    >>> weight_names(Auto())[:3], weight_names(Paper())[0], weight_names(None, count=2)
    (['common', 'personal', 'alone'], 'σ² = 0.0001', ['kernel 1', 'kernel 2'])
    """
    named = getattr(model, "weight_names", None)
    names: list[str] = [] if named is None else named()
    return names if names and count in (None, len(names)) else [f"kernel {p + 1}" for p in range(count or 0)]

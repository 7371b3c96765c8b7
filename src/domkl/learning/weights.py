"""What the weights of a model belong to."""

from __future__ import annotations

from typing import Any

from ..base.words import number
from .auto import EXPERT_NAMES
from .settings import Auto, KernelSpec, Paper


def weight_names(model: Any, count: int | None = None) -> list[str]:
    """The experts of `Auto`, or kernels by their widths; by their numbers where these are not known.

    >>> weight_names(Auto())[:3], weight_names(Paper())[0], weight_names(None, count=2)
    (['common', 'personal', 'alone'], 'σ² = 0.0001', ['kernel 1', 'kernel 2'])
    """
    if getattr(model, "kind", None) == Auto.kind:  # also one that was taught elsewhere
        return list(EXPERT_NAMES)
    spec = model.kernels or KernelSpec() if isinstance(model, Paper) else None
    if isinstance(spec, KernelSpec) and count in (None, len(spec.sigma2)):
        return [f"σ² = {number(each)}" for each in spec.sigma2]
    return [f"kernel {p + 1}" for p in range(count or 0)]

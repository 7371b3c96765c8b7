"""The model with one row that a device runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Float
from ..engines.paper_row import PaperRow
from ..exchange.message import Exchange
from ..learning.model import Model
from ..learning.settings import Paper, check_model

#: Rows by kind of settings, where an engine computes them; all others are as their settings make them.
IN_ENGINES: dict[str, Callable[..., Model]] = {Paper.kind: PaperRow}


def row_of(
    settings: Any,
    inputs: int | None,
    targets: int | None,
    dtype: Float,
    name: Hashable,
    engine: str,
    exchange: Exchange,
) -> Model:
    """The row of a learner with these settings, or that begins with a taught model (`learner.handed`)."""
    if name is None and getattr(settings, "needs_name", False):
        raise InputError("name is not given; expected one with model Auto(); pass name=")
    taught: Callable[..., Model] | None = getattr(settings, "row", None)
    if taught is not None:
        row = taught(inputs, dtype, engine, exchange)
        if targets not in (None, row.m):
            raise InputError(f"targets is {targets}; expected {row.m}, as taught; leave it out")
        return row
    maker = check_model(settings)
    if not getattr(maker, "has_engines", False):
        engines.refuse_choice(engine)
    d = _count(getattr(maker, "inputs", None) if inputs is None else inputs)
    m = checks.count("targets", 1 if targets is None else targets)
    make = IN_ENGINES.get(getattr(maker, "kind", ""))
    if make is None:
        made: Model = maker.make(1, d, dtype, m)
        return made
    maker.refuse_targets(m)
    return make(maker, d, engine, dtype, exchange)


def _count(inputs: int | None) -> int:
    if inputs is None:
        raise InputError("inputs is not given; expected the number of inputs of a sample; pass inputs=")
    return checks.count("inputs", inputs)


def digest(*values: Any) -> str:
    """Sixteen hexadecimal digits of settings and arrays."""
    made = hashlib.sha256()
    for value in values:
        made.update(value.tobytes() if isinstance(value, np.ndarray) else f"{value} ".encode())
    return made.hexdigest()[:16]

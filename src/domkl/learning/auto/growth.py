"""More inputs for a learner alone, at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.types import Array
from . import rescale
from .constants import C
from .features import Stats, statistics

if TYPE_CHECKING:
    from .rows import AutoRows


def grow(rows: AutoRows, d: int) -> None:
    """Samples have d inputs from now on, the new ones last; what was learnt stays.

    While the scale is not fixed, the kept samples are learnt again with the new inputs missing. Later, a new
    input is left out until `late_values` of its values have shown its scale.
    """
    if d == rows.d:
        return
    rows.settings.check_inputs(d)
    if rows.warm.over:
        rows.late.update((c, []) for c in range(rows.d, d))
        _add_columns(rows, d)
        return
    rows.d = d
    rows.warm.grow(d)
    rows.lay_out(d)
    if rows.warm.samples:
        rescale.rebuild_alone(rows)


def widen(rows: AutoRows, d: int) -> None:
    """Features and terms of more inputs, after those there are."""
    for c in range(rows.d, d):
        rows.memories.terms.add_input(c)
    rows.d = d
    rows.joint.grow(d)


def _add_columns(rows: AutoRows, d: int) -> None:
    assert rows.scale is not None
    more = (0, d - rows.d)
    inputs = rows.scale.inputs
    rows.scale.inputs = Stats(*(np.pad(v, [(0, 0)] * (v.ndim - 1) + [more]) for v in inputs))
    widen(rows, d)
    rows.memories.grow(d)
    rows.memories.see_again(rows.scale.inputs)


def take_late(rows: AutoRows, x: Array) -> None:
    """Collect values of new inputs (d,); fix the scale of those that have shown enough."""
    for c, values in list(rows.late.items()):
        if not np.isnan(x[c]):
            values.append(float(x[c]))
        if len(values) == C.late_values:
            _set_column(rows, c, np.array(values))
            del rows.late[c]
            assert rows.scale is not None
            rows.memories.see_again(rows.scale.inputs)


def _set_column(rows: AutoRows, c: int, values: Array) -> None:
    assert rows.scale is not None
    steps = rows.scale.inputs.quantiles.shape[-2] - 1
    for old, new in zip(rows.scale.inputs, statistics(values[:, None], steps), strict=True):
        old[..., c] = new[..., 0]

"""State as named fields: what a file holds is a schema, not the attributes of today's classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.types import Array
from . import second_order


def fields_of(part: Any) -> dict[str, Any]:
    """A part's state: its attributes in FIELDS, whose names files hold."""
    return {name: getattr(part, name) for name in part.FIELDS}


def set_fields(part: Any, state: Mapping[str, Any]) -> None:
    """Inverse of `fields_of`."""
    for name in part.FIELDS:
        setattr(part, name, state[name])


def of_samples(samples: Sequence[tuple[Array, Array]]) -> dict[str, Any]:
    """Samples (x (J, d), y (J,)) as two arrays, or as none."""
    if not samples:
        return {"x": None, "y": None}
    return {"x": np.stack([x for x, _ in samples]), "y": np.stack([y for _, y in samples])}


def samples_of(state: Mapping[str, Any]) -> list[tuple[Array, Array]]:
    """Inverse of `of_samples`."""
    return [] if state["x"] is None else list(zip(state["x"], state["y"], strict=True))


def of_second_order(state: second_order.SecondOrderState) -> dict[str, Any]:
    """A second-order state; of its symmetric matrices one half."""
    half, terms = state.inverse.halves()
    fields = {name: value for name, value in state._asdict().items() if name != "inverse"}
    return {**fields, "half": half, "terms": terms}


def second_order_of(state: Mapping[str, Any], kind: second_order.Inverse) -> second_order.SecondOrderState:
    """Inverse of `of_second_order`; matrices are of the same kind as `kind`."""
    names = [name for name in second_order.SecondOrderState._fields if name != "inverse"]
    inverse = kind.from_halves(state["half"], state["terms"])
    return second_order.SecondOrderState(**{name: state[name] for name in names}, inverse=inverse)

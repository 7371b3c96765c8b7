"""States of rows that earlier versions have saved, as states of today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..state import fields_of
from .constants import C
from .dependence import Dependence
from .experts import Experts
from .label_unit import LabelUnit
from .memories import NEVER
from .own_watch import OwnWatch
from .residual import ResidualModel

#: Where the experts with own samples stand, and how many there are.
FIRST_OWN, OWN = 2, 3


def from_1(state: Mapping[str, Any]) -> dict[str, Any]:
    """Version 1 had no own samples: they start empty, and their experts with the least weight.

    Nor did it bound labels: there are no errors to judge them by."""
    J = len(state["low"])
    log_w = np.asarray(state["experts"]["log_weights"])
    w = np.exp(log_w - log_w.max(-1, keepdims=True))
    w = np.insert(w / w.sum(-1, keepdims=True), [FIRST_OWN] * OWN, C.fixed_share, axis=-1)
    experts = {"log_weights": np.log(w), "errors": np.zeros(w.shape), "rounds": np.zeros(w.shape[-1])}
    return {
        **state,
        "own_range": np.stack([state["low"], state["high"]]),
        "experts": experts,
        "ridges": fields_of(Experts(J, (0.5, 0.5))),
        "residual": {**fields_of(ResidualModel(J)), **state["residual"]},
        "gate": None,
        "own_watch": fields_of(OwnWatch(J)),
        "warm_up": {**state["warm_up"], "skip": np.zeros(J, int)},
        "joint": {**state["joint"], "own": None},
    }


def from_2(state: Mapping[str, Any]) -> dict[str, Any]:
    """Version 2 had no own memory, which starts with the next samples, and its own samples no momentum."""
    joint, J = state["joint"], len(state["low"])
    own = joint["own"]
    if own is not None:
        own = {**own, "weak_before": own["weak"], "apart_before": own["apart"]}
    halves = fields_of(Experts(J, C.own_half, C.own_heat, C.own_share))
    new = {"halves": halves, "is_far": np.zeros(J, int), "own_memory": None}
    watch = state["own_watch"]
    watch = {**watch, "guesses": watch["labels"], "age": np.zeros(J, int)}  # what was predicted is not known
    new |= {"own_watch": watch, "unit": fields_of(LabelUnit(J))}
    return {**state, "joint": {**joint, "own": own}, **new}


def from_3(state: Mapping[str, Any]) -> dict[str, Any]:
    """Version 3 had one ridge for all samples, and dropped what was before a change for all learners."""
    J, warm, own = len(state["low"]), state["warm_up"], state["joint"]["own"]
    if own is not None:
        own = {**own, "judge": {**own["judge"], "since": np.zeros(J, int)}}
    kept = {name: value for name, value in warm.items() if name != "before"}
    return {
        **state,
        "dependence": fields_of(Dependence(J)),
        "joint": {**state["joint"], "own": own, "ridge": np.ones(J), "restarts": np.zeros(J, int)},
        "warm_up": {**kept, "gone": np.zeros(J, int)},
    }


def from_4(state: Mapping[str, Any]) -> dict[str, Any]:
    """Version 4 followed every decision."""
    memories, never = state["memories"], np.full(C.unconfirmed_most, -NEVER)
    detector = memories["detector"]
    detector = {**detector, "own_surplus": detector["surplus"], "own_errors": detector["errors"]}
    return {**state, "memories": {**memories, "detector": detector, "unconfirmed": never}}

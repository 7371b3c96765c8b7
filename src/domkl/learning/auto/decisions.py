"""What learners do about a change, in the round in which all can know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .change import MISLED, RETURNS

if TYPE_CHECKING:
    from .rows import AutoRows


def act(rows: AutoRows, incoming: Mapping[str, Any]) -> None:
    """Take in decisions, and act on one that is due."""
    assert rows.scale is not None
    samples, verdict = rows.memories.decide(incoming, rows.rounds, rows.diameter)
    if samples is not None:
        rows.memories.reset_young(samples, rows.scale.inputs, rows.experts)
    if verdict is not None:
        restart(rows, bool(verdict & RETURNS), bool(verdict & MISLED))


def restart(rows: AutoRows, returns: bool, misled: bool) -> None:
    """Another memory takes the long one's place: that of the past, if it `returns`, or the young one.

    If the joint models have `misled` somebody, each learner checks that by its own errors, never on another's
    word alone; those who find it true start their joint models again from their last samples.
    """
    assert rows.scale is not None
    finds_so = rows.memories.detector.misled() & rows.experts.doubt_joint()
    doubting = finds_so & misled
    last = rows.memories.last(rows.memories.replace_long(returns, rows.experts))
    rows.warm.divide(len(last), returns, doubting)
    if not misled:
        return
    if rows.own_memory is not None:
        rows.own_memory.restart(last, doubting)
    samples = [(x, np.asarray(y, rows.dtype)) for x, y in last]
    rows.joint.restart(samples, rows.scale.inputs, doubting)

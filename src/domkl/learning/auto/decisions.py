"""What learners do about a change, in the round in which all can know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .change import JOINT, MISLED, RETURNS
from .constants import C
from .experts import MEMORIES, OTHERS

if TYPE_CHECKING:
    from .rows import AutoRows


def act(rows: AutoRows, incoming: Mapping[str, Any]) -> None:
    """Take in decisions, and act on one that is due."""
    assert rows.scale is not None
    samples, verdict = rows.memories.decide(incoming, rows.rounds, rows.diameter)
    if (samples is not None or verdict is not None) and not _follows(rows, verdict):
        return
    if samples is not None:
        rows.memories.reset_young(samples, rows.scale.inputs, rows.experts)
    if verdict is not None:
        restart(rows, bool(verdict & RETURNS), bool(verdict & MISLED))


def _follows(rows: AutoRows, verdict: int | None) -> bool:
    """Whether an alarm, which has no verdict, or a restart is acted on.

    Anybody may send one, so a device follows few that its own errors, in which no message has a part, do not
    confirm. All rows of one process have the same decisions, none of which was made up.
    """
    if rows.J > 1 or rows.learners == 1:
        return True
    is_confirmed = _surges(rows) if verdict is None else _is_outdated(rows, verdict)
    return is_confirmed or rows.memories.follow_unconfirmed(rows.rounds)


def _surges(rows: AutoRows) -> bool:
    """Whether one learner's own errors alone are a good part of an alarm."""
    return bool(rows.memories.detector.own_surplus[0] > C.confirmed_part * C.watch_alarm)


def _is_outdated(rows: AutoRows, verdict: int) -> bool:
    """Whether one learner's young or past memory errs clearly less than what it is to take the place of."""
    errors, usual = rows.experts.errors[0], rows.memories.detector.usual_error[0]
    other, joint = errors[list(OTHERS)].min(), errors[:JOINT].min()
    if verdict & MISLED and (other >= C.watch_worse * joint or joint <= C.watch_rise * usual):
        return False
    return bool(other < C.watch_better * errors[MEMORIES])


def restart(rows: AutoRows, returns: bool, misled: bool) -> None:
    """Another memory takes the long one's place: that of the past, if it `returns`, or the young one.

    If the joint models have `misled` somebody, each learner checks that by the errors of its neighbourhood
    and by the weights that its own errors gave its experts; those who find it true start their joint models
    again from their last samples.
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

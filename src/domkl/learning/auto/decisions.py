"""What learners do about a change, in the round in which all can know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .additive import LONG, PAST, YOUNG
from .change import JOINT, MISLED, RETURNS
from .constants import C

if TYPE_CHECKING:
    from .rows import AutoRows


def act(rows: AutoRows, incoming: Mapping[str, Any]) -> None:
    """Take in decisions, and act on one that is due."""
    assert rows.scale is not None
    samples, verdict = rows.memories.decide(incoming, rows.rounds, rows.diameter)
    if (samples is not None or verdict is not None) and not _follows(rows, verdict):
        rows.memories.detector.reset_suspicion()  # else the same would be decided again in the next round
        return
    if samples is not None:
        rows.memories.reset_young(samples, rows.scale.inputs, rows.experts)
    if verdict is not None:
        restart(rows, bool(verdict & RETURNS), bool(verdict & MISLED))


def _follows(rows: AutoRows, verdict: int | None) -> bool:
    """Whether a restart with this verdict is acted on, or an alarm, which has none.

    Anybody may send one. So a device follows none that its own errors contradict, without those that
    neighbours send, and few that they do not confirm. All rows of one process have the same decisions, none
    of which was made up.
    """
    if rows.J > 1 or rows.learners == 1:
        return True
    detector = rows.memories.detector
    if verdict is None:
        is_confirmed = detector.own_surplus[0] > C.confirmed_part * C.watch_alarm
    else:
        memories = detector.own_errors[0, JOINT:]
        long, other = memories[LONG], memories[PAST if verdict & RETURNS else YOUNG]
        if other > C.contradicted * long:
            return False
        is_confirmed = other < C.watch_better * long
    return bool(is_confirmed) or rows.memories.follow_unconfirmed(rows.rounds)


def restart(rows: AutoRows, returns: bool, misled: bool) -> None:
    """Another memory takes the long one's place: that of the past, if it `returns`, or the young one.

    If the joint models have `misled` somebody, each learner checks that by the errors of its neighbourhood,
    and by its own, never on another's word alone; those who find it true start their joint models again from
    their last samples.
    """
    assert rows.scale is not None
    finds_so = rows.memories.detector.misled() & rows.experts.doubt_joint() & _are_misled(rows)
    doubting = finds_so & misled
    last = rows.memories.last(rows.memories.replace_long(returns, rows.experts))
    rows.warm.divide(len(last), returns, doubting)
    if not misled:
        return
    if rows.own_memory is not None:
        rows.own_memory.restart(last, doubting)
    samples = [(x, np.asarray(y, rows.dtype)) for x, y in last]
    rows.joint.restart(samples, rows.scale.inputs, doubting)


def _are_misled(rows: AutoRows) -> npt.NDArray[np.bool_]:
    """Whose joint models err more than usual, and more than another memory, by own errors. Booleans (J,)"""
    errors, usual = rows.memories.detector.own_errors, rows.memories.detector.usual_error
    joint, other = errors[:, :JOINT].min(-1), errors[:, JOINT + YOUNG :].min(-1)
    return np.asarray((other < joint) & (joint > C.confirmed_rise * usual))

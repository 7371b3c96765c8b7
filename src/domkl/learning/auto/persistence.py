"""The state of `AutoRows` by name, and a network that starts from what one learner has learnt."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.types import Array
from .. import second_order
from ..model import Statistics
from ..state import fields_of, of_samples, of_second_order, samples_of, second_order_of, set_fields
from . import growth, rescale
from .constants import C
from .features import Stats
from .own_memory import OwnMemory
from .scale import DataScale

if TYPE_CHECKING:
    from .additive import AdditiveMemory
    from .rows import AutoRows


def state_of(rows: AutoRows) -> dict[str, Any]:
    """Everything that rows know between two rounds."""
    return {
        "inputs": {"first": rows.joint.features.first, "now": rows.d},
        "rounds": rows.rounds,
        "low": rows.low,
        "own_range": rows.own_range,
        "is_far": rows.is_far.astype(int),
        "high": rows.high,
        "weight": rows.weight,
        "late": [[c, list(values)] for c, values in rows.late.items()],
        "known": [[t, found.each._asdict(), found.who] for t, found in rows.known.items()],
        "scale": _scale_state(rows.scale),
        "warm_up": _warm_up_state(rows),
        "experts": fields_of(rows.experts),
        "ridges": fields_of(rows.ridges),
        "halves": fields_of(rows.halves),
        "residual": fields_of(rows.residual),
        "dependence": fields_of(rows.dependence),
        "gate": None if rows.gate is None else rows.gate.state(),
        "own_watch": fields_of(rows.own_watch),
        "unit": fields_of(rows.unit),
        "joint": _joint_state(rows),
        "memories": _memories_state(rows),
        "own_memory": _own_memory_state(rows.own_memory),
    }


def _scale_state(scale: DataScale | None) -> dict[str, Any] | None:
    return None if scale is None else {**vars(scale), "inputs": scale.inputs._asdict()}


def _warm_up_state(rows: AutoRows) -> dict[str, Any]:
    return {**fields_of(rows.warm), "samples": of_samples(rows.warm.samples)}


def _joint_state(rows: AutoRows) -> dict[str, Any]:
    joint = rows.joint
    state = None if joint.state is None else of_second_order(joint.state)
    own = None if joint.state is None else joint.own.state()
    about = {"learners": joint.learners, "mean": joint.mean, "ridge": joint.ridge}
    about |= {"resets": joint.resets, "restarts": joint.restarts}
    return {**about, "state": state, "own": own}


def _memories_state(rows: AutoRows) -> dict[str, Any]:
    memories = rows.memories
    return {
        **fields_of(memories),
        "recent": of_samples(list(memories.recent)),
        "detector": fields_of(memories.detector),
        "all": [_memory_state(one) for one in memories.all],
    }


def _memory_state(memory: AdditiveMemory) -> dict[str, Any]:
    return {**fields_of(memory), "state": of_second_order(memory.state)}


def _own_memory_state(own: OwnMemory | None) -> dict[str, Any] | None:
    return None if own is None else {"scale": _scale_state(own.scale), "memory": _memory_state(own.memory)}


def restore(rows: AutoRows, state: Mapping[str, Any]) -> None:
    """Make rows, just made with the same settings, those whose state this is."""
    if state["inputs"]["first"] != rows.d:
        rows.d = state["inputs"]["first"]
        rows.lay_out(rows.d)
    growth.widen(rows, state["inputs"]["now"])
    rows.rounds, rows.low, rows.high = state["rounds"], state["low"], state["high"]
    rows.weight, rows.own_range = state["weight"], state["own_range"]
    rows.is_far = state["is_far"].astype(bool)
    rows.late = {c: list(values) for c, values in state["late"]}
    rows.known = {t: Statistics(Stats(**each), who.astype(bool)) for t, each, who in state["known"]}
    rows.scale = _scale_of(state["scale"])
    warm = state["warm_up"]
    set_fields(rows.warm, warm)
    rows.warm.samples = samples_of(warm["samples"])
    set_fields(rows.experts, state["experts"])
    set_fields(rows.ridges, state["ridges"])
    set_fields(rows.halves, state["halves"])
    set_fields(rows.residual, state["residual"])
    set_fields(rows.dependence, state["dependence"])
    if rows.gate is not None and state["gate"] is not None:  # of rows that kept every label
        rows.gate.restore(state["gate"])
    set_fields(rows.own_watch, state["own_watch"])
    set_fields(rows.unit, state["unit"])
    _restore_joint(rows, state["joint"])
    _restore_memories(rows, state["memories"])
    rows.own_memory = _own_memory_of(rows, state["own_memory"])


def _scale_of(state: Mapping[str, Any] | None) -> DataScale | None:
    return None if state is None else DataScale(**{**state, "inputs": Stats(**state["inputs"])})


def _restore_joint(rows: AutoRows, state: Mapping[str, Any]) -> None:
    joint = rows.joint
    joint.resets, joint.mean, joint.state, joint.learnt = state["resets"], state["mean"], None, None
    joint.ridge, joint.restarts = state["ridge"], state["restarts"]
    if state["state"] is not None:
        learners = state.get("learners", rows.learners)  # the first files do not hold it
        joint.set_pulls(rows.weight, learners, rows.shared)
        kind = rows.diagonal(np.ones((1, 1), rows.dtype), 1)
        joint.state = second_order_of(state["state"], kind)
        if state["own"] is None:
            joint.own.reset(rows.J, joint.features.K)
        else:
            joint.own.restore(state["own"])


def _restore_memories(rows: AutoRows, state: Mapping[str, Any]) -> None:
    memories = rows.memories
    set_fields(memories, state)
    memories.recent = deque(samples_of(state["recent"]), maxlen=C.young_rounds)
    set_fields(memories.detector, state["detector"])
    memories.all = [_memory_of(rows, kept) for kept in state["all"]]
    if rows.scale is not None:
        memories.see_again(rows.scale.inputs)


def _memory_of(rows: AutoRows, state: Mapping[str, Any]) -> AdditiveMemory:
    weight = rows.weight if rows.shared else np.zeros(rows.J)
    memory = rows.memories.make(state["rounds"], weight, rows.joint.learners)
    _restore_memory(memory, state)
    return memory


def _restore_memory(memory: AdditiveMemory, state: Mapping[str, Any]) -> None:
    memory.state = second_order_of(state["state"], memory.state.inverse)
    set_fields(memory, state)


def _own_memory_of(rows: AutoRows, state: Mapping[str, Any] | None) -> OwnMemory | None:
    if state is None:
        return None
    scale = _scale_of(state["scale"])
    assert scale is not None
    own = OwnMemory(rows.memories.terms, rows.loss, scale)
    _restore_memory(own.memory, state["memory"])
    return own


def inherit(rows: AutoRows, alone: AutoRows) -> None:
    """Start where a learner alone ends; each row takes an equal part of its evidence.

    So all together know what it knew, once: the minimum of the network's problem is that of its own, but for
    the prior, and everybody starts there.
    """
    growth.widen(rows, alone.d)
    rows.warm.shared = rows.learners > 1
    rescale.start_with(rows, whole_statistics(alone))
    _inherit_joint(rows, alone)
    rows.low, rows.high = _rows(alone.low, rows.J), _rows(alone.high, rows.J)
    rows.own_range = np.repeat(alone.own_range, rows.J, 1)
    weight = rows.weight if rows.shared else np.zeros(rows.J)
    rows.memories.all = [rows.memories.make(one.rounds, weight, rows.learners) for one in alone.memories.all]
    for memory, other in zip(rows.memories.all, alone.memories.all, strict=True):
        memory.inherit(other)
    pairs = ((rows.memories.detector, alone.memories.detector), (rows.residual, alone.residual))
    own = ((rows.experts, alone.experts), (rows.ridges, alone.ridges), (rows.unit, alone.unit))
    for ours, its in (*pairs, *own):
        set_fields(ours, {name: _rows(value, rows.J) for name, value in fields_of(its).items()})
    if rows.gate is not None and alone.gate is not None:
        rows.gate.inherit(alone.gate)
    rows.memories.detector.reset_suspicion()  # there are no samples to start again from


def whole_statistics(alone: AutoRows) -> Stats:
    """The statistics that give a learner's scale, targets in the last column. (1, d + 1)"""
    scale = alone.scale
    assert scale is not None
    target = {"n": 1.0, "mean": scale.centre[0], "low": 0.0, "high": scale.width[0]}
    columns = [(value, target.get(name, 0.0)) for name, value in scale.inputs._asdict().items()]
    return Stats(*(np.concatenate([v, np.full((*v.shape[:-1], 1), last)], -1) for v, last in columns))


def _inherit_joint(rows: AutoRows, alone: AutoRows) -> None:
    other, joint, part = alone.joint.state, rows.joint, 1 / rows.learners
    assert other is not None
    state = second_order.init(C.models, joint.features.K, joint.pulls, rows.diagonal)
    theta, m = (_rows(v, rows.J).astype(rows.dtype) for v in (other.theta, part * other.m))
    own = float(alone.joint.pulls.c[0, 0])
    inverses = [
        second_order.shift(copy.deepcopy(other.inverse), own, float(c) - part * own, part).settle()
        for c in joint.pulls.c[:, 0]
    ]
    P = np.concatenate(inverses).astype(rows.dtype)
    near = theta * joint.pulls.deg[:, None, None]
    joint.state = state._replace(theta=theta, theta_sum=near, m=m, inverse=state.inverse.like(P))
    joint.mean = theta
    joint.own.inherit(alone.joint.own, rows.J)


def _rows(value: Any, J: int) -> Array | Any:
    """As many of the one row (1, ...); plain numbers, and what has no row for a learner, are everybody's."""
    return np.repeat(value, J, 0) if isinstance(value, np.ndarray) and len(value) == 1 else value

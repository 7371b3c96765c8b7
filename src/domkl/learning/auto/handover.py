"""What one device has learnt alone, for a file without its samples, and for the learners of a network.

arrays, meta = save(model)        # a `Model` that has learnt enough
model = load(arrays, meta)        # the same model again
inherit(learners, model.alone)    # J learners who begin where it ends
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import engines
from ...base.errors import InputError
from ...base.types import Array
from .. import second_order
from . import keep
from .features import MODELS, Stats
from .learners import Learners
from .model import Model
from .warmup import LOOKS
from .watch import Watch


def save(model: Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model as arrays and a description fit for JSON; its scale is fixed, and no sample is among them."""
    if model.forgetting is not None or not model.alone.forgets:
        raise InputError("the model's forgetting was chosen; expected 'auto', as agents have; leave it out")
    if model.n < LOOKS:
        raise InputError(f"the model has learnt {model.n} samples; expected {LOOKS} or more; teach it first")
    model = copy.deepcopy(model)
    model.fix_scale()
    alone = model.alone
    alone.recent.clear()
    arrays, mind = keep.save(alone)
    arrays["misses"] = model.errors.misses
    about = {"d": alone.d, "first": alone.features.first, "seed": alone.seed, "size": alone.size}
    return arrays, {**about, "loss": alone.loss.name, "mind": mind}


def load(arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> Model:
    """The model that was saved."""
    model = Model(meta["first"], loss=meta["loss"], seed=meta["seed"], size=meta["size"])
    model.alone.widen(meta["d"])
    keep.load(model.alone, arrays, meta["mind"])
    model.errors.misses, model.errors.n = arrays["misses"], model.n - 1
    return model


def inherit(learners: Learners, alone: Learners) -> None:
    """Begin where a learner alone ends; each of the network takes an equal part of its evidence.

    So all together know what it knew, once: the minimum of the network's problem is that of its own, but for
    the prior, and everybody begins there.
    """
    learners.widen(alone.d)
    learners.warm.shared = learners.of > 1
    learners.warm.end()
    learners._scale(whole(alone))
    _inherit_joint(learners, alone)
    learners.low, learners.high = (_rows(v, learners.J) for v in (alone.low, alone.high))
    learners.memories = [learners.make_memory(memory.rounds) for memory in alone.memories]
    for memory, other in zip(learners.memories, alone.memories, strict=True):
        memory.inherit(other)
    learners.watch = Watch(learners.J)
    for part in ("watch", "experts", "echo"):
        ours, its = getattr(learners, part), getattr(alone, part)
        for name in keep.PARTS[type(its)]:
            setattr(ours, name, _rows(getattr(its, name), learners.J))
    learners.watch.wait()  # there are no samples to begin anew from


def whole(alone: Learners) -> Stats:
    """The statistics that give its scale, targets in the last column. (1, d + 1)"""
    target = {"n": 1.0, "mean": alone.centre[0], "low": 0.0, "high": alone.width[0]}
    columns = [(value, target.get(name, 0.0)) for name, value in alone.stats._asdict().items()]
    return Stats(*(np.concatenate([v, np.full((*v.shape[:-1], 1), last)], -1) for v, last in columns))


def _inherit_joint(learners: Learners, alone: Learners) -> None:
    assert alone.state is not None
    J, part, pulls = learners.J, 1 / learners.of, learners.pulls
    state = second_order.init(
        MODELS, learners.features.K, pulls, engines.make_inverse(learners.engine, learners.threads)
    )
    theta, m = (_rows(v, J).astype(learners.dtype) for v in (alone.state.theta, part * alone.state.m))
    inverses = [_part(alone, float(c), part) for c in pulls.c[:, 0]]
    P = np.concatenate(inverses).astype(learners.dtype)
    near = theta * pulls.deg[:, None, None]
    learners.state = state._replace(theta=theta, theta_sum=near, m=m, inverse=state.inverse.anew(P))
    learners.mean = theta


def _part(alone: Learners, c: float, part: float) -> Array:
    """The inverse of a part of its evidence and of c I. (1, MODELS, K, K)"""
    assert alone.state is not None
    own = float(alone.pulls.c[0, 0])
    return second_order.shift(copy.deepcopy(alone.state.inverse), own, c - part * own, part).settle()


def _rows(value: Any, J: int) -> Any:
    """As many of the one row (1, ...); numbers are everybody's."""
    return np.repeat(value, J, 0) if isinstance(value, np.ndarray) else value

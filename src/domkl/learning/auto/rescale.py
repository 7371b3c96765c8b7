"""Taking a scale: from statistics of the first samples, from another learner, or from a taught model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.types import Array
from .. import first_order
from ..model import Statistics
from .features import Stats, pooled
from .memories import MemoryScale
from .scale import TargetScale
from .warmup import Sample

if TYPE_CHECKING:
    from .rows import AutoRows


def rebuild(rows: AutoRows, known: Statistics, is_open: bool) -> None:
    """Take the scale from statistics, and learn the kept samples again on it.

    In an open round the last sample is learnt as the round's own, so that neighbours receive its result.
    """
    rows.warm.shared, rows.warm.own = rows.warm.will_be_shared(rows.rounds), True
    stats = pooled(known.each, known.who)
    inputs = _set_scale(rows, stats, known.who.shape[1])
    if rows.gate is not None:
        _set_range(rows, stats)
    samples = _kept_samples(rows)
    rows.joint.reset(samples[:-1] if is_open else samples, inputs)
    if is_open:
        z = rows.joint.features.of(samples[-1][0], inputs)
        assert rows.joint.state is not None
        rows.joint.learn(z, first_order.dot(rows.joint.state.theta, z), samples[-1][1])
    _start_memories(rows, samples)
    if rows.rounds >= rows.warm.fixed:
        fix(rows)


def rebuild_alone(rows: AutoRows) -> None:
    """Take the scale again from all samples that are kept, each learner by itself."""
    rebuild(rows, Statistics(rows.warm.statistics(), np.eye(rows.J, dtype=bool)), is_open=False)


def take(rows: AutoRows, stats: Stats, count: int, fixed: bool, theta: Array) -> None:
    """Go on with another learner's scale, and from its theta (J, models, K) where no samples are kept."""
    rows.warm.shared, rows.warm.own = True, False
    inputs = _set_scale(rows, stats, count)
    samples = _kept_samples(rows)
    rows.joint.reset(samples, inputs)
    if not samples:
        rows.joint.adopt(theta)
    _start_memories(rows, samples)
    if fixed:
        fix(rows)


def start_with(rows: AutoRows, stats: Stats) -> None:
    """Start with the fixed scale of one learner that was taught alone. (1, d + 1)"""
    _set_scale(rows, stats, 1)
    fix(rows)


def fix(rows: AutoRows) -> None:
    """The scale stays; the samples that made it are dropped."""
    rows.warm.end()
    if rows.scale is not None:
        rows.scale.fixed = rows.shared


def _set_scale(rows: AutoRows, stats: Stats, count: int) -> Stats:
    """Statistics of inputs and, in the last column, of targets (J or 1, d + 1), of `count` learners.

    Returns those of the inputs.
    """
    before = rows.scale
    rows.scale = TargetScale.of(stats, rows.J, rows.loss.classifies, count, rows.shared)
    if before is not None:
        rows.residual.rescale(before.width / rows.scale.width)
    rows.joint.set_pulls(rows.weight, rows.learners, rows.shared)
    return rows.scale.inputs


def _set_range(rows: AutoRows, stats: Stats) -> None:
    """The targets' range without labels that lie far from nearly all others."""
    own = rows.warm.labels()
    rows.low = np.minimum(stats.low[:, -1], own.min(1))
    rows.high = np.maximum(stats.high[:, -1], own.max(1))


def _kept_samples(rows: AutoRows) -> list[Sample]:
    """Samples of the warm-up, with targets scaled."""
    if not rows.warm.samples:
        return []
    labels = rows.warm.labels().T
    return [(x, rows.scaled_target(y)) for (x, _), y in zip(rows.warm.samples, labels, strict=True)]


def _start_memories(rows: AutoRows, samples: list[Sample]) -> None:
    """If it is time, begin to watch for changes, or go on with another scale; targets are scaled."""
    ready = rows.rounds >= rows.warm.looks and (rows.shared or rows.learners == 1)
    if not rows.watches or not ready:
        return
    if not rows.memories:
        rows.experts.add_all()
    assert rows.scale is not None
    exact = [(x, np.asarray(target, np.float64)) for x, target in samples]
    past = [(x, np.asarray(rows.scaled_target(y), np.float64)) for x, y in rows.warm.before]
    weight = rows.weight if rows.shared else np.zeros(rows.J)
    scale = MemoryScale(rows.scale.inputs, weight, rows.learners)
    rows.memories.start(exact, past, rows.warm.old, scale)

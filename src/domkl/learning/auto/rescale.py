"""Taking a scale: from statistics of the first samples, from another learner, or from a taught model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .. import first_order
from ..model import Statistics
from .constants import C
from .dependence import Dependence
from .features import Stats, columns_vary, median_of, pooled
from .memories import MemoryScale
from .message import unpacked
from .own_memory import OwnMemory
from .scale import DataScale
from .warmup import Sample, statistics_of

if TYPE_CHECKING:
    from .rows import AutoRows
#: Half of one's own values lie no more spans outside another learner's scale than this, and
#: all of them, once there are enough, spread over no smaller part of it, nor is its deviation a smaller part
#: of theirs; for targets and half of the inputs the last is that part.
FAR, NARROW, USUAL = 10.0, 0.01, 0.2


def rebuild(rows: AutoRows, known: Statistics, is_open: bool) -> None:
    """Take the scale from statistics, and learn the kept samples again on it.

    In an open round the last sample is learnt as the round's own, so that neighbours receive its result.
    """
    was_apart = not rows.warm.shared
    rows.warm.shared, rows.warm.own = rows.warm.will_be_shared(rows.rounds), True
    stats = pooled(known.each, known.who)
    inputs = _set_scale(rows, stats, int(known.who.any(0).sum()))
    if rows.gate is not None:
        _set_range(rows, stats)
    if rows.shared:
        rows.is_far = _is_far(rows, known)
        rows.experts.start_equal(rows.is_far & was_apart)
    samples = _kept_samples(rows)
    rows.joint.reset(samples[:-1] if is_open else samples, inputs, rows.warm.gone, rows.warm.skip)
    if is_open:
        z = rows.joint.features.of(samples[-1][0], inputs)
        assert rows.joint.state is not None
        rows.joint.learn(z, first_order.dot(rows.joint.state.theta, z), samples[-1][1])
    _start_memories(rows, samples)
    is_one_of_many = rows.J == 1 and rows.warm.is_common(rows.rounds)  # which waits until others have it, too
    if rows.rounds >= rows.warm.fixed and not is_one_of_many:
        fix(rows)


def _is_far(rows: AutoRows, known: Statistics) -> npt.NDArray[np.bool_]:
    """Who is far from most others: the mean of some input, or of the target, differs by more than chance.

    So do places, and seasons: little can be said of what neighbours' parameters are worth. Booleans (J,)
    """
    own, each = rows.warm.statistics(), known.each
    some = known.who[..., None] & (each.n > 0)
    mean, sd = (median_of(values, some)[:, 0] for values in (each.mean, each.sd))
    with np.errstate(over="ignore"):
        apart = np.abs(own.mean - mean) * np.sqrt(own.n)
        far = (own.n > 0) & (apart > C.far * np.maximum(own.sd, sd))
    return np.asarray(far.any(-1))


def is_worth_it(rows: AutoRows) -> bool:
    """Whether this round's common scale has to be taken.

    A second look only if some input is elsewhere by now. After the last one only if nobody's statistics are
    missing: scales of learners who lack some differ, and have become one by now.
    """
    warm, known, old = rows.warm, rows.known[rows.rounds], rows.scale
    if old is None or not warm.shared:
        return True
    if rows.rounds > warm.fixed:
        return bool(known.who.any(0).all())
    if not warm.is_second_look(rows.rounds):
        return True
    now = pooled(known.each, known.who)
    with np.errstate(over="ignore"):
        # of the larger deviation: a rare value that had not come yet moves the mean by many of the old one
        apart = np.abs(now.mean[..., :-1] - old.inputs.mean)
        moved = apart > C.moved * np.maximum(old.inputs.sd, now.sd[..., :-1])
    return bool((moved & columns_vary(old.inputs)).any())


def rebuild_alone(rows: AutoRows) -> None:
    """Take the scale again from all samples that are kept, each learner by itself."""
    rebuild(rows, Statistics(rows.warm.statistics(), np.eye(rows.J, dtype=bool)), is_open=False)


def go_alone(rows: AutoRows) -> None:
    """Take the scale from our own samples that are kept; it is nobody else's."""
    rows.warm.shared, rows.warm.own = False, True
    inputs = _set_scale(rows, rows.warm.statistics(), 1)
    samples = _kept_samples(rows)
    rows.joint.reset(samples, inputs, rows.warm.gone, rows.warm.skip)
    _start_memories(rows, samples)


def make_up(rows: AutoRows) -> None:
    """Where the rounds in which a scale is due were skipped, take one all the same, or fix the last."""
    if rows.scale is None and len(rows.warm.samples) >= C.looks:
        go_alone(rows)
    if rows.warm.is_overdue:
        fix(rows)


def knows_spread(rows: AutoRows) -> bool:
    """Whether enough samples are kept to tell how far inputs and targets spread."""
    return len(rows.warm.samples) >= C.looks // 2


def fits(rows: AutoRows, stats: Stats, usual: bool = False) -> bool:
    """Whether one learner's own samples can be told apart on a scale of such statistics. (1, d + 1)

    Only columns that vary here count, the target's included. `usual`: whether they have to spread over a good
    part of it, around its inside, as they do unless the learner sees only what is rare elsewhere.
    """
    own = _own_statistics(rows)
    if own is None:
        return True
    with np.errstate(over="ignore"):
        span = stats.high - stats.low
        low, high = stats.low - FAR * span, stats.high + FAR * span
        half = own.quantiles[:, [own.quantiles.shape[1] // 4, -1 - own.quantiles.shape[1] // 4]]
        inside = (half >= low[:, None]).all(1) & (half <= high[:, None]).all(1)
        spread, wide = (
            (own.high - own.low >= part * span) & (stats.sd >= part * own.sd) for part in (NARROW, USUAL)
        )
        middle = own.quantiles[:, own.quantiles.shape[1] // 2]
        wide &= (middle >= stats.low) & (middle <= stats.high)
    constant = own.high == own.low
    if own.n.max() < C.looks // 2:
        return bool((inside | constant).all())
    is_usual = (wide | constant)[0, -1] and wide[~constant].sum() >= (~constant).sum() / 2
    return bool((is_usual or not usual) and (inside & spread | constant).all())


def fits_own(rows: AutoRows) -> bool:
    """Whether one learner's own samples fit the common scale that it has."""
    return rows.scale is not None and fits(rows, unpacked(rows.scale.whole, rows.d + 1), usual=True)


def is_complete(rows: AutoRows) -> bool:
    """Whether everybody's statistics have made the scale."""
    return rows.scale is not None and rows.scale.count >= rows.learners


def _own_statistics(rows: AutoRows) -> Stats | None:
    """Of the samples that are kept, or else of the last ones."""
    if rows.warm.samples:
        return rows.warm.statistics()
    last = _last_samples(rows)
    return statistics_of(last) if last else None


def _last_samples(rows: AutoRows) -> list[Sample]:
    """Those that are kept whatever the scale, with targets in their own units."""
    if rows.scale is None:
        return []
    width, centre = rows.scale.width, rows.scale.centre
    return [(x, y * width + centre) for x, y in rows.memories.recent]


def take(rows: AutoRows, stats: Stats, count: int, fixed: bool) -> None:
    """Go on with another learner's scale, on which the samples that are kept are learnt again."""
    rows.warm.shared, rows.warm.own = True, False
    last = [] if rows.warm.samples else _last_samples(rows)
    if rows.warm.samples:
        rows.is_far = _is_far(rows, Statistics(stats, np.ones((rows.J, 1), bool)))
    inputs = _set_scale(rows, stats, count)
    samples = _kept_samples(rows) or [(x, rows.scaled_target(y)) for x, y in last]
    rows.joint.reset(samples, inputs, rows.warm.gone, rows.warm.skip)
    _start_memories(rows, samples)
    if fixed or rows.warm.over:
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
    rows.scale = DataScale.of(stats, rows.J, rows.loss.classifies, count, rows.shared)
    if before is not None:
        rows.residual.rescale(before.width / rows.scale.width)
    rows.joint.ridge, rows.dependence = rows.dependence.ridge(), Dependence(rows.J)
    rows.joint.set_pulls(rows.weight, rows.learners, rows.shared)
    return rows.scale.inputs


def _set_range(rows: AutoRows, stats: Stats) -> None:
    """The targets' range without labels that lie far from nearly all others."""
    own = rows.warm.statistics()
    rows.own_range = np.stack([own.low[:, -1], own.high[:, -1]])
    rows.low = np.minimum(stats.low[:, -1], rows.own_range[0])
    rows.high = np.maximum(stats.high[:, -1], rows.own_range[1])


def _kept_samples(rows: AutoRows) -> list[Sample]:
    """Samples of the warm-up, with targets scaled."""
    return [(x, rows.scaled_target(y)) for x, y in rows.warm.believed()]


def _start_memories(rows: AutoRows, samples: list[Sample]) -> None:
    """If it is time, begin to watch for changes, or go on with another scale; targets are scaled."""
    ready = rows.rounds >= rows.warm.looks and (rows.shared or rows.learners == 1)
    if not rows.watches or not (ready or rows.memories):
        return
    if not rows.memories:
        rows.experts.add_all()
    assert rows.scale is not None
    exact = [(x, np.asarray(target, np.float64)) for x, target in samples]
    weight = rows.weight if rows.shared else np.zeros(rows.J)
    scale = MemoryScale(rows.scale.inputs, weight, rows.learners)
    if rows.memories.restarts and not rows.warm.old:  # what the past memory knew, the long one now learns
        rows.experts.hand_over("past memory", "long memory")
    rows.memories.start(exact, rows.warm.old, scale)
    own = exact[rows.warm.old :] if rows.is_far.any() else []
    rows.own_memory = OwnMemory.of(own, rows.memories.terms, rows.loss)

"""Every constant of the learner without settings, in one versioned record.

Learners of one network must have the same: the record's fingerprint is part of theirs. "sets" below are the
five of `benchmarks/accuracy.py` (a ring of five, seed 0 and 1); "drift" are the streams of
`benchmarks/drift.py`; "natural" are the first 2000 or 3000 hours of the shipped stations, Weather's stations,
and one seed of each made family and of each deal of
`benchmarks/together.py`, none of them among the seeds that it reports; "outliers" are the streams of
`benchmarks/outliers.py`. What says "by design" was not tuned.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

#: Raised whenever a constant changes, so that a refusal can name both versions.
VERSION = 8
#: Fingerprints of the records of earlier versions, whose states can be loaded.
EARLIER = ("20622136", "bd4f2cdf", "b172d5e4", "1aed7424", "e1ef5947", "0f170403", "639fe325")


def _is(value: Any, meaning: str, chosen: str = "sets") -> Any:
    return dataclasses.field(default=value, metadata={"meaning": meaning, "chosen": chosen})


def _own(value: Any, meaning: str, chosen: str = "outliers") -> Any:
    """A constant that only the device itself acts on: learners that differ in it understand each other."""
    about = {"meaning": meaning, "chosen": chosen, "own": True}
    return dataclasses.field(default=value, metadata=about)


@dataclass(frozen=True)
class Constants:
    """The constants; `table` has each one's meaning and how it was chosen."""

    # The joint models
    models: int = _is(2, "joint models that are averaged")
    rho: float = _is(0.6, "pull towards the neighbours, squared loss")
    eta: float = _is(0.01, "ridge of all learners together, squared loss")
    rho_classes: float = _is(0.05, "rho with the logistic loss: an eighth of the curvature", "classes")
    eta_classes: float = _is(0.15, "eta with the logistic loss", "classes")
    rho_alone: float = _is(0.4, "rho before the scale is common; has no effect without neighbours")
    eta_alone: float = _is(0.1, "ridge of a learner that nobody's parameters hold in check")
    ridge_errors: int = _is(24, "errors from which on their correlation makes the ridge stronger", "natural")
    ridge_most: float = _is(1000.0, "the most that this multiplies the ridge by", "natural")

    # The own samples, of which nobody else has a part
    own_strong: float = _is(3.0, "strong ridge of a learner's own samples", "natural")
    own_weak: float = _is(0.1, "weak ridge of them, around 0 and around the common parameters", "natural")
    own_classes: float = _is(
        0.125, "the same with the logistic loss: an eighth of the curvature", "by design"
    )
    own_beyond: float = _is(0.1, "part of their range by which predictions from them may leave it", "natural")
    own_stride: float = _is(
        2.2, "length of a round's step towards the minimum with the weak ridge", "natural"
    )
    own_momentum: float = _is(0.4, "part of the step before that is added to it", "natural")
    own_half: tuple[float, float] = _is(
        (0.8, 0.2),
        "weights at the first label of the experts' mean, and of its middle with the own memory",
        "natural",
    )
    own_heat: float = _is(2.0, "temperature of Hedge over these two", "natural")
    own_share: float = _is(5e-3, "weight that these two get back in every round, half each", "natural")

    # Trust in neighbours
    judge_samples: int = _is(
        32, "last samples of its own on which a learner judges its neighbours", "natural"
    )
    judge_fewest: int = _is(5, "samples from which on it judges them, and terms", "natural")
    judge_most: float = _is(2.0, "the most that a neighbour may err there, in errors of alone", "natural")
    judge_clear: float = _is(
        1.5,
        "standard errors by which it must exceed that: one sample of 32 may be the whole difference",
        "sets",
    )
    judge_best: float = _is(
        3.0, "the most that it may err at first, in errors of the best neighbour", "natural"
    )
    judge_few: int = _is(
        4,
        "neighbours up to which the best one is the standard; of more, the last of the best quarter",
        "sets",
    )
    judge_worth: float = _is(0.7, "errors of alone below which it is used all the same", "natural")
    judge_common: float = _is(
        1.25, "the most that one worse than alone may err, in errors of the median neighbour", "liars"
    )
    judge_apart: float = _is(
        0.25,
        "squared distance from the median prediction that is not refused, in errors of that neighbour",
        "liars",
    )
    judge_settled: int = _is(
        128, "samples from which on the median neighbour, not the best, is the standard", "liars"
    )
    judge_dual: float = _is(
        2.0, "the most that the dual of an edge may grow to, in duals of the learner's median edge", "liars"
    )
    judge_terms: float = _is(3.0, "the most that a neighbour's terms may err, in errors of our own", "liars")
    range_widths: float = _is(
        5.0, "how far from the centre another's targets may lie, in widths", "by design"
    )
    judge_least: float = _is(1e-6, "squared error, in scaled units, that is never too much", "by design")

    # Features
    sigma2: tuple[float, ...] = _is((0.1, 0.2, 0.4, 0.8), "squared bandwidths, in turn over the frequencies")
    inputs_seen: tuple[int | None, ...] = _is((2, 4, 8, None), "inputs a frequency sees, in turn; None: all")
    quantile_steps: int = _is(
        16, "steps of the ranks: quantiles of a column, one more than that", "by design"
    )
    few_steps: int = _is(8, "steps of the ranks of fewer samples than `many_samples`", "by design")
    many_samples: int = _is(128, "samples from which on a column has all its quantiles", "by design")
    input_maps: int = _is(3, "ways the inputs are seen: on their range, as softsigns, as ranks")
    softsign_size: float = _is(1.25, "size of the softsign map")
    rank_size: float = _is(1.9, "size of the rank map")

    # The scale
    warm_up: int = _is(
        512, "samples after which the scale is fixed: more than a season's first days", "drift"
    )
    enough: int = _is(320, "samples of all learners after which a common scale is good enough to go on with")
    looks: int = _is(64, "the most rounds that `enough` may take")
    moved: float = _is(
        0.5, "deviations that a mean must have moved for another scale after `looks` rounds", "natural"
    )
    late_values: int = _is(32, "values after which an input that came late gets its scale", "by design")
    far_apart: float = _is(
        20.0, "how far a learner may move the scale, in typical spreads of the learners", "natural"
    )
    few_values: int = _is(64, "values of a group below which no learner's are called far from it", "sets")
    most_values: float = _is(4.0, "how many times the values of others one learner counts for", "by design")

    # Experts
    fixed_share: float = _is(1e-3, "weight that experts get back in every round", "drift")
    heat: float = _is(4.4, "temperature of Hedge, in mean squared errors of the best expert", "drift")
    hedge_most: float = _is(
        1.3, "the most that an error of one round counts, in temperatures, in every Hedge", "drift"
    )
    first_weights: tuple[float, ...] = _is(
        (0.14, 0.58, 0.03, 0.2, 0.05), "weights of the experts that there are from the start", "natural"
    )
    doubt_first: float = _is(
        2 / 7,
        "part of the weight shared out after an alarm that goes to experts from the start, together",
        "drift",
    )
    far: float = _is(
        15.0,
        "standard errors from the others' means at which a learner is far: its first weights are equal",
        "natural",
    )
    newcomer: float = _is(
        0.9, "weight of the neighbours where a learner joins without samples of its own", "by design"
    )
    repeats: float = _is(0.97, "the largest correlation of one error with the next that counts", "by design")
    untried: float = _is(0.2, "weight that new experts have together before they are tried")
    blend: float = _is(0.25, "part of the long memory in the expert that blends it with the neighbours' mean")

    # Additive memories
    memory_part: float = _is(1 / 7, "part of all parameters that a memory may have")
    memory_rho: float = _is(4.0, "pull towards the neighbours' coefficients", "drift")
    young_rounds: int = _is(200, "rounds that the young memory looks back, and samples kept for it", "drift")
    short_rounds: int = _is(
        50, "a memory that fades looks back on half its age, but at least so far", "drift"
    )
    trial_rounds: int = _is(100, "rounds for which a new memory has the exchange to itself", "drift")
    often: int = _is(8, "rounds between two looks at the variances while a memory is new", "by design")
    seldom: int = _is(32, "rounds between two such looks later", "by design")
    new_rounds: int = _is(64, "rounds for which a memory is new", "by design")
    first_variance: float = _is(5e-3, "variance of a coefficient at first, targets scaled to their range")
    least_variance: float = _is(5e-5, "the least such variance")
    label_variance: float = _is(20.0, "how many times as large variances are for labels", "classes")
    variance_worth: float = _is(0.5, "how many coefficients the least variance is worth as evidence")
    noise_rounds: int = _is(25, "rounds over which the noise is averaged", "drift")
    dual_kept: float = _is(
        0.8, "part of the duals that stays at such a look: bounds what lost messages leave"
    )
    degrees: int = _is(4, "degree of the functions of one input")
    pairs: tuple[tuple[int, int], ...] = _is(
        ((1, 1), (1, 2), (2, 1), (2, 2)), "degrees of the functions of two inputs"
    )

    # The watch for changes
    watch_level: int = _is(300, "rounds over which the level of errors is averaged", "drift")
    watch_most: float = _is(10.0, "the most that one error counts, in levels", "drift")
    watch_slack: float = _is(2.0, "error in levels that raises no suspicion", "drift")
    watch_alarm: float = _is(15.0, "sum of suspicion that is an alarm", "drift")
    watch_fade: int = _is(30, "rounds over which experts are compared", "drift")
    watch_better: float = _is(
        0.75, "error below which another memory is clearly better, in the long one's", "drift"
    )
    watch_lasting: int = _is(30, "rounds for which it must be", "drift")
    watch_worse: float = _is(
        0.7, "joint models restart if a memory's error is below this part of theirs", "drift"
    )
    watch_rise: float = _is(3.0, "and theirs has risen to so many times its mean", "drift")
    watch_ages: int = _is(1000, "rounds of that mean", "drift")

    # Labels that cannot be believed
    label_reach: float = _own(6.0, "how far a label may lie from what was predicted, in robust deviations")
    label_wild: float = _own(20.0, "how far one lies that is not learnt at all")
    label_window: int = _own(100, "errors of which the deviation is a quantile")
    label_quantile: float = _own(0.8, "that quantile: so many errors tell how far labels may lie")
    label_normal: float = _own(1.2816, "that quantile of normal errors, in standard deviations", "by design")
    label_last: int = _own(16, "errors that let a change through if more than half of them are large")
    label_errors: int = _own(10, "errors before which labels are compared with other labels")
    label_fence: float = _own(1.5, "how far a label may then lie from nearly all others, in their range")
    label_few: int = _own(24, "labels with which that is twice as far; with half as many it is five times")
    label_again: float = _own(1.5, "how many times as far the first ones may lie that are judged again later")
    label_near: float = _own(
        0.5, "part of the range of those believed by which a label may always miss its prediction"
    )
    unconfirmed_most: int = _own(
        3, "decisions that a device follows though its own errors do not confirm them", "liars"
    )
    unconfirmed_rounds: int = _own(500, "rounds in which they are counted", "liars")
    contradicted: float = _own(
        2.0, "how many times the long memory's error another one's may be where a device restarts", "liars"
    )
    confirmed_rise: float = _own(
        1.5, "how many times as large as usual its joint models' own errors must be to restart them", "liars"
    )
    confirmed_part: float = _own(
        0.5, "part of `watch_alarm` to which its own errors must add up to confirm an alarm", "liars"
    )
    own_errors: int = _own(30, "errors before which own samples are not dropped that are no guide any more")
    own_rise: float = _own(6.0, "how many times as large as usual their last errors must be for that")
    own_spread: float = _own(1.5, "and how many times as large as the last labels' distance from each other")
    own_last: int = _own(16, "errors, and labels, whose medians are compared")
    unit_rise: float = _own(3.0, "how many times as large as usual the last errors must be for another unit")
    unit_part: float = _own(0.1, "and what part of the range of labels believed they must be")
    unit_far: float = _own(0.5, "that part where most labels are out of that range, as on a first hot day")
    unit_clear: float = _own(3.0, "and the predictions' spread, unless most of the labels are out of range")
    unit_repeats: float = _own(
        0.25, "the most that errors may have the sign of the one before: a front passes"
    )
    unit_others: int = _own(2, "how many of the errors before it may be large, and of those after it not")
    unit_fits: float = _own(
        2.0, "the largest median error, in usual ones, with which another unit explains that"
    )
    unit_looks: tuple[int, ...] = _own(
        (16, 32, 64, 100), "labels with which the unit is estimated again", "by design"
    )
    unit_sure: int = _own(32, "labels before which none of another unit is learnt")

    # The autoregressive correction of the residual
    residual_fade: float = _is(0.998, "part of the past that stays at each error", "approval")
    residual_doubt: float = _is(0.05, "ridge, as part of the errors' sum of squares", "approval")
    residual_few: int = _is(10, "errors of which the second input is the mean, about", "approval")
    residual_most: float = _is(
        2.0, "largest error that counts, in scaled units: one class taken for the other", "by design"
    )
    residual_sure: float = _is(0.98, "how sure of a class the correction may be, as 2 P - 1", "classes")

    @property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits that differ where any constant does that learners must share."""
        shared = [f.name for f in dataclasses.fields(self) if "own" not in f.metadata]
        text = f"{VERSION} {tuple(getattr(self, name) for name in shared)!r}"
        return hashlib.sha256(text.encode()).hexdigest()[:8]


class Constant(NamedTuple):
    """A constant, as a table shows it."""

    name: str
    value: Any
    meaning: str
    chosen: str  # by which data, or "by design"


def table() -> list[Constant]:
    """All constants with their meaning and how they were chosen."""
    found = dataclasses.fields(Constants)
    return [Constant(f.name, f.default, f.metadata["meaning"], f.metadata["chosen"]) for f in found]


C = Constants()

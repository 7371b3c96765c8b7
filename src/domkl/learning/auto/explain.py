"""`Auto` as a function of its inputs, for `learning.explain`: the parameters of one learner, all samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...base.types import Array
from .. import explain
from . import units
from .additive import LONG
from .constants import C
from .experts import ALONE

if TYPE_CHECKING:
    from .rows import AutoRows


def usual(rows: AutoRows, row: int) -> explain.Usual:
    """Usual values of the inputs of learner `row`, from the quantiles of its scale."""
    assert rows.scale is not None
    found = rows.scale.inputs.quantiles
    values = found[min(row, len(found) - 1)]
    return lambda parts: explain.quantile(values, parts)


def function(rows: AutoRows, row: int) -> explain.Function:
    """What learner `row` predicts, as `AutoRows.predict` does, for any number of samples.

    It holds the parameters of now: it may be asked in another thread while the learner goes on.
    """
    assert rows.scale is not None
    joint = _joint(rows, row)  # (experts, models * K)
    stats = type(rows.scale.inputs)(*(v[min(row, len(v) - 1)] for v in rows.scale.inputs))
    memories = np.array([memory.mean[row, 0] for memory in rows.memories.all])  # (3, terms)
    weights, ridges = rows.experts.weights()[row], rows.ridges.weights()[row]
    halves = rows.halves.weights()[row]
    expected = float(rows.residual.expected()[row] * rows.scale.width[row])
    features, additive = rows.joint.features, rows.memories.terms
    inside, alone_inside = Inside.of(rows, row), Inside.of(rows, row, own_range=True)
    own_memory = _own_memory(rows, row)
    shift, factor = float(rows.unit.shift[row]), float(rows.unit.factor[row])

    def predict(X: Array) -> Array:
        z = features.of(X, stats).reshape(len(X), -1)
        scores = z.astype(np.float64) @ joint.T
        own, alone = scores[:, :-2], alone_inside(scores[:, -2:])
        if len(memories):
            terms = additive.of(X, stats) @ memories.T
            blend = (1 - C.blend) * own[:, 1] + C.blend * terms[:, LONG]
            own = np.hstack([own, terms, blend[:, None]])
        experts = np.insert(inside(own), ALONE, alone @ ridges, axis=-1)
        if len(memories):
            experts = _with_residual(inside, experts, weights, expected)
        y = np.asarray(experts @ weights)
        if own_memory is not None:
            own_half = alone_inside(own_memory(X)[:, None])[:, 0]
            y = np.stack([y, (y + own_half) / 2], -1) @ halves
        return np.asarray(shift + factor * y)

    return predict


def _own_memory(rows: AutoRows, row: int) -> explain.Function | None:
    """Scores of the own memory of learner `row`; None where it has no part in its predictions."""
    own = rows.own_memory
    if own is None or not rows.is_far[row]:
        return None
    stats = type(own.scale.inputs)(*(v[row] for v in own.scale.inputs))
    terms, coefficients = own.memory.terms, own.memory.mean[row, 0]
    centre, width = float(own.scale.centre[row]), float(own.scale.width[row])
    return lambda X: np.asarray(centre + (terms.of(X, stats) @ coefficients) * width)


def _joint(rows: AutoRows, row: int) -> Array:
    """Parameters of the experts that are linear in the features, then those of the own samples alone.

    own, neighbours, personal, shrunk; alone with the weak, and with the strong ridge
    """
    joint, own = rows.joint, rows.joint.own
    assert joint.state is not None
    weak, strong, personal, shrunk = own.parameters(joint.common)
    each = np.stack([joint.state.theta, joint.mean, personal, shrunk, weak, strong])[:, row]
    return np.asarray(each.reshape(len(each), -1) / C.models, np.float64)


class Inside(NamedTuple):
    """Turns scores (n, experts) into predictions of y, as `units.predicted`."""

    classifies: bool
    centre: float
    width: float
    low: float
    high: float

    @classmethod
    def of(cls, rows: AutoRows, row: int, own_range: bool = False) -> Inside:
        """Of learner `row`, within the range of all targets or of its own."""
        assert rows.scale is not None
        around = units.around_own(rows) if own_range else None
        low, high = (rows.low, rows.high) if around is None else around
        scale = (rows.scale.centre, rows.scale.width, low, high)
        return cls(rows.loss.classifies, *(float(values[row]) for values in scale))

    def __call__(self, scores: Array) -> Array:
        if self.classifies:
            return np.asarray(np.tanh(scores / 2))
        return np.asarray(np.clip(self.centre + scores * self.width, self.low, self.high))


def _with_residual(inside: Inside, experts: Array, weights: Array, expected: float) -> Array:
    rest = weights[:-1] / weights[:-1].sum()
    y = np.clip(experts @ rest + expected, inside.low, inside.high)
    y = np.clip(y, -C.residual_sure, C.residual_sure) if inside.classifies else y
    return np.hstack([experts, y[:, None]])

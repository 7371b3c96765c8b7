"""J rows of the learner without settings: a whole network in one process, or one device.

prediction = rows.predict(x)          # before the label is known
outgoing = rows.learn(prediction, y)  # the local step; what the neighbours must receive
rows.merge(incoming)                  # what the exchange made of the neighbours' messages
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.types import Array, Float
from .. import second_order
from ..model import Model, Part, Statistics
from ..settings import Auto
from . import decisions, judge, labels, persistence, prediction, rescale, units
from .additive import LONG, Terms
from .change import JOINT
from .constants import C
from .dependence import Dependence
from .experts import ALONE, FIRST, MEMORIES, NAMES, Experts
from .features import Features, Stats
from .growth import take_late
from .joint import Joint
from .label_unit import LabelUnit
from .memories import NOBODY, Memories
from .message import LARGEST, SCALARS, SMALL_PARTS, interpret, within_ranges, within_reach
from .outliers import LabelGate
from .own_memory import OwnMemory
from .own_watch import OwnWatch
from .prediction import AutoPrediction
from .residual import ResidualModel
from .scale import DataScale, in_widths
from .warmup import WarmUp


class AutoRows(Model):
    """J learners; row j of every array belongs to learner j.

    Parameters
    ----------
    settings : of the model.
    J, d : learners, and inputs of a sample.
    weight : of each learner's edges, in sum (J,).
    learners, diameter : of the whole network.
    diagonal : makes the matrices of the joint models; by default in NumPy.
    lockstep : whether all learners of the network go through the same rounds.
    """

    kind = "auto"
    largest = LARGEST
    judges = ("theta", "terms", "turn")

    def __init__(
        self,
        settings: Auto,
        J: int,
        d: int,
        weight: Array,
        learners: int,
        diameter: int,
        *,
        dtype: Float = np.float64,
        diagonal: second_order.Diagonal = second_order.Inverse.diagonal,
        lockstep: bool = True,
    ) -> None:
        self.settings, self.loss = settings, settings.loss_function
        self.J, self.weight, self.d = J, weight, settings.check_inputs(d)
        self.dtype, self.diagonal, self.lockstep = dtype, diagonal, lockstep
        self.watches, self.rounds = settings.forgetting == "auto", 0
        bounds = settings.outliers == "bound" and not self.loss.classifies
        self.gate, self.own_watch, self.unit = LabelGate(J) if bounds else None, OwnWatch(J), LabelUnit(J)
        self.warm = WarmUp(J, learners, diameter, lockstep, fenced=bounds)
        self.low, self.high = np.full(J, np.inf), np.full(J, -np.inf)
        self.own_range = np.stack([self.low, self.high])  # (2, J) of the own targets
        self.experts, self.residual = Experts(J), ResidualModel(J)
        self.dependence = Dependence(J)
        self.ridges = Experts(J, (0.5, 0.5))  # weights of the two ridges of the expert "alone"
        self.halves = Experts(J, C.own_half, C.own_heat, C.own_share)  # of the two of `AutoPrediction.halves`
        self.is_far = np.zeros(J, bool)  # whose samples differ from others' by more than chance
        self.own_memory: OwnMemory | None = None  # where anybody's do, once there are enough samples
        self.statistics: dict[int, Stats] = {}  # of this round's samples, for the scale of that round
        self.known: dict[int, Statistics] = {}  # of all learners, for scales to come
        self.scale: DataScale | None = None
        self.last_x: Array = np.zeros((J, 0))  # inputs of the open round
        self.late: dict[int, list[float]] = {}  # values of inputs that came after the scale was fixed
        self.memories = Memories(J, self.loss)
        self.joint = Joint(J, self.loss, dtype, diagonal)
        self.lay_out(d)

    def lay_out(self, d: int) -> None:
        """Divide the parameters over features and terms, for d inputs; what was learnt is dropped."""
        size = self.settings.size
        self.memories.terms = Terms(int(C.memory_part * size), d)
        left = size - SCALARS - (self.memories.terms.K if self.watches else 0)
        self.joint.features = Features(self.settings.seed, left, d, self.dtype)

    @property
    def learners(self) -> int:
        """Size of the whole network."""
        return self.warm.learners

    @property
    def diameter(self) -> int:
        """Rounds that a message needs to reach everybody; 0 where rounds are nobody else's."""
        return self.warm.diameter if self.lockstep else 0

    @property
    def shared(self) -> bool:
        """Whether the scale is common, so that theta means the same to all."""
        return self.warm.shared

    @property
    def weights(self) -> Array:
        """Weights of the experts; 0 for those that there are not yet. (J, len(NAMES))"""
        w = self.experts.weights()
        return np.pad(w, ((0, 0), (0, len(NAMES) - w.shape[1])))

    @property
    def parts(self) -> tuple[Part, ...]:
        """What a message holds, and how neighbours' values are combined."""
        terms = [Part("terms", (1, self.memories.terms.K), "pull")] if self.watches else []
        return (Part("theta", (C.models, self.joint.features.K), "pull"), *terms, *SMALL_PARTS)

    @property
    def parameters(self) -> second_order.SecondOrderState | None:
        """Of the joint models; None before the first label."""
        return self.joint.state

    # Predicting

    def predict(self, x: Array) -> AutoPrediction:
        """Everything known about a sample before its label. (J, d)"""
        if self.joint.state is None:
            y_hat = np.full(self.J, self.settings.start)
            both, none = np.stack([y_hat, y_hat], -1), np.empty(0)
            first = np.repeat(y_hat[:, None], FIRST, -1)
            return AutoPrediction(x, none, none, both, first, y_hat, y_hat, y_hat, both, both, none)
        assert self.scale is not None
        z = self.joint.features.of(x, self.scale.inputs)
        f, near = self.joint.scores(z)
        own = self.joint.own.scores(z, self.joint.common)
        scores = [f.mean(-1), near.mean(-1), own.personal, own.shrunk]
        if self.memories:
            scores += self.memories.scores(x, self.scale.inputs)
            scores.append((1 - C.blend) * scores[1] + C.blend * scores[LONG - 3])
        alone = units.predicted(self, own.alone, units.around_own(self))
        residual, w = np.empty(0), self.experts.weights()
        experts = units.predicted(self, np.stack(scores, -1))
        experts = np.insert(experts, ALONE, (self.ridges.weights() * alone).sum(-1), axis=-1)
        if self.memories:
            experts, residual = prediction.with_residual(self, experts, w)
        halves = prediction.halves(self, (w * experts).sum(-1), x)
        mixed = prediction.weighed(self, halves)
        models, now = units.predicted(self, f), (self.unit.now(mixed), self.unit.now(experts[:, ALONE]))
        return AutoPrediction(x, z, f, models, experts, *now, mixed, alone, halves, residual)

    def models(self, prediction: AutoPrediction) -> Array:
        """Predictions of each joint model. (J, models)"""
        return self.unit.now(prediction.models)

    def alone(self, prediction: AutoPrediction) -> Array:
        """Predictions from each learner's own samples, which no message has changed. (J,)"""
        return prediction.own

    def gaps(self, prediction: AutoPrediction, around: Array) -> Array:
        """Sum over neighbours i of f_j(x_j) - f_i(x_j), in units of y; 0 while scales differ. (J, models)"""
        state = self.joint.state
        if state is None or not self.shared or self.scale is None or not len(prediction.z):
            return np.zeros((self.J, C.models))
        scores = np.matmul(prediction.z.transpose(1, 0, 2), state.theta.transpose(1, 2, 0))  # (models, J, J)
        own = scores.diagonal(axis1=1, axis2=2)[..., None]
        apart = np.where(around, own - scores, 0).sum(-1).T
        return np.asarray(apart * (self.scale.width * self.unit.factor)[:, None], np.float64)

    # Learning

    def learn(
        self, prediction: AutoPrediction, y: Array, earlier: AutoPrediction | None = None
    ) -> dict[str, Array]:
        """A label becomes known to every learner (J,); `earlier`: what was predicted, if that is rounds ago.

        Experts are judged by what they had predicted before: a short memory looks good on samples between
        those it knows.
        """
        if earlier is None or earlier.experts.shape != prediction.experts.shape:
            earlier = prediction
        self.rounds, self.last_x = self.rounds + 1, prediction.x
        y, kept = labels.believed(self, earlier, y)
        self._judge(earlier, y)
        if self.scale is not None and self.joint.state is not None:
            self.dependence.learn(in_widths(y - earlier.mixed, self.scale.width))
        self.low, self.high = np.minimum(self.low, y), np.maximum(self.high, y)
        self.own_range = np.stack([np.minimum(self.own_range[0], y), np.maximum(self.own_range[1], y)])
        self.joint.learnt, self.statistics = None, {}
        self.memories.turn, self.memories.outgoing = NOBODY, None
        if not self.warm.over:
            self.warm.samples.append((prediction.x, kept))
            due = self.warm.statistics_for(self.rounds)
            self.statistics = dict.fromkeys(due, self.warm.statistics()) if due else {}
        self._step(prediction, y, earlier)
        return self._message()

    def _step(self, prediction: AutoPrediction, y: Array, earlier: AutoPrediction) -> None:
        """The local step; a scale that all share is taken before it, any other when the round ends."""
        due, common = self.warm.is_due(self.rounds), self.warm.is_common(self.rounds)
        if due and common and self.rounds in self.known and rescale.is_worth_it(self):
            rescale.rebuild(self, self.known.pop(self.rounds), is_open=True)
        elif self.joint.state is not None and (common or not due):
            target = self.scaled_target(y)
            self.joint.learn(prediction.z, prediction.f, target)
            self._remember(earlier, y, target.astype(np.float64))

    def merge(self, incoming: Mapping[str, Any]) -> None:
        """End the round with what the neighbours sent."""
        self.low, self.high = units.reachable(self, incoming["low"], incoming["high"])
        if self.joint.learnt is not None and self.shared:
            theta = incoming["theta"]
            self.joint.merge(theta.near, theta.moved, theta.moving, theta.mean)
        elif self.joint.learnt is not None:
            self.joint.merge_alone()
        self.memories.merge(incoming)
        if self.memories:
            decisions.act(self, incoming)
        self.known |= incoming["statistics"]
        found = self.known.pop(self.rounds, None)
        if found is not None and self.warm.is_due(self.rounds) and not self.warm.is_common(self.rounds):
            rescale.rebuild(self, found, is_open=False)
        self.known = {t: found for t, found in self.known.items() if t > self.rounds}
        rescale.make_up(self)
        is_known = self.warm.over or self.rounds >= self.warm.fixed
        if isinstance(self.settings.forgetting, int | float) and is_known:
            self.joint.fade(self.rounds, 1 + self.settings.forgetting)
        if self.late:
            take_late(self, self.last_x[0])

    def _message(self) -> dict[str, Array]:
        theta, J = self.joint.learnt, self.J
        blank = np.zeros((J, C.models, self.joint.features.K), self.dtype)
        number, rank = (0.0, 0.0) if self.scale is None else (self.scale.number, self.scale.rank)
        message = {
            "theta": blank if theta is None else theta.theta,
            "low": self.low,
            "high": self.high,
            **self.memories.message(self.rounds, self.diameter),
            "scale": np.full(J, float(number)),
            "rank": np.full(J, rank),
            "turn": np.full(J, float(self.memories.turn)),
        }
        return within_ranges(message | within_reach(self, message))

    def _judge(self, earlier: AutoPrediction, y: Array) -> None:
        if self.joint.state is None or self.scale is None:
            return
        if len(earlier.residual):
            last, together = earlier.residual[:, :2], earlier.residual[:, 2]
            self.residual.learn(last, in_widths(y - together, self.scale.width))
        repeats = self.residual.repeats()
        self.experts.judge(units.misses(self, earlier.experts, y), repeats)
        self.ridges.judge(units.misses(self, earlier.alone, y), repeats)
        self.halves.judge(units.misses(self, earlier.halves, y), repeats)

    def scaled_target(self, y: Array) -> Array:
        """Targets (J,) as the models learn them."""
        assert self.scale is not None
        return np.asarray(in_widths(y - self.scale.centre, self.scale.width), self.dtype)

    def scaled_targets(self, row: int, y: Array) -> Array:
        """Targets (n,) of learner `row`, as the models learn them."""
        assert self.scale is not None
        return np.asarray(in_widths(y - self.scale.centre[row], self.scale.width[row]), self.dtype)

    # Following changes

    def _remember(self, earlier: AutoPrediction, y: Array, target: Array) -> None:
        if not self.memories:
            return
        assert self.scale is not None
        self.memories.learn(earlier.x, target, self.scale.inputs, self.rounds)
        if self.own_memory is not None:
            self.own_memory.learn(earlier.x, target)
        elif self.is_far.any():
            self.own_memory = OwnMemory.of(list(self.memories.recent), self.memories.terms, self.loss)
        error = in_widths(earlier.mixed - y, self.scale.width) ** 2
        compared = [*range(JOINT), *range(MEMORIES, MEMORIES + len(self.memories.all))]
        self.memories.detector.observe(error, units.misses(self, earlier.experts[:, compared], y))

    def interpret(self, message: Mapping[str, Array], own: Mapping[str, Array]) -> dict[str, Array]:
        """One neighbour's message as far as it means the same here."""
        return interpret(self, message, own)

    @property
    def is_joined(self) -> bool:  # type: ignore[override]
        return self.shared

    @property
    def fills_in(self) -> npt.NDArray[np.bool_] | None:  # type: ignore[override]
        """With few samples, so that members of a cluster pull each other as if nobody else were there."""
        return None if self.joint.state is None else ~self.joint.own.judge.is_settled

    @property
    def dual_limits(self) -> Array | None:  # type: ignore[override]
        """Once there are enough samples: a neighbour that never gives way would draw the network after it."""
        settled = None if self.joint.state is None else self.joint.own.judge.is_settled
        return None if settled is None or not settled.any() else np.where(settled, C.judge_dual, np.inf)

    @property
    def resets(self) -> int:  # type: ignore[override]
        return self.joint.resets

    @property
    def restarts(self) -> npt.NDArray[np.int_]:  # type: ignore[override]
        return self.joint.restarts

    def believes(self, who: list[int], sent: Mapping[str, Array]) -> npt.NDArray[np.bool_]:
        """Which neighbours' parameters err little on the learner's own last samples; see `judge`."""
        return judge.believes(self, who, sent)

    def is_common(self, round: int) -> bool:
        """Whether the statistics for that round's scale are of all learners."""
        return self.warm.is_common(round)

    # A network that changes

    def reweigh(self, weight: Array, learners: int, diameter: int) -> None:
        """The learner's edges have other weights (J,), or the network another size, from now on."""
        same = np.array_equal(weight, self.weight) and learners == self.joint.learners
        self.weight = weight
        self.warm.resize(learners, diameter)
        if not same and self.joint.state is not None and self.shared:
            self.joint.reweigh(weight, learners)
            self.memories.reweigh(weight, learners)

    def take_back(self, moves: Array) -> None:
        """Take moves of edges' duals out of lam. (J, models, K)"""
        self.joint.take_back(moves)

    # State

    def state(self) -> dict[str, Any]:
        """Everything known between two rounds, by name."""
        return persistence.state_of(self)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`, with the same settings."""
        persistence.restore(self, state)

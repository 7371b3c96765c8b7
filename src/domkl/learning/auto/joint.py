"""The joint second-order models: the parameters that learners agree on."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...base.types import Array, Float
from .. import first_order, second_order
from ..first_order import Rates
from ..losses import Loss
from .constants import C
from .features import Features, Stats
from .own import Own
from .warmup import Sample

#: Temperatures have no part in these steps.
RATES = Rates(rho=C.rho, eta=C.eta, eta_g=1.0)
CLASSES = Rates(rho=C.rho_classes, eta=C.eta_classes, eta_g=1.0)
ALONE = Rates(rho=C.rho_alone, eta=C.eta_alone, eta_g=1.0)


Counts: TypeAlias = "npt.NDArray[np.int_]"
Flags: TypeAlias = "npt.NDArray[np.bool_]"


class LocalStep(NamedTuple):
    """Result of a local step, until its round closes."""

    theta: Array  # (J, models, K)
    L: Array
    m: Array


class Joint:
    """`models` second-order models of J learners on one set of features each.

    Until the first scale is known `state` is None and nothing can be predicted.
    """

    features: Features

    def __init__(self, J: int, loss: Loss, dtype: Float, diagonal: second_order.Diagonal) -> None:
        self.loss, self.dtype, self.diagonal = loss, dtype, diagonal
        self.state: second_order.SecondOrderState | None = None
        self.mean: Array = np.zeros(0)  # (J, models, K) of the neighbours' theta
        self.pulls: second_order.SecondOrderPulls = second_order.SecondOrderPulls(
            np.zeros(0), np.zeros(0), 0.0
        )
        self.learners = 1  # of the network that the pulls are for
        self.ridge: Array = np.ones(J)  # how many times the common ridge counts, by learner (J,)
        self.own = Own(loss, dtype, diagonal)
        self.learnt: LocalStep | None = None  # of the open round
        self.resets = 0  # how often all models have started again
        self.restarts: Counts = np.zeros(J, int)  # and those of each learner by itself (J,)

    def set_pulls(self, weight: Array, learners: int, shared: bool) -> None:
        """How strongly neighbours pull whose edges weigh `weight` in sum (J,), in a network of `learners`."""
        self.learners, self.pulls = learners, self._pulls(weight, learners, shared)

    def _pulls(self, weight: Array, learners: int, shared: bool) -> second_order.SecondOrderPulls:
        if not shared:
            return second_order.SecondOrderPulls.of(np.zeros(len(weight), self.dtype), ALONE, self.loss)
        together = CLASSES if self.loss.classifies else RATES
        each = replace(together, eta=together.eta / learners)
        pulls = second_order.SecondOrderPulls.of(np.asarray(weight, self.dtype), each, self.loss)
        more = each.eta * (self.ridge - 1)
        return pulls._replace(c=(pulls.c + more[:, None]).astype(self.dtype))

    def scores(self, z: Array) -> tuple[Array, Array]:
        """What the own and the neighbours' parameters predict, in scaled units. (J, models) each"""
        assert self.state is not None
        return first_order.dot(self.state.theta, z), first_order.dot(self.mean, z)

    @property
    def outgoing(self) -> Array:
        """The parameters of the open round, or of the last one."""
        assert self.state is not None
        return self.state.theta if self.learnt is None else self.learnt.theta

    @property
    def common(self) -> Array:
        """What the learner and its neighbours have in common: half its own theta, half their mean."""
        assert self.state is not None
        return np.asarray((self.state.theta + self.mean) / 2)

    def learn(self, z: Array, f: Array, y: Array) -> None:
        """The local step of an open round; targets are scaled."""
        assert self.state is not None
        self.own.learn(z, y, self.common)
        self.learnt = LocalStep(*second_order.local(self.state, z, f, y, self.pulls, self.loss))

    def correct_last(self, row: int, targets: Array) -> None:
        """The last scaled targets of learner `row` were these, of the squared loss; exact, as no matrix
        depends on them."""
        assert self.state is not None
        moved = self.own.correct_last(row, targets)
        self.state = self.state._replace(m=self.state.m + moved)

    def reset(self, samples: list[Sample], stats: Stats, gone: Counts, skip: Counts) -> None:
        """Start again from these samples alone, targets scaled, as if the neighbours agreed.

        `gone`: how many of the first each learner leaves out (J,), `skip`: how many its own samples do.
        """
        self.state = self._taught(self.own, samples, stats, gone, np.maximum(gone, skip))
        self.mean, self.own.judge.since = self.state.theta, gone.copy()
        self.resets += 1

    def restart(self, samples: list[Sample], stats: Stats, whose: Flags) -> None:
        """These learners (J,) go on from these samples alone, targets scaled, as if the neighbours agreed."""
        assert self.state is not None
        old = new = self.state
        own = self.own
        if whose.any():
            own, none = Own(self.loss, self.dtype, self.diagonal), np.zeros(len(whose), int)
            new = self._taught(own, samples, stats, none, none)
        self.own.take(own, whose)
        inverse = second_order.chosen_inverse(whose, new.inverse, old.inverse)
        pairs = [*zip(new[:4], old[:4], strict=True), (new.m, old.m), (new.theta, self.mean)]
        theta, lam, near, L, m, self.mean = (second_order.chosen(whose, *pair) for pair in pairs)
        self.state = second_order.SecondOrderState(theta, lam, near, L, old.q, m, inverse)
        self.restarts = self.restarts + whose

    def _taught(
        self, own: Own, samples: list[Sample], stats: Stats, gone: Counts, skip: Counts
    ) -> second_order.SecondOrderState:
        """The state after these samples alone, which `own` learns too."""
        state = second_order.init(C.models, self.features.K, self.pulls, self.diagonal)
        own.reset(len(self.pulls.deg), self.features.K)
        for n, (x, y) in enumerate(samples):
            z = self.features.of(x, stats)
            own.learn(z, y, state.theta, skip <= n)
            f = first_order.dot(state.theta, z)
            theta, L, m = second_order.local(state, z, f, y, self.pulls, self.loss, gone <= n)
            agreed = theta * self.pulls.deg[:, None, None]
            state = state._replace(theta=theta, L=L, m=m, theta_sum=agreed)
        return state

    def adopt(self, theta: Array) -> None:
        """Go on from these parameters, as if the neighbours agreed. (J, models, K)"""
        assert self.state is not None
        near = theta * self.pulls.deg[:, None, None]
        self.state, self.mean = self.state._replace(theta=theta, theta_sum=near), theta

    def merge(self, near: Array, moved: Array, moving: Array, mean: Array) -> None:
        """End the round: duals move along the edges of `moved`; all of `near` pulls at the next step."""
        assert self.state is not None
        assert self.learnt is not None
        learnt, self.learnt, self.mean = self.learnt, None, mean
        pulls = self.pulls._replace(deg=np.asarray(moving, self.dtype))
        state = second_order.merge(self.state, learnt, moved, np.zeros_like(learnt.L), pulls, 1.0)
        self.state = state._replace(theta_sum=near)

    def merge_alone(self) -> None:
        """End the round of learners that do not share a scale yet."""
        assert self.learnt is not None
        theta = self.learnt.theta
        nothing = np.zeros_like(theta)
        self.merge(nothing, nothing, self.pulls.deg, theta)

    def take_back(self, moves: Array) -> None:
        """Take moves of edges' duals out of lam. (J, models, K)"""
        if self.state is not None:
            self.state = self.state._replace(lam=self.state.lam - moves * self.pulls.neighbours)

    def reweigh(self, weight: Array, learners: int) -> None:
        """Edges have other weights, or the network another size, from now on; one learner at a time."""
        assert self.state is not None
        old = self.pulls
        self.set_pulls(weight, learners, shared=True)
        rise = float((self.pulls.c - old.c)[0, 0])
        inverse = second_order.shift(self.state.inverse, float(old.c[0, 0]), rise)
        self.state = self.state._replace(inverse=self.state.inverse.like(inverse.settle()))

    def fade(self, rounds: int, memory: float) -> None:
        """Let the past count less, if about `memory` samples are to count."""
        if self.state is not None:
            self.state = second_order.fade(self.state, rounds, memory, self.pulls)
            self.own.fade(rounds, memory)

    def grow(self, d: int) -> None:
        """Features of more inputs, after those there are."""
        state, old = self.state, self.features.K
        self.features.grow(d)
        if state is None:
            return
        wider = ((0, 0), (0, 0), (0, self.features.K - old))
        theta, lam, near, m = (np.pad(v, wider) for v in (*state[:3], state.m))
        P = np.pad(state.inverse.settle(), (*wider, wider[-1]))
        new = np.arange(old, self.features.K)
        P[..., new, new] = 1 / self.pulls.c[..., None]
        self.mean = np.pad(self.mean, wider)
        self.own.grow(self.features.K - old)
        self.state = second_order.SecondOrderState(
            theta, lam, near, state.L, state.q, m, state.inverse.like(P)
        )

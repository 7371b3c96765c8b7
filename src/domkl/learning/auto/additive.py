"""Sums of functions of one and of two inputs, which few samples teach: the model for the time after a change.

Each function is a polynomial of a bounded scale of its inputs. The variance v of its coefficients, how much
it may contribute, is learnt too (MacKay's rule): inputs and pairs that say nothing soon cost nothing.
Coefficients are exchanged like theta of the joint models, by the same step; variances stay on the device.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...base.arrays import clip
from ...base.types import Array
from .. import first_order, second_order
from ..losses import Loss
from .constants import C
from .features import Stats, columns_vary

#: Which memory is which: the long one, the young one, and one that is kept from before a change.
LONG, YOUNG, PAST = 0, 1, 2


def bounded(x: Array, stats: Stats) -> Array:
    """Standardised inputs drawn into (-1, 1); NaN where missing or constant. (..., d)"""
    varies = columns_vary(stats)
    sd = np.where(varies, stats.sd, 1)
    s = clip((x / 2 - stats.mean / 2) / sd, -1e9, 1e9)
    return np.asarray(np.where(varies, s / np.sqrt(1 + s**2), np.nan))


def legendre(v: Array) -> Array:
    """Legendre polynomials of degree 0 to 4. (...) -> (..., 5)"""
    w = v * v
    third, fourth = (2.5 * w - 1.5) * v, (4.375 * w - 3.75) * w + 0.375
    return np.stack([np.ones_like(v), v, 1.5 * w - 0.5, third, fourth], -1)


class Terms:
    """Products of two polynomials, (input, degree) each, degree 0 for none; and the function each is part of.

    Every input has its function, and every pair of inputs, if there is room for all.
    """

    def __init__(self, most: int, d: int) -> None:
        self.degrees = int(np.clip((most - 1) // (2 * d), 1, C.degrees))
        self.first, self.second = np.zeros((2, 1, 2), int)
        self.group = np.zeros(1, int)
        for i in range(min(d, most - 1)):
            self.add_input(i)
        pairs = d * (d - 1) // 2
        if self.K + pairs * len(C.pairs) <= most:
            for i, j in itertools.combinations(range(d), 2):
                self.add([((i, a), (j, b)) for a, b in C.pairs])

    @property
    def K(self) -> int:
        return len(self.group)

    def add_input(self, i: int) -> None:
        """The function of one input more."""
        self.add([((i, k), (i, 0)) for k in range(1, self.degrees + 1)])

    def add(self, polynomials: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
        """One function more."""
        more = np.array(polynomials)
        self.first, self.second = np.vstack([self.first, more[:, 0]]), np.vstack([self.second, more[:, 1]])
        self.group = np.append(self.group, np.full(len(more), self.group[-1] + 1))

    def of(self, x: Array, stats: Stats) -> Array:
        """(..., d) -> (..., K); 0 where an input is missing."""
        p = legendre(bounded(x, stats))
        p[..., 0] = 1
        z = p[..., self.first[:, 0], self.first[:, 1]] * p[..., self.second[:, 0], self.second[:, 1]]
        return np.ascontiguousarray(np.nan_to_num(z))  # the same bits for one learner as for many


class AdditiveMemory:
    """Coefficients of J learners who exchange them, taught by all samples or by about the last `rounds`.

    `weight` are the weights of each learner's edges in sum (J,), `of` the number of learners in the network.
    """

    FIELDS: ClassVar = ("rounds", "samples", "variances", "noise", "mean", "diagonal")

    def __init__(self, terms: Terms, weight: Array, of: int, loss: Loss, rounds: float) -> None:
        self.terms, self.of, self.loss, self.rounds = terms, of, loss, rounds
        self.unit = C.label_variance if loss.classifies else 1.0
        self._weigh(weight)
        self.reset()

    def _weigh(self, weight: Array) -> None:
        self.pulls = second_order.SecondOrderPulls(weight, np.ones((len(weight), 1)), C.memory_rho / 2)

    def reset(self) -> None:
        """Forget everything."""
        J, K = len(self.pulls.deg), self.terms.K
        self.variances = np.full((J, K), C.first_variance * self.unit)
        self.noise, self.samples = np.full(J, C.first_variance), 0
        self.state = second_order.init(1, K, self.pulls)._replace(
            inverse=second_order.Inverse(np.zeros((J, 1, K, K)))
        )
        self.mean = np.zeros((J, 1, K))
        self.learnt: tuple[Array, Array, Array] | None = None  # of the open round
        self._restore(np.zeros((J, K, K)))

    def copy(self, rounds: float) -> AdditiveMemory:
        """The same memory, which goes its own way from now on."""
        other = copy.copy(self)
        other.rounds = rounds
        other.variances, other.noise = self.variances.copy(), self.noise.copy()
        other.state = self.state._replace(inverse=copy.deepcopy(self.state.inverse))
        return other

    def take(self, fresh: AdditiveMemory, whose: npt.NDArray[np.bool_]) -> None:
        """These learners (J,) go on with what `fresh` has learnt.

        The count of samples, which says when to look at the variances, stays one for all.
        """
        new, old = fresh.state, self.state
        inverse = second_order.chosen_inverse(whose, new.inverse, old.inverse)
        kept = [second_order.chosen(whose, *pair) for pair in zip(new[:-1], old[:-1], strict=True)]
        self.state = second_order.SecondOrderState(*kept, inverse)  # type: ignore[call-arg, arg-type]
        for name in ("variances", "noise", "mean", "diagonal"):
            setattr(self, name, second_order.chosen(whose, getattr(fresh, name), getattr(self, name)))

    def inherit(self, other: AdditiveMemory) -> None:
        """Start from what a learner alone has learnt; each row takes an equal part of its evidence."""
        J, part = len(self.pulls.deg), 1 / self.of
        self.samples, self.mean = other.samples, np.repeat(other.mean, J, 0)
        self.variances, self.noise = np.repeat(other.variances, J, 0), np.repeat(other.noise, J)
        agreed, m = self.mean * self.pulls.deg[:, None, None], np.repeat(part * other.state.m, J, 0)
        self.state = self.state._replace(theta=self.mean, theta_sum=agreed, m=m)
        prior = np.repeat(part * other.diagonal, J, 0)  # as of its last look at the variances
        self._restore(np.repeat(part * other._data(), J, 0), prior + C.memory_rho * self.pulls.deg[:, None])

    def score(self, z: Array) -> Array:
        """Predictions in scaled units. (J, K) -> (J,)"""
        return np.asarray(first_order.dot(self.mean, z[:, None])[:, 0], np.float64)

    def learn(self, z: Array, y: Array) -> Array:
        """Learn a sample of each learner; returns the coefficients to send. (J, 1, K)"""
        self.learnt = self._take(z, y)
        return self.learnt[0]

    def merge(self, near: Array, mean: Array, weight: Array) -> None:
        """End the round with the neighbours' sums and means (J, 1, K), and what they weigh in sum (J,)."""
        assert self.learnt is not None
        learnt, self.learnt, self.mean = self.learnt, None, mean
        pulls = self.pulls._replace(deg=weight)
        self.state = second_order.merge(self.state, learnt, near, np.zeros_like(learnt[1]), pulls, 1.0)
        self._look_now_and_then()

    def learn_silently(self, z: Array, y: Array) -> None:
        """Learn a sample of each learner in a round of another memory, which changes no prediction.

        A step without the neighbours would follow the dual once more, and such steps diverge.
        """
        self.state = self.state._replace(m=self._take(z, y)[2])
        self._look_now_and_then()

    def replay(self, z: Array, y: Array) -> None:
        """A kept sample, as if the neighbours agreed."""
        self.mean, L, m = self._take(z, y)
        agreed = self.mean * self.pulls.deg[:, None, None]
        self.state = self.state._replace(theta=self.mean, theta_sum=agreed, L=L, m=m)
        self._look_now_and_then()

    def _take(self, z: Array, y: Array) -> tuple[Array, Array, Array]:
        self.samples += 1
        rounds = min(self.samples + 1, C.noise_rounds)
        self.noise = self.noise + ((self.score(z) - y) ** 2 - self.noise) / rounds
        z = z[:, None]
        return second_order.local(
            self.state, z, first_order.dot(self.state.theta, z), y, self.pulls, self.loss
        )

    def _look_now_and_then(self) -> None:
        rounds = C.often if self.samples <= C.new_rounds else C.seldom
        if self.samples % rounds == 0:
            half = max(self.samples / 2, C.short_rounds)
            memory = self.rounds if math.isinf(self.rounds) else min(half, self.rounds)
            self._look(float((1 - 1 / memory) ** rounds))

    def reweigh(self, weight: Array) -> None:
        """The learners' edges have other weights from now on. (J,)"""
        data = self._data()
        self._weigh(weight)
        self._restore(data)

    def widen(self) -> None:
        """There are more terms than before, which were 0 so far."""
        more = self.terms.K - self.variances.shape[1]
        data = np.pad(self._data(), ((0, 0), (0, more), (0, more)))
        first = C.first_variance * self.unit
        self.variances = np.pad(self.variances, ((0, 0), (0, more)), constant_values=first)
        wider = ((0, 0), (0, 0), (0, more))
        theta, lam, near, m = (np.pad(value, wider) for value in (*self.state[:3], self.state.m))
        self.state = self.state._replace(theta=theta, lam=lam, theta_sum=near, m=m)
        self.mean = np.pad(self.mean, wider)
        self._restore(data)

    @property
    def _heat(self) -> Array:
        """What the loss has to be divided by to be a negative log-likelihood. (J,)"""
        return np.ones_like(self.noise) if self.loss.classifies else 2 * np.maximum(self.noise, 1e-9)

    def _diagonal(self) -> Array:
        """The learner's share of the prior, and the neighbours' pull. (J, K)"""
        prior = self._heat[:, None] / (self.of * self.variances)
        return np.asarray(prior + C.memory_rho * self.pulls.deg[:, None])

    def _data(self) -> Array:
        """M without its diagonal terms. (J, K, K)"""
        M = np.asarray(np.linalg.inv(self.state.inverse.settle()[:, 0]), np.float64)
        k = np.arange(self.variances.shape[1])
        M[:, k, k] -= self.diagonal
        return M

    def _restore(self, data: Array, diagonal: Array | None = None) -> None:
        """M = data + the diagonal terms, those of today unless given."""
        k = np.arange(self.terms.K)
        self.diagonal = self._diagonal() if diagonal is None else diagonal
        data[:, k, k] += self.diagonal
        P = np.linalg.inv(data)
        self.state = self.state._replace(
            inverse=second_order.Inverse((P + np.swapaxes(P, 1, 2))[:, None] / 2)
        )

    def _look(self, keep: float) -> None:
        """Let the past fade, and learn the variances from the coefficients and how sure they are."""
        data = keep * self._data()
        self.variances = self._variances(data)
        lam = min(keep, C.dual_kept) * self.state.lam
        self.state = self.state._replace(m=keep * self.state.m, lam=lam)
        self._restore(data)

    def _variances(self, data: Array) -> Array:
        """MacKay's rule, with as many samples of everybody as of oneself. (J, K)"""
        k = np.arange(self.variances.shape[1])
        pooled = data * (self.of / self._heat[:, None, None])
        pooled[:, k, k] += 1 / self.variances
        known = 1 - np.linalg.inv(pooled)[:, k, k] / self.variances  # what the data tell of each coefficient
        size = self._sums(self.mean[:, 0] ** 2) + C.variance_worth * C.least_variance * self.unit
        v = (size / (np.maximum(self._sums(known), 0) + C.variance_worth))[:, self.terms.group]
        v[:, 0] = C.first_variance * self.unit * 10  # the constant
        return np.asarray(v)

    def _sums(self, values: Array) -> Array:
        """Over the terms of each function, which stand beside each other. (J, K) -> (J, functions)"""
        group = self.terms.group
        first = np.flatnonzero(np.diff(group, prepend=-1))
        return np.asarray(np.add.reduceat(values, first, axis=-1))

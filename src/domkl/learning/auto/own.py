"""What a learner knows from its own samples alone, and what it makes of the common parameters with that.

Of its own samples it keeps the vector m = sum k y z and one matrix Q = (sum h z z^T + tau I)^-1 with a strong
ridge tau. One product Q z gives four predictions:

    alone, strong ridge     z.Q m
    alone, weak ridge       z.a,      a the minimum with a weak ridge t: a = Q (m + (tau - t) a)
    personal                z.p,      the minimum of the own losses + t/2 |p - c|^2, c the common parameters
    shrunk                  half of the first, half of c shrunk to what the own samples show: z.(c - tau Q c)

a and p - c, which have another ridge than Q, are kept from round to round. In the same pass over Q each takes
a step of a contraction towards its minimum, with momentum (Polyak's heavy ball), and a new sample moves both
as it moves the minimum with the strong ridge. Nothing of this is sent. No message changes m, Q or a, but
for labels beyond belief, which count as near what all predict if that is near what the own samples predict,
for labels in a unit that is not known well yet, which count as what all predict until then, for a scale that
is taken from others, and for a decision to start again after a change, which the learner shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...base.types import Array, Float
from .. import first_order, second_order
from ..losses import Loss
from .constants import C
from .judge import Judge


class OwnScores(NamedTuple):
    """Predictions in scaled units. (J,) each"""

    alone: Array  # (J, 2) with the weak and with the strong ridge: no message has a part in them
    personal: Array
    shrunk: Array


class Iterate(NamedTuple):
    """A minimum that is followed from round to round. (J, models, K) each"""

    now: Array
    before: Array  # the last step began here

    def towards(self, nearer: Array) -> Iterate:
        """A step beyond `nearer`, to which one step of the contraction leads."""
        step = C.own_stride * (nearer - self.now) + C.own_momentum * (self.now - self.before)
        return Iterate(self.now + step, self.now)

    def moved(self, by: Array) -> Iterate:
        """The minimum itself has moved."""
        return Iterate(self.now + by, self.before + by)

    def padded(self, wider: Any) -> Iterate:
        return Iterate(*(np.pad(v, wider) for v in self))


class Products(NamedTuple):
    """What one pass over Q gives at a sample's features."""

    z: Array
    u: Array  # Q z
    a: Iterate  # after their next steps
    apart: Iterate


class Own:
    """The own samples of J learners, as the joint models see them."""

    inverse: second_order.Inverse

    def __init__(self, loss: Loss, dtype: Float, diagonal: second_order.Diagonal) -> None:
        self.loss, self.dtype, self.diagonal = loss, dtype, diagonal
        part = C.own_classes if loss.classifies else 1.0
        self.strong, self.weak = part * C.own_strong, part * C.own_weak
        self.m: Array = np.zeros(0)  # (J, models, K)
        self.a = Iterate(self.m, self.m)  # minimum with the weak ridge
        self.apart = Iterate(self.m, self.m)  # p - c
        self.judge = Judge(loss.classifies, dtype)
        self._at: Products | None = None  # of the last features

    def reset(self, J: int, K: int) -> None:
        """Forget everything."""
        self.m = np.zeros((J, C.models, K), self.dtype)
        self.a = self.apart = Iterate(self.m, self.m)
        self.judge.reset(J, K)
        self._at = None
        self.inverse = self.diagonal(np.full((J, C.models), self.strong, self.dtype), K)

    def scores(self, z: Array, c: Array) -> OwnScores:
        """Predictions for features and common parameters. (J, models, K) each"""
        _, u, a, apart = self._products(z, c)
        strong = first_order.dot(u, self.m)
        weak = first_order.dot(u, self._weak_side(a))
        personal = first_order.dot(u, self._personal_side(apart, c))
        common = first_order.dot(z, c) - self.strong * first_order.dot(u, c)
        alone = np.stack([weak.mean(-1), strong.mean(-1)], -1)
        return OwnScores(alone, personal.mean(-1), (strong + common).mean(-1) / 2)

    def _products(self, z: Array, c: Array) -> Products:
        """They are needed to predict and again to learn, if nothing has changed since."""
        if self._at is None or self._at.z is not z:
            sides = self._weak_side(self.a), self._personal_side(self.apart, c)
            u, a, p = self.inverse.times(z, *sides)
            self._at = Products(z, u, self.a.towards(a), self.apart.towards(p - c))
        return self._at

    def _weak_side(self, a: Iterate) -> Array:
        return np.asarray(self.m + (self.strong - self.weak) * a.now)

    def _personal_side(self, apart: Iterate, c: Array) -> Array:
        return np.asarray(self.m + self.strong * c + (self.strong - self.weak) * apart.now)

    def parameters(self, c: Array) -> tuple[Array, Array, Array, Array]:
        """What features are multiplied by: alone with the weak and the strong ridge, personal, shrunk.

        (J, models, K) each, for common parameters c.
        """
        strong, a, p = self.inverse.times(self.m, self._weak_side(self.a), self._personal_side(self.apart, c))
        next_a, next_apart = self.a.towards(a), self.apart.towards(p - c)
        sides = self._weak_side(next_a), self._personal_side(next_apart, c), c
        weak, personal, shrunk = self.inverse.times(*sides)
        return weak, strong, personal, (strong + c - self.strong * shrunk) / 2

    def drop(self, rows: npt.NDArray[np.bool_]) -> None:
        """Forget everything that these learners know, booleans (J,)."""
        self._at = None
        half, terms = self.inverse.halves()  # of others not a bit changes
        half[rows] = _half_of_identity(half.shape[-1]) / self.strong
        terms[rows] = 0
        self.inverse = self.inverse.from_halves(half, terms)
        keep = ~rows[:, None, None]
        self.m = np.where(keep, self.m, 0)
        self.a, self.apart = (Iterate(*(np.where(keep, v, 0) for v in one)) for one in (self.a, self.apart))

    def take(self, fresh: Own, whose: npt.NDArray[np.bool_]) -> None:
        """These learners (J,) go on with what `fresh` has learnt from their last samples alone."""
        self._at = None
        self.inverse = second_order.chosen_inverse(whose, fresh.inverse, self.inverse)
        self.m = second_order.chosen(whose, fresh.m, self.m)
        pairs = (fresh.a, self.a), (fresh.apart, self.apart)
        self.a, self.apart = (
            Iterate(*(second_order.chosen(whose, *values) for values in zip(*pair, strict=True)))
            for pair in pairs
        )
        self.judge.take(fresh.judge, whose)

    def learn(self, z: Array, y: Array, c: Array, counts: Any = None) -> None:
        """A sample of each learner, target scaled; one that would leave the range of numbers is left out.

        `counts`: whose sample is learnt, booleans (J,); by default everybody's.
        """
        _, u, a, apart = self._products(z, c)
        self._at = None
        weak, strong = first_order.dot(u, self._weak_side(a)), first_order.dot(u, self.m)
        self.judge.note(z, y, np.stack([weak.mean(-1), strong.mean(-1)], -1))
        h, k = second_order.parabola(self.loss, weak, y[..., None])
        if counts is not None:
            h, k = h * counts[:, None], k * counts[:, None]
        ky, rise = k * y[..., None], 1 + h * first_order.dot(z, u)
        m, term = self.m + ky[..., None] * z, u * np.sqrt(h / rise)[..., None]
        if not (np.isfinite(term).all() and np.isfinite(m).all()):
            return
        self.inverse.lower(term)
        self.m = m
        self.a = a.moved(((ky - h * first_order.dot(z, a.now)) / rise)[..., None] * u)
        self.apart = apart.moved(((ky - h * first_order.dot(z, c + apart.now)) / rise)[..., None] * u)

    def correct_last(self, row: int, targets: Array) -> Array:
        """The last targets of learner `row` were these; returns by how much m moves. (J, models, K)"""
        self._at = None
        z, more = self.judge.correct_last(row, targets)
        moved = np.zeros_like(self.m)
        moved[row] = second_order.SQUARED * np.einsum("n,npk->pk", more, z)
        self.m = self.m + moved
        by, _ = self.inverse.times(moved, moved)
        self.a, self.apart = self.a.moved(by), self.apart.moved(by)
        return moved

    def fade(self, rounds: int, memory: float) -> None:
        """Let the past count less, if it is time, so that about `memory` samples count."""
        n = second_order.pace(memory, self.m.shape[-1])
        if rounds % n == 0:
            self._at = None
            keep = (1 - 1 / memory) ** n
            ridge = np.full(self.m.shape[:-1], self.strong)
            self.m = self.m * keep
            self.inverse = self.inverse.like(second_order.faded(self.inverse.settle(), keep, ridge))

    def grow(self, more: int) -> None:
        """There are more features than before, which were 0 so far."""
        self._at = None
        wider = ((0, 0), (0, 0), (0, more))
        self.m, self.a, self.apart = np.pad(self.m, wider), self.a.padded(wider), self.apart.padded(wider)
        P = np.pad(self.inverse.settle(), (*wider, wider[-1]))
        new = np.arange(P.shape[-1] - more, P.shape[-1])
        P[..., new, new] = 1 / self.strong
        self.inverse = self.inverse.like(P)
        self.judge.grow(more)

    def inherit(self, other: Own, J: int) -> None:
        """Every row starts with all that a learner alone has learnt."""
        self._at = None
        self.m = np.repeat(other.m, J, 0).astype(self.dtype)
        self.a, self.apart = (
            Iterate(*(np.repeat(v, J, 0).astype(self.dtype) for v in one)) for one in (other.a, other.apart)
        )
        P = np.repeat(other.inverse.settle(), J, 0).astype(self.dtype)
        self.inverse = self.diagonal(np.ones((J, C.models), self.dtype), P.shape[-1]).like(P)
        self.judge.reset(J, P.shape[-1])

    def state(self) -> dict[str, Any]:
        """State between two rounds, by name; of the symmetric matrices one half."""
        half, terms = self.inverse.halves()
        vectors = {"m": self.m, "weak": self.a.now, "apart": self.apart.now}
        before = {"weak_before": self.a.before, "apart_before": self.apart.before}
        return {**vectors, **before, "half": half, "terms": terms, "judge": self.judge.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`."""
        self._at = None
        self.m = state["m"]
        self.a = Iterate(state["weak"], state["weak_before"])
        self.apart = Iterate(state["apart"], state["apart_before"])
        kind = self.diagonal(np.ones((1, 1), self.dtype), 1)
        self.inverse = kind.from_halves(state["half"], state["terms"])
        self.judge.restore(state["judge"], len(self.m), self.m.shape[-1])


def _half_of_identity(size: int) -> Array:
    """1 where an entry at or below the diagonal, row by row, is on it."""
    K = int(np.sqrt(2 * size))
    rows, columns = np.tril_indices(K)
    return np.asarray(rows == columns, np.float64)

"""One learner of the paper's in the native engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..learning import second_order
from ..learning.first_order import Rates, State
from ..learning.losses import Loss
from ._native import _engine
from .devices import DeviceState, Past
from .native import NativeInverse, native_rates


class NativeDevice:
    """One learner; its numbers are those of a `NativeEngine`, to the last bit."""

    def __init__(
        self,
        V: Array,
        deg: int,
        rates: Rates,
        loss: Loss,
        hedge: str,
        step: str = "first",
        memory: float | None = None,
    ) -> None:
        self.shape = (V.shape[0], 2 * V.shape[1])
        self.dtype, self.takes = V.dtype, np.dtype(np.float64)
        self.deg, self.rates, self.loss, self.samples = deg, rates, loss, 0
        make = _engine.Device64 if V.dtype == np.float64 else _engine.Device32
        second = step == "newton"
        given = np.ascontiguousarray(V), deg, native_rates(rates, loss, hedge)
        self.device = make(*given, newton=second, isa=_engine.best())
        self.predict, self.observe = self.device.predict, self.device.observe
        self.q: Array = np.full(len(V), 1 / len(V))
        self.everyone = np.ones(deg, dtype=bool)
        self.inverse: NativeInverse | None = None
        if second:
            self.inverse = NativeInverse.of(self.device.inverses(), self.shape, self.dtype)
        # Of the first-order step the extension keeps lam / c, c the coefficient of |v|^2 / 2 in the problem.
        self.unit = 1.0 if second else rates.eta + rates.rho * deg + 2 * loss.reg
        self.c = second_order.SecondOrderPulls.of(np.full(1, deg, self.dtype), rates, loss).c[0]
        self.memory = None if memory is None else 1 + memory
        self.pace = second_order.pace(self.memory or 1, self.shape[1])

    def alone(self, x: npt.ArrayLike, y: float) -> tuple[float, Array, Array]:
        y_hat, theta, L, self.q = self.device.alone(x, y)
        if self.inverse is not None:
            self._count()
        return y_hat, theta, L

    def close(self, thetas: list[Array], moving: Collection[int], total: Array) -> None:
        self._receive(thetas)
        who = self.everyone
        if len(moving) < len(who):
            who = np.isin(np.arange(len(who)), list(moving))
        self.q = np.empty(self.shape[0])  # a new one: the last may be in a Step
        self.device.close(who, total, self.q)
        self._count()

    def _receive(self, thetas: Sequence[Array]) -> None:
        for i, theta in enumerate(thetas):
            self.device.hear(i, np.ascontiguousarray(theta, self.dtype))

    @property
    def m(self) -> Array:
        """Right-hand side of the second-order step. (P, 2D)"""
        m = np.empty(self.shape, self.dtype)
        self.device.past(m)
        return m

    def keep(self) -> DeviceState:
        theta, mu = np.empty(self.shape, self.dtype), np.empty(self.shape, self.dtype)
        L, q = np.empty(self.shape[0]), np.empty(self.shape[0])
        self.device.keep(theta, mu, L, q)
        past = None if self.inverse is None else Past(self.m, self.inverse, self.samples, self.deg)
        return DeviceState(theta, mu, L, q, past)

    def resume(self, state: DeviceState, thetas: Sequence[Array]) -> None:
        theta, mu = (np.ascontiguousarray(array, self.dtype) for array in state[:2])
        L, q = (np.ascontiguousarray(array, np.float64) for array in state[2:4])
        self.device.resume(theta, mu, L, q)
        self.q = state.q
        self._receive(thetas)
        if self.inverse is not None:
            self._resume_past(state.past)

    def _resume_past(self, past: Past | None) -> None:
        assert past is not None
        assert self.inverse is not None
        self.device.resume_past(np.ascontiguousarray(past.m, self.dtype))
        self.samples = past.samples
        inverse = past.at(self.deg, self.rates, self.loss)
        if inverse is not self.inverse:
            self.inverse.resume(*inverse.halves())

    def _count(self) -> None:
        self.samples += 1
        if self.memory is not None and self.samples % self.pace == 0:
            self._forget((1 - 1 / self.memory) ** self.pace)

    def _forget(self, keep: float) -> None:
        assert self.inverse is not None
        self.device.resume_past(self.m * keep)
        faded = second_order.faded(self.inverse.settle(), keep, self.c)
        self.inverse.many.replace(np.ascontiguousarray(faded))

    @property
    def state(self) -> State:
        theta, lam, theta_sum = (np.empty(self.shape, self.dtype) for _ in range(3))
        L, q = np.empty(self.shape[0]), np.empty(self.shape[0])
        self.device.state(theta, lam, theta_sum, L, q)
        return State(theta, lam, theta_sum, L, q)

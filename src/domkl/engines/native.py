"""The native engine: a network by blocks of rounds, a device by single samples, in C++."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..exchange.graph import Links
from ..learning import second_order
from ..learning.paper import Algorithm
from ._native import _engine
from .base import DeviceState, Past, Setting, Sums

#: Bytes that a block's predictions and edge products may take.
BLOCK_BYTES = 64_000_000


def native_rates(how: Algorithm, mu: float = 0.0) -> _engine.Rates:
    rates, loss = how.rates, how.loss
    return _engine.Rates(rates.rho, rates.eta, rates.eta_g, mu, loss.name, loss.delta, loss.reg, how.hedge)


class NativeEngine:
    """Hands blocks to the extension, with as many rounds before them as the delay looks back.

    With `mu` above 0 each local step is plain gradient descent: that is OMKL.
    """

    def __init__(self, setting: Setting, isa: str | None = None, mu: float = 0.0) -> None:
        how = setting.how
        self.setting = setting
        V, graph, links = setting.V, setting.graph, Links(setting.graph)
        self.sums = Sums.zero(graph.J, len(V))
        self.start = 0
        self.past = np.empty((graph.J, 0, V.shape[2]), V.dtype), np.empty((graph.J, 0), V.dtype)
        make = _engine.Network64 if V.dtype == np.float64 else _engine.Network32
        self.network = make(
            np.ascontiguousarray(V),
            np.concatenate([[0], np.cumsum(graph.deg)]).astype(np.int64),
            links.source.astype(np.int64),
            links.reverse.astype(np.int64),
            native_rates(how, mu),
            newton=how.is_second,
            keep=not setting.one_block,
            threads=setting.threads,
            isa=isa or _engine.best(),
        )

    @property
    def most_rounds(self) -> int:
        graph, V = self.setting.graph, self.setting.V
        if self.setting.one_block:
            return 1 << 30  # each kernel's state is dropped when it has gone through the block
        return max(1, BLOCK_BYTES // (V.itemsize * len(V) * int(graph.J + graph.deg.sum())))

    @property
    def q(self) -> Array:
        return self._weights()[1]

    @property
    def L(self) -> Array:
        return self._weights()[0]

    def _weights(self) -> tuple[Array, Array]:
        L, q = np.empty_like(self.sums.kernel_gaps), np.empty_like(self.sums.kernel_gaps)
        self.network.weights(L, q)
        return L, q

    def state(self) -> tuple[Array, Array]:
        P, D, _ = self.setting.V.shape
        J = self.setting.graph.J if self.setting.keep_state else 0
        theta, lam = (np.empty((J, P, 2 * D), self.setting.V.dtype) for _ in range(2))
        if J:
            self.network.state(theta, lam)
        return theta, lam

    def advance(self, X: Array, y: Array) -> Array:
        delay, history = self.setting.delay, min(self.start, self.setting.delay)
        if history:
            X, y = np.concatenate([self.past[0], X], axis=1), np.concatenate([self.past[1], y], axis=1)
        y_hat = np.empty((X.shape[0], X.shape[1] - history), X.dtype)
        X = X if X.strides[2] == X.itemsize else np.ascontiguousarray(X)
        self.network.advance(X, y, history, delay, self.start, y_hat, *self.sums)
        self.start += y_hat.shape[1]
        if delay:
            self.past = X[:, -min(delay, self.start) :].copy(), y[:, -min(delay, self.start) :].copy()
        return y_hat


class NativeInverse(second_order.Inverse):
    """The matrices of a native device, which goes on with them; of each the extension stores one half."""

    def __init__(self, many: _engine.Inverses64, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.many, self.shape, self.dtype = many, shape, dtype

    def settle(self) -> Array:
        return second_order.Inverse.of_halves(*self.halves()).settle()

    def halves(self) -> tuple[Array, Array]:
        P, K = self.shape
        half, used = np.empty((P, K * (K + 1) // 2), self.dtype), 0
        terms = np.empty((P, self.many.waiting(), K), self.dtype)
        for p in range(P):
            used = self.many.keep_one(p, half[p], terms[p])  # of each as many
        return half, terms[:, :used].copy()

    def resume(self, half: Array, terms: Array) -> None:
        """Go on from what `halves` gave."""
        for p, (one, mine) in enumerate(zip(half, terms, strict=True)):
            self.many.resume_one(p, *(np.ascontiguousarray(array, self.dtype) for array in (one, mine)))


class NativeDevice:
    """One learner; its numbers are those of a `NativeEngine`, to the last bit."""

    def __init__(self, V: Array, deg: int, how: Algorithm) -> None:
        rates, loss = how.rates, how.loss
        self.shape = (V.shape[0], 2 * V.shape[1])
        self.dtype, self.takes = V.dtype, np.dtype(np.float64)
        self.deg, self.rates, self.loss = deg, rates, loss
        make = _engine.Device64 if V.dtype == np.float64 else _engine.Device32
        given = np.ascontiguousarray(V), deg, native_rates(how)
        self.native = make(*given, newton=how.is_second, isa=_engine.best())
        self.predict, self.observe = self.native.predict, self.native.observe
        self.q: Array = np.full(len(V), 1 / len(V))
        self.everyone = np.ones(deg, dtype=bool)
        self.inverse: NativeInverse | None = None
        if how.is_second:
            self.inverse = NativeInverse(self.native.inverses(), self.shape, self.dtype)
        # Of the first-order step the extension keeps lam / c, c the coefficient of |v|^2 / 2 in the problem.
        self.unit = 1.0 if how.is_second else rates.eta + rates.rho * deg + 2 * loss.reg

    def alone(self, x: npt.ArrayLike, y: float) -> tuple[float, Array, Array]:
        y_hat, theta, L, self.q = self.native.alone(x, y)
        return y_hat, theta, L

    def close(self, thetas: list[Array], moving: Collection[int], total: Array) -> None:
        self._receive(thetas)
        who = self.everyone
        if len(moving) < len(who):
            who = np.isin(np.arange(len(who)), list(moving))
        self.q = np.empty(self.shape[0])  # a new one: the last may be in a Step
        self.native.close(who, total, self.q)

    def _receive(self, thetas: Sequence[Array]) -> None:
        for i, theta in enumerate(thetas):
            self.native.hear(i, np.ascontiguousarray(theta, self.dtype))

    @property
    def m(self) -> Array:
        """Right-hand side of the second-order step. (P, 2D)"""
        m = np.empty(self.shape, self.dtype)
        self.native.past(m)
        return m

    def keep(self) -> DeviceState:
        theta, mu = np.empty(self.shape, self.dtype), np.empty(self.shape, self.dtype)
        L, q = np.empty(self.shape[0]), np.empty(self.shape[0])
        self.native.keep(theta, mu, L, q)
        past = None if self.inverse is None else Past(self.m, self.inverse, self.deg)
        return DeviceState(theta, mu, L, q, past)

    def resume(self, state: DeviceState, thetas: Sequence[Array]) -> None:
        theta, mu = (np.ascontiguousarray(array, self.dtype) for array in state[:2])
        L, q = (np.ascontiguousarray(array, np.float64) for array in state[2:4])
        self.native.resume(theta, mu, L, q)
        self.q = state.q
        self._receive(thetas)
        if self.inverse is not None:
            self._resume_past(state.past)

    def _resume_past(self, past: Past | None) -> None:
        assert past is not None
        assert self.inverse is not None
        self.native.resume_past(np.ascontiguousarray(past.m, self.dtype))
        inverse = past.at(self.deg, self.rates, self.loss)
        if inverse is not self.inverse:
            self.inverse.resume(*inverse.halves())

"""The native engine: blocks of rounds, kernel by kernel, in C++."""

from __future__ import annotations

import numpy as np

from .._native import _engine
from .._types import Array
from .base import Setting, Sums
from .links import Links

#: Bytes that a block's predictions and edge products may take.
BLOCK_BYTES = 64_000_000


class NativeEngine:
    """Hands blocks to the extension, with as many rounds before them as the delay looks back."""

    def __init__(self, setting: Setting, isa: str | None = None) -> None:
        self.setting = setting
        graph, P = setting.graph, len(setting.V)
        self.sums = Sums.zero(graph.J, P)
        self.start = 0
        self.past = (
            np.empty((graph.J, 0, setting.V.shape[2]), setting.V.dtype),
            np.empty((graph.J, 0), setting.V.dtype),
        )
        self.engine = self._make(isa or _engine.best())

    def _make(self, isa: str) -> _engine.Engine64 | _engine.Engine32:
        setting, links = self.setting, Links(self.setting.graph)
        made = _engine.Engine64 if setting.V.dtype == np.float64 else _engine.Engine32
        return made(
            np.ascontiguousarray(setting.V),
            np.concatenate([[0], np.cumsum(setting.graph.deg)]).astype(np.int64),
            links.source.astype(np.int64),
            links.reverse.astype(np.int64),
            rho=setting.rates.rho,
            eta=setting.rates.eta,
            eta_g=setting.rates.eta_g,
            mu=0.0,
            loss=setting.loss.name,
            delta=setting.loss.delta,
            reg=setting.loss.reg,
            rule=setting.hedge,
            keep=setting.keep_state,
            threads=setting.threads,
            isa=isa,
        )

    @property
    def most_rounds(self) -> int:
        graph, V = self.setting.graph, self.setting.V
        if not self.setting.keep_state:
            return 1 << 30  # kernels are dropped one after the other, so all rounds must be one block
        return max(1, BLOCK_BYTES // (V.itemsize * len(V) * int(graph.J + graph.deg.sum())))

    @property
    def q(self) -> Array:
        return self._weights()[1]

    @property
    def L(self) -> Array:
        return self._weights()[0]

    def _weights(self) -> tuple[Array, Array]:
        L, q = np.empty_like(self.sums.kernel_gaps), np.empty_like(self.sums.kernel_gaps)
        self.engine.weights(L, q)
        return L, q

    def state(self) -> tuple[Array, Array]:
        P, D, _ = self.setting.V.shape
        J = self.setting.graph.J if self.setting.keep_state else 0
        theta, lam = (np.empty((J, P, 2 * D), self.setting.V.dtype) for _ in range(2))
        if J:
            self.engine.state(theta, lam)
        return theta, lam

    def advance(self, X: Array, y: Array) -> Array:
        delay, history = self.setting.delay, min(self.start, self.setting.delay)
        if history:
            X, y = np.concatenate([self.past[0], X], axis=1), np.concatenate([self.past[1], y], axis=1)
        y_hat = np.empty((X.shape[0], X.shape[1] - history), X.dtype)
        X = X if X.strides[2] == X.itemsize else np.ascontiguousarray(X)
        self.engine.advance(X, y, history, delay, self.start, y_hat, *self.sums)
        self.start += y_hat.shape[1]
        if delay:
            self.past = X[:, -min(delay, self.start) :].copy(), y[:, -min(delay, self.start) :].copy()
        return y_hat

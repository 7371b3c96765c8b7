"""Preset "first-order": `Learner`'s step over 17 Gaussian kernels, on one device."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..engines.devices import Kept
from ..learning import kernels, losses
from ..learning.first_order import Rates
from .devices import asked, told
from .keys import column
from .scale import Scale
from .scaled import Mind
from .settings import Settings

#: The standard deviation that inputs get: with it the paper's bandwidths lie on both sides of typical
#: distances for one input as well as for a hundred.
SPREAD = 0.3
#: At most so many samples wait until the scale takes them in.
WAITING = 256
#: A change of the labels' mean or spread that is not worth a new unit, in spreads.
STILL = 0.01


class FirstOrder:
    """The local step of a learner without neighbours, on inputs and labels scaled as they come.

    It computes in float32: half the time, and the step is far coarser than the rounding.
    """

    _asked: Array | None

    def __init__(self, settings: Settings, loss: str) -> None:
        self.rates = Rates(rho=1.0, eta=settings.eta, eta_g=settings.eta_g)
        self.loss, self.seed = losses.get(loss), checks.count("seed", settings.seed, least=0)
        self.V = np.zeros((len(kernels.PAPER_SIGMA2), checks.count("D", settings.D), 0))
        self.inputs, self.labels, self.keys = Scale(), Scale(), list[Hashable]()
        self.labels.grow(1)
        self.y_mean, self.y_scale = 0.0, 1.0
        self.learnt = self.waiting = 0
        self.due = 1
        self._widen()

    def grow(self, keys: Sequence[Hashable]) -> None:
        kept = self._keep()
        columns = [column(self.seed, key, self.V.shape[1])[..., None] for key in keys]
        self.V = np.concatenate([self.V, *columns], axis=2)
        self._take_in()
        self.inputs.grow(len(keys))
        self.keys += keys
        self._widen()
        self._start(kept)

    @property
    def n(self) -> int:
        return self.learnt + self.waiting

    def predict(self, x: Array) -> float:
        self._place(x)
        return self.y_mean + self.y_scale * self._ask(self._z)

    def learn(self, x: Array, y: float) -> None:
        if not math.isfinite(y):
            raise InputError(f"y is {y}; expected a finite number; leave such samples out")
        self._rows[self.waiting], self._ys[self.waiting] = x, y
        self.waiting += 1
        if self.waiting == self.due:
            self._rescale()
        if x is not self._asked:
            self._place(x)
        self._asked = None
        self._tell(self._z, (y - self.y_mean) / self.y_scale)

    def mind(self) -> Mind:
        """What it knows by now, with the scale of today."""
        kept = self._keep()
        assert kept is not None  # there are samples
        arrays = self.V, kept.theta, kept.L, kept.q, self._mean, self._factor
        return Mind(*arrays, self.y_mean, self.y_scale, self.loss.name, self.rates)

    def ask(self, x: dict[Any, Any]) -> float | None:
        f = self._native.ask(x) if self._native else None
        return None if f is None else self.y_mean + self.y_scale * f

    def tell(self, x: dict[Any, Any], y: float) -> bool:
        i = self.waiting
        if not self._native or i + 1 == self.due:
            return False
        try:
            if not self._native.tell(x, (y - self.y_mean) / self.y_scale, i):
                return False
        except (TypeError, ValueError):  # `learn` says why
            return False
        self._ys[i] = y
        self.waiting = i + 1
        return True

    def __getstate__(self) -> dict[str, Any]:
        """The device itself is code; what it knows is arrays."""
        hidden = ("_ask", "_tell", "_device", "_native", "_z", "_asked", "_rows", "_ys", "_mean", "_factor")
        state = {name: value for name, value in vars(self).items() if name not in hidden}
        waiting = self._rows[: self.waiting].copy(), self._ys[: self.waiting].copy()
        return {**state, "kept": self._keep(), "rows": waiting}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept, (rows, ys) = state.pop("kept"), state.pop("rows")
        vars(self).update(state)
        self._widen()
        self._rows[: len(rows)], self._ys[: len(ys)] = rows, ys
        self._start(kept)

    def _widen(self) -> None:
        """Room for as many columns as there are."""
        d = self.V.shape[2]
        self._rows, self._ys, self._z = np.empty((WAITING, d)), np.empty(WAITING), np.zeros(d)
        self._asked = None
        self._ask: Callable[[Array], float] = lambda z: 0.0
        self._tell: Callable[[Array, float], object] = lambda z, y: None
        self._device: engines.Device | None = None
        self._native: Any = None
        self._moments()

    def _moments(self) -> None:
        self._mean, self._factor = self.inputs.mean, SPREAD * self.inputs.factor
        if self._native:
            self._native.columns(tuple(self.keys), self._mean, self._factor, self._rows)

    def _start(self, kept: Kept | None) -> None:
        if not self.V.shape[2]:
            return
        V = kernels.check(self.V, dtype=np.float32)
        self._device = engines.make_device("auto", V, 0, self.rates, self.loss, "local")
        if kept is not None:
            self._device.resume(kept, [])
        self._ask, self._tell = asked(self._device), told(self._device)
        self._native = getattr(self._device, "device", None)
        self._moments()

    def _keep(self) -> Kept | None:
        return None if self._device is None else self._device.keep()

    def _place(self, x: Array) -> None:
        """x as the kernels want it, in z."""
        z = self._z
        np.subtract(x, self._mean, z)
        np.multiply(z, self._factor, z)
        self._asked = x

    def _rescale(self) -> None:
        """Take in what waits; the estimate goes on in the labels' new unit where that has changed."""
        self._take_in()
        factor, mean = float(self.labels.factor[0]), float(self.labels.mean[0])
        moved = abs(factor * self.y_scale - 1) > STILL or abs(mean - self.y_mean) > STILL * self.y_scale
        if moved and not self.loss.classifies:
            old, self.y_mean = self.y_scale, mean
            self.y_scale = 1 / factor if factor else old
            self._convert(old / self.y_scale)
        self.due = min(WAITING, max(1, self.learnt // 8))
        self._asked = None

    def _take_in(self) -> None:
        if self.waiting:
            with np.errstate(all="ignore"):  # values that are left out overflow
                self.inputs.update(self._rows[: self.waiting])
                self.labels.update(self._ys[: self.waiting, None])
                self._moments()
        self.learnt += self.waiting
        self.waiting = 0

    def _convert(self, ratio: float) -> None:
        kept = self._keep()
        if ratio != 1 and kept is not None and self._device is not None:
            theta, lam = kept.theta * np.float32(ratio), kept.lam
            self._device.resume(Kept(theta, lam, kept.L, kept.q), [])

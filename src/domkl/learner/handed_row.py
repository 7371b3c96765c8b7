"""Rows of learners that start from a model which was taught alone."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.types import Array, Float
from ..engines.devices import DeviceState
from ..exchange.message import Exchange
from ..learning import losses
from ..learning.settings import Paper
from .auto_row import AutoRow
from .handed import HandedAuto, HandedPaper
from .paper_row import PaperRow
from .row import Learnt, digest

#: Where a scaled input is cut off.
FAR = 1e6


class HandedAutoRow(AutoRow):
    """Starts where the model ends, with its scale for good; all of a network must start so."""

    alike = "model file, dtype and payload"

    def __init__(
        self, handed: HandedAuto, exchange: Exchange, name: Hashable, dtype: Float, lockstep: bool
    ) -> None:
        super().__init__(handed.settings, handed.inputs, exchange, name, dtype, lockstep)
        self.model = handed.start(name, self.model.dtype)
        taught = self.model.scale.number, self.model.consensus.theta
        self.settings_digest = digest(self.settings_digest, *taught)


class HandedPaperRow(PaperRow):
    """Starts where the model ends; inputs and labels are in the units that the model was taught in.

    An input that is NaN counts as its mean.
    """

    alike = "model file and payload"

    def __init__(self, handed: HandedPaper, exchange: Exchange, engine: str, lockstep: bool) -> None:
        settings = Paper(kernels=handed.V, rates=handed.rates, loss=handed.loss, hedge="local")
        super().__init__(settings, None, exchange, engine, np.float32, lockstep)
        self.handed = handed
        arrays = (np.ascontiguousarray(getattr(handed, name), np.float64) for name in handed.ARRAYS)
        numbers = handed.y_mean, handed.y_scale, handed.loss, handed.rates
        self.settings_digest = digest(self.settings_digest, *numbers, *arrays)

    def connect(self, known: Any) -> None:
        is_new = self._is_new
        super().connect(known)
        if is_new:
            theta, L, q = (
                np.asarray(v, self.V.dtype) for v in (self.handed.theta, self.handed.L, self.handed.q)
            )
            self.start_from(DeviceState(theta, np.zeros_like(theta), L, q))

    def predict(self, x: npt.ArrayLike, round: int) -> float:
        return self._in_units(super().predict(self._scaled(x), round))

    def ask(self, x: npt.ArrayLike) -> float:
        return self._in_units(super().ask(self._scaled(x)))

    def learn(self, x: npt.ArrayLike, y: float, round: int) -> Learnt:
        label = float(losses.one_label(self.loss, y))  # in full: its distance from the mean may be small
        with np.errstate(over="ignore"):  # what is too large is refused in words
            scaled = (label - self.handed.y_mean) / self.handed.y_scale
            y_hat, _, weights, theta, scalars, news = super().learn(self._scaled(x), scaled, round)
        return self._in_units(y_hat), label, weights, theta, scalars, news

    def _in_units(self, y: float) -> float:
        return self.handed.y_mean + self.handed.y_scale * y

    def _scaled(self, x: npt.ArrayLike) -> Array:
        sample = checks.floats("x", x)
        checks.shape("x", sample, self.handed.mean.shape, "every sample needs the inputs that were taught")
        checks.finite_or_missing("x", sample)
        z = (sample - self.handed.mean) * self.handed.factor
        return np.clip(np.where(np.isnan(z), 0.0, z), -FAR, FAR)

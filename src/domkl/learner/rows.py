"""The model with one row that a device runs, for each kind of settings; a new kind is one more function."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array, Float
from ..engines.devices import DeviceState
from ..engines.paper_row import PaperRow
from ..exchange.message import Exchange
from ..learning.auto import AutoRows
from ..learning.model import Model
from ..learning.settings import Auto, Paper, check_model, describe
from .handed import HandedAuto, HandedPaper

#: Settings that each learner may choose for itself.
OWN = ("outliers", "bounds")
#: Where a scaled input is cut off.
FAR = 1e6


@functools.singledispatch
def row_of(
    settings: Any, inputs: int | None, dtype: Float, name: Hashable, engine: str, exchange: Exchange
) -> Model:
    """The row of a learner with these settings."""
    maker = check_model(settings)
    engines.refuse_choice(engine)
    made: Model = maker.make(1, _count(inputs), dtype)
    return made


@row_of.register
def _(settings: Auto, inputs: int | None, dtype: Float, name: Hashable, *_: Any) -> Model:
    _need_name(name)
    return _common(AutoRows(settings, _count(inputs), [name], dtype=dtype))


@row_of.register
def _(settings: HandedAuto, inputs: int | None, dtype: Float, name: Hashable, *_: Any) -> Model:
    """Starts where the model ends, with its scale for good; all of a network must start so."""
    _check_taught(settings.inputs, inputs)
    _need_name(name)
    row = _common(settings.start(name, dtype))
    row.must_match = "model file, dtype and payload"
    row.identity = digest(row.identity, row.scale.number, row.consensus.theta)
    return row


@row_of.register
def _(
    settings: Paper, inputs: int | None, dtype: Float, name: Hashable, engine: str, exchange: Exchange
) -> Model:
    given = (
        settings.kernels.shape[2] if inputs is None and isinstance(settings.kernels, np.ndarray) else inputs
    )
    return PaperRow(settings, _count(given), engine, dtype, exchange)


@row_of.register
def _(
    settings: HandedPaper, inputs: int | None, dtype: Float, name: Hashable, engine: str, exchange: Exchange
) -> Model:
    _check_taught(settings.inputs, inputs)
    return HandedPaperRow(settings, engine, exchange)


def _common(row: AutoRows) -> AutoRows:
    """With what learners must have in common."""
    alike = {name: value for name, value in describe(row.settings).items() if name not in OWN}
    row.identity, row.must_match = (
        f"{alike} {row.d} {np.dtype(row.dtype)}",
        "model, inputs, dtype and payload",
    )
    return row


def _count(inputs: int | None) -> int:
    if inputs is None:
        raise InputError("inputs is not given; expected the number of inputs of a sample; pass inputs=")
    return checks.count("inputs", inputs)


def _need_name(name: Hashable) -> None:
    if name is None:
        raise InputError("name is not given; expected one with model Auto(); pass name=")


def _check_taught(taught: int, inputs: int | None) -> None:
    if inputs not in (None, taught):
        raise InputError(f"inputs is {inputs}; expected {taught}, as taught; leave it out")


class HandedPaperRow(PaperRow):
    """Starts where the model ends; inputs and labels are in the units that the model was taught in.

    An input that is NaN counts as its mean.
    """

    must_match = "model file and payload"

    def __init__(self, handed: HandedPaper, engine: str, exchange: Exchange) -> None:
        settings = Paper(kernels=handed.V, rates=handed.rates, loss=handed.loss, hedge="local")
        super().__init__(settings, handed.inputs, engine, np.float32, exchange)
        self.handed = handed
        arrays = (np.ascontiguousarray(getattr(handed, name), np.float64) for name in handed.ARRAYS)
        numbers = handed.y_mean, handed.y_scale, handed.loss, handed.rates
        self.identity = digest(self.identity, *numbers, *arrays)

    def connect(
        self,
        names: Sequence[Hashable],
        near: Sequence[Sequence[Hashable]],
        weight: Array,
        degree: Array,
    ) -> None:
        is_new = self._is_new
        super().connect(names, near, weight, degree)
        if is_new:
            taught = self.handed.theta, self.handed.L, self.handed.q
            theta, L, q = (np.asarray(value, self.V.dtype) for value in taught)
            self.start_from(DeviceState(theta, np.zeros_like(theta), L, q))

    def sample(self, x: npt.ArrayLike) -> Array:
        array = checks.floats("x", x)
        checks.shape("x", array, self.handed.mean.shape, "every sample needs the inputs that were taught")
        return checks.finite_or_missing("x", array)

    def inside(self, x: Array) -> Array:
        z = (x - self.handed.mean) * self.handed.factor
        return np.clip(np.where(np.isnan(z), 0.0, z), -FAR, FAR).astype(self.device.takes)

    def in_units(self, y: float) -> float:
        return self.handed.y_mean + self.handed.y_scale * y

    def from_units(self, y: float) -> float:
        return (y - self.handed.y_mean) / self.handed.y_scale


def digest(*values: Any) -> str:
    """Sixteen hexadecimal digits of settings and arrays."""
    made = hashlib.sha256()
    for value in values:
        made.update(value.tobytes() if isinstance(value, np.ndarray) else f"{value} ".encode())
    return made.hexdigest()[:16]

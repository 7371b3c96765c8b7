"""Taught models without their samples: what files hold (`learner.handed`), and learners begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from ..base import checks
from ..base.checks import need
from ..base.errors import InputError
from ..base.types import Array, Float
from ..engines.base import DeviceState
from ..exchange.message import digest
from ..learning.auto import AutoRows
from ..learning.first_order import Rates
from ..learning.model import Around, Model
from .paper_row import PaperRow
from .settings import PLAIN, Auto, Means, Paper, from_table

#: Where a scaled input is cut off.
FAR = 1e6


@dataclass(frozen=True)
class HandedAuto:
    """A taught model of kind "auto": the state of one row."""

    kind: ClassVar[str] = "auto"
    needs_name: ClassVar[bool] = True

    settings: Auto
    rows: Mapping[str, Any]
    names: tuple[str, ...] = ()  # of the inputs in their order; none where they had none

    @property
    def inputs(self) -> int:
        """How many inputs a sample has."""
        return int(self.rows["inputs"])

    @property
    def targets(self) -> int:
        """How many targets it predicts."""
        return int(self.rows["targets"])

    @property
    def loss(self) -> str:
        """The name of its loss."""
        return self.settings.loss

    def weight_names(self) -> list[str]:
        """What its weights belong to."""
        return self.settings.weight_names()

    def make_row(self, d: int, dtype: Float, m: int, means: Means) -> Model:
        """A device that begins where the model ends, with its scale for good; so must its whole network."""
        _check_taught(self, d, m)
        row = self.start(dtype, means)
        row.must_match = "model file, dtype and payload"
        row.identity = digest(row.identity, row.scale.number, row.consensus.theta)
        return row

    def start(self, dtype: Float = np.float64, means: Means = PLAIN) -> AutoRows:
        """The row itself."""
        made = cast(AutoRows, self.settings.make(1, self.inputs, dtype, self.targets, means))
        made.restore(as_precise(self.rows, made))
        return made

    def state(self) -> dict[str, Any]:
        """Everything in it, by name."""
        return {"settings": self.settings.table, "rows": self.rows}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> HandedAuto:
        """Inverse of `state`; what cannot be such is refused."""
        settings = from_table(state["settings"], "[model]")
        assert settings.kind == cls.kind
        made = cls(cast(Auto, settings), state["rows"])
        made.settings.check_sizes(made.rows)
        taught = made.start()
        y_hat = taught.predict(taught.scale.mean).y_hat
        checks.finite("its prediction", y_hat)  # refuses now what would fail later
        return replace(made, names=_check_names(state["names"], made.inputs))


@dataclass(frozen=True)
class HandedPaper:
    """A taught model of kind "paper": kernels, parameters, and the scale that was learnt."""

    kind: ClassVar[str] = "paper"
    targets: ClassVar[int] = 1

    V: Array  # (P, D, d)
    theta: Array  # (P, 2D)
    L: Array  # (P,)
    q: Array  # (P,)
    mean: Array  # (d,) of the inputs
    factor: Array  # (d,) what their distances from it are multiplied with
    y_mean: float
    y_scale: float
    loss: str
    rates: Rates
    names: tuple[str, ...] = ()

    ARRAYS: ClassVar[tuple[str, ...]] = ("V", "theta", "L", "q", "mean", "factor")

    @property
    def inputs(self) -> int:
        """How many inputs a sample has."""
        return len(self.mean)

    def make_row(self, d: int, dtype: Float, m: int, means: Means) -> Model:
        """A device that begins where the model ends, in the precision that it was taught in."""
        _check_taught(self, d, m)
        return _PaperRow(self, means)

    def state(self) -> dict[str, Any]:
        """Everything in it, by name."""
        arrays = {name: getattr(self, name) for name in self.ARRAYS}
        rates = [self.rates.rho, self.rates.eta, self.rates.eta_g]
        return {**arrays, "y_mean": self.y_mean, "y_scale": self.y_scale, "loss": self.loss, "rates": rates}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> HandedPaper:
        """Inverse of `state`; refused unless kernels, parameters and scale go together."""
        P, D, d = state["V"].shape
        need(min(P, D, d) > 0, "it has no kernels")
        shapes = (P, D, d), (P, 2 * D), (P,), (P,), (d,), (d,)
        for name, shape in zip(cls.ARRAYS, shapes, strict=True):
            checks.array(name, state[name], shape)
        need(bool((state["q"] >= 0).all() and (state["factor"] >= 0).all()), "a weight or factor is below 0")
        need(abs(float(state["y_mean"])) <= checks.LARGEST, f"y_mean is {state['y_mean']}")
        need(checks.NARROWEST < float(state["y_scale"]) <= checks.LARGEST, f"y_scale is {state['y_scale']}")
        need(state["loss"] in ("squared", "logistic"), f"loss is {checks.short(state['loss'])}")
        plain = {name: state[name] for name in (*cls.ARRAYS, "y_mean", "y_scale", "loss")}
        return cls(**plain, rates=Rates(*state["rates"]), names=_check_names(state["names"], d))


class _PaperRow(PaperRow):
    """Starts where the model ends; inputs and labels are in the units that the model was taught in.

    An input that is NaN counts as its mean.
    """

    must_match = "model file and payload"

    def __init__(self, handed: HandedPaper, means: Means) -> None:
        settings = Paper(kernels=handed.V, rates=handed.rates, loss=handed.loss, hedge="local")
        super().__init__(settings, handed.inputs, means.engine, np.float32, means.exchange)
        self.handed = handed
        arrays = (np.ascontiguousarray(getattr(handed, name), np.float64) for name in handed.ARRAYS)
        numbers = handed.y_mean, handed.y_scale, handed.loss, handed.rates
        self.identity = digest(self.identity, *numbers, *arrays)

    def connect(self, around: Around) -> None:
        is_new = self._is_new
        super().connect(around)
        if is_new:
            taught = self.handed.theta, self.handed.L, self.handed.q
            theta, L, q = (np.asarray(value, self.V.dtype) for value in taught)
            self.start_from(DeviceState(theta, np.zeros_like(theta), L, q))

    sample = Model.sample  # with NaN where an input is missing

    def inside(self, x: Array) -> Array:
        z = (x - self.handed.mean) * self.handed.factor
        return np.clip(np.where(np.isnan(z), 0.0, z), -FAR, FAR).astype(self.device.takes)

    def in_units(self, y: float) -> float:
        return self.handed.y_mean + self.handed.y_scale * y

    def from_units(self, y: float) -> float:
        return (y - self.handed.y_mean) / self.handed.y_scale


#: Any of them.
HandedModel: TypeAlias = "HandedAuto | HandedPaper"


def _check_taught(model: HandedModel, d: int, m: int) -> None:
    """Refuse other inputs or targets than those that were taught."""
    for name, given, taught in (("inputs", d, model.inputs), ("targets", m, model.targets)):
        if given != taught:
            raise InputError(f"{name} is {given}; expected {taught}, as taught; leave it out")


def _check_names(names: Any, inputs: int) -> tuple[str, ...]:
    """Names of inputs: none, or a different one for each."""
    found = tuple(names)
    need(not found or len(set(found)) == len(found) == inputs, f"{inputs} inputs have {len(found)} names")
    need(all(isinstance(name, str) for name in found), "a name is no text")
    return found


def as_precise(state: Mapping[str, Any], made: AutoRows) -> dict[str, Any]:
    """A state whose matrices, which are taught in one precision, are in that of the device."""
    found = dict(state)
    for name, concept in made._concepts().items():
        wide = {field.name for field in concept.FIELDS if field.kind == "model"}
        part = found[name.replace(".", "_")]
        with np.errstate(over="ignore"):  # what does not fit is refused in words
            found[name.replace(".", "_")] = {
                key: value.astype(made.dtype) if key in wide and value.dtype.kind == "f" else value
                for key, value in part.items()
            }
    return found

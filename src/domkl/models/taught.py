"""Taught models without their samples: what files hold (`learner.handed`), and learners begin with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from ..base import checks
from ..base.checks import need
from ..base.errors import InputError
from ..base.types import Array, Float
from ..engines.base import DeviceState
from ..exchange.graph import Graph
from ..exchange.message import digest
from ..learning.auto import AutoRows
from ..learning.fields import Concept, field, scalar
from ..learning.first_order import Rates
from ..learning.model import Around, Model
from .paper import PaperRow
from .settings import PLAIN, Auto, Means, Paper, Settings, from_table

#: Where a scaled input is cut off.
FAR = 1e6
#: Bounds of numbers that can be squared.
INSIDE: dict[str, Any] = {"low": -checks.LARGEST, "high": checks.LARGEST}


@dataclass(frozen=True, eq=False, repr=False)
class HandedModel(Settings):
    """A taught model as what a learner begins with: a device of its own, that goes on from there."""

    #: Of the inputs in their order; none where they had none.
    names: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)

    @property
    def inputs(self) -> int:
        raise NotImplementedError

    @property
    def table(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def make(self, J: int, d: int, dtype: Float, m: int = 1, means: Means = PLAIN) -> Model:
        """A device that begins where the model ends."""
        checks.count("J", J, most=1)
        for name, given, taught in (("inputs", d, self.inputs), ("targets", m, self.targets)):
            if given != taught:
                raise InputError(f"{name} is {given}; expected {taught}, as taught; leave it out")
        return self._row(dtype, means)

    def _row(self, dtype: Float, means: Means) -> Model:
        raise NotImplementedError

    def make_network(self, graph: Graph, d: int, T: int, how: Any, m: int) -> Any:
        raise InputError(
            "model was handed over; expected domkl.Auto(...) or domkl.Paper(...); write one of them"
        )

    def state(self) -> dict[str, Any]:
        """Everything in it, by name, but the names of the inputs."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class HandedAuto(HandedModel):
    """A taught model of kind "auto": the state of one row."""

    kind: ClassVar[str] = "auto"
    needs_name: ClassVar[bool] = True

    settings: Auto
    rows: Mapping[str, Any]

    @property
    def inputs(self) -> int:
        return int(self.rows["inputs"])

    @property
    def targets(self) -> int:
        return int(self.rows["targets"])

    @property
    def loss(self) -> str:
        return self.settings.loss

    def weight_names(self) -> list[str]:
        return self.settings.weight_names()

    def _row(self, dtype: Float, means: Means) -> Model:
        """With its scale for good; so must its whole network."""
        row = self.row(dtype, means)
        row.must_match = "model file, dtype and payload"
        row.identity = digest(row.identity, row.scale.number, row.consensus.theta)
        return row

    def row(self, dtype: Float = np.float64, means: Means = PLAIN) -> AutoRows:
        """The row itself."""
        made = cast(AutoRows, self.settings.make(1, self.inputs, dtype, self.targets, means))
        made.restore(as_precise(self.rows, made))
        return made

    def state(self) -> dict[str, Any]:
        return {"settings": self.settings.table, "rows": self.rows}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> HandedAuto:
        """Inverse of `state`; what cannot be such is refused."""
        settings = from_table(state["settings"], "[model]")
        assert settings.kind == cls.kind
        made = cls(cast(Auto, settings), state["rows"])
        settings.check_state(made.rows, made.rows["inputs"])
        taught = made.row()
        y_hat = taught.predict(taught.scale.mean).y_hat
        checks.finite("its prediction", y_hat)  # refuses now what would fail later
        return replace(made, names=_check_names(state["names"], made.inputs))


class Taught(Concept):
    """What a model of kind "paper" has learnt: kernels, parameters, and the scale."""

    V: Array = field("P D d", **INSIDE)
    theta: Array = field("P K", **INSIDE)
    L: Array = field("P", **INSIDE)
    q: Array = field("P", low=0, high=1)
    mean: Array = field("d", **INSIDE)  # of the inputs
    factor: Array = field("d", low=0, high=checks.LARGEST)  # what their distances from it are multiplied with
    y_mean: float = scalar(**INSIDE)
    y_scale: float = scalar(first=1, low=checks.NARROWEST, high=checks.LARGEST)

    def __init__(self, P: int, D: int, d: int) -> None:
        self.allocate(P=P, D=D, d=d, K=2 * D)


@dataclass(frozen=True, eq=False, repr=False)
class HandedPaper(HandedModel):
    """A taught model of kind "paper"."""

    kind: ClassVar[str] = "paper"

    taught: Taught
    loss_name: str
    rates: Rates

    @property
    def loss(self) -> str:
        return self.loss_name

    @property
    def inputs(self) -> int:
        return len(self.taught.mean)

    def _row(self, dtype: Float, means: Means) -> Model:
        """In the precision that it was taught in."""
        return _PaperRow(self, means)

    def state(self) -> dict[str, Any]:
        rates = [self.rates.rho, self.rates.eta, self.rates.eta_g]
        return {**self.taught.state(), "loss": self.loss, "rates": rates}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> HandedPaper:
        """Inverse of `state`; refused unless kernels, parameters and scale go together."""
        taught = Taught(*state["V"].shape)
        need(taught.V.size > 0, "it has no kernels")
        taught.restore(state)
        need(state["loss"] in ("squared", "logistic"), f"loss is {checks.short(state['loss'])}")
        names = _check_names(state["names"], len(taught.mean))
        return cls(taught, state["loss"], Rates(*state["rates"]), names=names)


class _PaperRow(PaperRow):
    """Starts where the model ends; inputs and labels are in the units that the model was taught in.

    An input that is NaN counts as its mean.
    """

    must_match = "model file and payload"

    def __init__(self, handed: HandedPaper, means: Means) -> None:
        self.taught = handed.taught
        settings = Paper(kernels=self.taught.V, rates=handed.rates, loss=handed.loss, hedge="local")
        super().__init__(settings, handed.inputs, means.engine, np.float32, means.exchange)
        self.identity = digest(self.identity, handed.loss, handed.rates, *self.taught.state().values())

    def connect(self, around: Around) -> None:
        is_new = self._is_new
        super().connect(around)
        if is_new:
            known = self.taught.theta, self.taught.L, self.taught.q
            theta, L, q = (np.asarray(value, self.V.dtype) for value in known)
            self.start_from(DeviceState(theta, np.zeros_like(theta), L, q))

    sample = Model.sample  # with NaN where an input is missing

    def inside(self, x: Array) -> Array:
        z = (x - self.taught.mean) * self.taught.factor
        return np.clip(np.where(np.isnan(z), 0.0, z), -FAR, FAR).astype(self.device.takes)

    def in_units(self, y: float) -> float:
        return self.taught.y_mean + self.taught.y_scale * y

    def from_units(self, y: float) -> float:
        return (y - self.taught.y_mean) / self.taught.y_scale


#: By the kind that a file names.
HANDED: dict[str, type[HandedAuto] | type[HandedPaper]] = {
    each.kind: each for each in (HandedAuto, HandedPaper)
}


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

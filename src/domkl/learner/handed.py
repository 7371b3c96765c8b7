"""A model that was taught alone, in a file with which the learners of a network start.

    model.hand_over("pump.model")                 # of domkl.river, domkl.sklearn or domkl.DOMKL
    domkl.Learner(handed.read("pump.model"), ["b"], name="a")    # what an agent's [model] path does

The file holds parameters and the statistics of the scale, among them the least and largest values and
quantiles of every input and of the target; it holds no sample. It is not private: see docs/privacy.md.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.checks import need
from ..base.errors import DataError, InputError
from ..base.types import Array, Float
from ..engines.base import DeviceState
from ..engines.paper_row import PaperRow
from ..exchange.message import Exchange
from ..learning.auto import AutoRows
from ..learning.first_order import Rates
from ..learning.model import Model
from ..learning.settings import Auto, Paper, describe, from_table
from . import files, schema
from .rows import digest

#: Samples after which a scale may be kept for good.
ENOUGH = 64
#: Where a scaled input is cut off.
FAR = 1e6


class SavedModel(DataError):
    """A file is of DOMKL.save() or `domkl run`, and not of hand_over()."""


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

    def row(self, inputs: int | None, dtype: Float, engine: str, exchange: Exchange) -> Model:
        """A device that begins where the model ends, with its scale for good; so must its whole network."""
        _check_taught(self.inputs, inputs)
        row = self.start(dtype)
        row.must_match = "model file, dtype and payload"
        row.identity = digest(row.identity, row.scale.number, row.consensus.theta)
        return row

    def start(self, dtype: Float = np.float64) -> AutoRows:
        """The row itself."""
        made = cast(AutoRows, self.settings.make(1, self.inputs, dtype, self.targets))
        made.restore(as_precise(self.rows, made))
        return made

    def state(self) -> dict[str, Any]:
        """Everything in it, by name."""
        return {"settings": describe(self.settings), "rows": self.rows}

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

    def row(self, inputs: int | None, dtype: Float, engine: str, exchange: Exchange) -> Model:
        """A device that begins where the model ends, in the precision that it was taught in."""
        _check_taught(self.inputs, inputs)
        return _PaperRow(self, engine, exchange)

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
        need(state["loss"] in Auto.LOSSES, f"loss is {checks.short(state['loss'])}")
        plain = {name: state[name] for name in (*cls.ARRAYS, "y_mean", "y_scale", "loss")}
        return cls(**plain, rates=Rates(*state["rates"]), names=_check_names(state["names"], d))


class _PaperRow(PaperRow):
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


HandedModel: TypeAlias = "HandedAuto | HandedPaper"
KINDS: dict[str, type[HandedAuto] | type[HandedPaper]] = {
    each.kind: each for each in (HandedAuto, HandedPaper)
}


def write(path: str | os.PathLike[str], model: HandedModel) -> None:
    """Write a taught model to a file, as a whole or not at all."""
    state = {"kind": model.kind, "names": list(model.names), **model.state()}
    arrays, meta = schema.document("model", state)
    file = Path(path)
    with files.writing(file):
        files.replace(file, files.seal(arrays, meta), sync=True)


def read(path: str | os.PathLike[str]) -> HandedModel:
    """The model in a file."""
    arrays, meta = _intact(path)
    try:
        state = schema.read("model", arrays, meta)
        return KINDS[state["kind"]].of(state)
    except DataError as error:  # of another schema, or a newer version
        raise DataError(f"{path} cannot be used as a model: {error}") from None
    except (LookupError, TypeError, AttributeError):
        raise _unusable(path, "it is not whole") from None
    except (ValueError, ArithmeticError, AssertionError, RecursionError) as error:
        raise _unusable(path, str(error) or "it is not whole") from None


def _intact(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """What a file holds, if it is as it was written."""
    try:
        arrays, meta = files.unseal(Path(path).read_bytes())
    except OSError as error:
        raise DataError(
            f"{path} cannot be read as a model ({error.strerror}); expected a file of hand_over() or "
            "DOMKL.save(); fix its path or permissions"
        ) from None
    except DataError as error:
        raise _unusable(path, str(error)) from None
    if meta.get("schema") == "estimator":
        raise SavedModel(
            f"{path} is a model of DOMKL.save() or `domkl run`, which holds samples; expected one of "
            f"hand_over(); write it with: domkl.DOMKL.load({str(path)!r}).hand_over('handed.model')"
        )
    strange = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if strange:
        raise _unusable(path, f"{strange[0]} is not finite")
    return arrays, meta


def _unusable(path: str | os.PathLike[str], reason: str) -> DataError:
    fact = " ".join(reason.split(";")[0].split())  # of an error that has its own expectation and remedy
    return DataError(
        f"{path} cannot be used as a model: {fact}; expected a file of hand_over() or DOMKL.save(); "
        "write it again"
    )


def _check_taught(taught: int, inputs: int | None) -> None:
    """Refuse other inputs than those that were taught."""
    if inputs not in (None, taught):
        raise InputError(f"inputs is {inputs}; expected {taught}, as taught; leave it out")


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


def refuse_untaught(n: int) -> None:
    """Refuse a model with too few samples for a scale that stays."""
    if n < ENOUGH:
        raise InputError(f"the model has learnt {n} samples; expected {ENOUGH} or more; teach it first")


def input_names(names: Sequence[Hashable]) -> tuple[str, ...]:
    """Names of inputs as samples of agents have them."""
    texts = [str(name) for name in names]
    if not all(isinstance(name, str | int) for name in names) or len(set(texts)) < len(texts):
        raise InputError(
            f"the model's inputs are called {', '.join(map(repr, names))}; expected different texts or whole "
            "numbers; teach it with such names"
        )
    return tuple(texts)

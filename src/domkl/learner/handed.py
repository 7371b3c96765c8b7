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
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base import checks
from ..base.errors import DataError, InputError
from ..base.types import Array, Float
from ..learning.auto import AutoRows
from ..learning.first_order import Rates
from ..learning.settings import Auto, describe, from_table
from . import files, handed_check, schema

#: Samples after which a scale may be kept for good.
ENOUGH = 64


class SavedModel(DataError):
    """A file is of DOMKL.save() or `domkl run`, and not of hand_over()."""


@dataclass(frozen=True)
class HandedAuto:
    """A taught model of kind "auto": the state of one row."""

    kind: ClassVar[str] = "auto"

    settings: Auto
    rows: Mapping[str, Any]
    names: tuple[str, ...] = ()  # of the inputs in their order; none where they had none

    @property
    def inputs(self) -> int:
        """How many inputs a sample has."""
        return int(self.rows["inputs"])

    def start(self, name: Hashable, dtype: Float = np.float64) -> AutoRows:
        """A device that begins with what was taught."""
        made = AutoRows(self.settings, self.inputs, [name], dtype=dtype)
        made.restore(as_precise(self.rows, made))
        return made

    def state(self) -> dict[str, Any]:
        """Everything in it, by name."""
        return {"settings": describe(self.settings), "rows": self.rows}


@dataclass(frozen=True)
class HandedPaper:
    """A taught model of kind "paper": kernels, parameters, and the scale that was learnt."""

    kind: ClassVar[str] = "paper"

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

    def state(self) -> dict[str, Any]:
        """Everything in it, by name."""
        arrays = {name: getattr(self, name) for name in self.ARRAYS}
        rates = [self.rates.rho, self.rates.eta, self.rates.eta_g]
        return {**arrays, "y_mean": self.y_mean, "y_scale": self.y_scale, "loss": self.loss, "rates": rates}


HandedModel: TypeAlias = "HandedAuto | HandedPaper"


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
        return _model(schema.read("model", arrays, meta))
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


def _model(state: Mapping[str, Any]) -> HandedModel:
    if state["kind"] == HandedAuto.kind:
        settings = from_table(state["settings"], "[model]")
        assert isinstance(settings, Auto)
        handed_check.check_claims(settings, state["rows"])
        auto = HandedAuto(settings, state["rows"])
        taught = auto.start("")
        y_hat = taught.predict(taught.scale.mean).y_hat
        checks.finite("its prediction", y_hat)  # refuses now what would fail later
        return replace(auto, names=handed_check.check_names(state["names"], auto.inputs))
    handed_check.check_paper(state, HandedPaper.ARRAYS)
    arrays = {name: state[name] for name in HandedPaper.ARRAYS}
    scale = {name: state[name] for name in ("y_mean", "y_scale", "loss")}
    names = handed_check.check_names(state["names"], len(state["mean"]))
    return HandedPaper(**arrays, **scale, rates=Rates(*state["rates"]), names=names)


def as_precise(state: Mapping[str, Any], made: AutoRows) -> dict[str, Any]:
    """A state whose matrices, which are taught in one precision, are in that of the device."""
    found = dict(state)
    for name, concept in made._concepts().items():
        wide = {field.name for field in concept.FIELDS if field.kind == "model"} | {"Q", "U"}
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

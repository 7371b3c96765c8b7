"""A taught model in a file, with which the agents of a network begin.

    model.hand_over("pump.model")                        # of domkl.river, domkl.sklearn or domkl.DOMKL
    learner = read("pump.model").learner(["b"], name="a")    # what `model = "pump.model"` makes an agent do

The file holds parameters and the statistics of the scale, among them the least and largest values and
quantiles of every input and of the target; it holds no sample.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError, InputError
from ..learner import files
from ..learner.member import Member
from ..learning import auto
from ..learning.auto import AutoLearner, Model
from ..learning.first_order import Rates
from . import OneVsRest, Single, SinglePaper
from .scaled import Mind, ScaledLearner

__all__ = ["Taught", "read", "write"]

_FORMAT = "domkl model 1"
#: Samples after which a scale may be kept for good.
ENOUGH = 64
#: The presets of agents that a file is for.
AUTO, OWN = "auto", "own"


class Taught(NamedTuple):
    """What a file holds."""

    model: Model | Mind
    names: tuple[str, ...]  # of the inputs in their order; none where they had none

    @property
    def d(self) -> int:
        """How many inputs a sample has."""
        return self.model.d if isinstance(self.model, Model) else len(self.model.mean)

    @property
    def preset(self) -> str:
        """Of the agents that can begin with it."""
        return AUTO if isinstance(self.model, Model) else OWN

    def learner(self, neighbours: Sequence[Hashable], **options: Any) -> Member:
        """One learner of a network that begins with it: see `AutoLearner.taught` and `ScaledLearner`."""
        if isinstance(self.model, Model):
            return AutoLearner.taught(self.model, neighbours, **options)
        return ScaledLearner(self.model, neighbours, **options)


def one_model(model: Single | OneVsRest[Any], classes: Sequence[Any] = ()) -> Single:
    """The one model of numbers, or of two classes, in what a facade has."""
    if not isinstance(model, OneVsRest):
        return model
    if not _are_plain(classes):
        shown = ", ".join(map(str, classes))
        raise InputError(
            f"the model's classes are {shown}; expected 0 and 1, or -1 and 1, as agents have; "
            "teach it with such labels"
        )
    return model.models[0][1]


def _are_plain(classes: Sequence[Any]) -> bool:
    numbers = {value for value in classes if isinstance(value, bool | int | float | np.number | np.bool_)}
    return len(numbers) == len(classes) == 2 and numbers in ({0, 1}, {-1, 1})


def write(path: str | os.PathLike[str], model: Single | Model, names: Sequence[Hashable] = ()) -> None:
    """Write a taught model to a file, as a whole or not at all."""
    if model.n < ENOUGH:
        raise InputError(f"the model has learnt {model.n} samples; expected {ENOUGH} or more; teach it first")
    arrays, meta = _first_order(model) if isinstance(model, SinglePaper) else _auto(model)
    meta |= {"format": _FORMAT, "names": _texts(names)}
    meta["digest"] = _digest(arrays, meta)
    file = Path(path)
    with files.writing(file):
        files.replace(file, files.content({}, arrays, meta), sync=True)


def _texts(names: Sequence[Hashable]) -> list[str]:
    """Names as samples of agents have them."""
    texts = [str(name) for name in names]
    if not all(isinstance(name, str | int) for name in names) or len(set(texts)) < len(texts):
        raise InputError(
            f"the model's inputs are called {', '.join(map(repr, names))}; expected different texts or whole "
            "numbers; teach it with such names"
        )
    return texts


def read(path: str | os.PathLike[str]) -> Taught:
    """The model in a file."""
    try:
        about, arrays = files.parsed(Path(path).read_bytes())
        meta = files.meta(about)
        if meta["format"] != _FORMAT or meta.pop("digest") != _digest(arrays, meta):
            raise DataError("it is no model, or not as it was written")
        names = tuple(meta["names"])
        return Taught(_mind(arrays, meta) if meta["preset"] == OWN else auto.load(arrays, meta), names)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read as a model ({error.strerror}); expected a file of hand_over(); "
            "mend its path or permissions"
        ) from None
    except (DataError, LookupError, TypeError, ValueError, AttributeError) as error:
        reason = error if isinstance(error, DataError) else "it is not whole"
        raise DataError(
            f"{path} cannot be used as a model: {reason}; expected a file of hand_over(); write it again"
        ) from None


def _auto(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays, meta = auto.save(model if isinstance(model, Model) else model.model)
    return arrays, {"preset": AUTO, **meta}


def _first_order(model: SinglePaper) -> tuple[dict[str, Any], dict[str, Any]]:
    mind = model.mind()
    meta = {"preset": OWN, "loss": mind.loss, "rates": [mind.rates.rho, mind.rates.eta, mind.rates.eta_g]}
    arrays = dict(zip(Mind._fields[:6], mind[:6], strict=True))
    return {**arrays, "y": np.array([mind.y_mean, mind.y_scale])}, meta


def _mind(arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> Mind:
    y_mean, y_scale = arrays["y"].tolist()
    kept = {name: arrays[name] for name in Mind._fields[:6]}
    return Mind(**kept, y_mean=y_mean, y_scale=y_scale, loss=meta["loss"], rates=Rates(*meta["rates"]))


def _digest(arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> str:
    said = hashlib.sha256(files.as_json("meta", meta))
    for name in sorted(arrays):
        array = arrays[name]
        said.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return said.hexdigest()[:32]

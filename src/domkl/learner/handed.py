"""A model that was taught alone, in a file with which the learners of a network start.

    model.hand_over("pump.model")                 # of domkl.river, domkl.sklearn or domkl.DOMKL
    domkl.Learner(handed.read("pump.model"), ["b"], name="a")    # what an agent's [model] path does

The file holds parameters and the statistics of the scale, among them the least and largest values and
quantiles of every input and of the target; it holds no sample. It is not private: see docs/privacy.md.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import budget
from ..base.errors import DataError, InputError
from ..models.taught import HANDED, HandedModel
from . import files, schema

#: Samples after which a scale may be kept for good.
ENOUGH = 64


class SavedModel(DataError):
    """A file is of DOMKL.save() or `domkl run`, and not of hand_over()."""


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
        found: HandedModel = HANDED[state["kind"]].of(state)
        return found
    except DataError as error:  # of another schema, or a newer version
        raise DataError(f"{path} cannot be used as a model: {error}") from None
    except (LookupError, TypeError, AttributeError):
        raise _unusable(path, "it is not whole") from None
    except (ValueError, ArithmeticError, AssertionError, RecursionError) as error:
        raise _unusable(path, str(error) or "it is not whole") from None


def _intact(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """What a file holds, if it is as it was written."""
    try:
        arrays, meta = files.unseal(budget.read(Path(path), budget.STATE))
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

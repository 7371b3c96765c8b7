"""The file of a saved `domkl.DOMKL`: all that it knows, so that it goes on with the same bits.

model.save("pump.domkl")
domkl.DOMKL.load("pump.domkl")

A file holds samples (the first of a stream, and the last), unlike one of `hand_over`: see docs/privacy.md. It
needs NumPy alone, holds no code, and is checked before anything is made from it: a file that is damaged, or
whose writer lied, ends in a `DataError`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base import budget, checks, places
from ..base.errors import DataError, Error, InputError
from ..datasets.columns import Columns
from ..datasets.encoder import Encoder
from ..exchange.graph import Graph, build
from ..learner import files, schema
from ..models import settings
from ..models.settings import ModelSettings, Settings

SCHEMA = "estimator"
#: The longest text about a model, and how many inputs may have names.
LONGEST, MOST_NAMES = 10_000, 1_000_000


@dataclass(frozen=True)
class About:
    """What a model's numbers mean to people; all of it may be left out."""

    inputs: tuple[str, ...] = ()  # names of the inputs, in their order
    target: str = ""
    unit: str = ""  # of the target
    columns: Columns | None = None  # how a table's columns become inputs
    origin: float = 0.0  # a prediction times `factor`, added to this, is in the unit
    factor: float = 1.0

    def state(self) -> dict[str, Any]:
        """As a file holds it."""
        columns = None if self.columns is None else self.columns.table()
        return {**vars(self), "inputs": list(self.inputs), "columns": columns}

    @property
    def are_plain(self) -> bool:
        """Whether each input is a column as it is."""
        return self.columns is None or self.columns.features == self.inputs

    def in_units(self, value: Any) -> Any:
        """A prediction, or a bound of one, in the target's unit."""
        return self.origin + self.factor * value

    def groups(self, d: int) -> tuple[list[str], list[list[int]]]:
        """Names and places of inputs that belong together, as those made from one column do."""
        names = self.inputs or tuple(f"x{i}" for i in range(d))
        parts = () if self.columns is None else Encoder(self.columns).parts
        made = [(part.name, part.inputs) for part in parts]
        if tuple(name for _, inputs in made for name in inputs) != names:
            made = [(name, (name,)) for name in names]
        places = {name: i for i, name in enumerate(names)}
        return [name for name, _ in made], [[places[each] for each in inputs] for _, inputs in made]

    @classmethod
    def of(cls, state: Mapping[str, Any], d: int) -> About:
        """Inverse of `state`, of a model with d inputs."""
        names, texts = tuple(state["inputs"]), (state["target"], state["unit"])
        if not all(isinstance(text, str) and len(text) <= LONGEST for text in (*names, *texts)):
            raise ValueError("a name is no text")
        if names and not len(set(names)) == len(names) == d:
            raise ValueError(f"{d} inputs have {len(names)} names")
        columns = None if state["columns"] is None else Columns.from_table(state["columns"], "its columns")
        if columns is not None:
            # Inputs that texts become; all others are not many more than the words that a file names.
            texts_in = sum(columns.kinds.get(name) == "text" for name in columns.features)
            if columns.hashed * texts_in > d or Encoder(columns).inputs != names:
                raise ValueError("its columns make other inputs")
        scale = checks.finite("its scale", checks.floats("scale", [state["origin"], state["factor"]]))
        return cls(names, *texts, columns, *scale.tolist())


def write(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a state to a file, as a whole or not at all."""
    arrays, meta = schema.document(SCHEMA, state)
    file = Path(path)
    with files.writing(file):
        files.replace(file, files.seal(arrays, meta), sync=True)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The state in a file, if it is as it was written."""
    try:
        if Path(path).is_char_device():
            raise OSError(errno.EINVAL, "a device, which has no end")
        content = budget.read(Path(path), budget.STATE)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}); expected a model of DOMKL.save() or `domkl run`; "
            f"{places.near_file(Path(path)) or 'fix its path or permissions'}"
        ) from None
    try:
        return schema.read(SCHEMA, *files.unseal(content))
    except Error as error:
        raise unusable(path, error) from None


def unusable(path: str | os.PathLike[str], error: Exception) -> DataError:
    """The refusal of a file, with the fact of an error that has its own expectation and remedy."""
    fact = " ".join(str(error).split(";")[0].split()) if isinstance(error, Error | ValueError) else ""
    if "newer version" in fact or "has schema" in fact:
        return DataError(f"{path} cannot be used as a model: {error}")
    return DataError(
        f"{path} cannot be used as a model: {fact or 'it is not whole'}; expected a file of DOMKL.save() or "
        "`domkl run`; write it again"
    )


def settings_state(model: Settings) -> dict[str, Any]:
    """A model's settings."""
    plain = replace(model, loss=model.loss_function.name)  # type: ignore[call-arg]  # a loss that was given as an object, by its name
    return {"model": plain.table}


def settings_of(state: Mapping[str, Any]) -> ModelSettings:
    """Inverse of `settings_state`."""
    return settings.from_table(state["model"], "[model]")


def graph_state(graph: Graph) -> dict[str, Any]:
    """A graph's learners by name, and its links by their places."""
    names = [name if type(name) in (str, int) else str(name) for name in graph.names]
    return {"names": names, "edges": np.array(graph.edges, np.int64).reshape(-1, 2)}


def graph_of(state: Mapping[str, Any]) -> Graph:
    """Inverse of `graph_state`."""
    names, edges = list(state["names"]), state["edges"]
    if not all(type(name) in (str, int) for name in names) or len(set(names)) != len(names):
        raise ValueError("learners have no names of their own")
    if edges.dtype != np.int64 or edges.ndim != 2 or edges.shape[1:] != (2,):
        raise ValueError("its links are no pairs")
    if edges.size and not 0 <= int(edges.min()) <= int(edges.max()) < len(names):
        raise ValueError("a link leads nowhere")
    return build(names, [(names[a], names[b]) for a, b in edges.tolist()])


def refuse_untaught(n: int) -> None:
    """Refuse to save what has learnt nothing."""
    if not n:
        raise InputError("the model has learnt nothing; expected a sample or more; call learn() first")

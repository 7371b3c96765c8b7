"""State as files hold it: named fields with a version, and migrations from earlier versions.

A state is a nest of dictionaries and lists with arrays, numbers and texts in it. `flatten` makes of it arrays
by dotted names and a description fit for JSON; `nest` is its inverse. Every document says which schema it has
and in which version; `migrate` brings an older one up to date, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError
from ..exchange.edges import Neighbour
from ..learning.auto import migrations
from ..learning.settings import Auto, Paper, describe

if TYPE_CHECKING:
    from .learner import Learner

Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"
Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

#: Today's version of each schema.
VERSIONS = {"learner": 2, "model": 2, "agent": 1, "reading": 1}


def _learner_from_1(state: dict[str, Any]) -> dict[str, Any]:
    """Predictions whose labels had not come are dropped: they were of fewer experts."""
    if state["model"]["kind"] != "auto":
        return state
    row = state["row"]
    return {**state, "row": {**row, "model": migrations.from_1(row["model"]), "asked": []}}


def _model_from_1(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "rows": migrations.from_1(state["rows"])} if state["kind"] == "auto" else state


#: What brings a state of (schema, version) to the next version.
MIGRATIONS: dict[tuple[str, int], Migration] = {
    ("learner", 1): _learner_from_1,
    ("model", 1): _model_from_1,
}


def flatten(value: Any, path: str, arrays: Arrays) -> Any:
    """A description of a value; its arrays go to `arrays`, under names that begin with `path`."""
    if isinstance(value, np.ndarray | np.floating | np.integer | np.bool_):
        arrays[path] = np.array(value)
        return {"array": path}
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, Mapping):
        return {"fields": {str(key): flatten(item, f"{path}.{key}", arrays) for key, item in value.items()}}
    return [flatten(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]


def nest(about: Any, arrays: Mapping[str, Any]) -> Any:
    """Inverse of `flatten`; tuples come back as lists."""
    if isinstance(about, list):
        return [nest(item, arrays) for item in about]
    if not isinstance(about, dict):
        return about
    ((kind, inside),) = about.items()
    if kind == "array":
        return arrays[inside]
    if kind == "float":
        return float.fromhex(inside)
    if kind == "fields":
        return {key: nest(item, arrays) for key, item in inside.items()}
    raise DataError(f"a state holds {kind!r}; expected array, float or fields; write it again")


def document(schema: str, state: Mapping[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """A state with its schema's name and version, as arrays and a description."""
    arrays: Arrays = {}
    about = flatten(state, schema, arrays)
    return arrays, {"schema": schema, "version": VERSIONS[schema], "state": about}


def read(schema: str, arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of `document`, migrated to today's version."""
    version = meta.get("version")
    if meta.get("schema") != schema or not isinstance(version, int):
        raise DataError(
            f"the state has schema {meta.get('schema')!r}; expected {schema!r}; "
            "use a file that this part of domkl has written"
        )
    found: dict[str, Any] = nest(meta["state"], arrays)
    return migrate(schema, version, found)


def migrate(schema: str, version: int, state: dict[str, Any]) -> dict[str, Any]:
    """A state of an earlier version as one of today's; refuses one of a later version."""
    if version > VERSIONS[schema]:
        raise DataError(
            f"the state is of version {version} of schema {schema!r}; expected {VERSIONS[schema]} or "
            "earlier; install the version of domkl that wrote it, or a later one"
        )
    for each in range(version, VERSIONS[schema]):
        state = MIGRATIONS[schema, each](state)
    return state


# A learner


def _about(model: Any) -> dict[str, Any]:
    """A model's settings, or the kind of one that was handed over."""
    known = isinstance(model, Auto | Paper)
    return describe(model) if known else {"kind": getattr(model, "kind", type(model).__name__)}


def save_learner(learner: Learner) -> tuple[Arrays, dict[str, Any]]:
    """Complete state of a learner between two rounds."""
    known = [[name, one.state()] for name, one in learner._known.items()]
    return document(
        "learner",
        {
            "model": _about(learner.model),
            "fingerprint": learner.fingerprint,
            "name": learner.name,
            "targets": 1,
            "round": learner.round,
            "resets": learner._resets,
            "neighbours": known,
            "links": learner.topology.state(),
            "row": learner._row.state(),
        },
    )


def load_learner(learner: Learner, arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    """Inverse of `save_learner`; refuses the state of a learner with other settings."""
    state = read("learner", arrays, meta)
    if state["fingerprint"] not in (learner.fingerprint, *learner._row.earlier):
        raise DataError(
            f"the saved learner has fingerprint {state['fingerprint']}; expected {learner.fingerprint}; "
            f"use the {learner._row.alike} it was saved with, or remove its directory to start again"
        )
    learner._known = {name: Neighbour.of(kept) for name, kept in state["neighbours"]}
    learner._inbox, learner._pending = {}, None
    learner.round, learner._resets = state["round"], state["resets"]
    learner.topology.restore(state["links"])
    learner._row.connect(learner._known)
    learner._row.restore(state["row"])

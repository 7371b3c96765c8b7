"""State as files hold it: named fields with a version, and migrations from earlier versions.

A state is a nest of dictionaries and lists with arrays, numbers and texts in it. `flatten` makes of it arrays
by dotted names and a description fit for JSON; `nest` is its inverse. Every document says which schema it has
and in which version; `migrate` brings an older one up to date, step by step. Whatever is wrong with a
document ends in a `DataError` of one line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError, InputError
from ..exchange.edges import Neighbour
from ..learning.auto import constants, migrations
from ..learning.settings import Auto, Paper, describe

if TYPE_CHECKING:
    from .learner import Learner

Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"
Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

#: Today's version of each schema.
VERSIONS = {"learner": 6, "model": 5, "agent": 3, "reading": 1, "estimator": 1}


def _count_starts(state: dict[str, Any]) -> dict[str, Any]:
    """Agents are told apart by a count of starts instead of a time."""
    return {**{name: value for name, value in state.items() if name != "incarnation"}, "starts": 0}


def _without_alarms(state: dict[str, Any]) -> dict[str, Any]:
    """Agents raise alarms."""
    return {**state, "alarms": None}


def _learner_from_1(state: dict[str, Any]) -> dict[str, Any]:
    """Predictions whose labels had not come are dropped: they were of fewer experts."""
    if state["model"]["kind"] != "auto":
        return state
    row = state["row"]
    return {**state, "row": {**row, "model": migrations.from_1(row["model"]), "asked": []}}


def _learner_from_2(state: dict[str, Any]) -> dict[str, Any]:
    """Trust in neighbours was not kept: it starts again."""
    return {**state, "trust": []}


def _learner_from_3(state: dict[str, Any]) -> dict[str, Any]:
    """Predictions whose labels had not come are dropped: they were without the own memory."""
    if state["model"]["kind"] != "auto":
        return state
    row = state["row"]
    return {**state, "row": {**row, "model": migrations.from_2(row["model"]), "asked": []}}


def _learner_from_4(state: dict[str, Any]) -> dict[str, Any]:
    """Learners did not start again by themselves."""
    state = {**state, "restarts": 0}
    if state["model"]["kind"] != "auto":
        return state
    row = state["row"]
    return {**state, "row": {**row, "model": migrations.from_3(row["model"])}}


def _learner_from_5(state: dict[str, Any]) -> dict[str, Any]:
    """Learners followed every decision of others."""
    if state["model"]["kind"] != "auto":
        return state
    row = state["row"]
    return {**state, "row": {**row, "model": migrations.from_4(row["model"])}}


def _model_from_1(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "rows": migrations.from_1(state["rows"])} if state["kind"] == "auto" else state


def _model_from_2(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "rows": migrations.from_2(state["rows"])} if state["kind"] == "auto" else state


def _model_from_3(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "rows": migrations.from_3(state["rows"])} if state["kind"] == "auto" else state


def _model_from_4(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "rows": migrations.from_4(state["rows"])} if state["kind"] == "auto" else state


#: What brings a state of (schema, version) to the next version.
MIGRATIONS: dict[tuple[str, int], Migration] = {
    ("agent", 1): _count_starts,
    ("agent", 2): _without_alarms,
    ("learner", 1): _learner_from_1,
    ("learner", 2): _learner_from_2,
    ("learner", 3): _learner_from_3,
    ("learner", 4): _learner_from_4,
    ("learner", 5): _learner_from_5,
    ("model", 1): _model_from_1,
    ("model", 2): _model_from_2,
    ("model", 3): _model_from_3,
    ("model", 4): _model_from_4,
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
        return {
            "fields": {key: flatten(item, f"{path}.{_level(key)}", arrays) for key, item in value.items()}
        }
    return [flatten(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]


def _level(key: Any) -> str:
    """A key as part of a dotted name, without dots of its own: {"a.b": x} and {"a": {"b": x}} differ."""
    if not isinstance(key, str):
        raise InputError(f"a state has the key {key!r}; expected texts as keys; convert it")
    return key.replace("%", "%25").replace(".", "%2E")


def nest(about: Any, arrays: Mapping[str, Any]) -> Any:
    """Inverse of `flatten`; tuples come back as lists."""
    if isinstance(about, list):
        return [nest(item, arrays) for item in about]
    if about is None or isinstance(about, bool | int | str):
        return about
    kind, inside = next(iter(about.items())) if isinstance(about, dict) and len(about) == 1 else ("", None)
    if kind == "array" and isinstance(inside, str) and inside in arrays:
        return arrays[inside]
    if kind == "float" and isinstance(inside, str):
        return float.fromhex(inside)
    if kind == "fields" and isinstance(inside, dict):
        return {key: nest(item, arrays) for key, item in inside.items()}
    shown = ascii(about)[:80]
    raise DataError(
        f"a state holds {shown}; expected an array of the file, a float or fields; write it again"
    )


@contextlib.contextmanager
def whole(schema: str) -> Iterator[None]:
    """Refuse a document in which something is missing or of another kind, instead of failing inside."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        fault = ascii(f"{type(error).__name__}: {error}")[1:-1][:120]
        raise DataError(
            f"a saved {schema!r} is not whole ({fault}); expected every field of version {VERSIONS[schema]}; "
            "restore the file from a backup, or move it away to start again"
        ) from None


def document(schema: str, state: Mapping[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """A state with its schema's name and version, as arrays and a description."""
    arrays: Arrays = {}
    about = flatten(state, schema, arrays)
    return arrays, {"schema": schema, "version": VERSIONS[schema], "state": about}


def read(schema: str, arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of `document`, migrated to today's version."""
    found = meta.get("schema") if isinstance(meta, Mapping) else None
    if found != schema:
        raise DataError(
            f"the state has schema {ascii(found)[:80]}; expected {schema!r}; "
            "use a file that this part of domkl has written"
        )
    _check_version(schema, meta.get("version"))
    with whole(schema):
        return migrate(schema, meta["version"], nest(meta["state"], arrays))


def migrate(schema: str, version: Any, state: dict[str, Any]) -> dict[str, Any]:
    """A state of an earlier version as one of today's; refuses one of a later version."""
    _check_version(schema, version)
    with whole(schema):
        if not isinstance(state, dict):
            raise TypeError("it has no fields")
        for each in range(version, VERSIONS[schema]):
            state = MIGRATIONS[schema, each](state)
    return state


def _check_version(schema: str, version: Any) -> None:
    today = VERSIONS[schema]
    if type(version) is not int or version < 1:
        raise DataError(
            f"a saved {schema!r} has version {ascii(version)[:80]}; expected a whole number from 1 to "
            f"{today}; restore the file from a backup, or move it away to start again"
        )
    if version > today:
        raise DataError(
            f"a saved {schema!r} was written by a newer version of domkl (version {version} of its schema); "
            f"expected {today} or earlier; upgrade domkl"
        )


# A learner


def _about(model: Any) -> dict[str, Any]:
    """A model's settings, or the kind of one that was handed over."""
    known = isinstance(model, Auto | Paper)
    about = describe(model) if known else {"kind": getattr(model, "kind", type(model).__name__)}
    return {**about, "constants": constants.VERSION} if about["kind"] == Auto.kind else about


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
            "restarts": learner._restarts,
            "neighbours": known,
            "trust": [[name, learner._judged[name], part] for name, part in learner.trust.items()],
            "links": learner.topology.state(),
            "row": learner._row.state(),
        },
    )


def _check_alike(learner: Learner, fingerprint: str, model: Mapping[str, Any]) -> None:
    """Refuse the state of a learner with other settings, or with other constants of `Auto`."""
    if fingerprint in (learner.fingerprint, *learner._row.earlier):
        return
    version = model.get("constants", 1)
    if model["kind"] == Auto.kind and version != constants.VERSION:
        raise DataError(
            f"the saved learner has version {version} of the constants of auto; expected "
            f"{constants.VERSION}, which this version of domkl has; install the domkl that saved it, or move "
            "its directory away: the learner then starts from its neighbours"
        )
    raise DataError(
        f"the saved learner has fingerprint {fingerprint}; expected {learner.fingerprint}; "
        f"use the {learner._row.alike} it was saved with, or remove its directory to start again"
    )


def load_learner(learner: Learner, arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    """Inverse of `save_learner`; refuses the state of a learner with other settings."""
    state = read("learner", arrays, meta)
    with whole("learner"):
        _check_alike(learner, state["fingerprint"], state["model"])
        learner._known = {name: Neighbour.of(kept) for name, kept in state["neighbours"]}
        learner._inbox, learner._pending = {}, None
        learner.round = state["round"]
        learner._resets, learner._restarts = state["resets"], state["restarts"]
        learner.trust = {name: part for name, _, part in state["trust"]}
        learner._judged = {name: n for name, n, _ in state["trust"]}
        learner.topology.restore(state["links"])
        learner._row.connect(learner._known)
        learner._row.restore(state["row"])

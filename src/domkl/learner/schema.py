"""State as files hold it: named fields with a version; a file of another version is refused.

A state is a nest of dictionaries and lists with arrays, numbers and texts in it. `flatten` makes of it arrays
by dotted names and a description fit for JSON; `nest` is its inverse. Every document says which schema it has
and in which version. Whatever is wrong with a document ends in a `DataError` of one line.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError, InputError

Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"

#: Today's version of each schema.
VERSIONS = {"learner": 1, "model": 1, "agent": 1, "reading": 1, "estimator": 1}


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
    """Inverse of `document`."""
    found = meta.get("schema") if isinstance(meta, Mapping) else None
    if found != schema:
        raise DataError(
            f"the state has schema {ascii(found)[:80]}; expected {schema!r}; "
            "use a file that this part of domkl has written"
        )
    check_version(schema, meta.get("version"))
    with whole(schema):
        state = nest(meta["state"], arrays)
        if not isinstance(state, dict):
            raise TypeError("it has no fields")
        return state


def check_version(schema: str, version: Any) -> None:
    """Refuse a document of another version."""
    if type(version) is not int or version != VERSIONS[schema]:
        raise DataError(
            f"a saved {schema!r} has version {ascii(version)[:80]} of its schema; expected "
            f"{VERSIONS[schema]}; use the domkl that wrote it, or move it away to start again"
        )


def other_settings(found: str, expected: str, alike: str) -> DataError:
    """The refusal of a learner's state with other settings."""
    return DataError(
        f"the saved learner has fingerprint {found}; expected {expected}; "
        f"use the {alike} it was saved with, or remove its directory to start again"
    )

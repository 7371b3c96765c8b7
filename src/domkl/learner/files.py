"""Arrays and a description in one file, which is there as a whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import DataError, DiskError, InputError
from ..base.extras import need

#: The types of arrays that a file may hold, as safetensors calls them.
DTYPES = {"F64": "float64", "F32": "float32", "I64": "int64", "U64": "uint64", "U8": "uint8", "BOOL": "bool"}

#: Of files that are being written.
PREFIX, SUFFIX = ".round-", ".tmp"


def content(
    about: Mapping[str, str], arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]
) -> bytes:
    """What the file holds: safetensors; `meta` is anything JSON can hold."""
    safetensors = need("safetensors.numpy", "agent")
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    found: bytes = safetensors.save(plain, {**about, "meta": as_json("meta", meta).decode()})
    return found


def _plain(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`array` as it lies in the file: in C order, without gaps, little endian."""
    if not isinstance(name, str) or name == "__metadata__":
        raise InputError(f"an array is called {name!r}; expected another name; rename it")
    plain = np.asarray(array, order="C")
    if plain.dtype.name not in DTYPES.values():
        raise InputError(
            f"{name} has type {plain.dtype}; expected one of {', '.join(DTYPES.values())}; convert it"
        )
    return plain.astype(plain.dtype.newbyteorder("<"), copy=False)


def as_json(name: str, value: Mapping[str, Any]) -> bytes:
    """`value` on one line."""
    try:
        return json.dumps(dict(value), allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{name} cannot be written as JSON ({error}); expected plain values; convert it"
        ) from None


def parsed(content: bytes) -> tuple[dict[str, str], dict[str, npt.NDArray[Any]]]:
    """What a file says about itself, and its arrays."""
    safetensors = need("safetensors", "agent")
    try:
        tensors = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        raise DataError(f"it is no safetensors file ({error})") from None
    # The header is JSON, as the parser has just made sure; that parser keeps the metadata to itself.
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return header.get("__metadata__") or {}, {name: _array(name, tensor) for name, tensor in tensors}


def _array(name: str, tensor: Mapping[str, Any]) -> npt.NDArray[Any]:
    dtype = DTYPES.get(tensor["dtype"])
    if dtype is None:
        raise DataError(f"its array {name!r} has type {tensor['dtype']}")
    native = np.dtype(dtype)
    flat: npt.NDArray[Any] = np.ndarray(tensor["shape"], native.newbyteorder("<"), tensor["data"])
    return flat.astype(native)


def meta(about: Mapping[str, str]) -> dict[str, Any]:
    """The description in what a file says about itself."""
    try:
        meta = json.loads(about["meta"])
    except (KeyError, ValueError, RecursionError):
        meta = None
    if not isinstance(meta, dict):
        raise DataError("its meta is no JSON object")
    return meta


def digest(content: bytes) -> str:
    """Of a file's bytes."""
    return hashlib.sha256(content).hexdigest()[:32]


def replace(path: Path, content: bytes, sync: bool, ready: Callable[[], None] | None = None) -> None:
    """Write `path` so that it is there as a whole or not at all; `ready` is called when only its name is
    missing."""
    number, temporary = tempfile.mkstemp(SUFFIX, f"{PREFIX}{os.getpid()}-", path.parent)  # with mode 0600
    try:
        with open(number, "wb", buffering=0) as file:
            write(file, content, sync)
        if ready is not None:
            ready()
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if sync:
        sync_directory(path.parent)


def write(file: io.FileIO, content: bytes, sync: bool) -> None:
    """All of it, and with `sync` down to the disk."""
    view = memoryview(content)
    while view:  # a single write may stop short, at 2 GiB or when the disk is nearly full
        view = view[file.write(view) :]
    if sync:
        os.fsync(file.fileno())


def make_directory(directory: Path, sync: bool) -> None:
    """Make a directory, and those above it, for its owner alone."""
    if directory.is_dir():
        return
    make_directory(directory.parent, sync)
    directory.mkdir(mode=0o700, exist_ok=True)
    if sync:
        sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Make new and changed names in `directory` durable; only POSIX knows how."""
    if os.name != "posix":
        return
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[None]:
    """What goes wrong with the disk inside is said in one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(
            f"{directory} cannot be written ({reason}); expected room and permission; "
            "free some space or choose another directory; what was saved before is still there",
            reason,
        ) from None

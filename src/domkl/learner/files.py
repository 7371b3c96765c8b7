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

from ..base import paths
from ..base.errors import DataError, DiskError, InputError
from . import tensors

#: Of files that are being written.
PREFIX, SUFFIX = ".round-", ".tmp"


def content(
    about: Mapping[str, str], arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]
) -> bytes:
    """What the file holds: arrays in the format of safetensors; `meta` is anything JSON can hold."""
    return tensors.packed(arrays, {**about, "meta": as_json("meta", meta).decode()})


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
    return tensors.unpacked(content)


def meta(about: Mapping[str, str]) -> dict[str, Any]:
    """The description in what a file says about itself."""
    try:
        meta = json.loads(about["meta"])
    except (KeyError, ValueError, RecursionError):
        meta = None
    if not isinstance(meta, dict):
        raise DataError("its meta is no JSON object")
    return meta


def seal(arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> bytes:
    """A file's content with a digest of all of it in its description."""
    return content({}, arrays, {**meta, "digest": seal_of(arrays, meta)})


def unseal(content: bytes) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Inverse of `seal`, if the content is as it was written."""
    about, arrays = parsed(content)
    found = meta(about)
    if found.pop("digest", None) != seal_of(arrays, found):
        raise DataError("it is no model, or not as it was written")
    return arrays, found


def seal_of(arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> str:
    """Digest of arrays and a description."""
    made = hashlib.sha256(as_json("meta", meta))
    for name in sorted(arrays):
        array = arrays[name]
        made.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:32]


def digest(content: bytes) -> str:
    """Of a file's bytes."""
    return hashlib.sha256(content).hexdigest()[:32]


def replace(path: Path, content: bytes, sync: bool, ready: Callable[[], None] | None = None) -> None:
    """Write `path` so that it is there as a whole or not at all; `ready` is called when only its name is
    missing."""
    paths.refuse_device(path)
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

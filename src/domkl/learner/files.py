"""Arrays and a description in one file, which is there as a whole or not at all.

Arrays lie in it by name in the format of safetensors: a JSON header, then the numbers. Every claim of a
header is checked against the bytes that are there: reading takes no more memory than they.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base import places
from ..base.checks import need
from ..base.errors import DataError, DiskError, InputError

#: Of files that are being written.
PREFIX, SUFFIX = ".round-", ".tmp"

#: The types of arrays that may be held, as the format calls them.
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "I64": "int64",
    "U64": "uint64",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
#: The key of the texts about the arrays, and the multiple of bytes that a header takes.
ABOUT, ALIGN = "__metadata__", 8


def content(
    about: Mapping[str, str], arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]
) -> bytes:
    """What the file holds: arrays in the format of safetensors; `meta` is anything JSON can hold."""
    return packed(arrays, {**about, "meta": as_json("meta", meta).decode()})


def as_json(name: str, value: Mapping[str, Any]) -> bytes:
    """`value` on one line."""
    try:
        return json.dumps(dict(value), allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{name} cannot be written as JSON ({error}); expected plain values; convert it"
        ) from None


def packed(arrays: Mapping[str, npt.NDArray[Any]], about: Mapping[str, str]) -> bytes:
    """Arrays, and texts about them, as bytes."""
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    header: dict[str, Any] = {ABOUT: dict(about)} if about else {}
    end = 0
    for name, array in sorted(plain.items(), key=lambda item: (-item[1].itemsize, item[0])):
        place = [end, end + array.nbytes]
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": list(array.shape), "data_offsets": place}
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGN)
    return b"".join(
        [len(text).to_bytes(8, "little"), text, *(plain[n].tobytes() for n in header if n != ABOUT)]
    )


def _plain(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`array` as it lies in the file: in C order, without gaps, little endian."""
    if not isinstance(name, str) or name == ABOUT:
        raise InputError(f"an array is called {name!r}; expected another name; rename it")
    plain = np.asarray(array, order="C")
    if plain.dtype.name not in NAMES:
        raise InputError(
            f"{name} has type {plain.dtype}; expected one of {', '.join(DTYPES.values())}; convert it"
        )
    return plain.astype(plain.dtype.newbyteorder("<"), copy=False)


def parsed(content: bytes) -> tuple[dict[str, str], dict[str, npt.NDArray[Any]]]:
    """Inverse of `packed`: the texts about the arrays, and the arrays."""
    try:
        return _parsed(content)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        fault = ascii(f"{error}")[1:-1][:120]
        raise DataError(f"it is no safetensors file ({fault})") from None


def _parsed(content: bytes) -> tuple[dict[str, str], dict[str, npt.NDArray[Any]]]:
    length = int.from_bytes(content[:8], "little")
    need(len(content) >= 8 and length <= len(content) - 8, "its header is cut off")
    header = json.loads(content[8 : 8 + length])
    about = header.pop(ABOUT, None) or {}
    need(all(isinstance(text, str) for text in about.values()), "its metadata is no text")
    data, arrays, end = memoryview(content)[8 + length :], {}, 0
    for name, claim in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        arrays[name], end = _array(name, claim, data, end)
    need(end == len(data), "its arrays do not fill it")
    return about, arrays


def _array(name: str, claim: Mapping[str, Any], data: memoryview, begin: int) -> tuple[npt.NDArray[Any], int]:
    """An array whose numbers begin there, as its claim must say, and where they end."""
    need(claim["dtype"] in DTYPES, f"its array {name!r} has type {claim['dtype']}")
    dtype, shape, (first, end) = np.dtype(DTYPES[claim["dtype"]]), claim["shape"], claim["data_offsets"]
    need(all(type(n) is int and 0 <= n < 2**63 for n in (*shape, first, end)), f"{name!r} has no such shape")
    need(begin == first <= end <= len(data), f"its array {name!r} lies elsewhere")
    need(math.prod(shape) * dtype.itemsize == end - first, f"its array {name!r} is of another length")
    flat: npt.NDArray[Any] = np.frombuffer(data[first:end], dtype.newbyteorder("<")).reshape(shape)
    if dtype == np.bool_:
        need(bool((flat.view(np.uint8) <= 1).all()), f"its array {name!r} holds no truth values")
    return flat.astype(dtype), end


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


def replace(
    path: Path, content: bytes, sync: bool, ready: Callable[[], None] | None = None, is_private: bool = True
) -> None:
    """Write `path` so that it is there as a whole or not at all; `ready` is called when only its name is
    missing. Others of this machine may read what is not private, as any file."""
    places.refuse_device(path)
    number, temporary = (tempfile.mkstemp if is_private else _made)(
        SUFFIX, f"{PREFIX}{os.getpid()}-", path.parent
    )
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


def _made(suffix: str, prefix: str, directory: Path) -> tuple[int, str]:
    """As `tempfile.mkstemp`, by a name that nobody can guess to put a link there, with the usual mode."""
    name = str(directory / f"{prefix}{secrets.token_hex(8)}{suffix}")
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), name


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

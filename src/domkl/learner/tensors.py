"""Arrays by name in one block of bytes, in the format of safetensors: a JSON header, then the numbers.

Every claim of a header is checked against the bytes that are there: reading takes no more memory than they.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.checks import need
from ..base.errors import DataError, InputError

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


def unpacked(content: bytes) -> tuple[dict[str, str], dict[str, npt.NDArray[Any]]]:
    """Inverse of `packed`: the texts about the arrays, and the arrays."""
    try:
        return _unpacked(content)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        fault = ascii(f"{error}")[1:-1][:120]
        raise DataError(f"it is no safetensors file ({fault})") from None


def _unpacked(content: bytes) -> tuple[dict[str, str], dict[str, npt.NDArray[Any]]]:
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

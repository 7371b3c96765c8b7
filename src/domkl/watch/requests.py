"""A request and its answer, as routes see them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Request:
    """What a client asks for; its size was checked before."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: bytes = b""
    is_certified: bool = False  # the client has shown a certificate that we trust


class Answer(NamedTuple):
    """What it gets."""

    status: HTTPStatus
    body: bytes
    kind: str = TEXT
    headers: Mapping[str, str] = {}


Route: TypeAlias = "Callable[[Request], Answer]"


def document(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """JSON; what is not finite becomes null."""
    return Answer(status, encoded(value), JSON)


def encoded(value: Any) -> bytes:
    """JSON in one line."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:  # rarely, so only then each value is looked at
        return json.dumps(finite(value), separators=(",", ":"), allow_nan=False).encode()


def refusal(status: HTTPStatus, fact: str, **headers: str) -> Answer:
    """An error: fact; expectation; remedy."""
    return Answer(status, encoded({"error": fact}), JSON, headers)


def finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

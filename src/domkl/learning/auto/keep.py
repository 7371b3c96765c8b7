"""Learners as arrays and a description fit for JSON, and the same learners again, to the last bit."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import engines
from ...base.errors import DataError
from ...base.types import Array
from ...engines.halves import resume_inverse
from .. import second_order
from .additive import Memory
from .echo import Echo
from .experts import Experts
from .features import Stats
from .learners import FADING, Learners
from .warmup import WarmUp
from .watch import Watch

#: Of what is saved beside the attributes below.
VERSION = 2
TUPLES = {"State": second_order.State, "Stats": Stats}
LEARNERS = (
    *("rounds", "restarts", "lives", "low", "high", "weight", "recent"),
    *("alarm", "restart", "state", "mean", "stats", "centre", "width", "watch", "memories", "warm"),
    *("experts", "echo"),
)
PARTS = {
    Memory: ("rounds", "n", "v", "noise", "state", "mean", "diagonal"),
    Experts: ("log_w", "errors", "n"),
    Echo: ("last", "gain", "M", "m", "size"),
    Watch: ("level", "surplus", "since", "errors", "lasting", "n", "age", "usual", "rounds"),
    WarmUp: ("samples", "before", "old", "over", "shared"),
}


def _layout() -> str:
    """Of what is saved: another version of domkl may keep other things."""
    parts = [(part.__name__, names) for part, names in PARTS.items()]
    tuples = [(name, kind._fields) for name, kind in TUPLES.items()]  # type: ignore[attr-defined]
    return hashlib.sha256(repr((VERSION, LEARNERS, parts, tuples)).encode()).hexdigest()[:16]


def flat(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    """A description of a value; its arrays go to `arrays`, under names that begin with `path`."""
    if isinstance(value, np.ndarray | np.floating):
        arrays[path] = np.ascontiguousarray(value)
        return "array"
    if isinstance(value, float):
        return {"float": value.hex()}
    if value is None or isinstance(value, int):
        return {"plain": value}
    if isinstance(value, second_order.Inverse):
        arrays[f"{path}.half"], arrays[f"{path}.terms"] = value.halves()
        return "inverse"
    if type(value) in PARTS:
        return {"part": _members(value, PARTS[type(value)], path, arrays)}
    if hasattr(value, "_fields"):
        return {type(value).__name__: _members(value, value._fields, path, arrays)}
    kind = "tuple" if isinstance(value, tuple) else "list"
    return {kind: [flat(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]}


def _members(value: Any, names: tuple[str, ...], path: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: flat(getattr(value, name), f"{path}.{name}", arrays) for name in names}


def full(said: Any, path: str, arrays: Mapping[str, Any]) -> Any:
    """The value again; a part as a dict of its members."""
    if said == "array":
        return arrays[path]
    if said == "inverse":
        half, terms = arrays[f"{path}.half"], arrays[f"{path}.terms"]
        return half, terms
    ((kind, inside),) = said.items()
    if kind == "plain":
        return inside
    if kind == "float":
        return float.fromhex(inside)
    if kind in ("tuple", "list"):
        items = [full(item, f"{path}.{i}", arrays) for i, item in enumerate(inside)]
        return tuple(items) if kind == "tuple" else items
    members = {name: full(value, f"{path}.{name}", arrays) for name, value in inside.items()}
    return members if kind == "part" else TUPLES[kind](**members)


def save(learners: Learners) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything that they know between two rounds."""
    arrays: dict[str, Any] = {}
    known = tuple(name for name in LEARNERS if hasattr(learners, name))
    return arrays, {"layout": _layout(), **_members(learners, known, "", arrays)}


def load(learners: Learners, arrays: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    """Make learners, just made with the same settings, those that were saved."""
    if meta.get("layout") != _layout():
        raise DataError(
            "the learner was saved by another version of domkl; expected this one's layout; "
            "use that version, or begin anew"
        )
    found = {name: full(said, f".{name}", arrays) for name, said in meta.items() if name != "layout"}
    warm, watch, memories = found.pop("warm"), found.pop("watch", None), found.pop("memories")
    for name in ("experts", "echo"):
        vars(getattr(learners, name)).update(found.pop(name))
    recent, state = found.pop("recent"), found.pop("state")
    for name, value in found.items():
        setattr(learners, name, value)
    vars(learners.warm).update(warm)
    learners.recent = deque(recent, maxlen=FADING)
    if state is not None:
        learners.pulls = learners._pulls()
        learners.state = state._replace(inverse=_inverse(learners, *state.inverse))
    if watch is not None:
        learners.watch = Watch(learners.J)
        vars(learners.watch).update(watch)
    learners.memories = [_memory(learners, kept) for kept in memories]


def _inverse(learners: Learners, half: Array, terms: Array) -> second_order.Inverse:
    if engines.chosen_newton(learners.engine) == "native":
        return resume_inverse(half, terms, terms.shape[-2], learners.threads)
    return second_order.Inverse.of_halves(half, terms)


def _memory(learners: Learners, kept: dict[str, Any]) -> Memory:
    memory = learners.make_memory(kept["rounds"])
    state = kept.pop("state")
    vars(memory).update(kept)
    memory.state = state._replace(inverse=second_order.Inverse.of_halves(*state.inverse))
    return memory

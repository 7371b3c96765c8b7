"""One process per device: a learner between a stream and a transport; loaded when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import AgentConfig, load
    from .loop import Agent

_HOMES = {"Agent": "loop", "AgentConfig": "config", "load": "config"}

__all__ = ["Agent", "AgentConfig", "load"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'domkl.agent' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)

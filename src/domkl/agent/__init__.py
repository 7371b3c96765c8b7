"""One process per device: a learner between a stream and a transport."""

from __future__ import annotations

from .config import AgentConfig, load
from .loop import Agent

__all__ = ["Agent", "AgentConfig", "load"]

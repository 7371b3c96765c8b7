"""One learner of a network as a state machine, its messages, and its state on disk."""

from __future__ import annotations

from ..exchange.message import Update
from .learner import Learner

__all__ = ["Learner", "Update"]

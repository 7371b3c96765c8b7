"""One learner of a network as a state machine, its messages, and its state on disk."""

from __future__ import annotations

from .learner import Learner
from .member import Update

__all__ = ["Learner", "Update"]

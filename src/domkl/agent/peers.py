"""What an agent knows of each neighbour beside its estimate: whether it is there, and at which round."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..learner import Update

#: The longest that a neighbour which keeps getting lost is left alone, in seconds.
LONGEST_PENALTY = 60.0


@dataclass
class Peer:
    """A neighbour, as its messages show it."""

    name: str
    incarnation: int = 0
    round: int = 0  # the latest it is known to be at
    durable: int = 0
    met: bool = False  # it has spoken since we started
    lost: bool = False  # it missed a deadline; we no longer wait for it
    done: int | None = None  # the round at which its stream ended
    latest: Update | None = None
    heard_at: float = field(default_factory=time.monotonic)
    asked_at: float = 0.0
    answered_at: float = 0.0
    losses: int = 0  # deadlines missed, lately
    welcome_at: float = 0.0  # from when on it may be waited for again

    def hear(self, incarnation: int, round: int, durable: int, now: float) -> None:
        """Take note of a message's head."""
        self.incarnation, self.durable, self.heard_at, self.met = incarnation, durable, now, True
        self.round = max(self.round, round)

    def lose(self, deadline: float, now: float) -> None:
        """It missed a deadline. One that does so again and again is left alone for longer and longer."""
        self.lost = True
        self.welcome_at = now + min(deadline * 2**self.losses - deadline, LONGEST_PENALTY)
        self.losses = min(self.losses + 1, 16)

    def welcome(self) -> None:
        """It is waited for again."""
        self.lost = False

    def waits(self, now: float, patience: float) -> bool:
        """Whether it is there, and its own round is open: it waits for somebody else."""
        return self.latest is not None and self.latest.round >= self.round and self.up(now, patience)

    def up(self, now: float, patience: float) -> bool:
        """Whether it was heard of lately."""
        return self.met and now - self.heard_at < patience

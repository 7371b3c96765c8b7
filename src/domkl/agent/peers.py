"""Liveness of a neighbour: whether it responds, and at which round it is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..exchange.message import Update
from .lives import Life, Lives

#: The longest time, in seconds, for which a neighbour that is lost repeatedly is not waited for.
LONGEST_PENALTY = 60.0


@dataclass
class Peer:
    """A neighbour, as its messages show it."""

    name: str
    lives: Lives = field(default_factory=Lives)
    life: Life | None = None  # of its last message
    answered: Life | None = None  # the last of its lives that we sent a hello at once
    claimed: int = 0  # the round in its last message, believed or not
    round: int = 0  # the latest that it is believed to be at
    durable: int = 0
    met: bool = False  # a message arrived since we started
    lost: bool = False  # it missed a deadline; we no longer wait for it
    done: int | None = None  # the round at which its stream ended
    holds: bool = False  # our edge was in use there when its stream ended
    knows: bool = False  # it was informed that our stream has ended
    latest: Update | None = None
    direct: int = -1  # the round of the last update that was not resent
    received_at: float = field(default_factory=time.monotonic)
    level_at: float = field(default_factory=time.monotonic)  # when it was last not ahead of us
    asked_at: float = 0.0
    answered_at: float = 0.0
    losses: int = 0  # deadlines missed
    welcome_at: float = 0.0  # when it may be waited for again

    def note_message(self, life: Life, round: int, here: int) -> None:
        """Record that it is up, and the round in its message; we are at round `here`."""
        if life != self.life:  # it was restarted, perhaps at an earlier round
            self.life, self.done = life, None
            self.forget()
        self.claimed, self.received_at, self.met = round, time.monotonic(), True
        if round <= here + 1:
            self.level_at = self.received_at

    def note_round(self, round: int, durable: int) -> None:
        """Record a round that is believed."""
        self.round, self.durable = max(self.round, round), durable

    def forget(self) -> None:
        """Drop what it sent: it was of another life, or is not believed."""
        self.round, self.latest, self.direct = 0, None, -1

    def note_update(self, update: Update) -> None:
        """Record an update that is believed."""
        self.round = max(self.round, update.round)
        if self.latest is None or update.round >= self.latest.round:
            self.latest = update
        if self.lost and time.monotonic() >= self.welcome_at:
            self.lost = False

    def lose(self, deadline: float, now: float) -> None:
        """Record a missed deadline; repeated ones double the time until it is waited for again."""
        self.lost = True
        self.welcome_at = now + min(deadline * (2**self.losses - 1), LONGEST_PENALTY)
        self.losses = min(self.losses + 1, 16)

    def is_waiting(self, now: float, patience: float) -> bool:
        """Whether it is up and its own round is open: it waits for another neighbour."""
        if self.latest is None:  # it waits for a first message of all its neighbours
            return self.is_up(now, patience)
        return self.latest.round >= self.round and self.is_up(now, patience)

    def lacks_updates(self, now: float) -> bool:
        """Whether it is up and making progress, but its updates do not arrive here."""
        return self.is_up(now, 3.0) and self.done is None and self.round > self.direct + 1

    def is_up(self, now: float, patience: float) -> bool:
        """Whether a message of it arrived within `patience` seconds."""
        return self.met and now - self.received_at < patience

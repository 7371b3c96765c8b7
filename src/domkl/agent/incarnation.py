"""Which start of an agent a message belongs to, without trusting clocks.

An incarnation is the number of starts from one state directory, and a random key. Every message names its
sender's, and every hello also those that the sender knows of its neighbours. A neighbour's new incarnation is
accepted with a hello that names our own: that hello was made since we started, and is no recording.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Collection
from typing import Annotated, NamedTuple

from msgspec import Meta

from ..exchange.edges import NUMBER_END
from .logs import Limited, tell

LOG = logging.getLogger(__name__)
#: Seconds of silence after which any other incarnation may follow; hellos come every second.
QUIET = 3.0
#: An incarnation with so many more starts follows only after silence, too.
LEAP = 2**32
#: Ended incarnations of a neighbour that are remembered.
ENDED = 256
#: Above this, starts are counted from 1 again, so that they always fit into messages.
MOST_STARTS = 2**62
#: Seconds between two new incarnations of a running agent.
RENEWAL = 10.0
#: Seconds by which messages of an ended incarnation may come late.
LATE = 0.2

Number = Annotated[int, Meta(ge=0, le=NUMBER_END - 1)]


class Incarnation(NamedTuple):
    """One start of an agent: how many there were with this one, and a random key."""

    starts: Number
    key: Number

    @classmethod
    def new(cls, starts: int) -> Incarnation:
        """One after so many starts."""
        return cls(starts if 0 < starts <= MOST_STARTS else 1, secrets.randbelow(2**62) + 1)


class Incarnations:
    """The incarnations of one neighbour: the current one, and those that have ended.

    Another follows the current one if its hello names our own incarnation, it has not ended before, and
    either it has more starts or the current one has been silent for `QUIET` seconds.
    """

    def __init__(self) -> None:
        self.current: Incarnation | None = None
        self._ended: deque[Incarnation] = deque(maxlen=ENDED)
        self._other: Incarnation | None = None  # sent a hello, and was not accepted
        self._received_at = self._other_at = self._rival_at = -QUIET

    def judge(
        self, sent: Incarnation, hello: bool, named: Incarnation | None, ours: Incarnation, now: float
    ) -> str:
        """Why a message is refused, or "". `named`: the incarnation of ours that a hello names."""
        if sent == self.current:
            self._received_at = now
            return ""
        if sent in self._ended or (self.current is not None and not hello and sent != self._other):
            return "replayed"
        if hello and sent != self._other:
            self._other, self._other_at = sent, now
        if named != ours:
            return "unconfirmed" if named is None or self.current is None else "replayed"
        if self.current is None or self._may_follow(self.current, sent, now):
            self._accept(sent, now)
            return ""
        return self._note_rival(now)

    def _may_follow(self, current: Incarnation, sent: Incarnation, now: float) -> bool:
        return current.starts < sent.starts <= current.starts + LEAP or now - self._received_at >= QUIET

    def _accept(self, sent: Incarnation, now: float) -> None:
        if self.current is not None:
            self._ended.append(self.current)
        self.current, self._other, self._received_at = sent, None, now

    def _note_rival(self, now: float) -> str:
        """Two at once are two agents; one that only waits for the other's silence is not."""
        if self._received_at <= self._other_at + LATE:
            return "unconfirmed"
        self._rival_at = now
        return "duplicate name"

    def known(self, now: float) -> Incarnation | None:
        """The one to name in our hellos: the current one while it is not silent, or one that greets us."""
        return self.current if now - self._received_at < QUIET else self._other

    def has_rival(self, now: float) -> bool:
        """Whether two agents have sent messages under this name in the last seconds."""
        return now - self._rival_at < QUIET


class Identity:
    """Our own incarnation, as the neighbours' hellos name it.

    A neighbour that named our incarnation and then another was misled: by a forged hello, or by a second
    agent with our name. We report it and take a new incarnation, with one more start, which the neighbour
    accepts once the other is silent: a forgery passes within seconds, and two agents do not replace each
    other in turns.
    """

    def __init__(self, name: str, starts: int) -> None:
        self.name, self.incarnation = name, Incarnation.new(starts)
        self._others: dict[str, tuple[float, float]] = {}  # who names another: since when, and last
        self._reports: dict[str, float] = {}  # who has seen another agent under our name, and when
        self._knowing: set[str] = set()  # neighbours that have named our present incarnation
        self._was_known = False  # some neighbour has named an incarnation of ours
        self._renewed_at = -2 * RENEWAL
        self._limited = Limited(LOG)

    def note(self, neighbour: str, named: Incarnation | None, is_rival: bool, now: float) -> bool:
        """Record what a neighbour's hello says of us; whether we have taken a new incarnation."""
        self._note_other(neighbour, named, now)
        is_replaced = neighbour in self._knowing and neighbour in self._others
        if named == self.incarnation:
            self._knowing.add(neighbour)
            self._was_known = True
        if is_replaced or is_rival:
            self._report(neighbour, now)
        if is_replaced and now - self._renewed_at >= RENEWAL:
            self.incarnation, self._renewed_at = Incarnation.new(self.incarnation.starts + 1), now
            self._knowing.clear()
            return True
        return False

    def _note_other(self, neighbour: str, named: Incarnation | None, now: float) -> None:
        since, last = self._others.pop(neighbour, (now, now))
        if named is not None and named != self.incarnation:
            self._others[neighbour] = (since if now - last < QUIET else now), now

    def _report(self, neighbour: str, now: float) -> None:
        self._reports[neighbour] = now
        if self._limited.due("name"):
            tell(LOG, logging.ERROR, "another agent has our name", name=self.name, seen_by=neighbour)

    def seen_by(self, now: float) -> list[str]:
        """The neighbours that have lately seen another agent under our name, or claim so."""
        return [neighbour for neighbour, at in dict(self._reports).items() if now - at < 2 * QUIET]

    def conflict(self, now: float, neighbours: Collection[str]) -> str:
        """Why we are not ready: two neighbours, or our only one, have seen another agent under our name."""
        voices = sum(name in neighbours for name in self.seen_by(now))
        is_seen = voices > 0 and voices >= min(2, len(neighbours))
        return f"another agent runs under this name: {self.name}" if is_seen else ""

    def is_taken(self, now: float, neighbours: Collection[str]) -> bool:
        """Whether our name belongs to another that is up: no neighbour has ever named us, and for longer than
        a dead agent is named, two neighbours and more than half of all have named another incarnation."""
        if self._was_known:
            return False
        voices = [
            name
            for name, (since, last) in self._others.items()
            if name in neighbours and now - last < QUIET and now - since >= 2 * QUIET
        ]
        for name in voices:
            self._report(name, now)
        return len(voices) >= 2 and 2 * len(voices) > len(neighbours)

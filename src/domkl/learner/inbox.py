"""Messages that come early, late or twice: which are kept for which round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Mapping, Sequence

from ..base.errors import InputError, PeerError
from ..exchange.edges import Held, Neighbour
from ..exchange.message import Update

#: How many rounds ahead of ours an update may wait; more would let a peer fill our memory.
EARLIEST = 64
#: No round is skipped to that is later than this; messages end at twice that, which leaves room to go on.
LAST_SKIP = 2**51
#: The last faults that are kept.
MOST_FAULTS = 64


class UpdateInbox(ABC):
    """The rounds of a learner, and what has arrived for each."""

    _known: dict[Hashable, Neighbour]

    def __init__(self, name: Hashable, asynchronous: bool) -> None:
        self.name, self.asynchronous, self.round = name, asynchronous, 0
        self._pending: Update | None = None  # our update of the open round
        self._inbox: dict[int, dict[Hashable, Update]] = {}
        #: Exceptions that made rounds end without the neighbours, since this was last emptied.
        self.faults: deque[str] = deque(maxlen=MOST_FAULTS)

    @abstractmethod
    def _merge(self, own: Update, arrived: Mapping[Hashable, Update]) -> None:
        """End the round with what has arrived."""

    @abstractmethod
    def check(self, neighbour: Hashable, update: Update, *, decoded: bool = False) -> None:
        """Refuse an update that cannot be right."""

    @property
    def neighbours(self) -> tuple[Hashable, ...]:
        """Their names, in the order of sums."""
        return tuple(self._known)

    def knows(self, name: Hashable) -> bool:
        """Whether that is a neighbour."""
        return name in self._known

    @property
    def waiting(self) -> bool:
        """Whether the round is open: observed, but not yet an update from every neighbour."""
        return self._pending is not None

    @property
    def missing(self) -> tuple[Hashable, ...]:
        """The neighbours whose update of the open round is not in yet."""
        if not self.waiting:
            return ()
        arrived = self._inbox.get(self.round, {})
        return tuple(name for name in self._known if name not in arrived)

    @property
    def edges(self) -> dict[Hashable, Held]:
        """The state of this learner's edges, which is in every update."""
        return {} if self.name is None else {name: one.edge.held for name, one in self._known.items()}

    @property
    def gone(self) -> dict[Hashable, int]:
        """The neighbours that have gone on without us, and the rounds they are at."""
        gone: dict[Hashable, int] = {}
        for t in sorted(self._inbox):
            if t > self.round:
                gone |= {name: t for name, update in self._inbox[t].items() if self._without_us(update)}
        return gone

    @property
    def ahead(self) -> int:
        """The last round to which neighbours have gone on without us; our own where none has."""
        return max(self.gone.values(), default=self.round)

    def receive(self, neighbour: Hashable, update: Update, *, checked: bool = False) -> bool:
        """Take a neighbour's update; False if it came late, too early or twice, and was not used.

        `checked`: it has already passed `check`.
        """
        self._refuse_stranger(neighbour)
        if not checked:
            self.check(neighbour, update)
        if self.asynchronous:
            return self._keep_newest(neighbour, update)
        if update.round < self.round or neighbour in self._inbox.get(update.round, {}):
            return False
        if update.round > self.round + EARLIEST:
            if not self._without_us(update):
                return False
            self._drop_messages(neighbour)  # what it sent before we shall never need
        self._inbox.setdefault(update.round, {})[neighbour] = update
        self._close_if_complete()
        return True

    def close(self) -> None:
        """End the open round without the missing neighbours.

        A missing neighbour does not pull in the next step, and the dual moves only for edges whose update
        came; if the other end did not receive ours, it takes its own move back, or we ours. No message can
        keep a round open: if merging fails, the round ends as if nothing had arrived, and `faults` says why.
        """
        if self._pending is None:
            raise InputError("no round is open; expected one; call observe() first")
        arrived = self._inbox.pop(0 if self.asynchronous else self.round, {})
        if not self._is_merged(self._pending, arrived):
            self._is_merged(self._pending, {})
        self._pending = None
        self.round += 1

    def _is_merged(self, own: Update, arrived: Mapping[Hashable, Update]) -> bool:
        try:
            self._merge(own, arrived)
        except Exception as error:
            self._note_fault(error)
            return False
        return True

    def _note_fault(self, error: Exception) -> None:
        self.faults.append(f"{type(error).__name__}: {error}")

    def skip_to(self, round: int) -> None:
        """Go on at a later round, with those who went on without us; no sample is skipped."""
        self._refuse_open("close() the round")
        if round < self.round:
            raise InputError(f"round {round} is over; expected {self.round} or later; skip forwards")
        if round > LAST_SKIP:
            raise InputError(f"round {round} is too late; expected at most {LAST_SKIP}; skip less far")
        self.round = round
        self._inbox = {t: box for t, box in self._inbox.items() if t >= round}

    def _keep_newest(self, neighbour: Hashable, update: Update) -> bool:
        """An asynchronous learner needs each neighbour's newest update only, and is pulled by it once."""
        box, edge = self._inbox.setdefault(0, {}), self._known[neighbour].edge
        held = update.edges.get(self.name)
        if held is not None and held.mine != edge.theirs:
            edge.reset(edge.number, held.mine)  # a new life counts its rounds from the start
            box.pop(neighbour, None)
        if update.round <= (box[neighbour].round if neighbour in box else edge.seen):
            return False
        box[neighbour] = update
        return True

    def _close_if_complete(self) -> None:
        if self._pending is not None and len(self._inbox.get(self.round, ())) == len(self._known):
            self.close()

    def _without_us(self, update: Update) -> bool:
        """Whether the neighbour ended the round before this update without ours."""
        held = update.edges.get(self.name)
        return self.name is not None and (held is None or held.seen < update.round - 1)

    def _drop_messages(self, neighbour: Hashable) -> None:
        for box in self._inbox.values():
            box.pop(neighbour, None)

    def _refuse_open(self, remedy: str) -> None:
        if self._pending is not None:
            raise InputError(f"round {self.round} still waits for {self.missing}; {remedy}")

    def _refuse_stranger(self, neighbour: Hashable) -> None:
        if neighbour not in self._known:
            raise PeerError(
                f"{neighbour!r} is not a neighbour; expected one of {self.neighbours}; check the graph"
            )


def distinct(neighbours: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """The names, if each is there once."""
    try:
        good = not isinstance(neighbours, str) and len({*neighbours}) == len(neighbours)
    except TypeError:  # no list, or names that cannot be keys
        good = False
    if not good:
        raise InputError(f"neighbours is {neighbours!r}; expected a list of different names; name each once")
    return tuple(neighbours)

"""How a round ends: which neighbours' messages are used, and which edges' duals move."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from ..base.types import Array
from ..exchange.edges import NEVER, Held, Neighbour, next_number
from ..exchange.message import Update
from .inbox import MOST_FAULTS, UpdateInbox
from .row import LearnerRow

#: Messages over which trust in a neighbour is averaged.
TRUST = 100


class MergedRounds(UpdateInbox):
    """A learner's rounds, and what they make of its edges."""

    def __init__(self, name: Hashable, asynchronous: bool, row: LearnerRow) -> None:
        super().__init__(name, asynchronous)
        self._row, self._restarts = row, row.restarts
        #: The neighbours whose messages were not believed since this list was last emptied; not all if many.
        self.implausible: list[Hashable] = []
        #: Part of about the last `TRUST` messages of each neighbour that was believed.
        self.trust: dict[Hashable, float] = {}
        self._judged: dict[Hashable, int] = {}  # messages that trust is an average of

    def _merge(self, own: Update, arrived: Mapping[Hashable, Update]) -> None:
        self._row.hear({name: arrived[name] for name in self._known if name in arrived})
        received = [arrived.get(name) for name in self._known]
        used, backs = self._believed(received)
        more, moves = self._settle(used)
        moved = self._row.merge(own, used, moves, backs + more)
        for one, by in zip(self._known.values(), moved, strict=True):
            if by is not None:
                one.edge.move(self.round, by, self.name is not None)
        self._restart_edges()

    def _believed(self, received: Sequence[Update | None]) -> tuple[list[Update | None], list[Array]]:
        """The updates, of which those that we do not believe count as missing; and duals to take back.

        With such a neighbour we start again, under a new number, as soon as we believe it again.
        """
        judged, backs = self._row.believes(received), []
        for name, update, is_used in zip(self._known, received, judged, strict=True):
            if update is None or is_used is None:
                continue
            is_alike = self._row.same(update)
            if is_alike:
                self._note_trust(name, is_used)
            if not is_used:
                backs.append(self._refuse(name, update, is_alike))
        kept = [
            None if is_used is False else update for update, is_used in zip(received, judged, strict=True)
        ]
        return kept, [back for back in backs if back is not None]

    def _refuse(self, name: Hashable, update: Update, is_alike: bool) -> Array | None:
        """Do without a message, and count it if its parameters mean the same here; returns the dual to take
        back, if there is one."""
        edge, back = self._known[name].edge, None
        if is_alike and len(self.implausible) < MOST_FAULTS:
            self.implausible.append(name)
        if self.name is not None and edge.moved != NEVER:
            back = edge.reset(next_number(edge.number), edge.theirs, edge.seen)
        if not self._row.needs_used:  # it came: the sender must not think that we went on without it
            edge.seen = update.round
        return back

    def _note_trust(self, name: Hashable, is_used: bool) -> None:
        n = self._judged[name] = min(self._judged.get(name, 0) + 1, TRUST)
        before = self.trust.get(name, 1.0)
        self.trust[name] = before + (is_used - before) / n

    def _settle(self, received: Sequence[Update | None]) -> tuple[list[Array], list[bool]]:
        """Moves of duals that did not stand at the other end, and with whom duals move in this round."""
        backs, moves = [], []
        for one, update in zip(self._known.values(), received, strict=True):
            if update is None:
                moves.append(False)
                continue
            held = update.edges.get(self.name)
            back = None if held is None else one.edge.settle(held, update.round - 1)
            if back is not None:
                backs.append(back)
            one.edge.seen = update.round
            moves.append(self._row.same(update) and self._agrees(one, held))
        return backs, moves

    def _agrees(self, one: Neighbour, held: Held | None) -> bool:
        """Whether an edge's dual moves with an update that says this of it; between asynchronous learners
        there are no duals, since two ends that step at different times would drive them apart."""
        if self.asynchronous or self.name is None:
            return not self.asynchronous
        return held is not None and one.edge.agrees(held)

    def _restart_edges(self) -> None:
        """Where our model has started again, so do its duals; asynchronous learners have none."""
        if self._row.restarts != self._restarts:
            self._restarts = self._row.restarts
            for one in self._known.values() if not self.asynchronous else ():
                one.edge.reset(next_number(one.edge.number), one.edge.theirs, one.edge.seen)

    def meet(self, neighbour: Hashable, held: Held) -> None:
        """Learn a neighbour's number for our edge before its first update, from whatever else it sends.

        All else of an edge changes when a round ends, with the update of that round: the order in which
        messages arrive must not tell in which round duals are taken back.
        """
        self._refuse_stranger(neighbour)
        edge = self._known[neighbour].edge
        if edge.theirs == 0 and edge.moved == NEVER:
            edge.theirs = held.mine

    def reset_edges(self, number: int, neighbours: Iterable[Hashable] | None = None) -> None:
        """Drop the duals of edges whose ends no longer agree: of all, or of those to `neighbours`."""
        self._refuse_open("close() the round")
        names = self.neighbours if neighbours is None else neighbours
        edges = [self._known[name].edge for name in names if name in self._known]
        backs = [edge.reset(number, edge.theirs) for edge in edges]
        self._row.take_back([back for back in backs if back is not None])

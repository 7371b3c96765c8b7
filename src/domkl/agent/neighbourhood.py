"""The neighbours of a learner as they come and go: which are waited for, dropped, and joined again."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ..base.errors import PeerError
from ..exchange.edges import Held
from ..exchange.message import Update
from ..learner import Learner
from . import rounds as believed
from .graphs import NewGraph
from .lives import Life
from .logs import tell
from .peers import Peer
from .post import AT_ONCE
from .sections import RoundSection

LOG = logging.getLogger(__name__)


def number() -> int:
    """A random number that identifies a start of a learner, or an edge; never 0."""
    return secrets.randbelow(2**62) + 1


class RoundRefused(PeerError):
    """A neighbour's message has a round that is not believed."""


class Neighbourhood:
    """A learner's neighbours.

    All changes of the learner's edges happen in `update`, between two rounds. A neighbour that misses a
    deadline is dropped, with its edge's dual; once it sends updates again it joins with a new edge.
    """

    def __init__(
        self, learner: Learner, rounds: RoundSection, names: Iterable[str], graph: int, restored: bool = False
    ) -> None:
        self.learner, self.rounds = learner, rounds
        self.in_step = rounds.mode == "sync"  # whether rounds wait for neighbours
        self.restored = restored  # from a checkpoint, perhaps of round 0
        self.peers = {name: Peer(name) for name in names}  # including those that are lost
        self.graph = graph  # the version of the graph
        self.started = False
        self.addresses: dict[str, tuple[str, ...]] = {}  # where neighbours listen, as the graph says
        self.wanted: NewGraph | None = None  # a new graph, followed from the next round on
        self.done = False  # our own stream has ended
        self.cut_off = False  # neighbours no longer have updates that our replay needs
        self.late = 0  # updates that arrived too late to be used
        self.incomplete = 0  # rounds that ended without a neighbour's update

    def update(self, learnt: int) -> bool:
        """Update the learner's edges; whether anything changed. `learnt`: number of our samples so far."""
        if self.wanted is None and not self.cut_off and self._is_unchanged():
            return False  # which is so in nearly every round
        return self._follow_graph() | self._drop_gone() | self._join_ready() | self._catch_up(learnt)

    def _is_unchanged(self) -> bool:
        """Whether all neighbours are up, have an edge, and are at our round."""
        knows, peers = self.learner.knows, self.peers
        for name, peer in peers.items():
            if peer.lost or peer.done is not None or not knows(name):
                return False
        return len(peers) == len(self.learner.neighbours) and not (self.in_step and self.learner.gone)

    @property
    def follows(self) -> bool:
        """Whether a new graph waits to be followed; once our stream has ended, we stay as we are."""
        return self.wanted is not None and not self.done

    # Rounds

    def missing(self) -> list[Peer]:
        """Neighbours whose update of the open round has not arrived."""
        return [self.peers[str(name)] for name in self.learner.missing if name in self.peers]

    def close_if_complete(self) -> bool:
        """Close the open round if no further update can arrive; whether no round is open now."""
        if self.learner.waiting and not self.in_step:
            self.learner.close()
        if not self.learner.waiting:
            self.incomplete += len(self.learner.neighbours) < len(self.peers)  # absent ones, or dropped ones
            return True
        if self._is_unchanged() or self._is_anybody_waited_for():
            return False
        self._close_incomplete()
        return True

    def end_round(self, alone: bool) -> bool:
        """Whether no round is open; one that is open ends without those who are missing, if `alone`."""
        if alone and self.learner.waiting:
            self._close_incomplete()
        return not self.learner.waiting

    def _close_incomplete(self) -> None:
        self.incomplete += 1
        self.learner.close()

    def _is_anybody_waited_for(self) -> bool:
        awaited = [name for name in self.learner.missing if not self._is_over(str(name))]
        return bool(awaited) and not self.learner.gone.keys() >= set(awaited)

    def drop_late(self, age: float) -> None:
        """Mark neighbours as lost that have missed the deadline of a round of this age."""
        now = time.monotonic()
        for peer in self.missing():
            if age > self.rounds.deadline and not peer.lost and not self._is_excused(peer, age, now):
                peer.lose(self.rounds.deadline, now)
                tell(LOG, logging.WARNING, "neighbour lost", neighbour=peer.name, round=self.learner.round)

    def _is_excused(self, peer: Peer, age: float, now: float) -> bool:
        """Whether it itself waits for a neighbour: it will go on when its own deadline has passed."""
        most = 3 * self.rounds.deadline if peer.latest is not None else self.rounds.start
        return age < most and peer.is_waiting(now, 2 * self.rounds.resend + 0.1)

    # Received

    def believe(self, peer: Peer, life: Life, round: int, durable: int) -> None:
        """Record the header of a message that is sound, or refuse its round."""
        peer.note_message(life, round, self.learner.round)
        self._refuse_unbelieved(peer, round)
        peer.note_round(round, durable)

    def _refuse_unbelieved(self, peer: Peer, round: int) -> None:
        if not self._believes(peer, round):
            raise RoundRefused(
                f"a message is of round {round}, and we are at {self.learner.round}; expected a round that "
                "most neighbours have reached, or a plausible rate; check that learner"
            )

    def _believes(self, peer: Peer, round: int) -> bool:
        here = self.learner.round
        if not believed.in_reach(here, round):
            return False
        if not self.in_step or (not self.started and self.is_new):  # `start` asks more than half
            return True
        if believed.at_plausible_rate(here, round, time.monotonic() - peer.level_at):
            return True
        return believed.reached_by_others(round, [each.claimed for each in self._learning()])

    def _learning(self) -> list[Peer]:
        """The neighbours that are up and whose streams have not ended."""
        now = time.monotonic()
        return [peer for peer in self.peers.values() if peer.is_up(now, 3.0) and peer.done is None]

    def agree(self, peer: Peer, held: Held | None) -> None:
        """Learn the number of the edge's other end as early as possible."""
        if held is not None and self.learner.knows(peer.name):
            self.learner.meet(peer.name, held)

    def receive(self, peer: Peer, update: Update) -> None:
        """Pass on an update that is checked and believed to the learner."""
        peer.note_update(update)
        is_far = not self.started and update.round > self.learner.round + believed.SLACK
        if is_far or not self.learner.knows(peer.name):
            return
        if not self.learner.receive(peer.name, update, checked=True):
            self.late += 1

    def receive_again(self, peer: Peer, updates: Sequence[Update]) -> None:
        """Take updates that we missed; if the first is too late for us, a replay is impossible."""
        for update in updates:
            self.learner.check(peer.name, update, decoded=True)
            self._refuse_unbelieved(peer, update.round)
        for update in updates:
            self.receive(peer, update)
        first = min([update.round for update in updates], default=0)
        if peer in self.missing() and first > self.learner.round:
            self.cut_off = peer.lost = True

    # The start

    @property
    def is_new(self) -> bool:
        """Whether the learner has neither learnt nor been restored."""
        return self.learner.round == 0 and self.learner.step is None and not self.restored

    def all_met(self) -> bool:
        """Whether every neighbour has sent a message and, if we are new, its parameters."""
        return all(
            peer.met and (peer.latest is not None or not self.is_new or peer.round == 0)
            for peer in self.peers.values()
        )

    def wants(self) -> dict[str, int]:
        """From which round on we need each neighbour's updates."""
        here = self.learner.round
        return {name: max(0, peer.round - 1) if self.is_new else here for name, peer in self.peers.items()}

    def lives(self, now: float) -> dict[str, Any]:
        """What a hello says of the neighbours' lives: those that are known, and names that two agents use."""
        known = {name: peer.lives.known(now) for name, peer in self.peers.items()}
        rivals = [name for name, peer in self.peers.items() if peer.lives.has_rival(now)]
        return {"lives": {name: life for name, life in known.items() if life}, "rivals": rivals}

    def wants_of_missing(self, now: float) -> dict[str, int]:
        """From which round on we need updates of neighbours that are up but whose updates do not arrive:
        their last, or ours if that is earlier, as a later answer looks as if the earlier ones were gone."""
        last = {name: max(0, peer.round - 1) for name, peer in self.peers.items() if peer.lacks_updates(now)}
        most = self.learner.round if self.in_step else max(last.values(), default=0)
        return {name: min(most, round) for name, round in last.items()}

    def start(self) -> None:
        """Mark silent neighbours as lost; if we are new, start at the round that most of all have reached."""
        for peer in self.peers.values():
            if not peer.met:
                tell(LOG, logging.WARNING, "neighbour absent", neighbour=peer.name)
                peer.lost = True
        up = [peer.latest.round if peer.latest else peer.round for peer in self._learning()]
        to = believed.first_round(up, sum(peer.done is None for peer in self.peers.values()) - len(up))
        if self.is_new and to > 0:
            self.learner.adopt(self._updates_near(to))
            self.learner.skip_to(to + 1)
            tell(LOG, logging.INFO, "started at the round of the others", round=self.learner.round)
        self.started = True
        for peer in self.peers.values():
            if not self._believes(peer, peer.round):
                peer.forget()

    def _updates_near(self, round: int) -> list[Update]:
        """The neighbours' last updates, of those that are about at that round."""
        known = [peer.latest for peer in self.peers.values() if peer.latest is not None]
        return [update for update in known if abs(update.round - round) <= AT_ONCE]

    # The end

    def still_learning(self) -> list[Peer]:
        """Neighbours that may still need our updates."""
        now = time.monotonic()
        return [peer for peer in self.peers.values() if not peer.lost and self._may_need_us(peer, now)]

    @staticmethod
    def _may_need_us(peer: Peer, now: float) -> bool:
        """Whether it may not know yet that our stream ended; one that ended too and is silent has gone."""
        return peer.done is None or (not peer.knows and peer.is_up(now, 2.0))

    def drop_lost(self) -> None:
        """Remove the edges of lost neighbours, which have missed our last rounds."""
        for name in self.learner.neighbours:
            if self.peers[str(name)].lost:
                self.learner.leave(name)

    def ended(self) -> dict[str, int]:
        """The neighbours whose streams have ended, and at which rounds."""
        return {name: peer.done for name, peer in self.peers.items() if peer.done is not None}

    def end(self) -> None:
        """Remove edges to learners that ended at another round, and those that the other end has removed;
        both ends come to the same result."""
        for name in self.learner.neighbours:
            peer = self.peers[str(name)]
            if peer.done != self.learner.round or not peer.holds:
                self.learner.leave(name)

    # Between rounds

    def _follow_graph(self) -> bool:
        if self.wanted is None:
            return False
        (self.graph, names, self.addresses), self.wanted = self.wanted, None
        self.peers = {name: self.peers.get(name) or Peer(name) for name in names}
        tell(LOG, logging.INFO, "graph changed", version=self.graph, neighbours=list(names))
        return True

    def _drop_gone(self) -> bool:
        """Remove the edges of lost neighbours, and of those whose stream has ended."""
        over = [name for name in self.learner.neighbours if self._is_over(str(name))]
        for name in over:
            self.learner.leave(name)
        return bool(over)

    def _is_over(self, name: str) -> bool:
        peer = self.peers.get(name)
        return peer is None or peer.lost or (peer.done is not None and self.learner.round >= peer.done)

    def _join_ready(self) -> bool:
        """Make edges to neighbours that send updates near our round."""
        coming = [peer for peer in self.peers.values() if self._may_join(peer)]
        for peer in coming:
            self.learner.join(peer.name, number())
            if peer.latest is not None:
                self.receive(peer, peer.latest)
            tell(LOG, logging.INFO, "neighbour joined", neighbour=peer.name, round=self.learner.round)
        return bool(coming)

    def _may_join(self, peer: Peer) -> bool:
        if self.learner.knows(peer.name):
            return False
        learns = not peer.lost and peer.done is None
        near = peer.round >= self.learner.round - AT_ONCE or not self.in_step
        return learns and near and peer.latest is not None

    def _catch_up(self, learnt: int) -> bool:
        """Skip to the others' round, if they went on without us."""
        to = self.learner.ahead if self.in_step else self.learner.round
        if self.cut_off:
            self.cut_off = False
            here = self.learner.round
            ahead = [peer for peer in self.peers.values() if not peer.met or peer.round > here + 1]
            self.learner.reset_edges(number(), [peer.name for peer in ahead])
            to = max([to, *(peer.round for peer in ahead)])
            tell(LOG, logging.WARNING, "missed updates are no longer available, duals reset")
        if to == self.learner.round:
            return False
        if to - self.learner.round > AT_ONCE:
            # After a long absence: a mean of the neighbours' median and ours, weighted by samples.
            self.learner.adopt(self._updates_near(to), share=to / (to + learnt))
            tell(LOG, logging.INFO, "skipped to the round of the others", round=to)
        self.learner.skip_to(to)
        return True

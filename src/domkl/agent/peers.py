"""The neighbours of a learner as they come and go: which are waited for, dropped, joined again, believed.

**Plausible rounds.** One neighbour that lies cannot make us skip further than a stated bound. A round ahead
of ours is believed where more than half of the neighbours that are up, and at least two, have reached it.
One neighbour alone is believed at a plausible rate: `SLACK` rounds, and `MOST_A_SECOND` for each second since
it was last not ahead of us, so that the halves of a healed ring come together; our other neighbours follow at
that rate, so a lie divides us from them for no longer than its sender was away. A learner that starts without
a state goes to the round that more than half of all its neighbours have reached, absent ones included; an
only neighbour is believed up to `MOST_OF_ONE`. Nobody skips more than `MOST_AHEAD` rounds at once, nor to
later ones than `LAST_SKIP`.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from ..base.errors import PeerError
from ..exchange.edges import Held
from ..exchange.message import Update
from ..learner import Learner
from ..learner.learner import EARLIEST, LAST_SKIP
from .config import RoundSection
from .incarnation import Incarnation, Incarnations
from .logs import tell
from .topology import NewGraph, check_version

#: Updates in one answer to a neighbour that missed them.
AT_ONCE = 16
#: How many rounds ahead are believed at any time.
SLACK = EARLIEST
#: How many rounds a second a network makes at most.
MOST_A_SECOND = 10_000.0
#: How many rounds are skipped at once, at most.
MOST_AHEAD = 2**40
#: Up to which round a new learner follows its only neighbour at once; further at a plausible rate.
MOST_OF_ONE = 2**28


def reached_by_most(rounds: Iterable[int]) -> int:
    """The last round that more than half have reached; -1 where there are none."""
    found = sorted(rounds, reverse=True)
    return found[len(found) // 2] if found else -1


def first_round(rounds: list[int], absent: int) -> int:
    """Where a learner without a state starts: at the round that more than half of its neighbours have
    reached. Absent ones count as at round 0, so that one that is up alone decides nothing for the others."""
    most = reached_by_most([*rounds, *[0] * absent])
    return most if len(rounds) > 1 or 0 < most <= MOST_OF_ONE else 0


#: Messages in a row that were not used after which a neighbour's edge rests.
PATIENCE = 32
#: The longest time, in seconds, for which a neighbour that is lost repeatedly is not waited for.
LONGEST_PENALTY = 60.0


@dataclass
class Peer:
    """A neighbour, as its messages show it."""

    name: str
    incarnations: Incarnations = field(default_factory=Incarnations)
    incarnation: Incarnation | None = None  # of its last message
    answered: Incarnation | None = None  # the last of its incarnations that we sent a hello at once
    claimed: int = 0  # the round in its last message, believed or not
    round: int = 0  # the latest that it is believed to be at
    durable: int = 0
    met: bool = False  # a message arrived since we started
    lost: bool = False  # it missed a deadline; we no longer wait for it
    done: int | None = None  # the round at which its stream ended
    holds: bool = False  # our edge was in use there when its stream ended
    knows: bool = False  # it was informed that our stream has ended
    rests: bool = False  # it hardly listens to us, as it could not use our messages
    latest: Update | None = None
    direct: int = -1  # the round of the last update that was not resent
    received_at: float = field(default_factory=time.monotonic)
    level_at: float = field(default_factory=time.monotonic)  # when it was last not ahead of us
    asked_at: float = 0.0
    answered_at: float = 0.0
    losses: int = 0  # deadlines missed
    welcome_at: float = 0.0  # when it may be waited for again

    def note_message(self, incarnation: Incarnation, round: int, here: int) -> None:
        """Record that it is up, and the round in its message; we are at round `here`."""
        if incarnation != self.incarnation:  # it was restarted, perhaps at an earlier round
            self.incarnation, self.done, self.rests = incarnation, None, False
            self.forget()
        self.claimed, self.received_at, self.met = round, time.monotonic(), True
        if round <= here + 1:
            self.level_at = self.received_at

    def note_round(self, round: int, durable: int) -> None:
        self.round, self.durable = max(self.round, round), durable

    def forget(self) -> None:
        """Drop what it sent: it was of another incarnation, or is not believed."""
        self.round, self.latest, self.direct = 0, None, -1

    def note_update(self, update: Update) -> None:
        self.round = max(self.round, update.round)
        if self.latest is None or update.round >= self.latest.round:
            self.latest = update
        if self.lost and time.monotonic() >= self.welcome_at:
            self.lost = False

    def note_direct(self, round: int) -> None:
        """Record the round of an update that came at once, not as an answer."""
        self.direct = round

    def note_hello(self, incarnation: Incarnation) -> bool:
        """Record that its hello is answered; whether it is the first of an incarnation, a greeting."""
        is_greeting, self.answered = self.answered != incarnation, incarnation
        return is_greeting

    def note_end(self, ended_at: int | None, holds: bool, knows: bool, rests: bool) -> None:
        """Record what its hello says of its stream's end and of ours, and whether it hardly listens to us;
        nobody who is done goes on."""
        if ended_at is not None and self.done is None:  # until its next incarnation
            self.done = ended_at
        self.holds, self.knows, self.rests = holds, knows, rests

    def may_be_asked(self, now: float, pause: float) -> bool:
        """Whether it was not asked for updates within `pause` seconds; counts as asked if so."""
        is_due = now - self.asked_at > pause
        self.asked_at = now if is_due else self.asked_at
        return is_due

    def may_be_answered(self, now: float, pause: float) -> bool:
        """Whether it was not sent missed updates within `pause` seconds; counts as answered if so."""
        is_due = now - self.answered_at >= pause
        self.answered_at = now if is_due else self.answered_at
        return is_due

    def leave_out(self) -> None:
        """Do not wait for it any more, until it sends updates again."""
        self.lost = True

    def lose(self, deadline: float, now: float) -> None:
        """Record a missed deadline; repeated ones double the time until it is waited for again."""
        self.leave_out()
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


LOG = logging.getLogger(__name__)


def edge_number() -> int:
    """A random number that identifies an edge's end; never 0."""
    return secrets.randbelow(2**62) + 1


class RoundRefused(PeerError):
    """A neighbour's message has a round that is not believed."""


@dataclass(eq=False, repr=False)
class Neighbourhood:
    """A learner's neighbours.

    All changes of the learner's edges happen in `update`, between two rounds. A neighbour that misses a
    deadline is dropped, with its edge's dual; once it sends updates again it joins with a new edge.
    """

    learner: Learner
    rounds: RoundSection
    names: InitVar[Iterable[str]]
    graph: int = 0  # the version of the graph
    addresses: dict[str, tuple[str, ...]] = field(default_factory=dict)  # where neighbours listen, as it says
    restored: bool = False  # from a checkpoint, perhaps of round 0

    def __post_init__(self, names: Iterable[str]) -> None:
        self.in_step = self.rounds.mode == "sync"  # whether rounds wait for neighbours
        self.peers = {name: Peer(name) for name in names}  # including those that are lost
        self.started = False
        self._wanted: NewGraph | None = None  # a new graph, followed from the next round on
        self.done = False  # our own stream has ended
        self.cut_off = False  # neighbours no longer have updates that our replay needs
        self.late = 0  # updates that arrived too late to be used
        self.incomplete = 0  # rounds that ended without a neighbour's update

    def update(self, learnt: int) -> bool:
        """Update the learner's edges; whether anything changed. `learnt`: number of our samples so far."""
        if self._wanted is None and not self.cut_off and self._is_unchanged():
            return False  # which is so in nearly every round
        return self._follow_graph() | self._drop_gone() | self._join_ready() | self._catch_up(learnt)

    # Edges that rest

    @property
    def resting(self) -> frozenset[str]:
        """The neighbours to whom we hardly listen, as none of their last messages could be used."""
        if self.in_step:
            return frozenset()
        unused = self.learner.unused
        return frozenset(name for name in self.peers if unused.get(name, 0) >= PATIENCE)

    @property
    def is_heard(self) -> bool:
        """Whether a neighbour wants all of our messages."""
        return not all(peer.rests for peer in self.peers.values())

    def used(self, now: float) -> list[str]:
        """The neighbours that are up and whose messages are mostly used."""
        trust, resting = self.learner.trust, self.resting
        return [
            name
            for name, peer in list(self.peers.items())
            if peer.is_up(now, 3.0) and trust.get(name, 1.0) > 0.5 and name not in resting
        ]

    def _is_unchanged(self) -> bool:
        """Whether all neighbours are up, have an edge, and are at our round."""
        knows, peers = self.learner.knows, self.peers
        for name, peer in peers.items():
            if peer.lost or peer.done is not None or not knows(name):
                return False
        return len(peers) == len(self.learner.neighbours) and not (self.in_step and self.learner.gone)

    def want(self, new: NewGraph) -> None:
        """Follow a later graph than ours from the next round on; the same one again is no news."""
        held, names = (self.graph, tuple(self.peers)) if self._wanted is None else self._wanted[:2]
        if (new.version, set(new.neighbours)) != (held, set(names)):
            check_version(new, held)
            self._wanted = new

    @property
    def is_graph_new(self) -> bool:
        """Whether a new graph waits to be followed."""
        return self._wanted is not None

    @property
    def follows(self) -> bool:
        """Whether it is to be followed now; once our stream has ended, we stay as we are."""
        return self.is_graph_new and not self.done

    # Rounds

    def missing(self) -> list[Peer]:
        """Neighbours whose update of the open round has not arrived."""
        return [self.peers[str(name)] for name in self.learner.missing if name in self.peers]

    @property
    def waits(self) -> bool:
        """Whether the next reading waits for neighbours' updates of the open round."""
        return self.in_step and self.learner.waiting

    def settle(self) -> None:
        """End a round that nobody waits for, before anything but a message changes the learner."""
        if self.learner.waiting and not self.in_step:
            self.learner.close()

    def close_if_complete(self) -> bool:
        """Close the open round if no further update can arrive; whether nothing is waited for now."""
        if not self.waits:
            self.incomplete += len(self.learner.neighbours) < len(self.peers)  # absent ones, or dropped ones
            return True
        if self._is_unchanged():
            return False
        awaited = {name for name in self.learner.missing if not self._is_over(str(name))}
        if awaited and not self.learner.gone.keys() >= awaited:
            return False
        self._close_incomplete()
        return True

    def end_round(self, alone: bool) -> bool:
        """Whether no round is open; one that is open ends without those who are missing, if `alone`."""
        self.settle()
        if alone and self.learner.waiting:
            self._close_incomplete()
        return not self.learner.waiting

    def _close_incomplete(self) -> None:
        self.incomplete += 1
        self.learner.close()

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

    def believe(self, peer: Peer, incarnation: Incarnation, round: int, durable: int) -> None:
        """Record the header of a message that is sound, or refuse its round."""
        peer.note_message(incarnation, round, self.learner.round)
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
        if round > min(here + MOST_AHEAD, LAST_SKIP):  # whoever has reached it
            return False
        if not self.in_step or (not self.started and self.is_new):  # `start` asks more than half
            return True
        if round - here <= SLACK + MOST_A_SECOND * (time.monotonic() - peer.level_at):
            return True
        rounds = [each.claimed for each in self._learning()]
        return len(rounds) > 1 and round <= reached_by_most(rounds) + SLACK

    def _learning(self) -> list[Peer]:
        """The neighbours that are up and whose streams have not ended."""
        now = time.monotonic()
        return [peer for peer in self.peers.values() if peer.is_up(now, 3.0) and peer.done is None]

    def agree(self, peer: Peer, held: Held | None) -> None:
        """Learn the number of the edge's other end as early as possible."""
        if held is not None and self.learner.knows(peer.name):
            self.learner.meet(peer.name, held)

    def receive_hello(
        self, peer: Peer, ended_at: int | None, held: Held | None, ended: int | None, rests: bool
    ) -> None:
        """Take a hello: where its stream ended, our edge as it sees it, where it knows ours to end, and
        whether it hardly listens to us."""
        peer.note_end(ended_at, held is not None, self.done and ended == self.learner.round, rests)
        self.agree(peer, held)

    def receive(self, peer: Peer, update: Update) -> None:
        """Pass on an update that is checked and believed to the learner."""
        peer.note_update(update)
        is_far = not self.started and update.round > self.learner.round + SLACK
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
            self.cut_off = True
            peer.leave_out()

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

    def incarnations(self, now: float) -> dict[str, Any]:
        """What a hello says of the neighbours' incarnations: those known, and names that two agents use."""
        known = {name: peer.incarnations.known(now) for name, peer in self.peers.items()}
        rivals = [name for name, peer in self.peers.items() if peer.incarnations.has_rival(now)]
        return {"incarnations": {name: one for name, one in known.items() if one}, "rivals": rivals}

    def wants_of_missing(self, now: float) -> dict[str, int]:
        """From which round on we need updates of neighbours that are up but whose updates do not arrive:
        their last, or ours if that is earlier, as a later answer looks as if the earlier ones were gone."""
        lacking = {name: peer for name, peer in self.peers.items() if peer.lacks_updates(now)}
        last = {name: max(0, lacking[name].round - 1) for name in lacking.keys() - self.resting}
        most = self.learner.round if self.in_step else max(last.values(), default=0)
        return {name: min(most, round) for name, round in last.items()}

    def start(self) -> None:
        """Mark silent neighbours as lost; if we are new, start at the round that most of all have reached.

        Where nobody waits we may have learnt meanwhile: then only if that is far ahead.
        """
        self.settle()
        for peer in self.peers.values():
            if not peer.met:
                tell(LOG, logging.WARNING, "neighbour absent", neighbour=peer.name)
                peer.leave_out()
        up = [peer.latest.round if peer.latest else peer.round for peer in self._learning()]
        to = first_round(up, sum(peer.done is None for peer in self.peers.values()) - len(up))
        here = self.learner.round
        if to > here if self.is_new else not self.restored and to > here + AT_ONCE:
            self.learner.adopt(self._updates_near(to), share=to / (to + here))
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
        """Neighbours that may still need our updates, or may not know yet that our stream has ended; one that
        ended too and is silent has gone."""
        now = time.monotonic()
        return [
            peer
            for peer in self.peers.values()
            if not peer.lost and (peer.done is None or (not peer.knows and peer.is_up(now, 2.0)))
        ]

    def end_stream(self) -> None:
        """Our stream has ended. Remove the edges of lost neighbours, which have missed our last rounds, so
        that our last hello lists those that remain."""
        self.settle()
        self.done = True
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
        if self._wanted is None:
            return False
        (self.graph, names, self.addresses), self._wanted = self._wanted, None
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
            self.learner.join(peer.name, edge_number())
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
            self.learner.reset_edges(edge_number(), [peer.name for peer in ahead])
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

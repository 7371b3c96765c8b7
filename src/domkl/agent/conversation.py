"""Messages that an agent sends to neighbours, and what it does with those it receives."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..base.errors import InputError, PeerError
from ..learner import Learner
from . import graphs, wire
from .config import AgentConfig
from .gossip import Gossip
from .logs import Refused
from .memory import Memory
from .neighbourhood import Neighbourhood, RoundRefused
from .peers import Peer
from .post import AT_ONCE, CHANNELS, Post
from .sensors import Sensors
from .transports import security
from .transports.names import OPERATOR, STATE, STATUS

#: The least time between two requests to a neighbour, or two answers, in seconds.
PAUSE = 0.02
#: Seconds between two hellos, at most.
HELLO_EVERY = 1.0
#: Seconds after which our state is published again: others see it as lost when an earlier connection of ours,
#: or another agent under our name, is gone.
STATE_EVERY = 10.0


class Conversation:
    """Messages between an agent and its neighbours, its operator and its sensor."""

    def __init__(
        self,
        config: AgentConfig,
        learner: Learner,
        memory: Memory,
        neighbourhood: Neighbourhood,
        post: Post,
        refused: Refused,
        sensors: Sensors,
    ) -> None:
        self.name, self.learner, self.memory = config.name, learner, memory
        self.neighbourhood, self.post, self.refused = neighbourhood, post, refused
        self.identity = post.identity
        self.hello_at = time.monotonic()  # when the last hello was sent
        self._is_hello_due = False
        self._state, self._state_at = "init", self.hello_at  # as last published
        self.sensors, self.gossip = sensors, Gossip(config.name)

    def subscribe(self) -> None:
        """Receive from the neighbours and the operator."""
        self.post.subscribe(self.neighbourhood.peers)
        self.post.transport.subscribe(self.post.topic(OPERATOR, "graph"))

    # Sent

    def hello(self, wants: dict[str, int]) -> None:
        """Send our round, and from which round on we miss which neighbours' updates."""
        self.hello_at, self._is_hello_due = time.monotonic(), False
        learner = self.learner
        edges = {str(name): held for name, held in learner.edges.items()}
        durable = self.memory.durable(learner.round)
        near = self.neighbourhood
        about = {"done": near.done, "graph": near.graph, "ended": near.ended()}
        self.post.hello(learner.round, durable, wants, edges, **about, **near.lives(self.hello_at))
        if self.hello_at - self._state_at > STATE_EVERY:
            self.publish_state(self._state)

    def is_hello_due(self, now: float) -> bool:
        """Whether it is time for the next regular hello, or one could not be sent at once."""
        return self._is_hello_due or now - self.hello_at > HELLO_EVERY

    def check_name(self, now: float) -> str:
        """Refuse to run under a name that another agent has; what to report where that only seems so."""
        near = self.neighbourhood.peers
        if self.identity.is_taken(now, near):
            raise InputError(
                f"another agent runs under the name {self.name!r}; expected one; stop it or rename this one"
            )
        return self.identity.conflict(now, near)

    def _hello_soon(self) -> None:
        """Send a hello now, or at the next check if there was one just before."""
        if time.monotonic() - self.hello_at > PAUSE:
            self.hello({})
        else:
            self._is_hello_due = True

    def ask(self, peers: list[Peer], pause: float) -> None:
        """Ask neighbours for missing updates, each at most once in `pause` seconds."""
        now = time.monotonic()
        due = [peer for peer in peers if now - peer.asked_at > pause]
        for peer in due:
            peer.asked_at = now
        if due:
            self.hello({peer.name: self.learner.round for peer in due})

    def publish_state(self, state: str) -> None:
        """Publish "init", "ready" or "done", with our round, the graph that we hold, and our addresses."""
        self._state, self._state_at = state, time.monotonic()
        near, addresses = self.neighbourhood, security.announced(self.post.transport.settings)
        document = {"state": state, "round": self.learner.round, "graph": near.graph}
        document |= {"neighbours": [*near.peers], "addresses": addresses}
        self.post.publish_json(STATE, document, retain=True)

    def publish_status(self, status: Mapping[str, Any]) -> None:
        """Tell the neighbours how we are, and pass on what we have received of others."""
        self.gossip.report(status, time.monotonic())
        payload = self.gossip.take_news() if self.neighbourhood.peers else None
        if payload is not None:
            self.post.transport.publish(self.post.topic(self.name, STATUS), payload)

    # Received

    def receive(self, topic: str, payload: bytes) -> None:
        """Handle one message, or refuse it."""
        if self.sensors.takes(topic):
            self.sensors.receive(topic, payload)
            return
        sender, channel = _origin(topic)
        if sender == OPERATOR and channel == "graph":
            self._receive_graph(payload)
        elif sender not in self.neighbourhood.peers or channel not in CHANNELS:
            self.refused.note("stranger", sender=sender)
        elif channel == STATUS:
            self._receive_guarded(self.neighbourhood.peers[sender], payload, self._receive_status)
        else:
            self._receive_guarded(self.neighbourhood.peers[sender], payload, self._receive_from)
            self.note_unused()

    def _receive_guarded(self, peer: Peer, payload: bytes, receive: Callable[[Peer, bytes], None]) -> None:
        """The one place where a neighbour's message comes in: whatever is wrong with it is its refusal."""
        try:
            receive(peer, payload)
        except RoundRefused as error:
            self.refused.note("round", sender=peer.name, reason=str(error))
        except PeerError as error:
            kind = "version" if isinstance(error, wire.OtherVersion) else "message"
            self.refused.note(kind, sender=peer.name, reason=str(error))
        except Exception as error:  # nothing that a neighbour sends may end us
            self.refused.note("fault", sender=peer.name, reason=f"{type(error).__name__}: {error}")

    def note_unused(self) -> None:
        """Count what was not used in rounds that closed: absurd parameters, and all where merging failed."""
        for name in self.learner.implausible:
            self.refused.note("implausible", sender=str(name))
        for reason in self.learner.faults:
            self.refused.note("fault", reason=reason)
        self.learner.implausible.clear()
        self.learner.faults.clear()

    def _receive_graph(self, payload: bytes) -> None:
        """Take a graph that is later than ours; the same one again is no news."""
        near = self.neighbourhood
        held, names = (near.graph, tuple(near.peers)) if near.wanted is None else near.wanted[:2]
        try:
            new = graphs.decode(payload, self.post.transport.settings)
            if (new.version, set(new.neighbours)) != (held, set(names)):
                graphs.check_version(new, held)
                near.wanted = new
        except InputError as error:
            self.refused.note("graph", reason=str(error))

    def _receive_status(self, peer: Peer, payload: bytes) -> None:
        self.gossip.receive(peer.name, payload, self.neighbourhood.peers, time.monotonic())

    def _receive_from(self, peer: Peer, payload: bytes) -> None:
        message = self.post.decoder.decode(payload)
        if not self._is_of_current_life(peer, message):
            return
        if isinstance(message, wire.Again):
            updates = [self.post.decoder.update(each).update for each in message.updates]
            self.neighbourhood.receive_again(peer, updates)
        elif isinstance(message, wire.Hello):
            self.neighbourhood.believe(peer, message.life, message.round, message.durable)
            self._receive_hello(peer, message)
        else:
            self._receive_update(peer, message)

    def _receive_update(self, peer: Peer, message: wire.Envelope) -> None:
        update = message.update
        self.learner.check(peer.name, update, decoded=True)  # before anything of it is stored
        self.neighbourhood.believe(peer, message.life, update.round, message.durable)
        peer.direct = update.round
        self.neighbourhood.agree(peer, update.edges.get(self.name))
        self.neighbourhood.receive(peer, update)

    def _is_of_current_life(self, peer: Peer, message: wire.Envelope | wire.Hello | wire.Again) -> bool:
        """Whether a message counts. One of another life is refused; its first hello is a greeting, which ours
        answers so that the new life can name ours."""
        now, before = time.monotonic(), peer.lives.current
        hello = message if isinstance(message, wire.Hello) else None
        named = None if hello is None else hello.lives.get(self.name)
        refusal = peer.lives.judge(message.life, hello is not None, named, self.identity.life, now)
        if refusal == "unconfirmed":
            if hello is None:  # not worth a warning: starts begin so
                self.refused[refusal] += 1
        elif refusal:
            self.refused.note(refusal, sender=peer.name)
        if hello is not None and refusal != "replayed":
            self._note_lives(peer, hello, before != peer.lives.current, now)
        return not refusal

    def _note_lives(self, peer: Peer, hello: wire.Hello, is_accepted: bool, now: float) -> None:
        is_greeting = peer.answered != hello.life
        peer.answered = hello.life
        is_renewed = self.identity.note(peer.name, hello.lives.get(self.name), self.name in hello.rivals, now)
        if is_accepted or is_renewed:
            self.hello({})  # before any other message: it accepts them only after this
        elif is_greeting:
            self._hello_soon()

    def _receive_hello(self, peer: Peer, hello: wire.Hello) -> None:
        if hello.done and peer.done is None:  # until its next life: nobody who is done goes on
            peer.done = hello.round
        peer.holds = self.name in hello.edges
        peer.knows = self.neighbourhood.done and hello.ended.get(self.name) == self.learner.round
        self.neighbourhood.agree(peer, hello.edges.get(self.name))
        wanted, now = hello.wants.get(self.name), time.monotonic()
        if wanted is None or now - peer.answered_at < PAUSE / 2:
            return
        peer.answered_at = now
        updates = self.memory.since(wanted, AT_ONCE)
        if updates:
            self.post.send_again(peer.name, updates)


@functools.lru_cache(1024)
def _origin(topic: str) -> tuple[str, str]:
    """Name and channel of the learner that publishes on a topic."""
    _, _, sender, channel, *_ = topic.split("/")
    return sender, channel

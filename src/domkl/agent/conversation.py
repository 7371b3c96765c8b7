"""Messages that an agent sends to neighbours, and what it does with those it receives."""

from __future__ import annotations

import asyncio
import functools
import time

from ..base.errors import InputError, PeerError
from ..learner import Learner
from . import graphs, wire
from .config import AgentConfig
from .logs import Refused
from .memory import Memory
from .neighbourhood import Neighbourhood
from .peers import Peer
from .post import AT_ONCE, CHANNELS, Post
from .transports import security, topics
from .wire_names import announced

#: The least time between two requests to a neighbour, or two answers, in seconds.
PAUSE = 0.02
#: The most readings from a topic that wait to be learnt.
MOST_READINGS = 10_000


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
    ) -> None:
        self.name, self.learner, self.memory = config.name, learner, memory
        self.neighbourhood, self.post, self.refused = neighbourhood, post, refused
        self.hello_at = time.monotonic()  # when the last hello was sent
        self.readings: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_READINGS)  # from a sensor's topic
        self._sensor = config.stream.topic

    def subscribe(self) -> None:
        """Receive from the neighbours, the operator and, if it has a topic, the sensor."""
        self.post.subscribe(self.neighbourhood.peers)
        self.post.transport.subscribe(self.post.topic(topics.OPERATOR, "graph"))
        if self._sensor is not None:
            self.post.transport.subscribe(self._sensor)

    # Sent

    def hello(self, wants: dict[str, int]) -> None:
        """Send our round, and from which round on we miss which neighbours' updates."""
        self.hello_at = time.monotonic()
        learner = self.learner
        edges = {str(name): held for name, held in learner.edges.items()}
        links = {str(name): (version, [*map(str, near)]) for name, (version, near) in learner.links.items()}
        durable = self.memory.durable(learner.round)
        near = self.neighbourhood
        about = {"done": near.done, "graph": near.graph, "ended": near.ended(), "links": links}
        self.post.hello(learner.round, durable, wants, edges, **about)

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
        near, addresses = self.neighbourhood, security.announced(self.post.transport.settings)
        document = {"state": state, "round": self.learner.round, "graph": near.graph}
        document |= {"neighbours": [*near.peers], "addresses": addresses}
        self.post.publish_json(topics.STATE, document, retain=True)

    # Received

    def receive(self, topic: str, payload: bytes) -> None:
        """Handle one message, or refuse it."""
        if topic == self._sensor:
            self._receive_reading(payload)
            return
        sender, channel = _origin(topic)
        if sender == topics.OPERATOR and channel == "graph":
            self._receive_graph(payload)
        elif sender not in self.neighbourhood.peers or channel not in CHANNELS:
            self.refused.note("stranger", sender=sender)
        else:
            try:
                self._receive_from(self.neighbourhood.peers[sender], payload)
            except PeerError as error:
                self.refused.note("message", sender=sender, reason=str(error))

    def _receive_reading(self, payload: bytes) -> None:
        if self.readings.full():
            self.refused.note("reading", reason="too many wait to be learnt")
        else:
            self.readings.put_nowait(payload)

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

    def _receive_from(self, peer: Peer, payload: bytes) -> None:
        message = self.post.decoder.decode(payload)
        if message.incarnation < peer.incarnation:
            self.refused.note("replayed", sender=peer.name)
        elif isinstance(message, wire.Again):
            updates = [self.post.decoder.update(each).update for each in message.updates]
            self.neighbourhood.receive_again(peer, updates)
        elif isinstance(message, wire.Hello):
            peer.note_message(message.incarnation, message.round, message.durable)
            self._receive_hello(peer, message)
        else:
            update = message.update
            peer.note_message(message.incarnation, update.round, message.durable)
            peer.direct = update.round
            self.neighbourhood.agree(peer, update.edges.get(self.name), update.round)
            self.neighbourhood.receive(peer, update)

    def _receive_hello(self, peer: Peer, hello: wire.Hello) -> None:
        self.learner.take_links(announced(hello.links))
        if len(hello.links) < len(self.learner.links) and time.monotonic() - self.hello_at > PAUSE:
            self.hello({})  # so that it gets to know the rest of the network
        peer.done = hello.round if hello.done else None
        peer.holds = self.name in hello.edges
        peer.knows = self.neighbourhood.done and hello.ended.get(self.name) == self.learner.round
        self.neighbourhood.agree(peer, hello.edges.get(self.name), hello.round)
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

"""What an agent says to others, and what it makes of what they say."""

from __future__ import annotations

import asyncio
import functools
import json
import time

from ..base import checks
from ..base.errors import InputError, PeerError
from ..learner import Learner
from . import wire
from .config import AgentConfig
from .logs import Refused
from .memory import Memory
from .neighbourhood import Neighbourhood
from .peers import Peer
from .post import AT_ONCE, CHANNELS, Post
from .transports import topics
from .wire_names import announced

#: The least time between two questions to a neighbour, or two answers, in seconds.
PAUSE = 0.02
#: Readings from a topic that may wait to be learnt.
MOST_READINGS = 10_000
#: Versions of a graph are below this, so that every message can hold them.
LAST_VERSION = 2**62


class Conversation:
    """One agent among its neighbours, its operator and its sensor."""

    def __init__(
        self,
        config: AgentConfig,
        learner: Learner,
        memory: Memory,
        around: Neighbourhood,
        post: Post,
        refused: Refused,
    ) -> None:
        self.name, self.learner, self.memory = config.name, learner, memory
        self.around, self.post, self.refused = around, post, refused
        self.hello_at = time.monotonic()  # when we said our last hello
        self.readings: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_READINGS)  # from a sensor's topic
        self._sensor = config.stream.topic

    def subscribe(self) -> None:
        """Hear the neighbours, the operator and the sensor, if it has a topic."""
        self.post.listen(self.around.peers)
        self.post.transport.subscribe(self.post.topic(topics.OPERATOR, "graph"))
        if self._sensor is not None:
            self.post.transport.subscribe(self._sensor)

    # What we say

    def hello(self, wants: dict[str, int]) -> None:
        """Say where we are, and from which round on we lack whose updates."""
        self.hello_at = time.monotonic()
        learner = self.learner
        edges = {str(name): held for name, held in learner.edges.items()}
        links = {str(name): (version, [*map(str, near)]) for name, (version, near) in learner.links.items()}
        durable = self.memory.durable(learner.round)
        around = {"done": self.around.done, "graph": self.around.graph, "ended": self.around.ended()}
        self.post.hello(learner.round, durable, wants, edges, **around, links=links)

    def ask(self, peers: list[Peer], pause: float) -> None:
        """Ask for updates that are missing, but nobody too often."""
        now = time.monotonic()
        due = [peer for peer in peers if now - peer.asked_at > pause]
        for peer in due:
            peer.asked_at = now
        if due:
            self.hello({peer.name: self.learner.round for peer in due})

    def say_state(self, state: str) -> None:
        """Tell whoever is interested: "init", "ready" or "done"."""
        said = {"state": state, "round": self.learner.round, "graph": self.around.graph}
        self.post.say(topics.STATE, said, retain=True)

    # What we hear

    def hear(self, topic: str, payload: bytes) -> None:
        """Take one message, or refuse it."""
        if topic == self._sensor:
            self._hear_sensor(payload)
            return
        sender, channel = _origin(topic)
        if sender == topics.OPERATOR and channel == "graph":
            self._hear_operator(payload)
        elif sender not in self.around.peers or channel not in CHANNELS:
            self.refused.note("stranger", sender=sender)
        else:
            try:
                self._hear_peer(self.around.peers[sender], payload)
            except PeerError as error:
                self.refused.note("message", sender=sender, reason=str(error))

    def _hear_sensor(self, payload: bytes) -> None:
        if self.readings.full():
            self.refused.note("reading", reason="too many wait to be learnt")
        else:
            self.readings.put_nowait(payload)

    def _hear_operator(self, payload: bytes) -> None:
        try:
            version, names = _new_graph(payload, self.name)
        except (ValueError, KeyError, TypeError, RecursionError, InputError) as error:
            self.refused.note("graph", reason=str(error))
            return
        if self.around.graph < version < LAST_VERSION:
            self.around.graph, self.around.wanted = version, names

    def _hear_peer(self, peer: Peer, payload: bytes) -> None:
        message = self.post.decoder.decode(payload)
        if message.incarnation < peer.incarnation:
            self.refused.note("replayed", sender=peer.name)
        elif isinstance(message, wire.Again):
            updates = [self.post.decoder.update(each).update for each in message.updates]
            self.around.receive_again(peer, updates)
        elif isinstance(message, wire.Hello):
            peer.hear(message.incarnation, message.round, message.durable)
            self._hear_hello(peer, message)
        else:
            update = message.update
            peer.hear(message.incarnation, update.round, message.durable)
            peer.direct = update.round
            self.around.agree(peer, update.edges.get(self.name), update.round)
            self.around.receive(peer, update)

    def _hear_hello(self, peer: Peer, hello: wire.Hello) -> None:
        self.learner.take_links(announced(hello.links))
        if len(hello.links) < len(self.learner.links) and time.monotonic() - self.hello_at > PAUSE:
            self.hello({})  # it has yet to find out about the network
        peer.done = hello.round if hello.done else None
        peer.holds = self.name in hello.edges
        peer.knows = self.around.done and hello.ended.get(self.name) == self.learner.round
        self.around.agree(peer, hello.edges.get(self.name), hello.round)
        wanted, now = hello.wants.get(self.name), time.monotonic()
        if wanted is None or now - peer.answered_at < PAUSE / 2:
            return
        peer.answered_at = now
        updates = self.memory.since(wanted, AT_ONCE)
        if updates:
            self.post.send_again(peer.name, updates)


@functools.lru_cache(1024)
def _origin(topic: str) -> tuple[str, str]:
    """The learner that publishes on a topic, and the channel."""
    _, _, sender, channel, *_ = topic.split("/")
    return sender, channel


def _new_graph(payload: bytes, me: str) -> tuple[int, tuple[str, ...]]:
    """The version of an operator's graph, and our neighbours in it."""
    document = json.loads(payload)
    version = checks.count("version", document["version"])
    links = [(str(a), str(b)) for a, b in document["links"]]
    names = [b if a == me else a for a, b in links if me in (a, b) and a != b]
    for name in names:
        topics.check_name(name)
    return version, tuple(dict.fromkeys(names))

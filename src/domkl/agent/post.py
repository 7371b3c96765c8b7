"""Topics of an agent, and its messages as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..exchange.edges import Held
from ..exchange.message import Update
from ..learner import Learner
from . import wire
from .lives import Identity
from .transports import Transport
from .transports.names import ROOT, STATUS

#: Updates in one answer to a neighbour that missed them.
AT_ONCE = 16
#: The channels of a neighbour that an agent subscribes to.
CHANNELS = ("theta", "hello", "to", STATUS)


class Post:
    """Publishes and subscribes for one learner.

    Its topics are `domkl/<network>/<name>/` and then theta (updates), hello (its round, and which updates it
    misses), to/<neighbour> (updates that one missed), state, status (see `gossip`).
    """

    def __init__(self, transport: Transport, learner: Learner, identity: Identity) -> None:
        self.transport, self.identity = transport, identity
        self.network, self.name = transport.settings.network, transport.settings.name
        self.payload, self.fingerprint = learner.exchange.payload, learner.fingerprint
        self._theta = self.topic(self.name, "theta")
        self.decoder = wire.Decoder.of(learner.shapes, learner.fingerprint)

    def topic(self, name: str, *channel: str) -> str:
        """The topic of a learner of this network."""
        return "/".join((ROOT, self.network, name, *channel))

    def subscribe(self, names: Iterable[str]) -> None:
        """Receive from these neighbours."""
        for name in names:
            for topic in self._topics_of(name):
                self.transport.subscribe(topic)

    def unsubscribe(self, names: Iterable[str]) -> None:
        """Stop receiving from them."""
        for name in names:
            for topic in self._topics_of(name):
                self.transport.unsubscribe(topic)

    def _topics_of(self, name: str) -> tuple[str, ...]:
        own = (("theta",), ("hello",), ("to", self.name), (STATUS,))
        return tuple(self.topic(name, *channel) for channel in own)

    def send(self, update: Update, durable: int) -> bytes:
        """Send an update to all neighbours; returns its bytes."""
        sent = wire.encode_update(update, self.identity.life, durable, self.payload)
        self.transport.publish(self._theta, sent)
        return sent

    def send_again(self, name: str, updates: list[bytes]) -> None:
        """Send updates again to a neighbour that missed them, byte for byte."""
        again = wire.encode(wire.Again(self.fingerprint, self.identity.life, updates))
        self.transport.publish(self.topic(self.name, "to", name), again)

    def hello(
        self, round: int, durable: int, wants: dict[str, int], edges: dict[str, Held], **more: Any
    ) -> None:
        """Send our round, and which updates of which neighbours we miss."""
        hello = wire.Hello(self.fingerprint, self.identity.life, round, durable, wants, edges, **more)
        self.transport.publish(self.topic(self.name, "hello"), wire.encode(hello))

    def publish_json(self, channel: str, document: dict[str, Any], retain: bool = False) -> None:
        """Publish a JSON document on one of our channels."""
        payload = msgspec.json.encode(document)
        self.transport.publish(self.topic(self.name, channel), payload, retain=retain)

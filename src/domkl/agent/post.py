"""What an agent says and hears: topics, and messages as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..exchange.edges import Held
from ..exchange.message import Update
from ..learner import Learner
from . import wire
from .transports import Transport, topics

#: Updates in one answer to a neighbour that missed them.
AT_ONCE = 16
#: What an agent hears of a neighbour.
CHANNELS = ("theta", "hello", "to")


class Post:
    """One learner's letter box.

    Its topics are `domkl/<network>/<name>/` and then theta (updates), hello (I am here, and this I lack),
    to/<neighbour> (what that one lacked), state, prediction.
    """

    def __init__(self, transport: Transport, learner: Learner, incarnation: int) -> None:
        self.transport, self.incarnation = transport, incarnation
        self.network, self.name = transport.settings.network, transport.settings.name
        self.payload, self.fingerprint = learner.exchange.payload, learner.fingerprint
        self._theta = self.topic(self.name, "theta")
        self.decoder = wire.Decoder.of(learner.shapes, learner.fingerprint)

    def topic(self, name: str, *channel: str) -> str:
        """Where a learner of this network publishes."""
        return "/".join((topics.ROOT, self.network, name, *channel))

    def listen(self, names: Iterable[str]) -> None:
        """Hear these neighbours."""
        for name in names:
            for topic in self._topics_of(name):
                self.transport.subscribe(topic)

    def ignore(self, names: Iterable[str]) -> None:
        """Hear them no longer."""
        for name in names:
            for topic in self._topics_of(name):
                self.transport.unsubscribe(topic)

    def _topics_of(self, name: str) -> tuple[str, ...]:
        return self.topic(name, "theta"), self.topic(name, "hello"), self.topic(name, "to", self.name)

    def send(self, update: Update, durable: int) -> bytes:
        """An update to all neighbours; returns it as it was sent."""
        sent = wire.encode_update(update, self.incarnation, durable, self.payload)
        self.transport.publish(self._theta, sent)
        return sent

    def send_again(self, name: str, updates: list[bytes]) -> None:
        """Updates that one neighbour missed, as they were sent."""
        again = wire.encode(wire.Again(self.fingerprint, self.incarnation, updates))
        self.transport.publish(self.topic(self.name, "to", name), again)

    def hello(
        self, round: int, durable: int, wants: dict[str, int], edges: dict[str, Held], **more: Any
    ) -> None:
        """That we are here and at this round, and whose updates we lack."""
        hello = wire.Hello(self.fingerprint, self.incarnation, round, durable, wants, edges, **more)
        self.transport.publish(self.topic(self.name, "hello"), wire.encode(hello))

    def say(self, channel: str, said: dict[str, Any], retain: bool = False) -> None:
        """JSON for whoever is interested."""
        self.transport.publish(self.topic(self.name, channel), msgspec.json.encode(said), retain=retain)

"""Topics of others: messages that are readings, and the topic that predictions go to.

They are of the broker in [stream], where it names one, else of the learners' own transport.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any

import msgspec

from . import transports
from .config import AgentConfig
from .joining import Message
from .logs import Refused
from .transports.base import Message as Received
from .transports.names import HERE, matches

#: The most messages that wait to be learnt, and the bytes after which no further one is taken.
MOST_READINGS, MOST_BYTES = 10_000, 2**26


class Readings(asyncio.Queue["Message | None"]):
    """Messages that wait to be learnt, limited in number and bytes; None ends them."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self.bytes = 0

    def _put(self, item: Message | None) -> None:
        super()._put(item)
        self.bytes += 0 if item is None else len(item.payload)

    def _get(self) -> Message | None:
        item = super()._get()
        self.bytes -= 0 if item is None else len(item.payload)
        return item

    def full(self) -> bool:
        """Whether no further message is taken."""
        return super().full() or self.bytes >= MOST_BYTES


class Sensors:
    """The topics of an agent's stream and of its predictions."""

    def __init__(self, config: AgentConfig, transport: transports.Transport, refused: Refused) -> None:
        settings = config.source_settings()
        self.guest = None if settings is None else transports.make(settings)
        self.patterns, self.refused = config.stream.patterns, refused
        self.readings = Readings(MOST_READINGS)
        self._transport = transport if self.guest is None else self.guest
        self._topic, self._retain = config.output.topic, config.output.retain
        self._announced = _announced(config) if config.output.home_assistant else {}
        self._known: dict[str, bool] = {}

    async def open(self) -> None:
        """Connect to the broker, and subscribe; the learners' transport is open already."""
        if self.guest is not None:
            await self.guest.open()
            self.guest.deliver(self._receive_all)
        for pattern in self.patterns:
            self._transport.subscribe(pattern)
        for topic, payload in self._announced.items():
            self._transport.publish(topic, payload, retain=True)

    async def close(self) -> None:
        """Leave the broker."""
        if self.guest is not None:
            await self.guest.close()

    def takes(self, topic: str) -> bool:
        """Whether a message of the learners' transport is a reading."""
        if not self.patterns or self.guest is not None:
            return False
        found = self._known.get(topic)
        if found is None:
            found = any(matches(pattern, topic) for pattern in self.patterns)
            if len(self._known) < MOST_READINGS:
                self._known[topic] = found
        return found

    def _receive_all(self, messages: list[Received]) -> None:
        for topic, payload in messages:
            self.receive(topic, payload)

    def receive(self, topic: str, payload: bytes) -> None:
        """Take a message as a reading, unless too many wait."""
        if self.readings.full():
            self.refused.note("reading", reason="too many wait to be learnt")
        else:
            self.readings.put_nowait(Message(topic, payload, time.time()))

    def publish(self, record: dict[str, Any]) -> None:
        """Publish a prediction, if there is a topic for them."""
        if self._topic:
            self._transport.publish(self._topic, msgspec.json.encode(record), retain=self._retain)

    @property
    def lost(self) -> int:
        """Messages of the broker that were too long, or came while too many waited."""
        return 0 if self.guest is None else self.guest.counts.refused

    @property
    def fault(self) -> str:
        """What is wrong with the broker at the moment, or ""."""
        if self.guest is None or self.guest.is_connected:
            return ""
        return f"no connection to the broker {self.guest.settings.broker}"


def _announced(config: AgentConfig) -> dict[str, bytes]:
    """What Home Assistant is told: the learner's entities and, at a broker of others, that it is there."""
    device = config.device
    here = {device.state: HERE} if device.is_plain else {}
    return device.messages(config.entities) | here


async def withdraw(config: AgentConfig) -> None:
    """Remove the learner's entities from Home Assistant; the learner itself may run meanwhile."""
    settings = config.source_settings() or config.transport_settings()
    device = config.device
    # As a guest without a will: it must not tell the learner's neighbours that it is lost.
    guest = transports.make(dataclasses.replace(settings, is_guest=True, will="", topics=device.topics))
    await guest.open()
    for topic in device.topics:
        guest.publish(topic, b"", retain=True)
    await guest.close()

"""Topics of others: messages that are readings, and the topic that predictions go to.

They are of the broker in [stream], where it names one, else of the learners' own transport. A message is a
reading, or the last ones of several topics are joined by time into one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from ..base import checks
from ..datasets.columns import Columns
from ..datasets.encoder import Encoder
from . import transports
from .config import ARRIVAL, LONGEST_ROW, TOPIC, AgentConfig
from .logs import Refused
from .rows import PASSED, JsonRows, Row, RowRefused, encoded, too_long
from .transports.base import Message as Received
from .transports.base import Retained
from .transports.names import HERE, matches

#: The most topics whose last messages are held; those that are named without wildcards come on top.
MOST_TOPICS = 256
#: Seconds by which a clock may be ahead of ours.
AHEAD = 60.0


class Message(NamedTuple):
    """What arrived on a topic, and when: in seconds since 1970."""

    topic: str
    payload: bytes
    at: float

    def __str__(self) -> str:
        return f"{self.topic} {self.payload[:LONGEST_ROW].decode(errors='backslashreplace')}"


class Order:
    """Refuses messages that are ahead of the clock, late on their topic, or there once more.

    `own` is a message's time as it says itself, None where it does not: arrivals are in order by themselves.
    """

    def __init__(self, named: Iterable[str] = (), clock: Callable[[], float] = time.time) -> None:
        self._named, self._clock = {*named}, clock
        self._last: dict[str, tuple[float, bytes]] = {}

    def check(self, message: Message, own: float | None) -> float:
        """When a message was; a refused one changes nothing."""
        at = message.at if own is None else own
        ahead = at - self._clock()
        if ahead > AHEAD:  # all later ones would seem old beside it
            reason = f"{message.topic}: its time is {ahead:.0f} s ahead of this clock"
            raise RowRefused("future", reason, "set the sensor's clock, or this one")
        before = self._last.get(message.topic)
        if before is None:
            if message.topic not in self._named and len(self._last.keys() - self._named) >= MOST_TOPICS:
                reason = f"{message.topic}: {MOST_TOPICS} topics are held already"
                raise RowRefused("too many topics", reason, "name the topics, or fewer of them")
        elif at < before[0] and at != message.at:  # else our own clock was set back
            reason = f"{message.topic}: it is {before[0] - at:.3f} s older than the one before"
            raise RowRefused("late", reason, "send messages in the order of their times")
        elif at == before[0] and own is not None and before[1] == message.payload:
            raise RowRefused("duplicate", f"{message.topic}: time and value are those of the one before")
        return at

    def note(self, message: Message, at: float) -> None:
        """A message was used."""
        self._last[message.topic] = at, message.payload


class TopicRows:
    """A message is a reading: a JSON object or a plain value, which is called as its topic's last level."""

    def __init__(
        self,
        encoder: Encoder | None,
        learner: str = "",
        named: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
        by_time: bool = False,
    ) -> None:
        self.json, self.encoder = JsonRows(encoder, learner, by_time), encoder
        self._order = Order(named, clock)

    def __call__(self, message: Message) -> Row:
        if isinstance(message.payload, Retained):  # seen before, perhaps
            return PASSED
        row = self._row(message)
        if row is PASSED:
            return row
        if row.x is None:  # the label of an earlier reading
            return row if row.time is not None or row.id is None else row._replace(time=message.at)
        at = self._order.check(message, row.time)
        self._order.note(message, at)
        return row._replace(time=at)

    def _row(self, message: Message) -> Row:
        if self.encoder is None:
            row = self.json(message.payload)
        else:
            found = value_of(message.payload, self.json)
            if isinstance(found, dict) and isinstance(found.get("x"), list):
                row = self.json(message.payload)
            else:
                record = found if isinstance(found, dict) else {last_level(message.topic): found}
                self._check_columns(record)
                row = self.json.row({ARRIVAL: message.at, TOPIC: message.topic, **record})
        return row

    def _check_columns(self, record: dict[str, Any]) -> None:
        """Refuse a message with nothing of a reading; its arrival and topic would make one of any."""
        assert self.encoder is not None
        columns = self.encoder.columns
        if {ARRIVAL, TOPIC}.isdisjoint(columns.features):
            return  # the encoder sees it
        found = {*columns.flatten(record), *record.get("x", ())} if record else set()
        if found.isdisjoint({*columns.features, columns.target, "y"}):
            reason = f"the message has none of the columns, but {checks.short(sorted(found)[:5])}"
            raise RowRefused("no column", reason, "fix the names, or the paths of nested records")


class LabelRows:
    """Messages of which those on one topic are labels of earlier readings, and the others are readings."""

    def __init__(self, topic: str, labels: JsonRows, readings: Callable[[Message], Row]) -> None:
        self._topic, self._labels, self._readings = topic, labels, readings

    def __call__(self, message: Message) -> Row:
        if not matches(self._topic, message.topic):
            return self._readings(message)
        if isinstance(message.payload, Retained):  # learnt before, perhaps
            return PASSED
        if len(message.payload) > LONGEST_ROW:
            raise too_long()
        return self._labels.label(message.payload)


class Last(NamedTuple):
    """The last message of a topic."""

    at: float
    value: Any


class JoinedRows:
    """The last messages of several topics, not older than `within` seconds, are one reading.

    It is complete when a message of `trigger` arrives, or one that holds the target. What is missing then is
    missing in x. A message's time is the one that it holds in the time column, else that of its arrival.
    `named` topics are always held, others while there are not too many.
    """

    def __init__(
        self,
        encoder: Encoder,
        trigger: str | None,
        within: float,
        learner: str = "",
        named: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.encoder, self.trigger, self.within, self.learner = encoder, trigger, within, learner
        self.held: dict[str, Last] = {}
        columns = encoder.columns
        self._named, self._needed = {*named}, {*columns.features, *columns.time, columns.target}
        self._json, self._order = JsonRows(encoder, learner), Order(self._named, clock)
        self._is_learnt = True  # the label that is held

    def __call__(self, message: Message) -> Row:
        value = value_of(message.payload, self._json)
        own = _cells_of(message.topic, value, self.encoder.columns)
        is_named = message.topic in self._named
        if not is_named and self._needed.isdisjoint(own):
            return PASSED  # a wildcard matches it too
        when = (
            self.encoder.moment_of(own.get(columns.time[0]))
            if (columns := self.encoder.columns).time
            else None
        )
        at = self._order.check(message, None if when is None else when.seconds)
        self._check_cells(own)
        self._order.note(message, at)
        self.held[message.topic] = Last(at, value)
        target = self.encoder.columns.target
        if target in own:
            self._is_learnt = False
        is_due = target in own if self.trigger is None else matches(self.trigger, message.topic)
        if not is_due or isinstance(message.payload, Retained):
            return PASSED
        return self._joined(at, message)

    def _check_cells(self, own: Mapping[str, Any]) -> None:
        """Refuse a message with a cell that cannot be used, so that it spoils no reading of the others."""
        for part in self.encoder.parts:
            if part.name in own:
                self.encoder.cell(part, own[part.name])
        if self.encoder.columns.target in own:
            self.encoder.label(own[self.encoder.columns.target])

    def _joined(self, at: float, message: Message) -> Row:
        columns = self.encoder.columns
        row: dict[str, Any] = {ARRIVAL: message.at, TOPIC: message.topic}
        fresh = [item for item in self.held.items() if abs(at - item[1].at) <= self.within]
        for topic, held in sorted(fresh, key=lambda item: item[1].at):  # of equal names the latest counts
            row |= _cells_of(topic, held.value, columns)
        row |= _cells_of(message.topic, self.held[message.topic].value, columns)
        if self._is_learnt:  # a label belongs to one reading
            row.pop(columns.target, None)
        found = encoded(self.encoder, row, self.learner)
        self._is_learnt = True
        return found if found is PASSED or found.time is not None else found._replace(time=at)


def _cells_of(topic: str, value: Any, columns: Columns) -> dict[str, Any]:
    """The named cells of a message: by their own names, and with the topic's last level before them."""
    found = columns.flatten({last_level(topic): value})
    return found | columns.flatten(value) if isinstance(value, dict) else found


def value_of(payload: bytes, decoder: JsonRows) -> Any:
    """JSON, or a text: "21,5" or "ON"."""
    if len(payload) > LONGEST_ROW:
        raise too_long()
    try:
        found = decoder.value(payload)
        if found is None or isinstance(found, list):
            raise RowRefused(
                "not a reading", f"the message is {type(found).__name__}", "send an object or a value"
            )
        return found
    except RowRefused as fault:
        text = payload[:100].decode(errors="replace").strip()
        if (
            not text
            or text == "null"
            or len(payload) > len(text.encode()) + 2
            or text[0] in '{["'
            or "\ufffd" in text
        ):
            raise fault from None
        return text


def last_level(topic: str) -> str:
    """The name of a plain value."""
    return topic.rsplit("/", 1)[-1]


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

    @property
    def backlog(self) -> tuple[int, float]:
        """How many wait, and when the oldest came, in seconds since 1970; may be asked in any thread."""
        try:
            oldest = self._queue[0]  # type: ignore[attr-defined]
        except IndexError:
            return 0, 0.0
        return self.qsize(), 0.0 if oldest is None else oldest.at

    def full(self) -> bool:
        return super().full() or self.bytes >= MOST_BYTES


class Topics:
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
        return f"no connection to the broker: {self.guest.settings.broker}"


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

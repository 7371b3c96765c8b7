"""Messages of topics as rows: one a reading, or several joined by time into one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..base import checks
from ..datasets.columns import Columns
from ..datasets.encoder import Encoder
from .config import ARRIVAL
from .files import LONGEST
from .rows import PASSED, JsonRows, Row, RowRefused, encoded, too_long
from .transports.base import Retained
from .transports.names import matches

#: A column that every message has besides its own and that of its arrival.
TOPIC = "topic"
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
        return f"{self.topic} {self.payload[:LONGEST].decode(errors='backslashreplace')}"


class TopicRows:
    """A message is a reading: a JSON object or a plain value, which is called as its topic's last level."""

    def __init__(self, encoder: Encoder | None, learner: str = "") -> None:
        self.json, self.encoder = JsonRows(encoder, learner), encoder

    def __call__(self, message: Message) -> Row:
        if isinstance(message.payload, Retained):  # seen before, perhaps
            return PASSED
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
        return row if row is PASSED or row.time is not None else row._replace(time=message.at)

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


class Last(NamedTuple):
    """The last message of a topic."""

    at: float
    payload: bytes
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
        self._json, self._clock = JsonRows(encoder, learner), clock
        self._is_learnt = True  # the label that is held

    def __call__(self, message: Message) -> Row:
        value = value_of(message.payload, self._json)
        own = _cells(message.topic, value, self.encoder.columns)
        is_named = message.topic in self._named
        if not is_named and self._needed.isdisjoint(own):
            return PASSED  # a wildcard matches it too
        at = self._time(own, message)
        self._check_cells(own)
        self._hold(message, at, value)
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

    def _time(self, own: Mapping[str, Any], message: Message) -> float:
        """When a message was, and not in the future: all later ones would seem old beside it."""
        columns, at = self.encoder.columns, message.at
        when = self.encoder.moment_of(own.get(columns.time[0])) if columns.time else None
        if when is not None:
            at = when.seconds
        if at > self._clock() + AHEAD:
            reason = f"{message.topic}: its time is {at - self._clock():.0f} s ahead of this clock"
            raise RowRefused("future", reason, "set the sensor's clock, or this one")
        return at

    def _hold(self, message: Message, at: float, value: Any) -> None:
        """Keep a message unless a later one, or the same one, is there."""
        before = self.held.get(message.topic)
        is_new = before is None and message.topic not in self._named
        if is_new and len(self.held.keys() - self._named) >= MOST_TOPICS:
            reason = f"{message.topic}: {MOST_TOPICS} topics are held already"
            raise RowRefused("too many topics", reason, "name the topics, or fewer of them")
        if before is not None and at < before.at and at != message.at:  # else our own clock was set back
            reason = f"{message.topic}: it is {before.at - at:.3f} s older than the one before"
            raise RowRefused("late", reason, "send messages in the order of their times")
        if before is not None and at == before.at and before.payload == message.payload:
            raise RowRefused("duplicate", f"{message.topic}: time and value are those of the one before")
        self.held[message.topic] = Last(at, message.payload, value)

    def _joined(self, at: float, message: Message) -> Row:
        columns = self.encoder.columns
        row: dict[str, Any] = {ARRIVAL: message.at, TOPIC: message.topic}
        fresh = [item for item in self.held.items() if abs(at - item[1].at) <= self.within]
        for topic, held in sorted(fresh, key=lambda item: item[1].at):  # of equal names the latest counts
            row |= _cells(topic, held.value, columns)
        row |= _cells(message.topic, self.held[message.topic].value, columns)
        if self._is_learnt:  # a label belongs to one reading
            row.pop(columns.target, None)
        found = encoded(self.encoder, row, self.learner)
        self._is_learnt = True
        return found if found is PASSED or found.time is not None else found._replace(time=at)


def _cells(topic: str, value: Any, columns: Columns) -> dict[str, Any]:
    """The named cells of a message: by their own names, and with the topic's last level before them."""
    found = columns.flatten({last_level(topic): value})
    return found | columns.flatten(value) if isinstance(value, dict) else found


def value_of(payload: bytes, decoder: JsonRows) -> Any:
    """JSON, or a text: "21,5" or "ON"."""
    if len(payload) > LONGEST:
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

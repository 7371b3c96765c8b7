"""Logs on standard error: an event and its fields; counts of what is refused, and of writes that fail."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections import Counter
from datetime import datetime, timezone
from typing import Any, TextIO

from ..base.words import visible
from .config import LogSection

LONGEST = 500  # characters of one field, as fields may come from a peer or a file
KINDS = 1000  # counted separately; a peer that invents names must not fill the memory
FIRST = 5

Fields = dict[str, Any]


def setup(section: LogSection, learner: str, stream: TextIO | None = None) -> logging.Logger:
    """Set up the package's logger on standard error; may be called more than once."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter((JsonFormat if section.format == "json" else TextFormat)(learner))
    logger = logging.getLogger("domkl")
    logger.handlers[:] = [handler]
    logger.setLevel(section.level.upper())
    logger.propagate = False
    return logger


def tell(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    logger.log(level, "%s", event, extra={"fields": fields})


class Limited:
    """Rate-limited warnings: the first 5 of a kind, then every power of two.

    >>> limited = Limited(logging.getLogger("doctest"))
    >>> [n for n in range(1, 40) if limited.due("bad row")]
    [1, 2, 3, 4, 5, 8, 16, 32]
    """

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger
        self.counts: Counter[str] = Counter()

    def warn(self, kind: str, event: str, **fields: object) -> None:
        """Log the event, with how many of its kind there were, if it is due."""
        if self.due(kind):
            tell(
                self.logger, logging.WARNING, event, kind=kind, count=self.counts[self._known(kind)], **fields
            )

    def due(self, kind: str) -> bool:
        """Count one more of a kind; whether to log it."""
        kind = self._known(kind)
        self.counts[kind] += 1
        count = self.counts[kind]
        return count <= FIRST or count & (count - 1) == 0

    def _known(self, kind: str) -> str:
        return kind if kind in self.counts or len(self.counts) < KINDS else "other"


#: The kind of messages that are whole, but not used in a round.
UNUSED = "implausible"


class Refused(Counter[str]):
    """Refused messages by kind: counted for /metrics, and logged."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._limited = Limited(logger)

    def note(self, kind: str, event: str = "refused", **fields: object) -> None:
        self[kind] += 1
        self._limited.warn(kind, event, **fields)

    def note_unused(self, sender: str) -> None:
        """An honest neighbour's message may be of no use here, which is no reason to suspect anybody."""
        self.note(UNUSED, "not used", sender=sender, reason="our own samples say otherwise")

    @property
    def faulty(self) -> int:
        """How many were refused, without those that were only not used."""
        return sum(self.values()) - self[UNUSED]


class _Format(logging.Formatter):
    def __init__(self, learner: str) -> None:
        super().__init__()
        self.learner = learner

    def parts(self, record: logging.LogRecord) -> Fields:
        """Fields of a line, in order; an event's own fields cannot replace the first four."""
        time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        head: Fields = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": _plain(record.getMessage()),
            "learner": self.learner,
        }
        own: Fields = getattr(record, "fields", {})
        tail = {key: _plain(value) for key, value in own.items() if key not in head}
        if record.exc_info:
            tail["traceback"] = self.formatException(record.exc_info)
        return {**head, **tail}


class JsonFormat(_Format):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.parts(record))


class TextFormat(_Format):
    """time LEVEL learner event key=value ..."""

    def format(self, record: logging.LogRecord) -> str:
        time, level, event, learner, *rest = self.parts(record).items()
        words = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in rest]
        shown = json.dumps(event[1], ensure_ascii=False)[1:-1]  # a line break in it must not start a new line
        return visible(" ".join([time[1], level[1].upper(), learner[1], shown, *words]))


def _plain(value: object) -> object:
    """A value that JSON can hold, shortened if it is long."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value[:100]]
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


LOG = logging.getLogger(__name__)
#: Seconds between two attempts to save, while the disk refuses.
RETRY = 3.0


class Attempts:
    """Counts failed attempts of one kind; `fault` explains the last one until one succeeds.

    It begins with `what`, words that anybody may see; where it failed, and why, only the owner.

    >>> saving = Attempts("state cannot be saved")
    >>> saving.fail("No space left on device")
    >>> saving.fault, saving.failed
    ('state cannot be saved: No space left on device', 1)
    >>> saving.succeed()
    >>> saving.fault, saving.failed
    ('', 1)
    """

    def __init__(self, what: str, place: str = "") -> None:
        self.what, self.place, self.fault, self.failed = what, place, "", 0
        self.well_at = self._failed_at = time.monotonic()
        self._limited = Limited(LOG)

    def fail(self, reason: str) -> None:
        reason = f"{self.place}: {reason}" if self.place else reason
        self.fault, self._failed_at = f"{self.what}: {reason}", time.monotonic()
        self.failed += 1
        self._limited.warn(self.what, self.what, reason=reason)

    def succeed(self) -> None:
        self.well_at = time.monotonic()
        if self.fault:
            tell(LOG, logging.INFO, "works again", after=self.fault, failed=self.failed)
            self.fault = ""

    @property
    def retry_due(self) -> bool:
        """Whether the last one failed, long enough ago to try again."""
        return bool(self.fault) and time.monotonic() - self._failed_at >= RETRY

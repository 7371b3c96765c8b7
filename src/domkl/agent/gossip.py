"""How every learner of the network is, passed from neighbour to neighbour, for the live page of any of them.

Each learner reports about itself every few seconds; neighbours pass reports on, once each, so that after a
while everybody knows of everybody. A report holds counts and errors, and no readings. Nothing in it
changes what is learnt: it is checked, bounded and shown.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Container, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..base.errors import PeerError
from .wire import Name

#: Learners that are kept track of, and seconds without a report after which one makes room for another.
MOST_LEARNERS, OLD = 256, 60.0
#: Reports in one message, its bytes, and entries of one report's lists.
MOST_REPORTS, MOST_BYTES, MOST_ENTRIES = 64, 65_536, 64
#: Seconds between two reports about ourselves.
EVERY = 5.0
#: The largest version of all, of the first report about a learner, and how far a later one may be ahead: a
#: forged one must leave room to outrun it.
MOST_VERSION, MOST_FIRST, MOST_AHEAD = 2**62, 2**40, 2**26

Count = Annotated[int, Meta(ge=0, lt=2**53)]
Size = Annotated[float, Meta(ge=0, le=1e150)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a learner is."""

    name: Name
    version: Annotated[int, Meta(ge=0, le=MOST_VERSION)]
    state: Literal["init", "ready", "done"] = "init"
    round: Count = 0
    samples: Count = 0
    rmse: Size | None = None  # of the last predictions, in the target's unit
    rmse_alone: Size | None = None  # of predictions from own samples only
    links: Annotated[
        dict[Name, Share | None], Meta(max_length=MOST_ENTRIES)
    ] = {}  # trust; None: it is not up
    messages_sent: Count = 0
    bytes_sent: Count = 0
    bytes_received: Count = 0
    refused: Count = 0
    alarms: Count = 0
    weights: Annotated[list[Share], Meta(max_length=MOST_ENTRIES)] = []


_decoder = msgspec.json.Decoder(Annotated[list[Report], Meta(max_length=MOST_REPORTS)])
_encoder = msgspec.json.Encoder()


class Gossip:
    """The reports that are known here, and those that are to be passed on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.known: dict[str, Report] = {}
        self.via: dict[str, str] = {}  # who brought it; "" for ourselves
        self.received_at: dict[str, float] = {}
        self._news: dict[str, None] = {}
        self._version = int(time.time())  # so that a later incarnation has later versions; see `_outrun`
        self._reported_at, self._state = -math.inf, ""

    def report(self, status: Mapping[str, Any], now: float) -> None:
        """Report about ourselves, if it is time or our state has changed."""
        if now - self._reported_at < EVERY and status["state"] == self._state:
            return
        self._reported_at, self._state, self._version = now, status["state"], self._version + 1
        near = list(status["neighbours"])[:MOST_ENTRIES]
        own = Report(
            name=self.name,
            version=self._version,
            links={each["name"]: _share(each) for each in near},
            weights=[round(float(weight), 4) for _, weight in status.get("weights") or ()][:MOST_ENTRIES],
            **{
                key: status[key]
                for key in Report.__struct_fields__
                if key in status and key not in ("weights",)
            },
        )
        self._keep(own, "", now)

    def receive(self, sender: str, payload: bytes, neighbours: Container[str], now: float) -> None:
        """Take reports that a neighbour brings; what is not one raises PeerError and changes nothing."""
        for report in _decoded(payload):
            known = self.known.get(report.name)
            if report.name == self.name:
                self._outrun(report.version)
            elif report.name in neighbours and report.name != sender:
                continue  # that one reports itself
            elif known is None:
                if report.version <= MOST_FIRST and self._has_room(sender, now):
                    self._keep(report, sender, now)
            elif known.version < report.version <= known.version + MOST_AHEAD:
                self._keep(report, sender, now)
            elif report.version < known.version and report.name == sender:
                self._news[sender] = (
                    None  # its clock went back: once it receives its own past it outruns that
                )

    def _outrun(self, version: int) -> None:
        """Others have received a later report of ours: an earlier incarnation's, or a forgery."""
        if self._version < version < MOST_VERSION - MOST_AHEAD:
            self._version, self._reported_at = version, -math.inf

    def _keep(self, report: Report, sender: str, now: float) -> None:
        name = report.name
        self.known[name], self.via[name], self.received_at[name] = report, sender, now
        self._news[name] = None

    def _has_room(self, sender: str, now: float) -> bool:
        """Whether one more learner may be kept track of; who brought most of them makes room for others."""
        if len(self.known) < MOST_LEARNERS:
            return True
        oldest = min(self.received_at, key=self.received_at.__getitem__)
        if now - self.received_at[oldest] < OLD:
            brought = Counter(via for name, via in self.via.items() if via != name)
            greedy = max(brought, key=brought.__getitem__, default=sender)
            if brought[sender] + 1 >= brought[greedy]:
                return False
            theirs = [name for name, via in self.via.items() if via == greedy != name]
            oldest = min(theirs, key=self.received_at.__getitem__)
        for each in (self.known, self.via, self.received_at, self._news):
            each.pop(oldest, None)
        return True

    def take_news(self) -> bytes | None:
        """The next message: the oldest news, as far as they fit; None if there are none."""
        names = list(self._news)[:MOST_REPORTS]
        if not names:
            return None
        payload = _encoder.encode([self.known[name] for name in names])
        while len(payload) > MOST_BYTES:
            names = names[: len(names) // 2]
            payload = _encoder.encode([self.known[name] for name in names])
        for name in names:
            del self._news[name]
        return payload

    def statuses(self, now: float, names: list[str]) -> list[dict[str, Any]]:
        """Every other learner for a feed; `names` are those of the weights."""
        others = [name for name in self.known if name != self.name]
        return [self._status(self.known[name], now, names) for name in others]

    def _status(self, report: Report, now: float, names: list[str]) -> dict[str, Any]:
        found = {key: getattr(report, key) for key in Report.__struct_fields__}
        near = [
            {"name": other, "up": trust is not None, "trust": trust} for other, trust in report.links.items()
        ]
        weights = [[name, weight] for name, weight in zip(names, report.weights, strict=False)]
        via = self.via[report.name] if self.via[report.name] != report.name else None
        more = {"learner": report.name, "neighbours": near, "weights": weights, "via": via}
        return {**found, **more, "age": now - self.received_at[report.name]}


def _share(neighbour: Mapping[str, Any]) -> float | None:
    if not neighbour["up"]:
        return None
    trust = neighbour.get("trust")
    return 1.0 if trust is None else min(1.0, max(0.0, round(float(trust), 3)))


def _decoded(payload: bytes) -> list[Report]:
    if len(payload) > MOST_BYTES:
        raise PeerError(f"reports have {len(payload)} bytes; expected at most {MOST_BYTES}; fix the sender")
    try:
        found: list[Report] = _decoder.decode(payload)
        return found
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise PeerError(f"reports are malformed: {ascii(str(error))[1:-1][:120]}; fix the sender") from None

"""An operator's graph: as agents receive it, checked as a whole and only then followed; and as it is sent."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ..base.errors import InputError
from ..exchange import graph
from .transports import Transport, TransportSettings, security
from .transports.names import MOST_NAMES, OPERATOR, ROOT, STATE, check_name, sender_of, topic
from .wire import Name

#: A version may be so much above the one that an agent holds: nobody can use all versions up at once.
STEP = 2**20
#: Versions are below this, so that they fit into messages.
LAST = 2**62
#: The most learners and links of a graph, and addresses of a learner.
MOST_LEARNERS, MOST_LINKS, MOST_ADDRESSES = 10_000, 100_000, 8

Link = tuple[str, str]
Addresses = dict[str, Annotated[tuple[str, ...], Meta(max_length=MOST_ADDRESSES)]]


class NewGraph(NamedTuple):
    """A graph as one learner sees it."""

    version: int
    neighbours: tuple[str, ...]
    addresses: Addresses  # where the neighbours listen, as far as the operator knew


class _Document(msgspec.Struct):
    """What the operator sends; `dropped` are learners that leave the graph and stay alone."""

    version: Annotated[int, Meta(ge=1, le=LAST)]
    links: Annotated[list[Link], Meta(max_length=MOST_LINKS)]
    addresses: Addresses = {}
    dropped: list[str] = []


_decoder = msgspec.json.Decoder(_Document)


def encode(version: int, links: Iterable[Link], addresses: Addresses, dropped: Iterable[str]) -> bytes:
    """The operator's document."""
    document = {"version": version, "links": [*links], "addresses": addresses, "dropped": [*dropped]}
    return json.dumps(document).encode()


def decode(payload: bytes, settings: TransportSettings) -> NewGraph:
    """The graph in a document, as the learner with these settings sees it; refuses what cannot be right."""
    try:
        found = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InputError(f"a graph is unreadable ({error}); expected version and links; fix it") from None
    me = settings.name
    near = _neighbours(found.links, me)
    if not near and me not in found.dropped:
        raise InputError(f"the graph leaves {me} out; expected a link of it, or {me} in dropped; add one")
    addresses = {name: found.addresses.get(name, ()) for name in near}
    for address in itertools.chain(*addresses.values()):
        security.check_reachable(address, settings)
    return NewGraph(found.version, near, addresses)


def _neighbours(links: list[Link], me: str) -> tuple[str, ...]:
    """Our neighbours in a connected graph."""
    check_links(links)
    near = tuple(dict.fromkeys(b if a == me else a for a, b in links if me in (a, b)))
    if len(near) > MOST_NAMES:
        raise InputError(
            f"the graph gives {me} {len(near)} neighbours; expected at most {MOST_NAMES}, "
            "as many as a hello can name; divide them"
        )
    return near


def check_links(links: Sequence[Link]) -> None:
    """Refuse links that make no connected graph of learners."""
    names = list(dict.fromkeys(name for link in links for name in link))
    if len(names) > MOST_LEARNERS:
        raise InputError(f"the graph has {len(names)} learners; expected at most {MOST_LEARNERS}; divide it")
    for name in names:
        check_name(name, "learner")
    if OPERATOR in names:
        raise InputError(f"a learner is called {OPERATOR!r}; that is who directs them; rename it")
    if links:
        graph.build(names, links)  # refuses loops, and graphs in several parts


def check_version(new: NewGraph, held: int) -> None:
    """Refuse a version that is earlier than the one we hold, or far later."""
    if not held < new.version <= min(held + STEP, LAST):
        raise InputError(
            f"the graph has version {new.version}; expected {held + 1} to {held + STEP}; "
            "use the next version, as domkl graph does"
        )


#: Seconds after which a graph is sent again: a learner may have missed it.
AGAIN = 1.0
#: Seconds without a new learner after which all are believed to be found.
QUIET = 1.0
#: Sessions in which learners are looked for, in turn.
ATTEMPTS = 3
#: A device may report a version so many steps above the others'; more is not believed.
MOST_STEPS = 1000


class PublishedState(NamedTuple):
    """The state that a learner last published."""

    state: str = "no answer"
    graph: int = 0
    neighbours: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def is_live(self) -> bool:
        """Whether it runs."""
        return self.state in ("init", "ready")

    @classmethod
    def of(cls, payload: bytes) -> PublishedState:
        """A published state; one that cannot be read is of a learner that is gone."""
        try:
            found = _state_decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return cls("lost")
        return cls(found.state, found.graph, found.neighbours, found.addresses[:MOST_ADDRESSES])


class _State(msgspec.Struct):
    """What a learner says of itself, and nothing else that would reach a terminal."""

    state: Literal["init", "ready", "done"]
    graph: Annotated[int, Meta(ge=0, le=LAST)]
    neighbours: Annotated[tuple[Name, ...], Meta(max_length=MOST_LEARNERS)]
    addresses: tuple[str, ...]


_state_decoder = msgspec.json.Decoder(_State)


class LiveNetwork:
    """All learners of a network, by name, as their published states show them."""

    def __init__(self, transport: Transport) -> None:
        self.transport, self.devices = transport, dict[str, PublishedState]()
        self._changed_at = time.monotonic()

    def handle(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Note what learners publish; one that has gone keeps the graph that it reported."""
        for where, payload in messages:
            name, found = sender_of(where), PublishedState.of(payload)
            before = self.devices.get(name)
            if before is None:
                self._changed_at = time.monotonic()
            elif found.state == "lost":
                found = before._replace(state="lost")
            if name != OPERATOR and (before is not None or len(self.devices) < MOST_LEARNERS):
                self.devices[name] = found

    def state_of(self, name: str) -> PublishedState:
        """What a learner last published."""
        return self.devices.get(name, PublishedState())

    @property
    def live(self) -> dict[str, PublishedState]:
        """The learners that run."""
        return {name: device for name, device in sorted(self.devices.items()) if device.is_live}

    @property
    def links(self) -> set[Link]:
        """Every link of the present graph once, in the order of the alphabet; one end is enough."""
        return {link(name, other) for name, device in self.live.items() for other in device.neighbours}

    async def find(self, expected: Collection[str], absent: Collection[str], wait: float) -> None:
        """Find all learners: whoever is expected or a neighbour of one, but for those who are `absent`."""

        def complete() -> bool:
            near = {name for device in self.live.values() for name in device.neighbours}
            quiet = time.monotonic() - self._changed_at > QUIET
            return quiet and {*expected, *near} - {*absent} <= self.devices.keys()

        self._changed_at = time.monotonic()
        settings = self.transport.settings
        for attempt in range(ATTEMPTS):
            await _until(complete, wait / ATTEMPTS)
            if complete() or settings.kind != "zenoh" or attempt == ATTEMPTS - 1:
                break
            await self.transport.close()  # an address that failed is tried again in a new session only
            await self.transport.open()
        if settings.kind == "zenoh" and settings.ca is not None and self.live:
            await self._ask_again(wait)

    async def _ask_again(self, wait: float) -> None:
        """Ask those who were found once more, now each under its own certificate's name only."""
        names, self.devices = self.live.keys(), {}
        await self.transport.admit(tuple(sorted(names)))
        await _until(lambda: names <= self.devices.keys(), wait)

    def next_version(self) -> int:
        """One above all that are held; a device far above the others is not believed."""
        held = [device.graph for device in self.live.values()] or [0]
        most = statistics.median_low(held) + MOST_STEPS * STEP
        return max(0, *(version for version in held if version <= most)) + 1

    async def send(
        self, version: int, make: Callable[[int], bytes], names: Collection[str], wait: float
    ) -> None:
        """Publish a graph until these learners hold exactly this version, or the time is over."""
        network = self.transport.settings.network
        where = topic(network, OPERATOR, "graph")
        lowest = min([self.devices[name].graph for name in names if name in self.devices], default=0)
        first = max(lowest, version - MOST_STEPS * STEP)
        steps = [*range(first + STEP, version, STEP), version]  # a version too far above is refused
        end = time.monotonic() + wait
        while not self.holds(version, names) and time.monotonic() < end:
            for step in steps:
                self.transport.publish(where, make(step), retain=step == version)
            left = max(0.0, min(AGAIN, end - time.monotonic()))
            await _until(lambda: self.holds(version, names), left)

    def holds(self, version: int, names: Collection[str]) -> bool:
        """Whether all these learners hold exactly this version."""
        return all(self.state_of(name).graph == version for name in names)


def link(a: str, b: str) -> Link:
    """A link with its ends in the order of the alphabet."""
    return (a, b) if a < b else (b, a)


async def _until(fact: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not fact() and time.monotonic() < end:
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def connected(transport: Transport) -> AsyncIterator[LiveNetwork]:
    """The network that a transport leads to, watched while the block runs."""
    found = LiveNetwork(transport)
    await transport.open()
    try:
        transport.deliver(found.handle)
        transport.subscribe(f"{ROOT}/{transport.settings.network}/+/{STATE}")
        yield found
    finally:
        await transport.close()

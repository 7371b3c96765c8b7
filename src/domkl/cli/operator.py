"""The operator's view of a running network: which learners are there, and which graph each of them holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import Any, NamedTuple

Link = tuple[str, str]
#: Seconds after which the graph is sent again: a learner may have missed it.
AGAIN = 1.0
#: Seconds without a new learner after which all are believed to be found.
QUIET = 1.0
#: Sessions in which learners are looked for, in turn.
ATTEMPTS = 3
#: A device may report a version so many steps above the others'; more is not believed.
MOST_STEPS = 1000
#: The most learners that are listed.
MOST = 10_000
#: What a learner may say of itself; nothing else reaches a terminal.
STATES = {state: state for state in ("init", "ready", "done")}


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
        from ..agent.graphs import MOST_ADDRESSES
        from ..agent.transports import check_name

        try:
            found = json.loads(payload)
            state, version = STATES[found["state"]], int(found["graph"])
            near = tuple(check_name(name) for name in found["neighbours"][:MOST])
            addresses = tuple(map(str, found["addresses"][:MOST_ADDRESSES]))
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError):  # InputError is a ValueError
            return cls("lost")
        return cls(state, version, near, addresses)


class LiveNetwork:
    """All learners of a network, by name, as their published states show them."""

    def __init__(self, transport: Any) -> None:
        self.transport, self.devices = transport, dict[str, PublishedState]()
        self._changed_at = time.monotonic()

    def handle(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Note what learners publish; one that has gone keeps the graph that it reported."""
        from ..agent.transports import OPERATOR, sender_of

        for topic, payload in messages:
            name, found = sender_of(topic), PublishedState.of(payload)
            before = self.devices.get(name)
            if before is None:
                self._changed_at = time.monotonic()
            elif found.state == "lost":
                found = before._replace(state="lost")
            if name != OPERATOR and (before is not None or len(self.devices) < MOST):
                self.devices[name] = found

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
        from ..agent.graphs import STEP

        held = [device.graph for device in self.live.values()] or [0]
        most = statistics.median_low(held) + MOST_STEPS * STEP
        return max(0, *(version for version in held if version <= most)) + 1

    async def send(
        self, version: int, make: Callable[[int], bytes], names: Collection[str], wait: float
    ) -> None:
        """Publish a graph until these learners hold exactly this version, or the time is over."""
        from ..agent import transports
        from ..agent.graphs import STEP

        network = self.transport.settings.network
        topic = transports.topic(network, transports.OPERATOR, "graph")
        lowest = min([self.devices[name].graph for name in names if name in self.devices], default=0)
        first = max(lowest, version - MOST_STEPS * STEP)
        steps = [*range(first + STEP, version, STEP), version]  # a version too far above is refused
        end = time.monotonic() + wait
        while not self.holds(version, names) and time.monotonic() < end:
            for step in steps:
                self.transport.publish(topic, make(step), retain=step == version)
            left = max(0.0, min(AGAIN, end - time.monotonic()))
            await _until(lambda: self.holds(version, names), left)

    def holds(self, version: int, names: Collection[str]) -> bool:
        """Whether all these learners hold exactly this version."""
        return all(self.devices.get(name, PublishedState()).graph == version for name in names)


def link(a: str, b: str) -> Link:
    """A link with its ends in the order of the alphabet."""
    return (a, b) if a < b else (b, a)


async def _until(fact: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not fact() and time.monotonic() < end:
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def connected(transport: Any) -> AsyncIterator[LiveNetwork]:
    """The network that a transport leads to, watched while the block runs."""
    from ..agent.transports import STATE

    found = LiveNetwork(transport)
    await transport.open()
    try:
        transport.deliver(found.handle)
        transport.subscribe(f"domkl/{transport.settings.network}/+/{STATE}")
        yield found
    finally:
        await transport.close()

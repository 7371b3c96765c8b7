"""`domkl graph [LINKS]`: show who talks to whom in a running network, or change it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import Any, NamedTuple

from ..base.errors import InputError
from ..base.extras import need
from ..base.words import NONE, plural
from ..exchange import graph
from ..lab.sheet import Sheet
from . import declare, options, show

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


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "show the graph of a running network, or change it and wait until its learners hold the new one"
    add = declare(commands, "graph", text, run)
    links = "who talks to whom: a-b,b-c; with a : where names hold a -: x-1:x-2 (default: only show)"
    add("links", metavar="LINKS", nargs="?", help=links)
    add("--network", required=True, metavar="NAME", help="the network's name, as in the learners' files")
    add("--transport", choices=["zenoh", "mqtt"], default="zenoh", help="how they talk (default: zenoh)")
    text = (
        "zenoh: where a learner listens, or the name of one on this machine; the others are found from there "
    )
    add("--connect", action="append", default=[], metavar="HOST:PORT", help=f"{text}(repeatable)")
    add("--broker", metavar="HOST:PORT", help="mqtt: where the broker is (default: 127.0.0.1:1883)")
    add("--user", help="mqtt: name at the broker")
    add("--password-file", metavar="FILE", help="mqtt: a file with the password (default: ask for it)")
    add("--ca", metavar="FILE", help="the network's ca.pem")
    add("--cert", metavar="FILE", help="operator.pem")
    add("--key", metavar="FILE", help="operator.key; make all three with: domkl certs DIRECTORY operator")
    add("--insecure", action="store_true", help="other machines without certificates: anyone can forge")
    add("--add", action="append", default=[], metavar="NAME", help="this learner starts later (repeatable)")
    add("--drop", action="append", default=[], metavar="NAME", help="this one shall stay alone (repeatable)")
    add("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    add("--version", type=int, metavar="N", help="of the graph (default: one above what the learners hold)")
    add("--wait", type=float, default=10.0, metavar="S", help="seconds to wait for them (default: 10)")


class Change(NamedTuple):
    """A new graph, and how it differs from the present one."""

    version: int
    links: list[Link]
    added: list[Link]
    removed: list[Link]
    dropped: list[str]  # that run, and stay alone
    later: list[str]  # that do not run yet
    names: list[str]  # that must hold it

    @classmethod
    def of(cls, network: LiveNetwork, links: list[Link], args: argparse.Namespace) -> Change:
        """The change from the present graph to these links; refuses what may be a slip."""
        names = sorted({name for each in links for name in each})
        _check(network.live, names, args)
        new, old = {link(*each) for each in links}, network.links
        dropped = [name for name in network.live if name in args.drop]
        later = [name for name in names if name not in network.live]
        version = network.next_version() if args.version is None else args.version
        held = [name for name in [*names, *dropped] if name not in later]
        return cls(version, links, sorted(new - old), sorted(old - new), dropped, later, held)


def run(args: argparse.Namespace) -> None:
    """Show the graph, or change it and show who has taken it."""
    need("msgspec", "agent")
    from ..agent.graphs import LAST

    links = None if args.links is None else parse(args.links)
    if args.version is not None and not 0 < args.version <= LAST:
        raise InputError(f"--version is {args.version}; expected 1 to 2**62; leave it out")
    transport = _transport(args)
    if args.ca is None:
        print("no certificates: anybody who reaches this network can change its graph", file=sys.stderr)
    asyncio.run(_show(transport, args) if links is None else _change(transport, links, args))


def parse(text: str) -> list[Link]:
    """The links of a connected graph.

    >>> parse("a-b, b-c"), parse("x-1:x-2")
    ([('a', 'b'), ('b', 'c')], [('x-1', 'x-2')])
    """
    from ..agent.transports.names import OPERATOR, check_name

    links = [_link(part.strip()) for part in text.split(",")]
    names = list(dict.fromkeys(name for link in links for name in link))
    for name in names:
        check_name(name, "learner")
    if OPERATOR in names:
        raise InputError(f"a learner is called {OPERATOR!r}; that is who directs the network; rename it")
    graph.build(names, links)
    return links


def _link(text: str) -> Link:
    ends = text.split(":" if ":" in text else "-")
    if len(ends) != 2 or not all(end.strip() for end in ends):
        raise InputError(
            f"link {text!r} is not two learners with a - between; expected links like a-b,b-c; "
            "write x-1:x-2 where names hold a -"
        )
    return ends[0].strip(), ends[1].strip()


def _transport(args: argparse.Namespace) -> Any:
    """The operator's way to the learners; not yet open."""
    from ..agent import transports

    if args.transport == "zenoh" and not args.connect:
        raise InputError(
            "--connect is not given; expected a learner's address; add --connect HOST:PORT, or "
            "the name of one on this machine"
        )
    ours = (("--broker", args.broker, "zenoh"), ("--user", args.user, "zenoh"))
    for option, given, other in (*ours, ("--connect", args.connect, "mqtt")):
        if given and args.transport == other:
            raise InputError(f"{option} is not for {other}; expected the other --transport; leave one out")
    broker = args.broker or transports.TransportSettings.broker
    settings = transports.TransportSettings(
        args.transport,
        args.network,
        transports.OPERATOR,
        connect=tuple(_address(each, args.network) for each in args.connect),
        broker=broker,
        user=args.user,
        password=options.ask_password(args.user, args.password_file, broker),
        ca=args.ca,
        cert=args.cert,
        key=args.key,
        insecure=args.insecure,
    )
    return transports.make(settings)


def _address(given: str, network: str) -> str:
    """An address as it is, or that of a learner on this machine."""
    from ..agent.transports.names import local_address

    is_name = ":" not in given and not given.replace(".", "").isdigit()
    return local_address(network, given) if is_name else given


def _check(live: dict[str, PublishedState], names: list[str], args: argparse.Namespace) -> None:
    """Refuse learners that are not there and those that are left out, unless the options name them."""
    there = ", ".join(live) or "nobody"
    unknown = [name for name in names if name not in live and name not in args.add]
    if unknown:
        raise InputError(
            f"{', '.join(unknown)} did not answer; expected learners that run: {there}; "
            f"correct the name, or add --add {unknown[0]} if it starts later"
        )
    left = [name for name in live if name not in names and name not in args.drop]
    if left:
        raise InputError(
            f"the links leave out {', '.join(left)}; expected all that run: {there}; "
            f"link it, or add --drop {left[0]} so that it stays alone"
        )
    for option, wrong in (("--drop", {*args.drop} & {*names}), ("--add", {*args.add} - {*names})):
        if wrong:
            raise InputError(
                f"{option} names {min(wrong)}; expected a learner {'not ' * (option == '--drop')}in the "
                "links; correct one of them"
            )


async def _show(transport: Any, args: argparse.Namespace) -> None:
    async with connected(transport) as network:
        await network.find((), (), args.wait)
    if not network.devices:
        raise InputError(
            f"nobody answered within {args.wait:g} s; expected a learner of network {args.network!r}; see "
            "that one runs, and which network its file names"
        )
    if args.json:
        links = sorted(network.links)
        show.document({"links": links, "learners": _learners(network, sorted(network.devices))})
        return
    rows = [
        [name, device.state, str(device.graph), ", ".join(device.neighbours) or NONE]
        for name, device in sorted(network.devices.items())
    ]
    title = f"Network {args.network}: {plural(len(rows), 'learner')}, {plural(len(network.links), 'link')}"
    show.sheet(Sheet(title, ("learner", "state", "graph", "neighbours"), rows, frozenset({0, 1, 3})))
    print(f"links: {_words(sorted(network.links))}")


async def _change(transport: Any, links: list[Link], args: argparse.Namespace) -> None:
    names = {name for each in links for name in each}
    async with connected(transport) as network:
        await network.find(names, [*args.add, *args.drop], args.wait)
        change = Change.of(network, links, args)
        _print_difference(change, args)
        confirmed = args.yes or _is_confirmed(args)
        if confirmed:
            await _send(network, change, args.wait)
        if args.json:
            show.document(_document(network, change))
    if not confirmed:
        raise InputError("the change is not confirmed; expected a yes; see the difference, then add --yes")
    _report(network, change, args)


async def _send(network: LiveNetwork, change: Change, wait: float) -> None:
    from ..agent.graphs import encode

    devices = {name: network.live[name] for name in change.names if name in network.live}
    addresses = {name: _addresses(network, name, device) for name, device in devices.items()}

    def make(version: int) -> bytes:
        return encode(version, change.links, addresses, change.dropped)

    await network.send(change.version, make, change.names, wait)


def _addresses(network: LiveNetwork, name: str, device: PublishedState) -> tuple[str, ...]:
    """Where a learner can be reached; what learners would refuse is left out, and shown."""
    from ..agent.transports import security

    usable = []
    for address in device.addresses:
        try:
            security.check_reachable(address, network.transport.settings)
            usable.append(address)
        except InputError as error:
            print(f"an address of {name} is left out: {error}", file=sys.stderr)
    return tuple(usable)


def _is_confirmed(args: argparse.Namespace) -> bool:
    """Whether a person says yes; without a terminal nobody is asked."""
    if args.json or not sys.stdin.isatty():
        return False
    return input("Change it? [y/N] ").strip().lower() in ("y", "yes")


def _report(network: LiveNetwork, change: Change, args: argparse.Namespace) -> None:
    late = [name for name in change.names if not network.holds(change.version, [name])]
    if not args.json:
        rows = [_held(network, change.version, name) for name in (*change.names, *change.later)]
        heads = ("learner", "state", "graph", "taken")
        show.sheet(Sheet(f"Graph {change.version}", heads, rows, frozenset({0, 1, 3})))
    if late:
        raise InputError(
            f"{', '.join(late)} did not take graph {change.version} within {args.wait:g} s; expected all it "
            f"names; see their logs, then run it again with --version {change.version}"
        )


def _held(network: LiveNetwork, version: int, name: str) -> list[str]:
    device = network.devices.get(name, PublishedState())
    return [name, device.state, str(device.graph), "yes" if network.holds(version, [name]) else "no"]


def _print_difference(change: Change, args: argparse.Namespace) -> None:
    if args.json:
        return
    rows = [["added", _words(change.added)], ["removed", _words(change.removed)]]
    rows += [["stay alone", ", ".join(change.dropped)]] if change.dropped else []
    rows += [["start later", ", ".join(change.later)]] if change.later else []
    title = f"Graph {change.version}, beside the present one"
    show.sheet(Sheet(title, ("change", "links or learners"), rows, frozenset({0, 1})))
    sys.stdout.flush()


def _words(links: list[Link]) -> str:
    return ", ".join(f"{a}:{b}" if "-" in a + b else f"{a}-{b}" for a, b in links) or NONE


def _learners(network: LiveNetwork, names: list[str]) -> list[dict[str, Any]]:
    return [{"name": name, **network.devices.get(name, PublishedState())._asdict()} for name in names]


def _document(network: LiveNetwork, change: Change) -> dict[str, Any]:
    learners = _learners(network, [*change.names, *change.later])
    for learner in learners:
        learner["taken"] = learner["graph"] == change.version
    taken = all(learner["taken"] for learner in learners if learner["name"] in change.names)
    about = {key: value for key, value in change._asdict().items() if key != "names"}
    return {**about, "learners": learners, "taken": taken}

"""`domkl graph [LINKS]`: show who talks to whom in a running network, or change it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.errors import InputError
from ..base.extras import need
from ..base.words import NONE, plural
from ..lab.sheet import Sheet
from . import declare, options, show

if TYPE_CHECKING:
    from ..agent.topology import LiveNetwork, PublishedState

Link = tuple[str, str]


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
        new, old = {(min(each), max(each)) for each in links}, network.links
        dropped = [name for name in network.live if name in args.drop]
        later = [name for name in names if name not in network.live]
        version = network.next_version() if args.version is None else args.version
        held = [name for name in [*names, *dropped] if name not in later]
        return cls(version, links, sorted(new - old), sorted(old - new), dropped, later, held)


def run(args: argparse.Namespace) -> None:
    """Show the graph, or change it and show who has taken it."""
    need("msgspec", "agent")
    from ..agent.topology import LAST

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
    from ..agent.topology import check_links

    links = [_link(part.strip()) for part in text.split(",")]
    check_links(links)
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
    from ..agent.topology import connected

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
    from ..agent.topology import connected

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
    from ..agent.topology import encode

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
    device = network.state_of(name)
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
    return [{"name": name, **network.state_of(name)._asdict()} for name in names]


def _document(network: LiveNetwork, change: Change) -> dict[str, Any]:
    learners = _learners(network, [*change.names, *change.later])
    for learner in learners:
        learner["taken"] = learner["graph"] == change.version
    taken = all(learner["taken"] for learner in learners if learner["name"] in change.names)
    about = {key: value for key, value in change._asdict().items() if key != "names"}
    return {**about, "learners": learners, "taken": taken}

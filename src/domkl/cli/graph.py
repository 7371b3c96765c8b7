"""`domkl graph LINKS`: change who talks to whom in a running network."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any, NamedTuple

from ..base.errors import InputError
from ..base.extras import need
from ..exchange import graph
from . import show

Link = tuple[str, str]
#: Seconds after which the graph is sent again: a learner may have missed it.
AGAIN = 1.0


class GraphState(NamedTuple):
    """The state that a learner last published."""

    state: str = "no answer"
    graph: int = 0


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "give a running network another graph, and wait until its learners have taken it"
    command = commands.add_parser("graph", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add = command.add_argument
    add("links", metavar="LINKS", help="who talks to whom: a-b,b-c; with a : where names hold a -: x-1:x-2")
    add("--network", required=True, metavar="NAME", help="the network's name, as in the learners' files")
    add("--transport", choices=["zenoh", "mqtt"], default="zenoh", help="how they talk (default: zenoh)")
    add(
        "--connect",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="zenoh: where a learner listens; the others are found from there (repeatable)",
    )
    add("--broker", metavar="HOST:PORT", help="mqtt: where the broker is (default: 127.0.0.1:1883)")
    for option, what in (
        ("ca", "the network's ca.pem"),
        ("cert", "operator.pem"),
        ("key", "operator.key; make all three with: domkl certs DIRECTORY operator"),
    ):
        add(f"--{option}", metavar="FILE", help=what)
    add("--insecure", action="store_true", help="other machines without certificates: anyone can forge")
    add("--version", type=int, metavar="N", help="of the graph; learners take later ones only (default: now)")
    add("--wait", type=float, default=10.0, metavar="S", help="seconds to wait for them (default: 10)")
    add("--json", action="store_true", help="one JSON document on standard output")
    command.set_defaults(act=run)


def run(args: argparse.Namespace) -> None:
    """Publish the graph, and print who has taken it."""
    need("msgspec", "agent")
    links = parse(args.links)
    version = time.time_ns() if args.version is None else args.version
    if not 0 < version < 2**63:
        raise InputError(f"--version is {version}; expected 1 to 2**63 - 1; leave it out")
    names = list(dict.fromkeys(name for link in links for name in link))
    found = asyncio.run(_announce(_transport(args, names), names, links, version, args.wait))
    late = [name for name in names if found[name].graph < version]
    if args.json:
        show.document(_document(version, links, found, late))
    else:
        _print(version, found, late)
    if late:
        raise InputError(
            f"{', '.join(late)} did not take graph {version} within {args.wait:g} s; expected all it "
            f"names; see that they run and get readings, then run it again with --version {version}"
        )


def parse(text: str) -> list[Link]:
    """The links of a connected graph.

    >>> parse("a-b, b-c"), parse("x-1:x-2")
    ([('a', 'b'), ('b', 'c')], [('x-1', 'x-2')])
    """
    from ..agent.transports.topics import OPERATOR, check_name

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


def _transport(args: argparse.Namespace, names: list[str]) -> Any:
    """The operator's way to the learners; not yet open."""
    from ..agent import transports

    if args.transport == "zenoh" and not args.connect:
        raise InputError("--connect is not given; expected a learner's address; add --connect HOST:PORT")
    for option, given, other in (("--broker", args.broker, "zenoh"), ("--connect", args.connect, "mqtt")):
        if given and args.transport == other:
            raise InputError(f"{option} is not for {other}; expected the other --transport; leave one out")
    settings = transports.TransportSettings(
        args.transport,
        args.network,
        transports.OPERATOR,
        connect=tuple(args.connect),
        broker=args.broker or transports.TransportSettings.broker,
        ca=args.ca,
        cert=args.cert,
        key=args.key,
        peers=tuple(names),
        insecure=args.insecure,
    )
    return transports.make(settings)


async def _announce(
    transport: Any, names: list[str], links: list[Link], version: int, wait: float
) -> dict[str, GraphState]:
    """The state of each learner, once all have taken the graph or the time is over."""
    from ..agent import transports

    network = transport.settings.network
    found = dict.fromkeys(names, GraphState())
    await transport.open()
    try:
        for name in names:
            transport.subscribe(transports.topic(network, name, transports.STATE))
        receiving = asyncio.create_task(_receive(transport, found, version))
        document = json.dumps({"version": version, "links": links}).encode()
        end = time.monotonic() + wait
        while not receiving.done():
            transport.publish(transports.topic(network, transports.OPERATOR, "graph"), document, retain=True)
            await asyncio.wait([receiving], timeout=max(0.0, min(AGAIN, end - time.monotonic())))
            if time.monotonic() >= end:
                receiving.cancel()
                break
        await asyncio.gather(receiving, return_exceptions=True)
    finally:
        await transport.close()
    return found


async def _receive(transport: Any, found: dict[str, GraphState], version: int) -> None:
    """Receive states until all have taken the graph."""
    from ..agent.transports import sender_of

    while any(state.graph < version for state in found.values()):
        for topic, payload in await transport.receive():
            name = sender_of(topic)
            if name in found:
                found[name] = _state(payload, found[name])


def _state(payload: bytes, before: GraphState) -> GraphState:
    """A published state; a learner that has gone keeps the graph that it took."""
    try:
        found = json.loads(payload)
        return GraphState(str(found["state"]), int(found["graph"]))
    except (ValueError, KeyError, TypeError):
        return GraphState("lost", before.graph)


def _document(
    version: int, links: list[Link], found: dict[str, GraphState], late: list[str]
) -> dict[str, Any]:
    learners = [{"name": name, **state._asdict(), "taken": name not in late} for name, state in found.items()]
    return {"version": version, "links": links, "learners": learners, "taken": not late}


def _print(version: int, found: dict[str, GraphState], late: list[str]) -> None:
    print(f"graph {version}")
    for name, state in found.items():
        print(f"{name}: {'not taken' if name in late else 'taken'} ({state.state})")

"""An operator's graph as agents receive it: checked as a whole, and only then followed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..base import checks
from ..base.errors import InputError
from ..exchange import graph
from .transports import TransportSettings, security
from .transports.names import MOST_NAMES, OPERATOR, check_name

#: A version may be so much above the one that an agent holds: nobody can use all versions up at once.
STEP = 2**20
#: Versions are below this, so that they fit into messages.
LAST = 2**62
#: The most learners and links of a graph, and addresses of a learner.
MOST_LEARNERS, MOST_LINKS, MOST_ADDRESSES = 10_000, 100_000, 8

Link = tuple[str, str]
Addresses = Mapping[str, tuple[str, ...]]


class NewGraph(NamedTuple):
    """A graph as one learner sees it."""

    version: int
    neighbours: tuple[str, ...]
    addresses: dict[str, tuple[str, ...]]  # where the neighbours listen, as far as the operator knew


def encode(version: int, links: Iterable[Link], addresses: Addresses, dropped: Iterable[str]) -> bytes:
    """The operator's document; `dropped` are learners that leave the graph and stay alone."""
    document = {"version": version, "links": [*links], "addresses": addresses, "dropped": [*dropped]}
    return json.dumps(document).encode()


def decode(payload: bytes, settings: TransportSettings) -> NewGraph:
    """The graph in a document, as the learner with these settings sees it; refuses what cannot be right."""
    try:
        document = json.loads(payload)
        version = checks.count("version", document["version"])
        links = [(str(a), str(b)) for a, b in document["links"]]
        dropped = {str(name) for name in document.get("dropped", [])}
        addresses = dict(document.get("addresses", {}))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"a graph is unreadable ({error!r}); expected version and links; fix it") from None
    me = settings.name
    near = _neighbours(links, me)
    if not near and me not in dropped:
        raise InputError(f"the graph leaves {me} out; expected a link of it, or {me} in dropped; add one")
    return NewGraph(version, near, {name: _addresses(addresses.get(name, []), settings) for name in near})


def _neighbours(links: list[Link], me: str) -> tuple[str, ...]:
    """Our neighbours in a connected graph."""
    names = list(dict.fromkeys(name for link in links for name in link))
    if len(links) > MOST_LINKS or len(names) > MOST_LEARNERS:
        raise InputError(
            f"the graph has {len(names)} learners and {len(links)} links; "
            f"expected at most {MOST_LEARNERS} and {MOST_LINKS}; divide it"
        )
    for name in names:
        check_name(name, "learner")
    if OPERATOR in names:
        raise InputError(f"a learner is called {OPERATOR!r}; that is who directs them; rename it")
    if links:
        graph.build(names, links)  # refuses loops, and graphs in several parts
    near = tuple(dict.fromkeys(b if a == me else a for a, b in links if me in (a, b)))
    if len(near) > MOST_NAMES:
        raise InputError(
            f"the graph gives {me} {len(near)} neighbours; expected at most {MOST_NAMES}, "
            "as many as a hello can name; divide them"
        )
    return near


def _addresses(given: Any, settings: TransportSettings) -> tuple[str, ...]:
    """Where a neighbour listens; refuses what we may not connect to."""
    if not isinstance(given, list) or len(given) > MOST_ADDRESSES:
        raise InputError(f"addresses are {given!r}; expected at most {MOST_ADDRESSES}; leave some out")
    for address in given:
        if not isinstance(address, str):
            raise InputError(f"an address is {address!r}; expected host:port; fix it")
        security.check_reachable(address, settings)
    return tuple(given)


def check_version(new: NewGraph, held: int) -> None:
    """Refuse a version that is earlier than the one we hold, or far later."""
    if not held < new.version <= min(held + STEP, LAST):
        raise InputError(
            f"the graph has version {new.version}; expected {held + 1} to {held + STEP}; "
            "use the next version, as domkl graph does"
        )

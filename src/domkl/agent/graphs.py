"""An operator's graph as agents receive it: checked as a whole, and only then followed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

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
    names = list(dict.fromkeys(name for link in links for name in link))
    if len(names) > MOST_LEARNERS:
        raise InputError(f"the graph has {len(names)} learners; expected at most {MOST_LEARNERS}; divide it")
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


def check_version(new: NewGraph, held: int) -> None:
    """Refuse a version that is earlier than the one we hold, or far later."""
    if not held < new.version <= min(held + STEP, LAST):
        raise InputError(
            f"the graph has version {new.version}; expected {held + 1} to {held + STEP}; "
            "use the next version, as domkl graph does"
        )

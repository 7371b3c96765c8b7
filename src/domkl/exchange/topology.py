"""What a learner knows of the network beyond its neighbours: learnt from links that are flooded.

Every learner announces its own links with a version that grows when they change. Announcements are passed on
to all neighbours, once each, so after as many rounds as the network's diameter everybody knows every link.
What a learner announces about itself counts; of one that has not yet, what others announce about it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..base.errors import PeerError
from ..base.types import Array
from .edges import NEVER

#: A learner's links: their version, and its neighbours.
Announcement: TypeAlias = "tuple[int, tuple[Hashable, ...]]"
#: The most learners of a network that are kept track of, the most links of one, and of all together.
MOST_LEARNERS, MOST_LINKS, MOST_ALL_LINKS = 1024, 1024, 16_384
#: The most links that one update passes on, unless a single learner has more; the rest waits for the next.
MOST_NEWS = 1024
#: The largest diameter that counts: half the rounds of the warm-up, which no larger one can then make longer.
MOST_DIAMETER = 256
#: The largest version, and how far it may be ahead of the last: a forged one must leave room to outrun it.
MOST_VERSION, MOST_AHEAD = 2**62, 2**26


def order(name: Hashable) -> tuple[int, str]:
    """Sorts names the same everywhere: 2 before 10, "a" before "b"."""
    return len(str(name)), str(name)


class Topology:
    """The links that are known, and what follows from them."""

    def __init__(self, name: Hashable, neighbours: Sequence[Hashable]) -> None:
        self.name = name
        self.known: dict[Hashable, Announcement] = {name: (0, tuple(neighbours))}
        self.news: dict[Hashable, None] = dict.fromkeys(self.known)  # whose links are not yet passed on
        self._count = len(tuple(neighbours))  # all links that are known
        self._may_prune = True
        self._members: list[Hashable] | None = None
        self._size: tuple[int, int] | None = None

    def set_neighbours(self, neighbours: Sequence[Hashable]) -> None:
        """Announce other links of our own; whoever is new is told everything."""
        version, before = self.known[self.name]
        if tuple(neighbours) != before:
            self._learn(self.name, (min(version + 1, MOST_VERSION), tuple(neighbours)))
        if set(neighbours) - set(before):
            self.news = dict.fromkeys(self.known)

    def receive(self, links: Mapping[Hashable, Announcement]) -> None:
        """Take in announcements; what is new is passed on with the next message."""
        for name, found in links.items():
            check_links(name, found)
        for name, (version, neighbours) in links.items():
            found = version, tuple(neighbours)
            if version - self._version(name) > MOST_AHEAD:
                continue
            if name == self.name:
                self._outrun(found)
            elif version > self._version(name) and self._has_room(name, len(neighbours)):
                self._learn(name, found)

    def _version(self, name: Hashable) -> int:
        return self.known[name][0] if name in self.known else NEVER

    def _outrun(self, found: Announcement) -> None:
        """After a restart, or a forgery, others have links of our own that are not ours."""
        version, mine = self.known[self.name]
        if found[0] > version or (found[0] == version and found[1] != mine):
            self._learn(self.name, (min(found[0] + 1, MOST_VERSION), mine))

    def _has_room(self, name: Hashable, links: int) -> bool:
        """Whether that learner can be kept track of with so many links; those that have left make room."""
        if self._fits(name, links):
            return True
        if not self._may_prune:
            return False
        self._may_prune = False  # until the next message of ours: it takes time
        members = self._reach()
        self.known = {other: near for other, near in self.known.items() if other in members}
        self.news = {other: None for other in self.news if other in self.known}
        self._count = sum(len(near) for _, near in self.known.values())
        return self._fits(name, links)

    def _fits(self, name: Hashable, links: int) -> bool:
        """There is always room for our own links, of which there may be more later."""
        others = self._count - len(self._links_of(name)) - len(self._links_of(self.name))
        room = name in self.known or len(self.known) < MOST_LEARNERS
        return room and others + links <= MOST_ALL_LINKS - MOST_LINKS

    def _links_of(self, name: Hashable) -> tuple[Hashable, ...]:
        return self.known[name][1] if name in self.known else ()

    def _learn(self, name: Hashable, links: Announcement) -> None:
        if name not in self.known or self._links_of(name) != links[1]:
            self._members = self._size = None
        self._count += len(links[1]) - len(self._links_of(name))
        self.known[name], self.news[name] = links, None

    def take_news(self) -> dict[Hashable, Announcement]:
        """What the next message passes on: the oldest news, as far as they fit."""
        taken: dict[Hashable, Announcement] = {}
        room = MOST_NEWS
        for name in self.news:
            room -= 1 + len(self._links_of(name))
            if taken and room < 0:
                break
            taken[name] = self.known[name]
        self.news = {name: None for name in self.news if name not in taken}
        self._may_prune = True
        return taken

    @property
    def members(self) -> list[Hashable]:
        """Those that can be reached from here, in an order that is the same everywhere."""
        if self._members is None:
            self._members = sorted(self._reach(), key=order)
        return self._members

    @property
    def size(self) -> tuple[int, int]:
        """How many learners there are, and the most links between two of them, as far as is known."""
        if self._size is None:
            self._size = len(self.members), self._diameter()
        return self._size

    @property
    def is_complete(self) -> bool:
        """Whether every learner that somebody links to has announced its links."""
        return all(name in self.known for name in self.members)

    def _reach(self) -> set[Hashable]:
        around, found, frontier = self._around(), {self.name}, [self.name]
        while frontier and len(found) < MOST_LEARNERS:
            near = {other for name in frontier for other in around.get(name, ())} - found
            room = MOST_LEARNERS - len(found)
            frontier = list(near) if len(near) <= room else sorted(near, key=order)[:room]
            found.update(frontier)
        return found

    def _diameter(self) -> int:
        """Each learner's reach, a bit for each that it has reached, grows link by link."""
        index, around = {name: k for k, name in enumerate(self.members)}, self._around()
        near = [[index[other] for other in around.get(name, ()) if other in index] for name in self.members]
        lists = [[k, *others] for k, others in enumerate(near)]
        starts = np.cumsum([0, *map(len, lists[:-1])])
        links = np.concatenate([np.array(each) for each in lists])
        reach, steps = _own_bits(len(lists)), 0
        while steps < MOST_DIAMETER:
            wider = np.bitwise_or.reduceat(reach[links], starts, axis=0)
            if np.array_equal(wider, reach):
                break
            reach, steps = wider, steps + 1
        return steps

    def _around(self) -> dict[Hashable, list[Hashable]]:
        """Each learner's neighbours."""
        around: dict[Hashable, list[Hashable]] = {
            name: list(links) for name, (_, links) in self.known.items()
        }
        for name, (_, links) in self.known.items():
            for other in links:
                if other not in self.known:
                    around.setdefault(other, []).append(name)
        return around

    def state(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        return {"known": [[name, version, list(links)] for name, (version, links) in self.known.items()]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`; all of it is passed on again."""
        self.known = {name: (version, tuple(links)) for name, version, links in state["known"]}
        self.news, self._members, self._size = dict.fromkeys(self.known), None, None
        self._count = sum(len(links) for _, links in self.known.values())


def _own_bits(count: int) -> Array:
    """For each of so many learners a row of bits, with only its own set. (count, words)"""
    bits = np.packbits(np.eye(count, 64 * -(-count // 64), dtype=bool), axis=1)
    return bits.view(np.uint64)


def check_links(name: Hashable, links: Any) -> None:
    """Refuse what is not an announcement."""
    good = isinstance(links, tuple | list) and len(links) == 2
    good = good and type(links[0]) is int and 0 <= links[0] <= MOST_VERSION
    good = good and isinstance(links[1], tuple | list) and len(links[1]) <= MOST_LINKS
    if not good or not _are_names(links[1]):
        raise PeerError(f"links of {name!r} are {links!r:.100}; expected a version and names; fix the sender")


def _are_names(values: Sequence[Any]) -> bool:
    try:
        hash(tuple(values))
    except TypeError:
        return False
    return True

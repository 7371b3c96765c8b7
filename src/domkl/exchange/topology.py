"""What a learner knows of the network beyond its neighbours: learnt from links that are flooded.

Every learner announces its own links with a version that grows when they change. Announcements are passed on
to all neighbours, once each, so after as many rounds as the network's diameter everybody knows every link.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

from ..base.errors import PeerError

#: A learner's links: their version, and its neighbours.
Links: TypeAlias = "tuple[int, tuple[Hashable, ...]]"
#: The most learners of a network that are kept track of, and the most links of one.
MOST_LEARNERS, MOST_LINKS = 1024, 1024


def order(name: Hashable) -> tuple[int, str]:
    """Sorts names the same everywhere: 2 before 10, "a" before "b"."""
    return len(str(name)), str(name)


class Topology:
    """The links that are known, and what follows from them."""

    def __init__(self, name: Hashable, neighbours: Sequence[Hashable]) -> None:
        self.name = name
        self.known: dict[Hashable, Links] = {name: (0, tuple(neighbours))}
        self.news: dict[Hashable, Links] = dict(self.known)  # not yet passed on
        self._size: tuple[int, int] | None = None

    def set_neighbours(self, neighbours: Sequence[Hashable]) -> None:
        """Announce other links of our own."""
        version, before = self.known[self.name]
        if tuple(neighbours) != before:
            self._learn(self.name, (version + 1, tuple(neighbours)))

    def receive(self, links: Mapping[Hashable, Links]) -> None:
        """Take in announcements; what is new is passed on with the next message."""
        for name, found in links.items():
            check_links(name, found)
            if name == self.name:
                self._outrun(found)
            elif name not in self.known or self.known[name][0] < found[0]:
                if name in self.known or len(self.known) < MOST_LEARNERS:
                    self._learn(name, found)

    def _outrun(self, found: Links) -> None:
        """After a restart others may still have later links of our own than we do."""
        version, mine = self.known[self.name]
        if found[0] > version or (found[0] == version and found[1] != mine):
            self._learn(self.name, (found[0] + 1, mine))

    def _learn(self, name: Hashable, links: Links) -> None:
        self.known[name] = self.news[name] = links
        self._size = None

    def take_news(self) -> dict[Hashable, Links]:
        """What the next message passes on."""
        news, self.news = self.news, {}
        return news

    @property
    def members(self) -> list[Hashable]:
        """Those that can be reached from here, in an order that is the same everywhere."""
        return sorted(self._distances(self.name), key=order)

    @property
    def size(self) -> tuple[int, int]:
        """How many learners there are, and the most links between two of them, as far as is known."""
        if self._size is None:
            members = self.members
            distances = [max(self._distances(name).values()) for name in members]
            self._size = len(members), max(distances)
        return self._size

    @property
    def is_complete(self) -> bool:
        """Whether every learner that somebody links to has announced its links."""
        return all(name in self.known for name in self._distances(self.name))

    def _distances(self, start: Hashable) -> dict[Hashable, int]:
        """Links between `start` and each learner; a link counts if either end announces it."""
        found, edge = {start: 0}, [start]
        while edge:
            near = [other for name in edge for other in self._around(name) if other not in found]
            step = found[edge[0]] + 1
            edge = list(dict.fromkeys(near))
            found |= dict.fromkeys(edge, step)
        return found

    def _around(self, name: Hashable) -> list[Hashable]:
        if name in self.known:
            return list(self.known[name][1])
        return [other for other, (_, links) in self.known.items() if name in links]

    def state(self) -> dict[str, Any]:
        """All of it, fit for JSON."""
        return {"known": [[name, version, list(links)] for name, (version, links) in self.known.items()]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`; all of it is passed on again."""
        self.known = {name: (version, tuple(links)) for name, version, links in state["known"]}
        self.news, self._size = dict(self.known), None


def check_links(name: Hashable, links: Any) -> None:
    """Refuse what is not an announcement."""
    good = isinstance(links, tuple | list) and len(links) == 2 and isinstance(links[0], int) and links[0] >= 0
    if not good or not isinstance(links[1], tuple | list) or len(links[1]) > MOST_LINKS:
        raise PeerError(f"links of {name!r} are {links!r:.100}; expected a version and names; fix the sender")

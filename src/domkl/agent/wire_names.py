"""Names and numbers that a message may hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..base.errors import PeerError
from ..exchange.edges import NEVER, NUMBER_END, Held

#: Rounds in messages are below this.
ROUND_END = 2**52
NAME_CHARACTERS = re.compile(r"[A-Za-z0-9_.-]*")
#: The most learners that one message may name.
MOST_NAMES = 1024


def check_names(message: Any) -> None:
    """Refuse names that cannot be sent, and edges with numbers out of range."""
    names = [*message.edges, *getattr(message, "news", ())]
    if hasattr(message, "wants"):
        names += [*message.wants, *message.ended, *message.lives, *message.rivals]
    if strange := strange_names(names):
        raise PeerError(f"a message has {strange}; fix its sender")
    if not _in_range(message.edges.values()):
        raise PeerError(
            f"a message has an edge with numbers out of range; expected at most {NUMBER_END - 1}, "
            f"and rounds of at most {ROUND_END - 1}; fix its sender"
        )
    if message.durable > message.round:
        raise PeerError(
            f"a message of round {message.round} is durable up to {message.durable}; expected no later "
            "round than its own; fix its sender"
        )


def strange_names(names: Iterable[str]) -> str:
    """What is wrong with the names, or nothing."""
    given = list(names)
    good = all(isinstance(name, str) for name in given) and NAME_CHARACTERS.fullmatch("".join(given))
    return "" if good else "a name that cannot be sent; expected letters, digits, '_', '.' and '-'"


def _in_range(edges: Iterable[Held]) -> bool:
    for mine, theirs, seen, moved, before in edges:
        if not (0 <= mine < NUMBER_END and 0 <= theirs < NUMBER_END):
            return False
        if not (NEVER <= seen < ROUND_END and NEVER <= moved < ROUND_END and NEVER <= before < ROUND_END):
            return False
    return True

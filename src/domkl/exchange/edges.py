"""State of each edge, and how its two ends agree on the dual when messages are lost.

Each update holds, for every neighbour, which moves of their common dual are in force at the sender (`Held`).
An end moves its dual as soon as a round closes with the neighbour's update, before it knows whether the
neighbour received its own. The neighbour's next update shows that; if it did not, the move is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..base.types import Array

#: Before the first round.
NEVER = -1
#: Numbers of edges are below this, so that they fit into messages.
NUMBER_END = 2**63


class Held(NamedTuple):
    """State of one end of an edge, as the other end receives it."""

    mine: int = 0  # the sender's number for its end; a new one resets the edge, with a dual of zero
    theirs: int = 0  # the receiver's number, as the sender knows it
    seen: int = NEVER  # the receiver's last round that the sender has taken
    moved: int = NEVER  # the last round in which the sender's dual moved, and that is in force
    before: int = NEVER  # the one before that


class Edge:
    """This end of an edge; `dual` times rho/2 is its share of the learner's lam."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, number: int = 0) -> None:
        self.number, self.theirs = number, 0
        self.dual: Array = np.zeros(shape, dtype)
        self.seen = self.moved = self.before = NEVER
        self.settled: Array | None = None  # the dual before its last move, until the other end confirms that

    @property
    def held(self) -> Held:
        """State of this end, for the other end."""
        return Held(self.number, self.theirs, self.seen, self.moved, self.before)

    def agrees(self, held: Held) -> bool:
        """Whether both ends have the same numbers: neither has reset the edge without the other."""
        return held.mine == self.theirs and held.theirs == self.number

    def move(self, round: int, by: Array, hoping: bool, leak: float = 0.0) -> None:
        """The dual's step of a round, whose array it takes; `hoping`: it is not confirmed yet.

        `leak`: the part that it loses.
        """
        self.settled = self.dual if hoping else None
        kept = self.dual - self.leaked(leak) if leak else self.dual
        self.dual = np.add(kept, by, out=by)
        self.moved, self.before = round, self.moved

    def leaked(self, leak: float) -> Array:
        """That part of the dual."""
        return np.asarray(self.dual.dtype.type(leak) * self.dual)

    def settle(self, held: Held, known: int) -> Array | None:
        """Compare with the moves that are in force at the other end, up to round `known`.

        Returns what this end must take back from its dual, if anything.
        """
        if held.mine != self.theirs:
            return self.reset(self.number, held.mine)
        if self.settled is None or self.moved > known or held.theirs != self.number:
            return None
        if held.before > self.moved:  # of a later round than ours, which is replayed after a restart
            return None
        settled, self.settled = self.settled, None
        if self.moved in (held.moved, held.before):
            return None
        moved, self.dual = self.dual, settled
        self.moved, self.before = self.before, NEVER
        return moved - settled

    def reset(self, number: int, theirs: int, seen: int = NEVER) -> Array | None:
        """Drop the dual because one of the two ends did; returns what to take back."""
        back = self.dual if self.moved != NEVER else None
        self.__init__(self.dual.shape, self.dual.dtype, number)  # type: ignore[misc]
        self.theirs, self.seen = theirs, seen
        return back

    def state(self) -> dict[str, Any]:
        """Complete state, by name."""
        rounds = {"seen": self.seen, "moved": self.moved, "before": self.before}
        numbers = {"number": self.number, "theirs": self.theirs}
        return {"dual": self.dual, "settled": self.settled, **numbers, **rounds}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Edge:
        """Inverse of `state`."""
        edge = cls(state["dual"].shape, state["dual"].dtype)
        for name, value in state.items():
            setattr(edge, name, value)
        return edge


def next_number(number: int) -> int:
    """The number after this one; it starts again at 0, so that a forged one cannot leave the range."""
    return (number + 1) % NUMBER_END

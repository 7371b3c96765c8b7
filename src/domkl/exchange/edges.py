"""State of each edge, and how its two ends agree on the dual when messages are lost.

Each update holds, for every neighbour, which moves of their common dual are in force at the sender (`Held`).
An end moves its dual as soon as a round closes with the neighbour's update, before it knows whether the
neighbour received its own. The neighbour's next update shows that; if it did not, the move is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from ..learning.fields import Concept, field, scalar
from .combine import Flags, Neighbours

Counts: TypeAlias = "npt.NDArray[np.int64]"
#: Before the first round.
NEVER = -1
#: Numbers of edges are below this, so that they fit into messages.
NUMBER_END = 2**63
#: Rounds in messages are below this.
ROUND_END = 2**52


class Held(NamedTuple):
    """State of one end of an edge, as the other end receives it."""

    mine: int = 0  # the sender's number for its end; a new one resets the edge, with a dual of zero
    theirs: int = 0  # the receiver's number, as the sender knows it
    seen: int = NEVER  # the receiver's last round that the sender has taken
    moved: int = NEVER  # the last round in which the sender's dual moved, and that is in force
    before: int = NEVER  # the one before that

    @property
    def is_possible(self) -> bool:
        """Whether a learner can have sent this: whole numbers, in their ranges."""
        return (
            {*map(type, self)} == {int}
            and min(self[:2]) >= 0
            and max(self[:2]) < NUMBER_END
            and min(self[2:]) >= NEVER
            and max(self[2:]) < ROUND_END
        )


class Edge(Concept):
    """This end of an edge; `dual` times rho/2 is its share of the learner's lam."""

    number: int = scalar("int64", low=0, high=NUMBER_END - 1)
    theirs: int = scalar("int64", low=0, high=NUMBER_END - 1)
    seen: int = scalar("int64", NEVER, NEVER)
    moved: int = scalar("int64", NEVER, NEVER)
    before: int = scalar("int64", NEVER, NEVER)
    dual: Array = field("P K", "model")
    settled: Array = field("P K", "model")  # before the last move
    hoping: bool = scalar("bool")  # whether the other end has still to confirm that

    def __init__(self, shape: tuple[int, int], dtype: Any, number: int = 0) -> None:
        self.allocate(dtype, P=shape[0], K=shape[1])
        self.number = number

    @property
    def held(self) -> Held:
        """State of this end, for the other end."""
        return Held(self.number, self.theirs, self.seen, self.moved, self.before)

    def agrees(self, held: Held) -> bool:
        """Whether both ends have the same numbers: neither has reset the edge without the other."""
        return held.mine == self.theirs and held.theirs == self.number

    def move(self, round: int, by: Array, hoping: bool) -> None:
        """The dual's step of a round, whose array it takes; `hoping`: it is not confirmed yet."""
        self.settled, self.hoping = self.dual, hoping
        self.dual = np.add(self.dual, by, out=by)
        self.moved, self.before = round, self.moved

    def settle(self, held: Held, known: int) -> Array | None:
        """Compare with the moves that are in force at the other end, up to round `known`.

        Returns what this end must take back from its dual, if anything.
        """
        if held.mine != self.theirs:
            return self.restart(self.number, held.mine)
        if not self.hoping or self.moved > known or held.theirs != self.number:
            return None
        if held.before > self.moved:  # of a later round than ours, which is replayed after a restart
            return None
        self.hoping = False
        if self.moved in (held.moved, held.before):
            return None
        moved, self.dual = self.dual, self.settled
        self.moved, self.before = self.before, NEVER
        return moved - self.dual

    def restart(self, number: int, theirs: int, seen: int = NEVER) -> Array | None:
        """Drop the dual because one of the two ends did; returns what to take back."""
        back = self.dual if self.moved != NEVER else None
        self.number, self.theirs, self.seen = number, theirs, seen
        self.moved, self.before, self.hoping = NEVER, NEVER, False
        self.dual = self.settled = np.zeros_like(self.dual)
        return back


def next_number(number: int) -> int:
    """The number after this one; it starts again at 0, so that a forged one cannot leave the range."""
    return (number + 1) % NUMBER_END


# The same for a whole network in one process: every message arrives, so both ends of an edge move its dual in
# every round, unless one of them refuses the other's parameters: then it drops its dual, under a new number,
# and the other end does so a round later. Devices (`learner.Learner`) do so too, and get the same bits.


class Ends(NamedTuple):
    """State of all ends of edges, as the other ends receive it. (E,) each; see `edges.Held`"""

    number: Counts
    theirs: Counts
    moved: Counts
    before: Counts

    def at(self, index: npt.NDArray[np.intp]) -> Ends:
        """A copy of the state of these ends."""
        return Ends(*(values[index] for values in self))


class NetworkDuals(Concept):
    """Duals at all ends of a network's edges, slot by slot as `Neighbours` has them."""

    number: Counts = field("E", "int64", low=0)
    theirs: Counts = field("E", "int64", low=0)
    moved: Counts = field("E", "int64", NEVER, NEVER)
    before: Counts = field("E", "int64", NEVER, NEVER)
    dual: Array = field("E P K", "model")
    settled: Array = field("E P K", "model")  # before the last move
    hoping: Flags = field("E", "bool", low=0, high=1)  # whether the other end has still to confirm that
    restarts: Counts = field("J", "int64", low=0)  # of the rows' parameters
    round: int = scalar("int64", low=0)

    def __init__(self, near: Neighbours) -> None:
        self.near = near
        self.rows, self.senders, self.weight = near.rows, near.senders, near.weights
        self.other = self._others()  # the other end of each edge
        self.allocate(J=len(near.deg), E=len(self.rows), P=0, K=0)

    @property
    def ends(self) -> Ends:
        """What the other ends receive; the arrays themselves."""
        return Ends(self.number, self.theirs, self.moved, self.before)

    def _others(self) -> npt.NDArray[np.intp]:
        pairs = zip(self.rows.tolist(), self.senders.tolist(), strict=True)
        where = {pair: e for e, pair in enumerate(pairs)}
        return np.array([where[i, j] for j, i in where], np.intp)

    def held(self) -> Ends:
        """What the other ends say of themselves."""
        return self.ends.at(self.other)

    def restart(self, restarts: npt.NDArray[np.int_]) -> None:
        """Where a row's parameters have started again (J,), so do its duals; the other ends learn of it by a
        new number."""
        again = np.broadcast_to(restarts, self.restarts.shape) != self.restarts
        if again.any():
            self.restarts = np.broadcast_to(restarts, self.restarts.shape).copy()
            self._drop(again[self.rows], self.ends.number + 1, self.ends.theirs)

    def settle(self, refused: Flags) -> tuple[Array | None, Flags]:
        """Compare both ends of all edges, of which some `refused` (E,) what they received.

        Returns what every learner takes back from its duals (J, P, K), if anything, and whose move. (E,)
        """
        ends, held = self.ends, self.held()
        renamed = ~refused & (held.number != ends.theirs)
        undone = self._undone(held, refused | renamed)
        dropped = (refused | renamed) & (ends.moved != NEVER)
        back = self._back(dropped, undone) if (dropped | undone).any() else None
        self._drop(refused & dropped, ends.number + 1, ends.theirs)
        self._drop(renamed, ends.number, held.number)
        self._undo(undone)
        return back, ~refused & (held.number == ends.theirs) & (held.theirs == ends.number)

    def _back(self, dropped: Flags, undone: Flags) -> Array:
        """Duals that are dropped, and last moves that are undone, of every learner. (J, P, K)"""
        amounts = np.where(undone[:, None, None], self.dual - self.settled, self.dual)
        return self._summed(np.where((dropped | undone)[:, None, None], amounts, 0).astype(self.dual.dtype))

    def _summed(self, amounts: Array) -> Array:
        """Over the edges of every learner. (E, P, K) -> (J, P, K)"""
        total = np.zeros((len(self.near.deg), *amounts.shape[1:]), amounts.dtype)
        for slot in self.near.slots:  # in the order of each learner's neighbours
            total[slot.rows] += amounts[slot.ends]
        return total

    def _undone(self, held: Ends, but: Flags) -> Flags:
        """Last moves that did not stand at the other end; those that did are confirmed."""
        ends = self.ends
        known = self.hoping & ~but & (held.theirs == ends.number)
        stands = (ends.moved == held.moved) | (ends.moved == held.before)
        self.hoping &= ~known
        return np.asarray(known & ~stands)

    def _undo(self, undone: Flags) -> None:
        self.dual = np.where(undone[:, None, None], self.settled, self.dual) if undone.any() else self.dual
        moved, before = self.ends.moved, self.ends.before
        moved[undone], before[undone] = before[undone], NEVER

    def _drop(self, which: Flags, number: Counts, theirs: Counts) -> None:
        if not which.any():
            return
        self.dual = np.where(which[:, None, None], 0, self.dual).astype(self.dual.dtype)
        self.ends.number[which], self.ends.theirs[which] = number[which], theirs[which]
        self.ends.moved[which] = self.ends.before[which] = NEVER
        self.hoping &= ~which

    def begin(self, shape: tuple[int, ...], dtype: Any) -> None:
        """Make room for duals of this shape, where there is none."""
        if self.dual.shape[1:] != shape:
            self.dtype = np.dtype(dtype)
            self.sizes["P"], self.sizes["K"] = shape
            self.dual, self.settled = np.zeros((2, len(self.rows), *shape), dtype)

    def move(self, moving: Flags, own: Array, received: Array) -> None:
        """The duals' step of a round, from the own (J, P, K) and the received parameters (E, P, K)."""
        self.begin(received.shape[1:], received.dtype)
        by = np.asarray(self.weight[:, None, None], own.dtype) * (own[self.rows] - received)
        self.settled, dual = self.dual, self.dual + by
        self.dual = dual if moving.all() else np.where(moving[:, None, None], dual, self.dual)
        moved, before = self.ends.moved, self.ends.before
        before[moving], moved[moving] = moved[moving], self.round
        self.hoping |= moving
        self.round += 1

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`, over the same graph."""
        if not self.sizes["K"]:
            self.begin(state["dual"].shape[1:], state["dual"].dtype)
        super().restore(state)

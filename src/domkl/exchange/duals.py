"""The duals of a whole network, edge by edge: what `edges.Edge` is at each end, for a simulation.

Every message arrives, so both ends of an edge move its dual in every round, unless one of them refuses the
other's parameters: then it drops its dual, under a new number, and the other end does so a round later.
Devices go through the same steps (`learner.Learner`), and get the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..base.types import Array
from .combine import Flags, Neighbours
from .edges import NEVER

Counts: TypeAlias = "npt.NDArray[np.int64]"


class Ends(NamedTuple):
    """State of all ends of edges, as the other ends receive it. (E,) each; see `edges.Held`"""

    number: Counts
    theirs: Counts
    moved: Counts
    before: Counts

    def at(self, index: npt.NDArray[np.intp]) -> Ends:
        """A copy of the state of these ends."""
        return Ends(*(values[index] for values in self))


class NetworkDuals:
    """Duals at all ends of a network's edges, slot by slot as `Neighbours` has them."""

    FIELDS: ClassVar = ("dual", "settled", "hoping", "round", "restarts")

    def __init__(self, near: Neighbours) -> None:
        self.near = near
        self.rows, self.senders, self.weight = near.rows, near.senders, near.weights
        where = {
            pair: e for e, pair in enumerate(zip(self.rows.tolist(), self.senders.tolist(), strict=True))
        }
        self.other = np.array([where[i, j] for j, i in where], np.intp)  # the other end of each edge
        E = len(self.rows)
        self.ends = Ends(*np.zeros((2, E), np.int64), *np.full((2, E), NEVER, np.int64))
        self.dual: Array = np.zeros((E, 0, 0))
        self.settled = self.dual  # before the last move
        self.hoping = np.zeros(E, bool)  # whether the other end has still to confirm that
        self.round = 0
        self.restarts = np.zeros(len(near.deg), int)

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
        ends, held = self.ends, self.ends.at(self.other)
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

    def leaked(self, moving: Flags, leak: float) -> Array | None:
        """What every learner loses of the duals that move in this round. (J, P, K)"""
        if not (leak and self.dual.any()):
            return None
        lost = self.dual.dtype.type(leak) * self.dual
        return self._summed(lost if moving.all() else np.where(moving[:, None, None], lost, 0))

    def move(self, moving: Flags, own: Array, received: Array, leak: float = 0.0) -> None:
        """The duals' step of a round, from the own (J, P, K) and the received parameters (E, P, K)."""
        if self.dual.shape != received.shape:
            self.dual = np.zeros_like(received)
        by = np.asarray(self.weight[:, None, None], own.dtype) * (own[self.rows] - received)
        kept = self.dual - self.dual.dtype.type(leak) * self.dual if leak else self.dual
        self.settled, dual = self.dual, kept + by
        self.dual = dual if moving.all() else np.where(moving[:, None, None], dual, self.dual)
        moved, before = self.ends.moved, self.ends.before
        before[moving], moved[moving] = moved[moving], self.round
        self.hoping |= moving
        self.round += 1

    def state(self) -> dict[str, Any]:
        """Everything between two rounds, by name."""
        own = {name: getattr(self, name) for name in self.FIELDS}
        return {**own, "ends": self.ends._asdict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `state`, over the same graph."""
        for name in self.FIELDS:
            setattr(self, name, state[name])
        self.ends = Ends(**state["ends"])

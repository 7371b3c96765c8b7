"""What a facade's user can choose, and what a facade's model can do."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from ..base.types import Array

PRESETS = ("auto", "first-order")
#: What the facades do unless told otherwise.
DEFAULT = "first-order"


class Settings(NamedTuple):
    """What a facade's user can choose."""

    preset: str = DEFAULT
    D: int = 50
    eta: float = 4.0
    eta_g: float = 1.0
    seed: int = 0
    size: int = 1700


class Single(Protocol):
    """A model of one number, from samples (d,) that may hold NaN."""

    @property
    def n(self) -> int:
        """How many samples were learnt."""

    def predict(self, x: Array) -> float:
        """The number at x; for the logistic loss, the score."""

    def learn(self, x: Array, y: float) -> None:
        """Take in a sample; an x that is the very array last asked about must still hold the same."""

    def grow(self, keys: Sequence[Hashable]) -> None:
        """New columns, after those there are."""

    def ask(self, x: dict[Any, Any]) -> float | None:
        """`predict` for values by key; None where it needs them as an array."""

    def tell(self, x: dict[Any, Any], y: float) -> bool:
        """`learn` for values by key; False, and nothing is learnt, where it needs them as an array."""

"""`domkl.Auto` on one device without neighbours."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base import checks
from ..base.types import Array
from ..learning.settings import Auto
from .online import OnlineRows
from .single import log_odds


class SingleAuto:
    """The `Auto` model of one device; samples x (d,) may hold NaN, and inputs may be added at any time."""

    def __init__(self, settings: Auto) -> None:
        self.settings = settings
        self.d = 0
        self.online: OnlineRows | None = None  # made with the first input

    @property
    def n(self) -> int:
        """How many samples were learnt."""
        return 0 if self.online is None else self.online.n

    def predict(self, x: Array) -> float:
        """The target at x; for the logistic loss 2 P(y = +1) - 1."""
        if self.online is None:
            return self.settings.start
        return float(self.online.predict(_finite(x)[None])[0])

    def score(self, x: Array) -> float:
        """The target at x; for the logistic loss the log-odds of y = +1."""
        found = self.predict(x)
        return log_odds(found) if self.settings.loss == "logistic" else found

    def learn(self, x: Array, y: float) -> None:
        """Learn a sample."""
        if self.online is not None:
            self.online.learn(_finite(x)[None], [y])

    def predict_dict(self, x: dict[Any, Any]) -> float | None:
        """None: it needs an array."""
        return None

    def learn_dict(self, x: dict[Any, Any], y: float) -> bool:
        """False, and nothing learnt: it needs an array."""
        return False

    def state(self) -> dict[str, Any]:
        """Everything it knows, by name; there must be inputs."""
        assert self.online is not None
        return self.online.state()

    def restore(self, state: Mapping[str, Any], d: int) -> None:
        """Inverse of `state`, of d inputs; what cannot be such is refused with a ValueError."""
        self.online, self.d = OnlineRows.restored(self.settings, state, d), d

    def grow(self, keys: Sequence[Hashable]) -> None:
        """Add inputs after those there are."""
        d = self.d + len(keys)
        if self.online is not None:
            self.online.grow(d)
        elif d:
            self.online = OnlineRows(self.settings, d)
        self.d = d


def _finite(x: Array) -> Array:
    """Inputs that are infinite, or too large to be squared, count as missing."""
    return np.where(np.abs(x) <= checks.LARGEST, x, np.nan)

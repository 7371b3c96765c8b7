"""`domkl.Auto` on one device without neighbours; the one place that uses `learning.auto.Model`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..base.types import Array
from ..learning.auto import Model
from ..learning.settings import Auto
from .single import log_odds


class SingleAuto:
    """The `Auto` model of one device, with inputs that may be added at any time."""

    def __init__(self, settings: Auto) -> None:
        self.settings = settings
        self.d = 0
        self.model: Model | None = None  # made with the first input

    @property
    def n(self) -> int:
        return 0 if self.model is None else self.model.n

    def predict(self, x: Array) -> float:
        if self.model is None or not self.model.n:
            return self.settings.start
        return self.model.predict(_finite(x))

    def score(self, x: Array) -> float:
        found = self.predict(x)
        return log_odds(found) if self.settings.loss == "logistic" else found

    def learn(self, x: Array, y: float) -> None:
        if self.model is not None:
            self.model.learn(_finite(x), y)

    def predict_dict(self, x: dict[Any, Any]) -> float | None:
        return None

    def learn_dict(self, x: dict[Any, Any], y: float) -> bool:
        return False

    def grow(self, keys: Sequence[Hashable]) -> None:
        self.d += len(keys)
        if self.model is not None:
            self.model.grow(self.d)
        elif self.d:
            asked = self.settings
            self.model = Model(
                self.d, loss=asked.loss, seed=asked.seed, size=asked.size, forgetting=asked.forgetting
            )


def _finite(x: Array) -> Array:
    """Infinite inputs count as missing."""
    return np.where(np.isfinite(x), x, np.nan)

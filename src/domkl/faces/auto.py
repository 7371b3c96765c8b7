"""Preset "auto" as a facade uses it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..base.types import Array
from ..learning.auto import Model
from .odds import score
from .settings import Settings


class Auto:
    """`domkl.auto.Model`, which needs the number of its columns."""

    def __init__(self, settings: Settings, loss: str) -> None:
        self.d = 0
        self.model: Model | None = None
        self.settings, self.loss = settings, loss

    @property
    def n(self) -> int:
        return 0 if self.model is None else self.model.n

    def predict(self, x: Array) -> float:
        found = 0.0 if self.model is None else self.model.predict(_known(x))
        return score(found) if self.loss == "logistic" else found

    def learn(self, x: Array, y: float) -> None:
        if self.model is not None:
            self.model.learn(_known(x), y)

    def ask(self, x: dict[Any, Any]) -> float | None:
        return None

    def tell(self, x: dict[Any, Any], y: float) -> bool:
        return False

    def grow(self, keys: Sequence[Hashable]) -> None:
        self.d += len(keys)
        if self.model is not None:
            self.model.grow(self.d)
        elif self.d:
            self.model = Model(self.d, loss=self.loss, seed=self.settings.seed, size=self.settings.size)


def _known(x: Array) -> Array:
    """What is infinite says as little as what is missing."""
    return np.where(np.isfinite(x), x, np.nan)

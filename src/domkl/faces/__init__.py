"""Models of one device without neighbours, behind `domkl.DOMKL`, `domkl.river` and `domkl.sklearn`.

model = make(for_numbers(domkl.Auto(size=400)))
model.grow(["temperature", "hour"])   # an input for each key, at any time
model.predict(x), model.learn(x, y)   # x (d,) may hold NaN where a value is missing; any scale
"""

from __future__ import annotations

from ..models.paper_single import digest
from .classes import Classes, classifier
from .models import (
    Single,
    explain,
    for_numbers,
    hand_over,
    kind_of,
    make,
    mean_part,
    refuse_one_target,
    settings_of,
)

__all__ = [
    "Classes",
    "Single",
    "classifier",
    "digest",
    "explain",
    "for_numbers",
    "hand_over",
    "kind_of",
    "make",
    "mean_part",
    "refuse_one_target",
    "settings_of",
]

"""Models of one device without neighbours, behind `domkl.DOMKL`, `domkl.river` and `domkl.sklearn`.

model = make(for_numbers(domkl.Auto(size=400)))
model.grow(["temperature", "hour"])   # an input for each key, at any time
model.predict(x), model.learn(x, y)   # x (d,) may hold NaN where a value is missing; any scale
"""

from __future__ import annotations

from .classes import OneVsRest
from .models import Single, check, for_classes, for_numbers, make
from .paper import SinglePaper
from .single import digest

__all__ = ["OneVsRest", "Single", "SinglePaper", "check", "digest", "for_classes", "for_numbers", "make"]

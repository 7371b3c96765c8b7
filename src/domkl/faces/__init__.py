"""One device without neighbours, as `domkl.river` and `domkl.sklearn` use it.

    model = make(Settings("first-order", seed=0), "squared")
    model.grow(["temperature", "hour"])   # one column for each key, at any time
    model.predict(x), model.learn(x, y)   # x (d,) may hold NaN: missing; any scale

Presets: "first-order" is `Learner`'s step over 17 Gaussian kernels; "auto" is `domkl.auto.Model`.
"""

from __future__ import annotations

from .classes import OneVsRest
from .first_order import FirstOrder
from .keys import digest
from .making import make
from .scaled import Mind, ScaledLearner
from .settings import DEFAULT, PRESETS, Settings, Single

__all__ = [
    "DEFAULT",
    "PRESETS",
    "FirstOrder",
    "Mind",
    "OneVsRest",
    "ScaledLearner",
    "Settings",
    "Single",
    "digest",
    "make",
]

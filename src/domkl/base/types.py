"""Names for types that are used everywhere."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

#: An array of floats. float32 is allowed wherever a `dtype` can be chosen; types do not track which.
Array: TypeAlias = npt.NDArray[np.float64]
#: The float type to compute in: numpy.float64 or numpy.float32.
Float: TypeAlias = npt.DTypeLike

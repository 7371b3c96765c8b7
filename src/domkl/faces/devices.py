"""A device without neighbours, asked and told with samples that may hold NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import engines
from ..base.types import Array

#: Where a scaled input is cut off.
FAR = 1e6


def asked(device: engines.Device) -> Callable[[Array], float]:
    """How to ask the device; samples are filled in place."""
    predict = device.predict

    def ask(z: Array) -> float:
        try:
            return predict(z)
        except ValueError:
            return predict(_filled(z))

    return _predict_numpy(device) if isinstance(device, engines.ArrayDevice) else ask


def _predict_numpy(device: engines.ArrayDevice) -> Callable[[Array], float]:
    """NumPy does not look whether a sample is finite."""
    return lambda z: device.predict(_filled(z).astype(np.float32))


def told(device: engines.Device) -> Callable[[Array, float], object]:
    """How to tell the device a label; samples are filled in place."""
    if isinstance(device, engines.ArrayDevice):
        return lambda z, y: device.alone(_filled(z).astype(np.float32), y)
    alone = device.device.alone  # type: ignore[attr-defined]

    def tell(z: Array, y: float) -> None:
        try:
            alone(z, y)
        except ValueError:
            alone(_filled(z), y)

    return tell


def _filled(z: Array) -> Array:
    """In place: what is missing is the mean, what is infinite is far."""
    z[np.isnan(z)] = 0.0
    return np.clip(z, -FAR, FAR, out=z)

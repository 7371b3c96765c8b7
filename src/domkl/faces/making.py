"""The model of a preset."""

from __future__ import annotations

from ..base import checks
from .auto import Auto
from .first_order import FirstOrder
from .settings import PRESETS, Settings, Single


def make(settings: Settings, loss: str) -> Single:
    """The model of a preset, without columns yet."""
    if checks.one_of("preset", settings.preset, PRESETS) == "auto":
        return Auto(settings, loss)
    return FirstOrder(settings, loss)

"""`Auto`, the default model. Read `model.py` first: its round is the list of the concepts beside it."""

from .model import EXPERTS as EXPERT_NAMES
from .model import AutoRows

__all__ = ["EXPERT_NAMES", "AutoRows"]

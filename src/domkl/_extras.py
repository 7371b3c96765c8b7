"""Optional packages, imported when first needed."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingExtra


def need(module: str, extra: str) -> Any:
    """Import `module`, or say which extra of domkl brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        package = module.split(".")[0]
        raise MissingExtra(
            f"{package} is not installed and this part of domkl needs it; "
            f'install it with: pip install "domkl[{extra}]"'
        ) from None

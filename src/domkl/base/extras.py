"""Optional packages, imported when first needed."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingExtra


def need(module: str, extra: str) -> Any:
    """Import `module`, or say which extra of domkl brings it."""
    package = module.split(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingExtra(
            f"{package} is not installed and this part of domkl needs it; "
            f'install it with: pip install "domkl[{extra}]"'
        ) from None
    return importlib.import_module(module)

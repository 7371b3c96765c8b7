"""Optional packages, imported when first needed."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingExtra


def need(module: str, extra: str = "") -> Any:
    """Import `module`, or say which extra of domkl brings it, or that it is a package of its own."""
    package = module.split(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        what = f'"domkl[{extra}]"' if extra else package
        raise MissingExtra(
            f"{package} is not installed and this part of domkl needs it; install it with: pip install {what}"
        ) from None
    return importlib.import_module(module)

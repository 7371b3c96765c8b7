"""The literal twin of the algorithm, where the package lies in a checkout."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

PLACE = Path("tests") / "naive.py"


def find(start: Path | None = None) -> Path | None:
    """tests/naive.py of the checkout that this package lies in, or of the current directory; None if none."""
    here = Path(__file__).resolve() if start is None else start.resolve()
    for folder in (*here.parents, Path.cwd(), *Path.cwd().parents):
        if (folder / PLACE).is_file() and (folder / "src" / "domkl").is_dir():
            return folder / PLACE
    return None


def load() -> Any | None:
    """The twin as a module; None where there is no checkout."""
    path = find()
    spec = importlib.util.spec_from_file_location("domkl_twin", path) if path else None
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

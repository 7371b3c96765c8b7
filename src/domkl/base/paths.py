"""Names of files."""

from __future__ import annotations

import contextlib
import difflib
from pathlib import Path


def near_file(path: str | Path) -> str:
    """A file beside a missing one that was perhaps meant, in words; nothing where there is none."""
    missing = Path(path)
    with contextlib.suppress(OSError, ValueError):
        names = [each.name for each in missing.parent.iterdir()]
        near = difflib.get_close_matches(missing.name, names, n=1)
        if near:
            return f"did you mean {str(missing.parent / near[0])!r}?"
    return ""

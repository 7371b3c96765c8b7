"""Names of files."""

from __future__ import annotations

import contextlib
import difflib
import os


def near_file(path: str | os.PathLike[str]) -> str:
    """A file beside a missing one that was perhaps meant, in words; nothing where there is none."""
    with contextlib.suppress(OSError, ValueError):
        folder, name = os.path.split(os.fspath(path))
        near = difflib.get_close_matches(name, os.listdir(folder or os.curdir), n=1)
        if near:
            return f"did you mean {os.path.join(folder, near[0])!r}?"
    return ""

"""Names of files."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
from pathlib import Path


def near_file(path: str | os.PathLike[str]) -> str:
    """A file beside a missing one that was perhaps meant, in words; nothing where there is none."""
    with contextlib.suppress(OSError, ValueError):
        folder, name = os.path.split(os.fspath(path))
        near = difflib.get_close_matches(name, os.listdir(folder or os.curdir), n=1)
        if near:
            return f"did you mean {os.path.join(folder, near[0])!r}?"
    return ""


def refuse_device(path: str | os.PathLike[str]) -> None:
    """Raise OSError where a file under this name would take the place of a device, or of a name for one."""
    place = Path(path)
    is_odd = place.exists() and not (place.is_file() or place.is_dir())
    if is_odd or place.absolute().parent == Path("/dev"):
        raise OSError(errno.EINVAL, "it is a device or a pipe", str(path))

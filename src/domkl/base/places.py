"""Names of machines and of files."""

from __future__ import annotations

import contextlib
import difflib
import errno
import ipaddress
from pathlib import Path


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def near_file(path: str | Path) -> str:
    """A file beside a missing one that was perhaps meant, in words; nothing where there is none."""
    missing = Path(path)
    with contextlib.suppress(OSError, ValueError):
        names = [each.name for each in missing.parent.iterdir()]
        near = difflib.get_close_matches(missing.name, names, n=1)
        if near:
            return f"did you mean {str(missing.parent / near[0])!r}?"
    return ""


def refuse_device(path: str | Path) -> None:
    """Raise OSError where a file under this name would take the place of a device, or of a name for one."""
    place = Path(path)
    is_odd = place.exists() and not (place.is_file() or place.is_dir())
    if is_odd or place.absolute().parent == Path("/dev"):
        raise OSError(errno.EINVAL, "it is a device or a pipe", str(path))

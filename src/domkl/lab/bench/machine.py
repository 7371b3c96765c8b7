"""The machine that figures were measured on, without its name and paths."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__, engines

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
#: What is taken for the last cache where the system does not tell.
LAST_CACHE = 32 << 20
PACKAGES = ("river", "scikit-learn", "vowpalwabbit")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def describe() -> dict[str, Any]:
    """Processor, caches in bytes, and the versions that the figures were taken with."""
    return {
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "system": platform.system(),
        "caches": caches(),
        "python": platform.python_version(),
        "domkl": __version__,
        "numpy": np.__version__,
        "peers": {name: v for name in PACKAGES if (v := _version(name))},
    }


def engine() -> dict[str, Any]:
    """Which engine `auto` takes here, and why."""
    missing = engines.available()
    if missing is not None:
        return {"in_use": "numpy", "why": missing, "isa": None, "runs": []}
    from ...engines._native import _engine

    isa = _engine.best()
    runs = [name for name in ("baseline", "avx2", "avx512") if _engine.runs(name)]
    why = f"it was built, and {isa} is the widest instruction set that this processor runs"
    return {"in_use": "native", "why": why, "isa": isa, "runs": runs}


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def caches() -> dict[str, int]:
    """Bytes of each cache of data, as "L1", "L2", ...; empty where the system does not tell."""
    found = {}
    for entry in sorted(CACHES.glob("index*")):
        kind, level, size = (_read(entry / name) for name in ("type", "level", "size"))
        if kind in ("Data", "Unified") and size:
            found[f"L{level}"] = int(size.rstrip("KMG")) * UNITS.get(size[-1], 1)
    return found


def last_cache() -> int:
    """Bytes of the last cache."""
    return max(caches().values(), default=LAST_CACHE)


def _processor() -> str | None:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

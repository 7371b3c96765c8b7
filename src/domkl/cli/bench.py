"""`domkl bench`: which engine computes on this machine, and what a sample of `Auto` costs here by its size.

In a checkout, `make bench` measures the engines beside the machine's limits and beside other libraries.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .. import __version__, engines
from ..base import checks
from ..base.errors import InputError
from ..base.types import Array
from ..base.words import digits, number, plural
from ..lab.sheet import Sheet
from ..learner import Learner
from ..models.settings import Auto
from . import declare, show

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SIZES = (50, 100, 200, 400, 700, 1000, 1700, 3000)
#: Samples before a size is measured.
FEW = 20
LEGEND = {
    "alone": "CPU time of a device without neighbours",
    "linked": "with two, from whom it takes a message each; an agent's own work comes on top",
}

#: Called with how many trials are done, of how many.
Report: TypeAlias = Callable[[int, int], object]


def add_to(commands: Any) -> None:
    """Declare the command."""
    text = "which engine computes here, and what a sample costs by the model's size"
    add = declare(commands, "bench", text, run)
    add("--quick", action="store_true", help="a few seconds in all; its figures mean little")
    add("--inputs", metavar="D", type=int, default=12, help="of a sample; or 12")
    add("--targets", metavar="M", type=int, default=1, help="of a sample; or 1")
    add("--within", metavar="MS", type=float, help="recommend a size for MS a sample")
    add("--out", metavar="DIR", help="also write the figures to DIR/bench.json")


def run(args: argparse.Namespace) -> None:
    """Measure, show, and write the figures where asked."""
    folder = made_folder(args.out)
    if args.within is not None:
        checks.positive("within", args.within)
    print("domkl: measuring; run nothing else meanwhile", file=sys.stderr)
    with show.progress("measuring") as bar:
        document = measure(args.quick, args.inputs, args.targets, bar)
    if args.within is not None:
        document["recommended"] = recommended(document["sizes"], 1000 * args.within)
    write(document, folder)
    if args.json:
        show.document(document)
    else:
        print_all(document)


def measure(
    quick: bool = False, inputs: int = 12, targets: int = 1, report: Report = lambda done, total: None
) -> dict[str, Any]:
    """The figures, of samples with so many inputs and targets."""
    about = {"quick": quick, "machine": machine(), "engine": engine_in_use()}
    return {**about, "sizes": costs(inputs, targets, quick, report)}


def made_folder(name: str | None) -> Path | None:
    """The directory for the figures, made before measuring takes minutes."""
    if name is None:
        return None
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{name} cannot be made: {error.strerror}; expected a directory; choose another --out"
        ) from None
    return Path(name)


def write(document: Mapping[str, Any], folder: Path | None) -> None:
    """The figures as bench.json, if there is a folder for them."""
    if folder is not None:
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        (folder / "bench.json").write_text(text + "\n", encoding="utf-8")


def costs(
    inputs: int, targets: int, quick: bool = False, report: Report = lambda done, total: None
) -> list[dict[str, float]]:
    """Of each size: microseconds to predict and learn a sample with `Learner` in float32, alone and with two
    neighbours, from whom it takes a message each; bytes of a device's state, and of a message."""
    sizes, found = SIZES[:4] if quick else SIZES, []
    for k, size in enumerate(sizes):
        found.append(_cost(size, inputs, targets, 0.002 if quick else 0.1))
        report(k + 1, len(sizes))
    return found


def _cost(size: int, d: int, m: int, seconds: float) -> dict[str, float]:
    model = Auto(size=size)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3, FEW, d))
    y = np.sin(3 * X[..., :1] * np.arange(1, m + 1)) + 0.05 * rng.standard_normal((3, FEW, m))
    y = y if m > 1 else y[..., 0]
    lone, *three = (
        Learner(model, [o for o in near if o != name], name=name, inputs=d, targets=m, dtype=np.float32)
        for name, near in (("a", ""), ("a", "abc"), ("b", "abc"), ("c", "abc"))
    )
    alone = _middle(lambda t: _together([lone], X[:1, t], y[:1, t]), seconds)
    linked = _middle(lambda t: _together(three, X[:, t], y[:, t]), seconds) / 3
    return {
        "size": size,
        "alone_us": 1e6 * alone,
        "linked_us": 1e6 * linked,
        "bytes": model.memory(1, d, m, np.float32),
        "message_bytes": 4 * m * size,
    }


def _middle(act: Callable[[int], None], seconds: float) -> float:
    """Seconds of CPU time of one of some samples, the middle one, after a scale was taken."""
    for t in range(FEW):
        act(t)
    found: list[float] = []
    start = time.process_time()
    while (begin := time.process_time()) < start + seconds or len(found) < 3:
        act(len(found) % FEW)
        found.append(time.process_time() - begin)
    return float(np.median(found))


def _together(learners: Sequence[Learner], X: Array, y: Array) -> None:
    for each, x in zip(learners, X, strict=True):
        each.predict(x)
    sent = [each.observe(x, label) for each, x, label in zip(learners, X, y, strict=True)]
    for each in learners:
        for other, update in zip(learners, sent, strict=True):
            if other is not each:
                each.receive(other.name, update)


def recommended(rows: Sequence[Mapping[str, float]], within: float) -> int:
    """The largest size whose sample takes at most `within` microseconds with two neighbours; between sizes
    that were measured its logarithm is on a line.

    >>> rows = [{"size": 100, "linked_us": 20.0}, {"size": 400, "linked_us": 80.0}]
    >>> recommended(rows, 40.0), recommended(rows, 1000.0)
    (200, 400)
    """
    known = [(row["size"], row["linked_us"]) for row in rows]
    fits = [k for k, (_, us) in enumerate(known) if us <= within]
    if not fits:
        size, us = known[0]
        raise InputError(
            f"a sample of size {size:.0f} takes {number(us / 1000)} ms here; expected more than "
            f"{number(within / 1000)} ms; give more time, or use domkl.Paper"
        )
    low, fast = known[fits[-1]]
    if fits[-1] + 1 == len(known):
        return int(low)
    high, slow = known[fits[-1] + 1]
    part = math.log(within / fast) / math.log(slow / fast)
    wanted: float = low * (high / low) ** part
    return round(wanted)


def machine() -> dict[str, Any]:
    """Processor, caches in bytes and versions; neither the machine's name nor its paths."""
    return {
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "load": busy(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "system": platform.system(),
        "caches": caches(),
        "python": platform.python_version(),
        "domkl": __version__,
        "numpy": np.__version__,
    }


def engine_in_use() -> dict[str, Any]:
    """Which engine `auto` takes here, and why."""
    missing = engines.available()
    if missing is not None:
        return {"in_use": "numpy", "why": missing, "isa": None, "runs": []}
    from ..engines._native import _engine

    isa = _engine.best()
    runs = [name for name in ("baseline", "avx2", "avx512") if _engine.runs(name)]
    why = f"it was built, and {isa} is the widest instruction set that this processor runs"
    return {"in_use": "native", "why": why, "isa": isa, "runs": runs}


def busy() -> float | None:
    """How many processes wanted a core in the last minute; None where the system does not tell."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def caches() -> dict[str, int]:
    """Bytes of each cache of data, as "L1", "L2", ...; empty where the system does not tell."""
    found = {}
    for entry in sorted(CACHES.glob("index*")):
        kind, level, size = (_read(entry / name) for name in ("type", "level", "size"))
        if kind in ("Data", "Unified") and size:
            found[f"L{level}"] = int(size.rstrip("KMG")) * UNITS.get(size[-1], 1)
    return found


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


def print_all(document: Mapping[str, Any]) -> None:
    """The engine, and what each size costs."""
    tell_engine(document)
    rows = [
        [
            f"{row['size']:,}",
            digits(row["alone_us"] / 1000),
            digits(row["linked_us"] / 1000),
            digits(row["bytes"] / 1e6),
            digits(row["message_bytes"] / 1000),
        ]
        for row in document["sizes"]
    ]
    heads = ("size", "alone\nms", "linked\nms", "memory\nMB", "message\nkB")
    print()
    show.sheet(Sheet("What a sample of Auto costs: to predict, then learn it", heads, rows, legend=LEGEND))
    if "recommended" in document:
        size = document["recommended"]
        print(f"\nwithin that time: domkl.Auto(size={size}); give all learners of a network the same size")


def tell_engine(document: Mapping[str, Any]) -> None:
    """Which engine computes, and whether the machine is busy."""
    console, engine = show.console(), document["engine"]
    console.print(f"engine: {engine['in_use']}, as {engine['why']}")
    load, cores = document["machine"]["load"], document["machine"]["usable_cores"]
    if load is not None and load > cores + 1:
        console.print(
            f"{load:g} processes wanted {plural(cores, 'core')}: figures are worse than the machine's"
        )

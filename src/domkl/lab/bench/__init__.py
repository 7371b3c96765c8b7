"""How fast domkl is on this machine: our engines, the machine's limit, the literal twin, and peers.

`run` returns one document; `domkl bench` shows it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from ...base import checks
from ...base.errors import Error
from . import machine, targets, w1, w2, w3, w4
from .timing import Report

PARTS = ("limits", "w1", "w2", "w3", "w4")
#: NumPy's libraries on one thread: more would spin beside a busy core, and be compared with one of ours.
ALONE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def run(
    only: Iterable[str] = PARTS, *, quick: bool = False, report: Report = lambda _: None
) -> dict[str, Any]:
    """Measure what was asked for.

    Parameters
    ----------
    only : parts: "limits" (always measured, as the others need them), "w1", "w2", "w3", "w4".
    quick : a few seconds in all, for trying out; its figures mean little.
    report : called with what is being measured.

    Examples
    --------
    >>> from domkl.lab import bench
    >>> figures = bench.run(["limits"], quick=True)
    >>> figures["engine"]["in_use"] in ("native", "numpy")
    True
    """
    wanted = {checks.one_of("part", part, PARTS) for part in only}
    document: dict[str, Any] = {"quick": quick, "machine": machine.describe(), "engine": machine.engine()}
    first, found = w1.measure(quick, "w1" in wanted, report)
    document |= first
    if "w2" in wanted:
        single = next((one for one in found if (one.bits, one.threads) == (64, 1)), None)
        document["w2"] = w2.measure(quick, report, single)
    if "w3" in wanted:
        document["w3"] = w3.measure(quick, report, found)
    if "w4" in wanted:
        document["w4"] = w4.measure(quick, report)
    return {**document, "targets": targets.judge(document)}


def apart(only: Iterable[str] = PARTS, *, quick: bool = False) -> dict[str, Any]:
    """`run` in a process of its own, where NumPy's libraries keep to one thread."""
    asked = json.dumps({"only": list(only), "quick": quick})
    command = [sys.executable, "-m", "domkl.lab.bench", asked]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **ALONE}, check=False
    )
    if done.returncode:
        raise Error(f"measuring ended with code {done.returncode}; expected figures; see the lines above")
    document: dict[str, Any] = json.loads(done.stdout)
    return document

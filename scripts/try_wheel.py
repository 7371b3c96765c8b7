"""Does an installed domkl work? Prints its engine, import time and size; run it in an empty environment."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np

import domkl
from domkl import engines

#: Where this runs under an emulator that the system does not know of: its command.
EMULATOR = os.environ.get("EMULATOR", "").split()
LINE = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def seconds(modules: str) -> float:
    """How long a new process takes to import them."""
    return float(subprocess.check_output([*EMULATOR, sys.executable, "-c", LINE.format(modules)]))


X = np.random.default_rng(0).uniform(size=(3, 200, 2))
y = X[..., 0] - X[..., 1]
for model in (domkl.Auto(size=50), domkl.Paper()):
    run = domkl.simulate(X, y, "ring", model=model)
    assert run.mse.max() < y.var(), model
folder = Path(domkl.__file__).parent
size = (
    sum(each.stat().st_size for each in folder.rglob("*") if each.is_file() and each.suffix != ".pyc") / 1e6
)
took = seconds("domkl, domkl.simulator, domkl.learner"), seconds("numpy")
libc = "-".join(platform.libc_ver()).strip("-") or "musl"
where = f"{platform.machine()} {libc}, Python {platform.python_version()}"
print(f"{where}: {engines.describe()}, {size:.1f} MB installed")
print(f"imports in {took[0]:.2f} s, {took[1]:.2f} s of them NumPy")

"""Does an installed domkl work? Prints its engine, import time and size; run it in an empty environment."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from pathlib import Path

start = time.perf_counter()
import domkl  # noqa: E402

took = time.perf_counter() - start

import numpy as np  # noqa: E402

from domkl import engines  # noqa: E402

rng = np.random.default_rng(0)
X = rng.uniform(size=(3, 200, 2))
y = X[..., 0] - X[..., 1]
for model in (domkl.Auto(size=50), domkl.Paper()):
    run = domkl.simulate(X, y, "ring", model=model)
    assert run.mse.max() < y.var(), model
numpy = float(subprocess.check_output([sys.executable, "-c", "import time; t = time.perf_counter(); import numpy; "
                                       "print(time.perf_counter() - t)"]))  # fmt: skip
folder = Path(domkl.__file__).parent
size = sum(each.stat().st_size for each in folder.rglob("*") if each.suffix != ".pyc") / 1e6
where = f"{platform.machine()} {'-'.join(platform.libc_ver()) or 'musl'}, Python {platform.python_version()}"
engine = "native" if engines.available() is not None else "numpy"
print(f"{where}: {engine} engine, {size:.1f} MB installed, imports in {took:.2f} s, {numpy:.2f} s of them NumPy")

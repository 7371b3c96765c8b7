"""The error of `domkl.Auto` against the parameters it sends, for models of several sizes.

    python benchmarks/curve.py            measures what is not kept yet, and draws docs/images/curve.png

Five learners on a ring, one seed, as in accuracy.py, but without forgetting; 1/3 is predicted before the
first label.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import numpy as np
from accuracy import SETS, streams

import domkl
from domkl.lab.report.style import PALETTE, SETTINGS

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "curve.json"
IMAGE = HERE.parent / "docs" / "images" / "curve.png"
SIZES = (100, 200, 425, 850, 1700)


def measure(name: str, size: int) -> dict[str, float]:
    """Mean error x 1e-2, and parameters sent a round and neighbour."""
    X, y = streams(name, 5, 0)
    model = domkl.Auto(size=size, start=1 / 3, forgetting="none")
    run = domkl.simulate(X, y, "ring", model=model, dtype=np.float32)
    return {"mse": float(100 * run.mse.mean()), "sent": run.sent}


def draw(kept: dict[str, dict[str, dict[str, float]]]) -> None:
    """Errors as multiples of what is to be reached."""
    with plt.rc_context(SETTINGS):
        figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
        for k, (name, rows) in enumerate(kept.items()):
            points = sorted((row["sent"], row["mse"] / SETS[name][1]) for row in rows.values())
            axes.plot(*zip(*points, strict=True), marker="o", color=PALETTE[k % len(PALETTE)], label=name)
        axes.axhline(1, color="#9aa4ae", linewidth=1)
        axes.set(
            xscale="log", xlabel="parameters sent a round and neighbour", ylabel="error / error to reach"
        )
        axes.set_xticks(SIZES, [str(size) for size in SIZES])
        axes.minorticks_off()
        axes.legend()
        figure.savefig(IMAGE, dpi=150)


def main() -> None:
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for size in SIZES:
        for name in SETS:
            rows = kept.setdefault(name, {})
            if str(size) not in rows:
                rows[str(size)] = measure(name, size)
                RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
                print(name, size, rows[str(size)], flush=True)
    draw(kept)


if __name__ == "__main__":
    main()

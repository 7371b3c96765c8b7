"""Bytes of a message of `domkl.Auto`: in the first 512 rounds, when samples are summarised, and later.

    python benchmarks/message_bytes.py      writes results/message_bytes.json

Ring of five and of twenty-five, made streams of 4, 21 and 81 inputs, float64. "before" is what a message of
commit 4f0e330 held later on: as many parameters and 8 numbers more.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

import domkl

RESULTS = Path(__file__).parent / "results" / "message_bytes.json"
FIRST, ROUNDS = 512, 640


def measure(J: int, d: int, size: int) -> dict[str, float]:
    """Bytes to a neighbour in a round, on average, while summaries are sent and afterwards."""
    X = np.random.default_rng(0).normal(size=(J, ROUNDS, d))
    y = np.tanh(X[..., 0]) + X[..., 1]
    first, whole = (
        domkl.simulate(X[:, :T], y[:, :T], "ring", model=domkl.Auto(size=size)).bytes * T
        for T in (FIRST, ROUNDS)
    )
    later = (whole - first) / (ROUNDS - FIRST)
    return {
        "first": round(first / FIRST, 1),
        "later": round(later, 1),
        "ratio": round(first / FIRST / later, 4),
    }


def main() -> None:
    found = {}
    for J, d, size in ((5, 4, 400), (5, 21, 400), (5, 81, 400), (25, 21, 400), (5, 21, 1000)):
        found[f"ring of {J}, {d} inputs, size {size}"] = measure(J, d, size)
        print(*list(found.items())[-1], flush=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
